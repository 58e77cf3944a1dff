"""Finishes what an earlier process left open, and what was put off: at the start and again every few seconds.

A sweep closes the turns whose process is gone. It resumes every conversation that has open deliveries, no sender, and a
connected channel: a few deliveries each, in rounds, so that a long backlog does not delay other conversations. The
courier decides what to do with each delivery; the channel's rate limits apply.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from tailrace.deliveries import Delivery, Query, State, Turn, TurnState, plan
from tailrace.delivery.conversation import LONG_WAIT_S
from tailrace.errors import Fenced, LedgerUnavailable
from tailrace.markdown import render, split
from tailrace.operations import CloseStream, Delete, Edit, Post
from tailrace.ports import Deletes
from tailrace.projector import restored_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import OpenConversation
    from tailrace.delivery.courier import Courier
    from tailrace.operations import Durable
    from tailrace.ports import Channel

_log = logging.getLogger(__name__)

INTERRUPTED = "⚠️ The answer was interrupted here."
_MAX_CONVERSATIONS = 64
_DELIVERIES_PER_ROUND = 16
_ROUND_S = 5.0
_PAGE = 256
_KNOWN_STATES: frozenset[str] = frozenset(State)


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`every_s`: the time between two sweeps. `retention_s`: how long final deliveries are kept."""

    every_s: float = 30.0
    retention_s: float = 14 * 86_400.0


class Recovery:
    """Sweeps the ledger of a courier: `run` until it is cancelled, `sweep` once."""

    def __init__(self, courier: Courier, settings: RecoverySettings | None = None) -> None:
        self._courier = courier
        self._ledger = courier.ledger
        self._settings = settings or RecoverySettings()
        self._slots = asyncio.Semaphore(_MAX_CONVERSATIONS)

    async def run(self) -> None:
        """Sweep again and again until cancelled."""
        while True:
            wait = self._settings.every_s
            try:
                due_in = await self.sweep()
                wait = min(wait, due_in) if due_in is not None else wait
                await self._prune()
            except LedgerUnavailable as error:
                _log.warning("recovery tries again later: %s", error)
            await self._courier.wait_for_connection(wait)

    async def sweep(self) -> float | None:
        """Resume everything that is open and due. Returns the seconds until the next is due, None if nothing waits."""
        await self._close_interrupted()
        running: dict[asyncio.Task[int], str] = {}
        stuck: set[str] = set()
        while True:
            soonest = await self._round(running, stuck)
            if not running:
                return soonest
            # Another round before all are done, so that a slow conversation does not delay the others.
            done, _ = await asyncio.wait(running, timeout=_ROUND_S)
            for task in done:
                conversation = running.pop(task)
                if task.cancelled() or not task.result():
                    stuck.add(conversation)

    async def _round(self, running: dict[asyncio.Task[int], str], stuck: set[str]) -> float | None:
        """Resume every conversation that is due, once. Returns the seconds until the next of the others is due.

        Conversations in `stuck` made no progress and wait for the next sweep.
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
                elif conversation.name not in stuck and (task := await self._resume(conversation)) is not None:
                    running[task] = conversation.name
        return soonest

    def _due_in(self, conversation: OpenConversation) -> float | None:
        """The seconds until its first delivery is due; None if this process cannot resume it now."""
        free_in = self._courier.free_in(conversation.name, conversation.channel)
        if free_in is None or conversation.state not in _KNOWN_STATES:
            return None
        if conversation.state == State.SENDING and conversation.epoch == self._ledger.epoch:
            return None  # a sender of this process is sending it
        now = self._courier.clock.wall()
        due_in = max(0.0, (conversation.not_before or 0.0) - now)
        if now < conversation.updated_at:
            # The wall clock was set back and cannot tell. The sender waits for the recorded time by the monotonic
            # clock.
            due_in = 0.0
        return max(due_in, free_in) if free_in > LONG_WAIT_S else due_in

    async def _resume(self, conversation: OpenConversation) -> asyncio.Task[int] | None:
        await self._slots.acquire()
        task = self._courier.resume(conversation.name, limit=_DELIVERIES_PER_ROUND)
        if task is None:
            self._slots.release()
            return None
        task.add_done_callback(lambda _: self._slots.release())
        return task

    async def _close_interrupted(self) -> None:
        """End the turns whose process is gone: finish their text and add the line that says they were interrupted."""
        limit = _PAGE
        while turns := await self._ledger.interrupted_turns(limit=limit):
            connected = self._courier.connected
            closable = [turn for turn in turns if turn.target.channel in connected]
            closed = 0
            for turn in closable:
                try:
                    last = await self._closing_deliveries(turn, connected)
                    await self._ledger.end(turn, TurnState.INTERRUPTED, plan=last)
                    closed += 1
                except Fenced:
                    _log.info("%s was resumed by another owner", turn.turn_id)
            if len(turns) < limit:
                return
            # Turns that cannot be closed come first in the page and could fill it.
            limit = _PAGE if closed else 2 * limit

    async def _closing_deliveries(self, turn: Turn, connected: dict[str, Channel]) -> list[Delivery]:
        policy = self._courier.policy(turn.target)
        now = self._courier.clock.wall()
        if now - turn.updated_at > policy.max_age_s:
            return []
        earlier = await self._deliveries(turn)
        operations = closing_operations(turn, earlier, connected[turn.target.channel])
        return [
            plan(operation, turn_id=turn.turn_id, ordinal=turn.last_ordinal + nth, policy=policy, now=now)
            for nth, operation in enumerate(operations, start=1)
        ]

    async def _deliveries(self, turn: Turn) -> list[Delivery]:
        found: list[Delivery] = []
        while page := await self._ledger.find(Query(turn_id=turn.turn_id), after=found[-1].position if found else None):
            found += page
        return found

    async def _prune(self) -> None:
        """Delete old final deliveries in small steps."""
        before = self._courier.clock.wall() - self._settings.retention_s
        while await self._ledger.prune(Query(before=before)):
            pass
        if self._courier.spool is not None:
            await self._courier.spool.prune(before)


def closing_operations(turn: Turn, deliveries: Sequence[Delivery], channel: Channel) -> list[Durable]:
    """The last operations of an interrupted turn: finish the live message, post the rest, and say that it ends there.

    A snapshot from before the last delivery is out of date and left out: the delivery contains its text. A processing
    message is deleted, or edited to the line of the interruption.
    """
    limits, target, snapshot = channel.capabilities, turn.target, turn.snapshot
    is_current = snapshot.after >= turn.last_ordinal
    if snapshot.message_id is not None and not snapshot.is_stream and limits.edits is None:
        # The platform refused a stream, so the text began as a post. It cannot be changed, and must not be sent twice.
        is_current = False
    text = snapshot.text if is_current else ""
    parts = split(text, limits.limit, unit=limits.unit, dialect=limits.dialect)
    interrupted = render(INTERRUPTED, limits.dialect)
    bodies = [*(part.body for part in parts), interrupted]
    operations: list[Durable] = [Post(target=target, body=body) for body in bodies]
    if snapshot.message_id is not None and is_current:
        # If there is no text, the live message gets the line of the interruption.
        operations[0] = (
            CloseStream(target=target, stream_id=snapshot.message_id, body=bodies[0])
            if snapshot.is_stream
            else Edit(target=target, message_id=snapshot.message_id, body=bodies[0])
        )
    restored = restored_messages(deliveries)
    processing = [known.message_id for known in restored if known.is_processing and known.message_id is not None]
    return operations + [
        Delete(target=target, message_id=message_id)
        if limits.deletes and isinstance(channel, Deletes)
        else Edit(target=target, message_id=message_id, body=interrupted)
        for message_id in processing
    ]
