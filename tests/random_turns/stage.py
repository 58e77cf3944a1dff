"""A turn performed in virtual time on a platform that makes trouble, by a process that dies now and then.

Everything follows from one seed: what the agent says and when, the channel and how it shows it, what the platform
answers and how late, what people take away, and where the process ends. What stays is answered as the courier would
once it has found out; what is shown in between as it comes. A new process has what the ledger holds and is fed the
same events again. `Performance` is the whole of one run; which laws hold is said by `stage_laws` and `stage_verdict`.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING

import msgspec

from random_turns.scenes import Scene, Weather, scene_of
from random_turns.stage_trouble import Trouble
from random_turns.strict_platform import Chat
from random_turns.watched_turn import Watch, shown_by
from tailrace.operations import AppendStream, NotNow, OpenStream, Post, PostMedia
from tailrace.projector import Idle, Projector, WaitUntil, restored_messages

if TYPE_CHECKING:
    from tailrace.events import Event
    from tailrace.operations import Operation, Outcome
    from tailrace.projector import NextAction

__all__ = ["Moment", "Performance", "Scene", "Weather", "perform"]

_MOST_STEPS = 400  # once no more events come
_MOST_SPINS = 8


class Moment(msgspec.Struct, frozen=True):
    """Something that happened, for whoever reads the account of a run."""

    at: float
    what: str
    value: object = ""


class _Call:
    """An operation on its way: asked for, perhaps performed, not answered."""

    __slots__ = ("answer_at", "asked_at", "is_durable", "operation", "outcome")

    def __init__(self, operation: Operation, asked_at: float, *, is_durable: bool) -> None:
        self.operation = operation
        self.asked_at = asked_at
        self.is_durable = is_durable
        self.outcome: Outcome | None = None
        self.answer_at = asked_at


class Performance:
    """One turn from its first event until nothing is left to do."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.seed = seed
        self.moments: list[Moment] = []
        self.breaches: list[str] = []
        self.now = 0.0
        self._dice = Random(f"weather {seed}")
        self.chat = Chat(scene.target, scene.capabilities)
        self.trouble = Trouble(scene, self.chat, self._dice)
        self._deaths = scene.weather.deaths
        self.lives = 0
        self._steps = 0
        self._begin()

    def _begin(self) -> None:
        """A process begins, with what the ledger holds."""
        scene = self.scene
        deliveries = self.trouble.ledger.deliveries(scene.capabilities.idempotency)
        earlier = restored_messages(deliveries)
        known = {sheet.message_id: sheet.is_processing for sheet in earlier if sheet.message_id is not None}
        self.projector = Projector(scene.target, scene.capabilities, scene.settings, earlier=earlier)
        self.watch = Watch(scene, known)
        self._fed = 0
        self._is_closed = False
        self._calls: deque[_Call] = deque()
        self._spins = 0
        self.lives += 1

    def run(self) -> None:
        """Perform it."""
        self._event_at = self.now + self.scene.events[0][0]
        while self._steps < _MOST_STEPS:
            self._steps += self._is_closed
            if self._deaths and self._dice.random() < self.scene.weather.death:
                self._die()
            step = self.projector.next(self.now)
            if not isinstance(step, WaitUntil | Idle):
                self._ask(step)
            elif not self._pass_time(step):
                self._rest()
                return
        self.breaches.append(f"it does not come to rest in {_MOST_STEPS} steps")

    def _ask(self, operation: Operation) -> None:
        is_durable = self.projector.is_durable(operation)
        self._note("asks" if is_durable else "shows", operation)
        self.watch.asked(operation, self.now, is_durable=is_durable)
        if isinstance(operation, AppendStream) and self.scene.capabilities.dialect != "html":
            self.watch.grows(self.chat.find(operation.stream_id).text + operation.text)
        if isinstance(operation, Post | OpenStream | PostMedia) and shown_by(operation) in self.trouble.unknown:
            self.breaches.append(f"said again, though it may be there: {shown_by(operation)!r}")
        self._calls.append(_Call(operation, self.now, is_durable=is_durable))
        self._spins = 0

    def _pass_time(self, step: NextAction) -> bool:
        """Go to the next moment at which something happens; whether there is one."""
        self.watch.waits(step, self.now)
        if self._calls and self._calls[0].outcome is None:
            self._send(self._calls[0])
        times = [step.at] if isinstance(step, WaitUntil) else []
        if self._calls:
            times.append(self._calls[0].answer_at)
        if not self._is_closed:
            times.append(self._event_at)
        if not times:
            return False
        if min(times) > self.now and self._dice.random() < self.scene.weather.late:
            times = [min(times) + self._dice.random() * 5]  # whoever should ask is late
        self._spins = self._spins + 1 if min(times) <= self.now else 0
        if self._spins > _MOST_SPINS and not self._is_anything_due():
            self.breaches.append(f"it asks to be asked again at once, for ever: {step}")
            return False
        self.now = max(self.now, min(times))
        self._happen()
        return True

    def _is_anything_due(self) -> bool:
        is_answered = bool(self._calls) and self._calls[0].answer_at <= self.now
        return is_answered or (not self._is_closed and self._event_at <= self.now)

    def _happen(self) -> None:
        if self._calls and self._calls[0].answer_at <= self.now:
            self._answer(self._calls.popleft())
        elif not self._is_closed and self._event_at <= self.now:
            self._feed()
        self._disturb()

    def _send(self, call: _Call) -> None:
        """The platform is called."""
        weather, dice = self.scene.weather, self._dice
        takes = dice.random() * weather.latency_s
        if dice.random() < 0.03:
            takes *= 10
        call.answer_at = self.now + takes
        if not call.is_durable and any(other.is_durable for other in self._calls):
            call.outcome = NotNow("something that stays came first", retry_after=0.0)
        else:
            is_last = call is self._calls[-1]
            call.outcome = self.trouble.answer(call.operation, is_durable=call.is_durable, is_last=is_last)

    def _answer(self, call: _Call) -> None:
        assert call.outcome is not None, "only what was sent is answered"
        self._note("learns", call.outcome)
        self.projector.receipt(call.operation, call.outcome, self.now)
        self.watch.answered(call.operation, call.outcome, call.asked_at, self.now)

    def _feed(self) -> None:
        events = self.scene.events
        if self._fed == len(events):
            self._note("is told that no more events come")
            self.projector.close(self.now)
            self.watch.closed()
            self._is_closed = True
            return
        self._hear(events[self._fed][1])
        if self._fed < len(events):
            self._event_at = max(self.now, self._event_at + events[self._fed][0])

    def _hear(self, event: Event) -> None:
        self._note("hears", event)
        self.projector.feed(event, self.now)
        self.watch.heard(event, self.now)
        self._fed += 1

    def _disturb(self) -> None:
        """What happens without being asked for: people take messages away, streams end, the machine sleeps."""
        weather, dice = self.scene.weather, self._dice
        if dice.random() < weather.deletions and (taken := self.trouble.take_away()):
            self._note("people take away", taken)
        if dice.random() < weather.expiries and (ended := self.trouble.end_stream()):
            self._note("the platform ends the stream", ended)
        if dice.random() < weather.sleeps:
            self.now += dice.choice((3.0, 70.0, 4000.0))
            self._event_at = max(self._event_at, self.now)
            self._note("the machine slept")

    def _die(self) -> None:
        """The process ends: what is on its way ends in the ledger, or was never written there."""
        self._deaths -= 1
        self._note("dies")
        self.breaches += self.watch.breaches
        for call in self._calls:
            if call.is_durable and call.outcome is None:
                if self._dice.random() < 0.4:
                    break  # neither this nor what comes behind it was recorded
                self.trouble.answer(call.operation, is_durable=True)
        self.now += self._dice.random() * 20
        fed = self._fed
        self._begin()
        for _ in range(fed):
            self._hear(self.scene.events[self._fed][1])
            if self.scene.weather.replays_slowly and self._dice.random() < 0.5:
                self._perform_at_once()
        if fed < len(self.scene.events):
            self._event_at = self.now + self.scene.events[fed][0]
        else:
            self._event_at = self.now

    def _perform_at_once(self) -> None:
        """While events are fed again, what is due may be asked for in between."""
        self.now += self._dice.random()
        step = self.projector.next(self.now)
        if not isinstance(step, WaitUntil | Idle):
            self._ask(step)
        if self._calls and self._dice.random() < 0.8:
            call = self._calls[0]
            self._send(call)
            self._answer(self._calls.popleft())

    def _rest(self) -> None:
        """Nothing is left to do: so it stays, and the projector knows."""
        self._note("rests")
        for later in (0.0, 1.0, 1e6):
            step = self.projector.next(self.now + later)
            if not isinstance(step, Idle):
                self.breaches.append(f"it came to rest and {later} s later it says {step}")
        if not self.projector.is_finished:
            self.breaches.append("it came to rest and is not over")

    def _note(self, what: str, value: object = "") -> None:
        self.moments.append(Moment(self.now, what, value))


def perform(seed: int, presentation: str | None = None, channel: str | None = None) -> Performance:
    """The run that belongs to a seed; on one channel and in one presentation, where they are given."""
    performance = Performance(scene_of(seed, presentation, channel), seed)
    performance.run()
    return performance
