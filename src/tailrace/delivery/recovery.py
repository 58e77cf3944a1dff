"""Goes on with what nobody is at: what a process left that was killed, and what was put off, at start and ever after.

A sweep closes the turns whose process is gone, with what they had said, and takes up every conversation that has
something open, is not under way, and whose channel is connected: by name in a round, a few deliveries each time, so
that a long one keeps nobody waiting. How each delivery is settled is the courier's; the pace is the channel's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from tailrace.deliveries import Delivery, Query, State, Turn, TurnState, plan
from tailrace.delivery.conversation import LONG_S
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
_SIDE_BY_SIDE = 64
_AT_A_TIME = 16
_ROUND_S = 5.0
_PAGE = 256
_KNOWN: frozenset[str] = frozenset(State)


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How often is looked for what was left (`every_s`), and how long what is final is kept (`keep_s`)."""

    every_s: float = 30.0
    retention_s: float = 14 * 86_400.0


class Recovery:
    """Sweeps the ledger for a courier: `run` for as long as the process lives, `sweep` once."""

    def __init__(self, courier: Courier, settings: RecoverySettings | None = None) -> None:
        self._courier = courier
        self._ledger = courier.ledger
        self._settings = settings or RecoverySettings()
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def run(self) -> None:
        """Sweep, and sweep again, until it is cancelled."""
        while True:
            wait = self._settings.every_s
            try:
                due_in = await self.sweep()
                wait = min(wait, due_in) if due_in is not None else wait
                await self._prune()
            except LedgerUnavailable as error:
                _log.warning("looking again later: %s", error)
            await self._courier.wait_for_connection(wait)

    async def sweep(self) -> float | None:
        """Take up everything that is open and due; the seconds until the next is due, None where nothing waits."""
        await self._close_interrupted()
        under_way: dict[asyncio.Task[int], str] = {}
        fruitless: set[str] = set()
        while True:
            soonest = await self._round(under_way, fruitless)
            if not under_way:
                return soonest
            # Not until all are done: one that takes long must keep nobody waiting.
            done, _ = await asyncio.wait(under_way, timeout=_ROUND_S)
            for task in done:
                conversation = under_way.pop(task)
                if task.cancelled() or not task.result():
                    fruitless.add(conversation)

    async def _round(self, under_way: dict[asyncio.Task[int], str], fruitless: set[str]) -> float | None:
        """Take up every conversation that is due, once; when the next of the others is due.

        One for which nothing could be done is left alone until the next sweep.
        """
        soonest, after = None, ""
        while page := await self._ledger.open_conversations(after=after, limit=_PAGE):
            after = page[-1].conversation
            for waiting in page:
                due_in = self._due_in(waiting)
                if due_in is None:
                    continue
                if due_in > 0:
                    soonest = due_in if soonest is None else min(soonest, due_in)
                elif waiting.conversation not in fruitless and (task := await self._take_up(waiting)) is not None:
                    under_way[task] = waiting.conversation
        return soonest

    def _due_in(self, waiting: OpenConversation) -> float | None:
        """The seconds until the conversation's first delivery is due; None where it is not for us to look at."""
        free_in = self._courier.free_in(waiting.conversation, waiting.channel)
        if free_in is None or waiting.state not in _KNOWN:
            return None
        if waiting.state == State.SENDING and waiting.epoch == self._ledger.epoch:
            return None  # it is being sent
        now = self._courier.clock.wall()
        due_in = max(0.0, (waiting.not_before or 0.0) - now)
        if now < waiting.updated_at:
            # The wall clock was set back, and cannot tell when. The lane waits as long as was meant, by the other one.
            due_in = 0.0
        return max(due_in, free_in) if free_in > LONG_S else due_in

    async def _take_up(self, waiting: OpenConversation) -> asyncio.Task[int] | None:
        await self._places.acquire()
        task = self._courier.resume(waiting.conversation, limit=_AT_A_TIME)
        if task is None:
            self._places.release()
            return None
        task.add_done_callback(lambda _: self._places.release())
        return task

    async def _close_interrupted(self) -> None:
        """End the turns whose process is gone: what they had said is finished, and that they were cut off is said."""
        limit = _PAGE
        while turns := await self._ledger.interrupted_turns(limit=limit):
            connected = self._courier.connected
            closable = [turn for turn in turns if turn.target.channel in connected]
            closed = 0
            for turn in closable:
                try:
                    words = await self._last_words(turn, connected)
                    await self._ledger.end(turn, TurnState.INTERRUPTED, plan=words)
                    closed += 1
                except Fenced:
                    _log.info("%s was taken up by somebody else", turn.turn_id)
            if len(turns) < limit:
                return
            # Those that cannot be closed stay in front of the others.
            limit = _PAGE if closed else 2 * limit

    async def _last_words(self, turn: Turn, connected: dict[str, Channel]) -> list[Delivery]:
        policy = self._courier.policy(turn.target)
        now = self._courier.clock.wall()
        if now - turn.updated_at > policy.max_age_s:
            return []
        said = await self._said(turn)
        words = closing_operations(turn, said, connected[turn.target.channel])
        return [
            plan(operation, turn_id=turn.turn_id, ordinal=turn.last_ordinal + nth, policy=policy, now=now)
            for nth, operation in enumerate(words, start=1)
        ]

    async def _said(self, turn: Turn) -> list[Delivery]:
        said: list[Delivery] = []
        while page := await self._ledger.find(Query(turn_id=turn.turn_id), after=said[-1].position if said else None):
            said += page
        return said

    async def _prune(self) -> None:
        """Forget what has been final for long, a little at a time."""
        before = self._courier.clock.wall() - self._settings.retention_s
        while await self._ledger.prune(Query(before=before)):
            pass
        if self._courier.spool is not None:
            await self._courier.spool.forget(before)


def closing_operations(turn: Turn, said: Sequence[Delivery], channel: Channel) -> list[Durable]:
    """What an interrupted turn still says: the live message as it was last kept, the rest, and that it ends there.

    What was kept before its last delivery is left out: that says it already, and it must not be said again or put back.
    A message that only told how the work went on is taken away, or says no more than that it is over.
    """
    limits, target, kept = channel.capabilities, turn.target, turn.snapshot
    is_true = kept.after >= turn.last_ordinal
    parts = split(kept.text if is_true else "", limits.limit, unit=limits.unit, dialect=limits.dialect)
    interrupted = render(INTERRUPTED, limits.dialect)
    bodies = [*(part.body for part in parts), interrupted]
    words: list[Durable] = [Post(target=target, body=body) for body in bodies]
    if kept.message_id is not None and is_true:
        # One that shows nothing of the answer yet is the place to say that there is none.
        words[0] = (
            CloseStream(target=target, stream_id=kept.message_id, body=bodies[0])
            if kept.is_stream
            else Edit(target=target, message_id=kept.message_id, body=bodies[0])
        )
    restored = restored_messages(said)
    processing = [known.message_id for known in restored if known.is_processing and known.message_id is not None]
    return words + [
        Delete(target=target, message_id=message_id)
        if limits.deletes and isinstance(channel, Deletes)
        else Edit(target=target, message_id=message_id, body=interrupted)
        for message_id in processing
    ]
