"""Finishes turns and deliveries that an earlier process left open, and deliveries that have to be tried later.

It searches the ledger at the start and then again and again; one search is called a sweep. A sweep resumes every
conversation that has interrupted turns or open deliveries, no sender, and a connected channel. It works in rounds: each
conversation sends a few deliveries per round, so that a long backlog does not delay other conversations. The sender
closes the turns and decides what to do with each delivery; the rate limits of the channel apply.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tailrace.deliveries import Delivery, Query, State, Turn, plan
from tailrace.errors import LedgerUnavailable
from tailrace.markdown import Splitter, render
from tailrace.operations import CloseStream, Delete, Edit, Post
from tailrace.projector import restored_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.capabilities import Capabilities
    from tailrace.deliveries import OpenConversation
    from tailrace.delivery.courier import Courier
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Durable

_log = logging.getLogger(__name__)

INTERRUPTED = "⚠️ The answer was interrupted here."
_MAX_CONVERSATIONS = 64
_DELIVERIES_PER_ROUND = 16
_ROUND_S = 5.0
_PAGE = 256
_KNOWN_STATES: frozenset[str] = frozenset(State)


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Recovery searches the ledger every `every_s`, and deletes final deliveries after `retention_s`."""

    every_s: float = 30.0
    retention_s: float = 14 * 86_400.0


class Recovery:
    """Sweeps the ledger of a courier: `run` until it is cancelled, `sweep` once."""

    def __init__(self, courier: Courier, settings: RecoverySettings | None = None) -> None:
        self._courier = courier
        self._ledger = courier.ledger
        self._settings = settings or RecoverySettings()

    async def run(self) -> None:
        """Sweep again and again until cancelled."""
        while True:
            wait = self._settings.every_s
            before = self._courier.connections  # a sweep does not find what is due on a channel that connects meanwhile
            try:
                due_in = await self.sweep()
                wait = min(wait, due_in) if due_in is not None else wait
                await self._prune()
            except LedgerUnavailable as error:
                _log.warning("recovery tries again later: %s", error)
            await self._courier.wait_for_connection(wait, after=before)

    async def sweep(self) -> float | None:
        """Resume all conversations that are due. Returns the seconds until the next one is due; None if none waits."""
        running: dict[asyncio.Task[int], str] = {}
        stuck: set[str] = set()
        await self._resume_interrupted(running)
        while True:
            soonest = await self._round(running, stuck)
            if not running:
                return soonest
            # The wait has a timeout: the next round begins even if a slow conversation is not done yet.
            await self._wait(running, stuck, asyncio.ALL_COMPLETED)

    async def _resume_interrupted(self, running: dict[asyncio.Task[int], str]) -> None:
        """Resume the conversations of interrupted turns; their senders then close these turns."""
        limit, seen = _PAGE, set[str]()
        while turns := await self._ledger.interrupted_turns(limit=limit):
            for turn in turns:
                if turn.conversation not in seen and turn.target.channel in self._courier.connected:
                    await self._resume(turn.conversation, running, set())
                seen.add(turn.conversation)
            if len(turns) < limit:
                return
            limit *= 2  # the turns that were read may be impossible to close now; read more behind them

    async def _round(self, running: dict[asyncio.Task[int], str], stuck: set[str]) -> float | None:
        """Resume, once each, all conversations that have a delivery due now.

        Returns the seconds until the first of the other deliveries is due. Conversations in `stuck` made no progress,
        so they wait for the next sweep.
        """
        soonest, after = None, ""
        while page := await self._ledger.open_conversations(after=after, limit=_PAGE):
            after = page[-1].name
            for conversation in page:
                due_in = self._due_in(conversation)
                if due_in is None:
                    continue
                if due_in > 0:
                    soonest = due_in if soonest is None else min(soonest, due_in)
                elif conversation.name not in stuck and conversation.name not in running.values():
                    await self._resume(conversation.name, running, stuck)
        return soonest

    def _due_in(self, conversation: OpenConversation) -> float | None:
        """The seconds until the conversation's first delivery is due; None if this process cannot resume it now."""
        if conversation.state not in _KNOWN_STATES:
            return None
        free_in = self._courier.free_in(conversation.channel, conversation.chat)
        if free_in is None:
            return None
        now = self._courier.clock.wall()
        due_in = max(0.0, (conversation.not_before or 0.0) - now)
        if now < conversation.updated_at:
            # The wall clock was set back, so it cannot say when the delivery is due. The sender takes over: it waits
            # by the monotonic clock.
            due_in = 0.0
        return max(due_in, free_in)

    async def _resume(self, name: str, running: dict[asyncio.Task[int], str], stuck: set[str]) -> None:
        while len(running) >= _MAX_CONVERSATIONS:
            await self._wait(running, stuck, asyncio.FIRST_COMPLETED)
        task = self._courier.resume(name, limit=_DELIVERIES_PER_ROUND)
        if task is not None:
            running[task] = name

    async def _wait(self, running: dict[asyncio.Task[int], str], stuck: set[str], until: str) -> None:
        done, _ = await asyncio.wait(running, timeout=_ROUND_S, return_when=until)
        for task in done:
            name = running.pop(task)
            if task.cancelled() or not task.result():
                stuck.add(name)

    async def _prune(self) -> None:
        """Delete old final deliveries in small steps."""
        before = self._courier.clock.wall() - self._settings.retention_s
        while await self._ledger.prune(Query(before=before)):
            pass
        if self._courier.spool is not None:
            await self._courier.spool.prune(before)


async def closing_deliveries(context: SenderContext, turn: Turn) -> list[Delivery]:
    """Make the last deliveries of an interrupted turn; none if the interruption was too long ago.

    The unsent text gets the next ordinals of the turn. The line that says that the answer was interrupted is not part
    of the answer, so it has the turn id `{turn_id}/interrupted`. Raises `UsageError` if the channel was never
    connected.
    """
    policy, capabilities = context.policy(turn.target), context.capabilities(turn.target)
    now = context.clock.wall()
    if now - turn.updated_at > policy.max_age_s:
        return []
    earlier = await context.retry_while_unavailable(context.deliveries_of, turn.turn_id)
    answer, closing = closing_operations(turn, earlier, capabilities)
    # If it is unknown whether the line arrived, it is sent again: twice is better than never.
    of_line = replace(policy, on_unknown="resend", on_dead="skip", is_reported=False)
    return [
        plan(operation, turn_id=turn_id, ordinal=ordinal, policy=policy_of, now=now)
        for turn_id, first, operations, policy_of in (
            (turn.turn_id, turn.last_ordinal + 1, answer, policy),
            (f"{turn.turn_id}/interrupted", 1, closing, of_line),
        )
        for ordinal, operation in enumerate(operations, start=first)
    ]


def closing_operations(
    turn: Turn, deliveries: Sequence[Delivery], capabilities: Capabilities
) -> tuple[list[Durable], list[Durable]]:
    """The operations that close an interrupted turn: those for its unsent text, and those for the line `INTERRUPTED`.

    The live message gets the first part of the unsent text; the other parts are posted. A snapshot that is older than
    the last delivery is not used, because the delivery contains its text. A processing message is deleted; if the
    channel cannot do that, it is edited to show the line. For a cancelled turn only existing messages are changed.
    """
    target, snapshot = turn.target, turn.snapshot
    interrupted = render(INTERRUPTED, capabilities.dialect)
    is_current = snapshot.after >= turn.last_ordinal
    if snapshot.message_id is not None and not snapshot.is_stream and capabilities.edits is None:
        # The platform refused a stream, so a post shows this text. It cannot be edited, and must not be sent twice.
        is_current = False
    text = snapshot.text if is_current else ""
    splitter = Splitter(capabilities.limit, capabilities.unit, capabilities.dialect, lines=capabilities.lines)
    parts = splitter.feed(text) + splitter.close()
    answer: list[Durable] = [Post(target=target, body=part.body) for part in parts]
    closing: list[Durable] = [Post(target=target, body=interrupted)]
    if (live := snapshot.message_id) is not None and is_current:
        # If there is no text, the live message shows the line.
        first = parts[0].body if parts else interrupted
        (answer or closing)[0] = (
            CloseStream(target=target, stream_id=live, body=first)
            if snapshot.is_stream
            else Edit(target=target, message_id=live, body=first)
        )
    for known in restored_messages(deliveries):
        if known.is_processing and (shown := known.message_id) is not None:
            edit = Edit(target=target, message_id=shown, body=interrupted)
            closing.append(Delete(target=target, message_id=shown) if capabilities.deletes else edit)
    if turn.is_cancelled:
        answer = [operation for operation in answer if not isinstance(operation, Post)]
        closing = [operation for operation in closing if not isinstance(operation, Post)]
    return answer, closing
