"""What is shown in between and not written down: edits of a message, drafts, text for open streams, typing.

Losing any of it loses nothing: the delivery that follows says all of it. So the moment something durable is due,
what waits here is dropped; it must never be shown after, or in the way of, what is meant to stay. Whoever asked learns
what became of it by a future that always gets an outcome, and that nobody has to wait for.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from tailrace.capabilities import StreamRules
from tailrace.delivery.performing import outcome_of, perform_interim
from tailrace.delivery.rate_limiter import urgency_of
from tailrace.markdown.units import size
from tailrace.operations import Ambiguous, AppendStream, Delivered, Draft, Edit, Interim, NotNow, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.capabilities import Capabilities
    from tailrace.delivery.paced_channel import PacedChannel
    from tailrace.delivery.rate_limiter import Ticket

_DEADLINE_S = 5.0
_NOT_SHOWN = NotNow("something that stays came first", retry_after=0.0)

Shown: TypeAlias = "asyncio.Future[Outcome]"
_Pending: TypeAlias = tuple[Interim, Shown]


def not_shown() -> Shown:
    """What is told of something for which there is no time or no place."""
    shown: Shown = asyncio.get_running_loop().create_future()
    shown.set_result(_NOT_SHOWN)
    return shown


class PreviewSlot:
    """What one conversation is to be shown in between: the most urgent first, the oldest among equals.

    Of an edit, a draft or typing the latest takes the place of what was to be shown before, until its turn has come.
    What is appended to a stream goes together and in order, as much as one call takes.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[type, str], list[_Pending]] = {}
        self._waiting: tuple[PacedChannel, Ticket] | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    def put(self, operation: Interim) -> Shown:
        """Show this as soon as there is time for it; tells what became of it."""
        shown: Shown = asyncio.get_running_loop().create_future()
        before = self._pending.setdefault(_what(operation), [])
        if not isinstance(operation, AppendStream):
            _tell(before, _NOT_SHOWN)
            before.clear()
        before.append((operation, shown))
        if self._waiting is not None and urgency_of(operation) < self._waiting[1].urgency:
            self._stop_waiting()
        return shown

    def clear(self) -> None:
        """Something durable is due: drop everything."""
        for pending in self._pending.values():
            _tell(pending, _NOT_SHOWN)
        self._pending.clear()
        self._stop_waiting()

    async def show(self, outlets: dict[str, PacedChannel]) -> None:
        """Show what comes first when its turn has come; returns with nothing shown where it comes first no more."""
        what, pending = min(self._pending.items(), key=lambda item: urgency_of(item[1][0][0]))
        operation = pending[0][0]
        outlet = outlets.get(operation.target.channel)
        if outlet is None or not outlet.is_answering:
            self.clear()
            return
        if not await self._wait_for_turn(outlet, operation) or what not in self._pending:
            return
        # Taken only now: what was put meanwhile is what is shown.
        taken = self._take(what, outlet.channel.capabilities)
        outcome: Outcome = Ambiguous("the call was cancelled")
        try:
            outcome = await _perform(outlet, _as_one([operation for operation, _shown in taken]))
        finally:
            _tell(taken, outcome)

    async def _wait_for_turn(self, outlet: PacedChannel, operation: Interim) -> bool:
        target, urgency = operation.target, urgency_of(operation)
        if outlet.queue.take(target.chat, urgency, group=target.group):
            return True
        ticket = outlet.queue.join(target.chat, urgency, group=target.group)
        self._waiting = outlet, ticket
        try:
            return await outlet.queue.granted(ticket)
        finally:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            outlet, ticket = self._waiting
            self._waiting = None
            outlet.queue.leave(ticket)

    def _take(self, what: tuple[type, str], capabilities: Capabilities) -> list[_Pending]:
        """The first that are pending there, as many as one call takes; the others keep their place."""
        pending = self._pending[what]
        fitting = _fitting(pending, capabilities)
        if fitting < len(pending):
            self._pending[what] = pending[fitting:]
        else:
            del self._pending[what]
        return pending[:fitting]


def _what(operation: Interim) -> tuple[type, str]:
    """What it shows: of two that show the same thing the later one is right."""
    match operation:
        case Edit():
            return Edit, operation.message_id
        case AppendStream():
            return AppendStream, operation.stream_id
        case Draft():
            return Draft, str(operation.draft_id)
        case _:
            return type(operation), ""


def _fitting(pending: Sequence[_Pending], capabilities: Capabilities) -> int:
    """How many of them one call takes, which is one at least."""
    rules = capabilities.native
    if not isinstance(rules, StreamRules) or rules.per_call is None:
        return len(pending)
    texts = (operation.text if isinstance(operation, AppendStream) else "" for operation, _shown in pending)
    sizes = accumulate(size(text, capabilities.unit) for text in texts)
    return max(1, sum(so_far <= rules.per_call for so_far in sizes))


def _as_one(operations: Sequence[Interim]) -> Interim:
    """All of them in one call; there are several only of what is appended to one stream."""
    last = operations[-1]
    if not isinstance(last, AppendStream) or len(operations) == 1:
        return last
    appended = [operation for operation in operations if isinstance(operation, AppendStream)]
    # In the order they were first seen, each in the state it was last seen in.
    tasks = {task.id: task for operation in appended for task in operation.tasks}
    return replace(last, text="".join(operation.text for operation in appended), tasks=tuple(tasks.values()))


async def _perform(outlet: PacedChannel, operation: Interim) -> Outcome:
    deadline_s = min(outlet.deadline_s, _DEADLINE_S)
    try:
        async with asyncio.timeout(deadline_s) as deadline:
            return Delivered(await perform_interim(outlet.channel, operation))
    except Exception as error:  # noqa: BLE001 -- the channel's own code; what it could not show is shown by the final
        outcome = Ambiguous(f"no answer within {deadline_s:g} s") if deadline.expired() else outcome_of(error)
    if isinstance(outcome, NotNow):
        outlet.learn(operation.target.chat, outcome)
    return outcome


def _tell(pending: Sequence[_Pending], outcome: Outcome) -> None:
    for _operation, shown in pending:
        if not shown.done():
            shown.set_result(outcome)
