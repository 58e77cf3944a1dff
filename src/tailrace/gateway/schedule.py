"""Runs the prompts of the tables `[schedule.NAME]` at their times.

A run is an accepted message like one of a person, so it waits behind the turns of its conversation, and a crash neither
loses nor repeats it. A schedule has at most one open run: times that pass meanwhile, or while the process does not run,
become one run. `Conversation` shows the answer whole, and not as the answer to a person.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from tailrace.deliveries import TURN_OPEN
from tailrace.errors import LedgerClosed, LedgerLost
from tailrace.inbound import InboundMessage, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from tailrace.config import ScheduleSettings
    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.inbox import ActiveConversations

_ACCOUNT = "[schedule]"  # of no platform, so no event of a platform has the id of a run
_STORED = "schedule"
_LOOK_EVERY_S = 1.0
_LONGEST_SLEEP_S = 60.0  # the clock may be set, or the machine may sleep, and a timer does not notice that
_RETRY_S = 30.0
_log = logging.getLogger(__name__)


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to run, and the agent that answers its prompt."""

    name: str
    settings: ScheduleSettings
    agent_id: str


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a schedule. The next time is counted from `at`. Before the first run, `turn_id` is empty."""

    at: float
    turn_id: str = ""


class Schedule:
    """One schedule of a gateway."""

    def __init__(self, plan: SchedulePlan, context: GatewayContext, conversations: ActiveConversations) -> None:
        self._name = plan.name
        self._settings = plan.settings
        self._ledger = context.ledger
        self._clock = context.clock
        self._conversations = conversations

    async def run(self) -> None:
        """Run the prompt at its times, until this is cancelled."""
        while True:
            try:
                last = await self._last_run()
                while True:
                    await self._wait_until_answered(last.turn_id)
                    last = await self._begin(await self._wait_until_due(last.at))
            except (LedgerLost, LedgerClosed):
                raise
            except Exception as error:  # noqa: BLE001 -- the other schedules and the channels must go on
                _log.error("schedule.%s failed and goes on in %g s: %s", self._name, _RETRY_S, error, exc_info=error)
                await asyncio.sleep(_RETRY_S)

    async def _last_run(self) -> LastRun:
        stored = (await self._ledger.stored(_STORED)).get(self._name)
        if stored is not None:
            try:
                return msgspec.json.decode(stored, type=LastRun)
            except msgspec.DecodeError as error:
                _log.error("schedule.%s: its last run cannot be read, so it counts from now: %s", self._name, error)
        return await self._record(LastRun(at=self._clock.wall()))

    async def _record(self, last: LastRun) -> LastRun:
        await self._ledger.store(_STORED, self._name, msgspec.json.encode(last))
        return last

    async def _is_open(self, turn_id: str) -> bool:
        turn = await self._ledger.turn(turn_id) if turn_id else None
        return turn is not None and turn.state in TURN_OPEN

    async def _wait_until_answered(self, turn_id: str) -> None:
        while await self._is_open(turn_id):  # noqa: ASYNC110 -- recovery may end the turn too
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _wait_until_due(self, last: float) -> float:
        """Wait for the next time after the last run, and return it. A time that was missed is returned at once."""
        clock, settings = self._clock, self._settings
        if settings.every is not None:  # setting the clock does not change when an interval ends
            now = clock.wall()
            due = settings.next_run(min(last, now))
            ends_at = clock.monotonic() + due - now
            while (left := ends_at - clock.monotonic()) > 0:  # noqa: ASYNC110 -- timers do not count sleep
                await asyncio.sleep(min(left, _LONGEST_SLEEP_S))
            return due
        while True:
            now = clock.wall()
            last = min(last, now)  # if the clock was set back behind the last run, the next time is counted from now
            if (due := settings.next_run(last)) <= now:
                return due
            await asyncio.sleep(min(due - now, _LONGEST_SLEEP_S))

    async def _begin(self, due: float) -> LastRun:
        """Accept the run as a message. The event is the same if the process is killed here and starts again."""
        settings, now = self._settings, self._clock.wall()
        message = InboundMessage(
            channel=settings.channel,
            account=_ACCOUNT,
            event_id=f"schedule {self._name} {due:.3f}",
            target=Target.of_source(settings.channel, settings.to),
            text=settings.prompt,
            sender=Sender(id=settings.to, name=self._name),
            at=now,
        )
        if (turn := await self._conversations.accept(message)) is not None:
            self._conversations.of(message.target).add(turn)
        # Further times until now were missed: this run is for all of them.
        at = due if settings.next_run(due) > now else now
        return await self._record(LastRun(at=at, turn_id=message.turn_id))


def schedule_of(message: InboundMessage) -> str:
    """The name of the schedule that made this message; "" if a person wrote it."""
    return message.sender.name if message.account == _ACCOUNT else ""
