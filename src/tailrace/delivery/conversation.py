"""One conversation on its way: its deliveries strictly in order, one at a time, and the edits in between.

A lane performs the first open delivery until it is final, then the next: intent, send with a deadline, outcome. What
it should do is decided in `decisions`; how one try goes is `attempt`'s. It holds the deliveries that were handed to
it, and where it cannot be sure to hold all of them, in order, it is `behind` and reads them from the ledger, which
refuses whatever is out of turn in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from tailrace.deliveries import FINAL, NOTICE_ORDINAL, UNDELIVERED, Delivery, Query, State, moved
from tailrace.delivery.attempt import ask, attempt, mark_not_sent, settle
from tailrace.delivery.decisions import AskBack, Send, Settle, Wait, remaining_wait
from tailrace.delivery.preview_slot import PreviewSlot, not_shown
from tailrace.delivery.rate_limiter import urgency_of
from tailrace.errors import Fenced, LedgerError, LedgerUnavailable
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from tailrace.delivery.paced_channel import PacedChannel
    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Interim

_log = logging.getLogger(__name__)

PAGE = 16
_PARK_S = 1.0
LONG_S = 10.0
"""Who waits for a platform longer than this, and for nobody, lets others have the place."""
_WATCH_S = 0.25

Name: TypeAlias = tuple[str, int]


class _Parked(Exception):
    """Nobody waits for the next delivery, and it cannot be sent soon: recovery takes the conversation up again."""


class ConversationSender:
    """One conversation of one courier. It runs while there is something to do; `on_rest` is told when there is not.

    Its task gives the number of deliveries that became final in it.
    """

    def __init__(self, conversation: str, desk: SenderContext, on_rest: Callable[[ConversationSender], None]) -> None:
        self.conversation = conversation
        self.task: asyncio.Task[int] | None = None
        self._desk = desk
        self._on_rest = on_rest
        self._is_running = False
        self._is_sending = False
        self._expected = 0
        self._taken = 0
        self._deliveries: deque[Delivery] = deque()
        self._behind = False
        self._granted: Delivery | None = None
        self._granted_at = 0.0
        self._waiters: dict[Name, asyncio.Future[Delivery | None]] = {}
        self._interim = PreviewSlot()
        self._still_to_serve: int | None = None
        self._served = 0
        self._withdrawn: set[str] = set()
        self._waiting: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, waiting here or about to come, as far as the lane knows."""
        return self.is_free and not self._expected

    @property
    def is_free(self) -> bool:
        """Whether what comes next could go at once."""
        return self.task is None and not self._deliveries and not self._behind

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Something durable is being recorded: nothing is shown in between from here on."""
        self._interim.clear()
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1
            if self.is_idle:
                self._on_rest(self)

    def show(self, operation: Interim) -> Shown:
        """Show something in between, unless something durable is on its way; tells what became of it."""
        if self._deliveries or self._behind or self._expected:
            return not_shown()
        shown = self._interim.put(operation)
        self._start()
        return shown

    def take(self, recorded: Sequence[Delivery], *, are_new: bool, granted: float | None) -> None:
        """Perform what was recorded just now. `granted`: when it was decided that this lane sends the first at once."""
        self._still_to_serve = None
        self._taken += 1
        if granted is not None:
            self._granted, self._granted_at = recorded[0], granted
        if not are_new:
            self._fall_behind()
        elif not self._behind:
            self._deliveries.extend(recorded)
        self._start()

    def resume(self, limit: int) -> asyncio.Task[int]:
        """Perform what the ledger holds open; where nobody waits for it, so many and no more for this time."""
        if self.task is None:
            self._still_to_serve = limit
        self._fall_behind()
        return self._start()

    def cancel_unsent(self, turn_id: str) -> None:
        """Begin no new message of that turn any more; what changes one that is there is still done."""
        self._withdrawn.add(turn_id)
        if self._waiting is not None:
            self._waiting.cancel()

    def stop(self) -> None:
        """Begin nothing more. What is being sent is finished; whoever stops everything has said so at the desk."""
        # One that has not begun to run will see it by itself, and one that is cancelled before could not clean up.
        if self._is_running and not self._is_sending and self.task is not None:
            self.task.cancel()

    def settled(self, delivery: Delivery) -> asyncio.Future[Delivery | None]:
        """Waits until the delivery is final; gives None where the lane is stopped before. Several may wait for it."""
        return self._waiters.setdefault(_name(delivery), asyncio.get_running_loop().create_future())

    def _start(self) -> asyncio.Task[int]:
        if self.task is None:
            self.task = asyncio.create_task(self._run(), name=f"lane {self.conversation}")
        return self.task

    def _fall_behind(self) -> None:
        self._deliveries.clear()
        self._behind = True

    async def _run(self) -> int:
        self._is_running = True
        self._served = 0
        try:
            while not self._desk.draining and (self._still_to_serve != 0 or self._waiters):
                if (head := await self._head()) is not None:
                    await self._perform(head)
                elif self._interim:
                    await self._interim.show(self._desk.outlets)
                elif self._waiters:
                    await self._look_after_waiters()
                else:
                    break
        except _Parked:
            pass
        except LedgerError as error:
            _log.error("%s: deliveries stop here: %s", self.conversation, error)
        except Exception as error:  # noqa: BLE001 -- the outermost loop: a mistake of ours stops one conversation only
            _log.critical("%s: deliveries stop here until they are taken up again", self.conversation, exc_info=error)
        finally:
            self.task = None
            self._is_running = False
            self._rest()
        return self._served

    def _rest(self) -> None:
        """Let go of everything, the ledger has it, and of everybody: what they wait for will not come by this lane."""
        if self._granted is not None:
            self._desk.run_in_background(mark_not_sent(self._desk, self._granted, in_doubt=False))
            self._granted = None
        self._interim.clear()
        self._deliveries.clear()
        self._behind = False
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._withdrawn.clear()
        if self.is_idle:
            self._on_rest(self)

    async def _head(self) -> Delivery | None:
        """The first open delivery, or None where there is none."""
        if not self._deliveries and self._behind:
            ledger, now, taken = self._desk.ledger, self._desk.clock.wall(), self._taken
            adopted = await self._desk.retry_while_unavailable(
                lambda: ledger.adopt(self.conversation, now=now, limit=PAGE)
            )
            # What is recorded from here on is handed in. What was handed in meanwhile may be in the page, or behind it.
            self._behind = len(adopted) == PAGE or self._taken != taken
            self._deliveries.extend(adopted)
        return self._deliveries[0] if self._deliveries else None

    async def _perform(self, head: Delivery) -> None:
        """Go on with the first delivery until it is final."""
        waited = False
        try:
            while head.state not in FINAL:
                if self._desk.draining and not self._is_granted(head):
                    return
                before = head
                if self._is_withdrawn(head):
                    head = await self._cancel(head, "its turn was stopped before it was sent")
                else:
                    head = await self._advance(head, waited=waited)
                waited = head is before
        except Fenced:
            # Somebody else moved it, or something else comes first. An owner that was replaced is fenced here again.
            self._fall_behind()
            if (found := await self._look_up(head)) is None or found.state not in FINAL:
                return
            head = found
        self._resolve(head)

    async def _advance(self, head: Delivery, *, waited: bool) -> Delivery:
        """One step with the first delivery; the same delivery, where it was only waited for."""
        if head.state is State.SENDING and not self._is_granted(head):
            return await self._watch(head)
        outlet = self._desk.outlets.get(head.channel)
        if outlet is None:
            self._park_unless_awaited()
            outlet = await self._desk.outlet(head.channel)
        if head.state is State.SENDING:
            self._granted = None
            return await self._attempt(outlet, None, head)
        match outlet.next_step(head, waited=waited):
            case Wait(seconds=seconds):
                now = self._desk.clock.wall()
                # Where the wall clock was set back nobody could tell when to take it up again: it is waited for here.
                if remaining_wait(head, now) > _PARK_S and now >= head.updated_at:
                    self._park_unless_awaited()
                await self._unless_withdrawn(asyncio.sleep(seconds))
                return head
            case Settle(delivery=after):
                return await settle(self._desk, head, after)
            case AskBack():
                return await ask(self._desk, outlet, head)
            case Send():
                return await self._send(outlet, head)

    async def _send(self, outlet: PacedChannel, head: Delivery) -> Delivery:
        if head.policy.on_dead == "halt" and await self._is_halted(head):
            return await self._cancel(head, "an earlier part of its turn could not be delivered")
        target = head.operation.target
        if (due_in := outlet.due_in(target.chat)) > LONG_S:
            self._park_unless_awaited()
        its_turn = outlet.turn_to_call(target.chat, urgency_of(head.operation, head.ordinal), group=target.group)
        await (self._unless_withdrawn(its_turn) if due_in > 0 else its_turn)
        if self._is_withdrawn(head):
            return head
        # Decided anew, because its turn may have come late, and the channel may have gone meanwhile.
        step = outlet.next_step(head, waited=True)
        is_there = self._desk.outlets.get(head.channel) is outlet
        return await self._attempt(outlet, head, step.delivery) if isinstance(step, Send) and is_there else head

    async def _attempt(self, outlet: PacedChannel, before: Delivery | None, sending: Delivery) -> Delivery:
        self._is_sending = True
        try:
            decided = self._granted_at if before is None else self._desk.clock.monotonic()
            return await attempt(self._desk, outlet, before, sending, decided=decided)
        except LedgerUnavailable as error:
            # Nothing was sent, and nothing will be without an intent.
            _log.warning("%s: waiting until the ledger can be written: %s", self.conversation, error)
            await asyncio.sleep(_PARK_S * (0.5 + self._desk.jitter()))
            return before or sending
        finally:
            self._is_sending = False

    async def _unless_withdrawn(self, wait: Coroutine[None, None, None]) -> None:
        """Wait, but no longer than what is waited for is wanted."""
        self._waiting = asyncio.create_task(wait)
        try:
            await asyncio.wait({self._waiting})
        finally:
            self._waiting.cancel()
            self._waiting = None

    def _is_withdrawn(self, head: Delivery) -> bool:
        """Whether it would begin a message that nobody wants any more, and surely has not."""
        if head.turn_id not in self._withdrawn or head.state not in (State.PLANNED, State.RETRY):
            return False
        return isinstance(head.operation, Post | PostMedia | OpenStream)

    async def _cancel(self, head: Delivery, why: str) -> Delivery:
        cancelled = moved(head, State.CANCELLED, now=self._desk.clock.wall(), error=why)
        return await settle(self._desk, head, cancelled)

    def _is_granted(self, head: Delivery) -> bool:
        """Whether it was recorded as being sent by this lane, and is not yet."""
        return self._granted is not None and (head.position, head.attempt) == (
            self._granted.position,
            self._granted.attempt,
        )

    async def _is_halted(self, head: Delivery) -> bool:
        query = Query(turn_id=head.turn_id, states=UNDELIVERED)
        left_out = await self._desk.retry_while_unavailable(lambda: self._desk.ledger.find(query, limit=PAGE))
        return any(other.ordinal != NOTICE_ORDINAL and other.position < head.position for other in left_out)

    async def _watch(self, head: Delivery) -> Delivery:
        """Somebody else, of this same owner, sends it: see how that ends."""
        self._park_unless_awaited()
        await asyncio.sleep(_WATCH_S)
        found = await self._look_up(head)
        if found is None:
            raise Fenced(f"{head.id} is gone")
        return found

    async def _look_after_waiters(self) -> None:
        """Nothing is to be done here, and yet somebody waits: for what another sender ended, or may still end."""
        await asyncio.sleep(_WATCH_S)
        for turn_id in dict.fromkeys(turn_id for turn_id, _ordinal in self._waiters):
            position: int | None = None
            while page := await self._said(turn_id, position):
                position = page[-1].position
                for delivery in page:
                    if delivery.state in FINAL:
                        self._resolve(delivery)
        self._behind = True

    async def _look_up(self, head: Delivery) -> Delivery | None:
        found = await self._said(head.turn_id, head.position + 1, limit=1)
        return found[0] if found and found[0].ordinal == head.ordinal else None

    async def _said(self, turn_id: str, after: int | None, limit: int = 100) -> list[Delivery]:
        ledger, query = self._desk.ledger, Query(turn_id=turn_id)
        return await self._desk.retry_while_unavailable(lambda: ledger.find(query, after=after, limit=limit))

    def _park_unless_awaited(self) -> None:
        if not self._waiters:
            raise _Parked

    def _resolve(self, delivery: Delivery) -> None:
        """The first delivery is final: go on behind it, and tell who waits for it."""
        if self._deliveries and self._deliveries[0].position == delivery.position:
            self._deliveries.popleft()
        self._served += 1
        if self._still_to_serve:
            self._still_to_serve -= 1
        self._desk.settled(delivery)
        waiter = self._waiters.pop(_name(delivery), None)
        if delivery.state is State.SUPERSEDED and waiter is not None:
            self._waiters[delivery.turn_id, -delivery.ordinal] = waiter
        elif waiter is not None and not waiter.done():
            waiter.set_result(delivery)
        if delivery.state in UNDELIVERED or delivery.state is State.SUPERSEDED:
            # What is said in its place, or of it, was recorded to come right behind it.
            self._fall_behind()


def _name(delivery: Delivery) -> Name:
    return delivery.turn_id, delivery.ordinal
