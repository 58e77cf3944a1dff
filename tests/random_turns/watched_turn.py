"""An open turn that checks each operation the moment it is asked for: order, pace, waits, addressees and words.

`tailrace.delivery.presenting` performs a turn through it, as through any `OpenTurn`. What must be true at the end is
left to `random_turns.judge`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from random_turns.expected import WORD, ExpectedTurn
from tailrace.capabilities import DraftRules
from tailrace.deliveries import Delivery, TurnState
from tailrace.delivery import OpenTurn
from tailrace.events import ToolStarted, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Durable,
    Edit,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Typing,
)
from tailrace.projector.presentation import rules_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from random_turns.scenes import Scene
    from tailrace.deliveries import Turn
    from tailrace.delivery import Courier
    from tailrace.delivery.preview_slot import Shown
    from tailrace.events import Event
    from tailrace.operations import Interim, Operation, Outcome

_NEVER = float("-inf")
_ROUNDING_S = 1e-6
_REASONING = re.compile(r"(?<![A-Za-z0-9])s\d+")


def text_of(operation: Operation) -> str:
    """The text that people would read of it."""
    match operation:
        case Post() | OpenStream() | Edit() | CloseStream() | Draft():
            return operation.body.text
        case AppendStream():
            return operation.text
        case PostMedia():
            return f"{operation.url} {operation.caption}"
        case Delete() | Typing():
            return ""


def addressee_of(operation: Operation) -> str | None:
    """The message that it changes, if any."""
    match operation:
        case Edit() | Delete():
            return operation.message_id
        case AppendStream() | CloseStream():
            return operation.stream_id
        case _:
            return None


class WatchedTurn(OpenTurn):
    """One turn in one process; `breaches` are the broken laws."""

    def __init__(self, courier: Courier, turn: Turn, scene: Scene) -> None:
        super().__init__(courier, turn)
        self._clock = courier.clock
        self._scene = scene
        self._rules = rules_for(scene.settings, scene.capabilities, turn.target)
        self._known: set[str] = set()  # the messages of this turn
        self._processing: set[str] = set()  # those of them that show the work
        self._pending: list[Operation] = []  # asked for, without an outcome
        self._idle_since = _NEVER
        self._began_at: float | None = None  # when there was first something to show
        self._started_at: float | None = None
        self._tool_at: float | None = None
        self._not_before = _NEVER
        self._asked_at = _NEVER
        self._draft_at: float | None = None
        self._streams: dict[str, tuple[float, str]] = {}  # the open ones: since when, and their text
        self._has_posted = False
        self._is_work_finished = False  # the processing message was asked to show its last text
        self._expected = ExpectedTurn(usage=scene.settings.usage)
        self._words: set[str] = set()
        self.breaches: list[str] = []

    def received(self, event: Event) -> None:
        """The projector gets this event now."""
        now, text = self._clock.monotonic(), self._expected.text
        self._check_lifetimes(now)
        self._expected.feed(event)
        self._words = set(self._expected.words)
        is_end = isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)
        if is_end or not self._expected.text.startswith(text):
            self._draft_at = None  # it may vanish
        if self._started_at is None:
            self._started_at = now
        if self._began_at is None and not isinstance(event, TurnStarted):
            self._began_at = now
        if self._tool_at is None and isinstance(event, ToolStarted):
            self._tool_at = now

    def closed(self) -> None:
        """No more events come."""
        self._expected.close()
        self._words = set(self._expected.words)
        self._draft_at = None

    async def earlier_deliveries(self) -> list[Delivery]:
        deliveries = await super().earlier_deliveries()
        for delivery in deliveries:
            if delivery.receipt is not None:
                self._learn_message(delivery.operation, delivery.receipt.message_id)
        return deliveries

    # Not coroutines: the laws hold for the moment of the call, and events may come before a coroutine starts.
    def send(self, *operations: Durable) -> Coroutine[None, None, list[Delivery]]:
        self._ask(operations)
        return self._performed(operations, lambda: OpenTurn.send(self, *operations))

    def end(self, *operations: Durable, state: TurnState = TurnState.DONE) -> Coroutine[None, None, list[Delivery]]:
        self._ask(operations)
        return self._performed(operations, lambda: OpenTurn.end(self, *operations, state=state))

    def show(self, operation: Interim) -> Shown:
        asked_at = self._clock.monotonic()
        self._check(operation, asked_at, is_durable=False)
        shown = super().show(operation)
        shown.add_done_callback(lambda answer: self._answered(operation, answer.result(), asked_at))
        return shown

    def _ask(self, operations: Sequence[Durable]) -> None:
        for operation in operations:
            self._check(operation, self._clock.monotonic(), is_durable=True)

    async def _performed(
        self, operations: Sequence[Durable], perform: Callable[[], Coroutine[None, None, list[Delivery]]]
    ) -> list[Delivery]:
        asked_at = self._clock.monotonic()
        deliveries = await perform()
        for operation, delivery in zip(operations, deliveries, strict=True):
            outcome = None if delivery.receipt is None else Delivered(delivery.receipt)
            self._answered(operation, outcome, asked_at)
        return deliveries

    def _check(self, operation: Operation, now: float, *, is_durable: bool) -> None:
        self._check_lifetimes(now)
        self._check_order(operation, is_durable=is_durable)
        if now < self._not_before - _ROUNDING_S:
            self._break(operation, f"comes {self._not_before - now:.3f} s before the platform takes anything")
        if not is_durable and not isinstance(operation, Typing):
            self._check_pace(operation, now)
        self._check_words(operation)
        if isinstance(operation, Post) and operation.is_processing:
            self._check_processing_starts(operation, now)
        elif isinstance(operation, Post | OpenStream):
            self._check_first(operation, now)
            self._has_posted = True
        if is_durable:
            self._check_processing_ends(operation)
        if isinstance(operation, AppendStream):
            self._check_stream(operation)
        if not isinstance(operation, Typing):
            self._asked_at = now
        if isinstance(operation, Draft):
            self._draft_at = now
        elif is_durable:
            self._draft_at = None
        if isinstance(operation, CloseStream | Delete):
            self._streams.pop(addressee_of(operation) or "", None)
        self._pending.append(operation)

    def _answered(self, operation: Operation, outcome: Outcome | None, asked_at: float) -> None:
        now = self._clock.monotonic()
        self._pending = [other for other in self._pending if other is not operation]
        self._idle_since = now
        match outcome:
            case NotNow():
                wait_s = 1.0 if outcome.retry_after is None else outcome.retry_after
                self._not_before = max(self._not_before, now + wait_s)
            case Delivered():
                self._learn_message(operation, outcome.receipt.message_id)
        is_done = isinstance(outcome, Delivered)
        match operation:
            case OpenStream() if isinstance(outcome, Delivered) and not outcome.receipt.degraded:
                text = operation.body.markdown or operation.body.text
                self._streams[outcome.receipt.message_id] = asked_at, text
            case AppendStream() if is_done and operation.stream_id in self._streams:
                opened_at, text = self._streams[operation.stream_id]
                self._streams[operation.stream_id] = opened_at, text + operation.text
            case AppendStream() if not isinstance(outcome, Delivered | NotNow):
                self._streams.pop(operation.stream_id, None)
            case Draft() if not is_done:
                self._draft_at = None

    def _learn_message(self, operation: Operation, message_id: str) -> None:
        if message_id:
            self._known.add(message_id)
        if isinstance(operation, Post) and operation.is_processing:
            self._processing.add(message_id)

    def _check_lifetimes(self, now: float) -> None:
        """No draft and no stream ends by itself while the turn runs and nothing prevents the next call."""
        if self._expected.is_over or self._pending or "sleep" in self._scene.trouble.accidents:
            return
        native = self._scene.capabilities.native
        if native is None or native.lifetime_s is None:
            return
        began = [opened_at for opened_at, _ in self._streams.values()]
        if isinstance(native, DraftRules) and self._draft_at is not None:
            began.append(self._draft_at)
        for began_at in began:
            ended_at = began_at + native.lifetime_s + _ROUNDING_S
            if max(self._idle_since, self._not_before) < ended_at < now:
                self.breaches.append(f"a draft or a stream was left to end at {ended_at:.2f}")

    def _check_order(self, operation: Operation, *, is_durable: bool) -> None:
        if self._pending and not (is_durable and self._expected.is_over):
            self._break(operation, f"is asked for while {type(self._pending[0]).__name__} is pending")
        if not is_durable and self._expected.is_over:
            self._break(operation, "is shown after the turn ended")
        addressee = addressee_of(operation)
        if addressee is not None and addressee not in self._known:
            self._break(operation, f"changes {addressee!r}, which no receipt named")
        if self._expected.is_cancelled and isinstance(operation, Post | PostMedia | OpenStream):
            self._break(operation, "begins a message after the turn was cancelled")

    def _check_pace(self, operation: Operation, now: float) -> None:
        limits, settings = self._scene.capabilities, self._scene.settings
        every_s = limits.native.every_s if limits.native is not None else 0.0
        if isinstance(operation, Edit) and limits.edits is not None:
            in_groups = limits.edits.every_s_in_groups if operation.target.group else None
            every_s = in_groups or limits.edits.every_s
        is_processing = addressee_of(operation) in self._processing
        every_s = max(every_s, settings.processing_every_s if is_processing else settings.edit_every_s)
        if now < self._asked_at + every_s - _ROUNDING_S:
            self._break(operation, f"comes {now - self._asked_at:.3f} s after the last call, not {every_s} s")

    def _check_words(self, operation: Operation) -> None:
        text = text_of(operation)
        if self._scene.settings.reasoning:
            text = text.partition("💭")[0]
        if wrong := [word for word in WORD.findall(text) if word not in self._words]:
            self._break(operation, f"shows {' '.join(wrong)}, which is not part of the answer: {text!r}")
        is_cut = self._expected.is_cancelled  # perhaps within a silent reply
        if ("NO" in text and not is_cut) or "think" in text or _REASONING.search(text):
            self._break(operation, f"shows a silent reply, a tag or reasoning: {text!r}")

    def _check_first(self, operation: Operation, now: float) -> None:
        """The first message of the answer has enough text, or enough time has passed."""
        settings, rules = self._scene.settings, self._rules
        if self._has_posted or self._expected.is_over or rules.preview == "hidden" or rules.shows_every_delta:
            return
        is_text = all(item.kind == "text" for item in self._expected.items)
        length = len(self._expected.text.strip()) + len("\n```")  # the end of open code may count, too
        if not is_text or length >= settings.first_characters:
            return
        if self._began_at is not None and now < self._began_at + settings.first_s - _ROUNDING_S:
            self._break(operation, f"comes too early: {text_of(operation)!r}")

    def _check_processing_starts(self, operation: Operation, now: float) -> None:
        """A processing message is begun only if the work takes a while, or uses tools."""
        settings = self._scene.settings
        times = [] if self._started_at is None else [self._started_at + settings.processing_every_s]
        if self._tool_at is not None:
            times.append(self._tool_at + settings.first_s)
        if not times or now < min(times) - _ROUNDING_S:
            self._break(operation, "begins the processing message too early")

    def _check_processing_ends(self, operation: Operation) -> None:
        """The processing message gets its last text after the whole answer."""
        if addressee_of(operation) in self._processing:
            self._is_work_finished = True
        elif self._is_work_finished and isinstance(operation, Post | PostMedia):
            self._break(operation, "comes after the processing message was finished")

    def _check_stream(self, operation: AppendStream) -> None:
        """An open stream contains the words of the answer without a gap."""
        if operation.stream_id not in self._streams or self._scene.capabilities.dialect == "html":
            return
        text = self._streams[operation.stream_id][1] + operation.text
        found, expected = WORD.findall(text), self._expected.words
        start = expected.index(found[0]) if found and found[0] in expected else 0
        if found != expected[start : start + len(found)]:
            self._break(operation, f"makes the stream say {text!r}")

    def _break(self, operation: Operation, what: str) -> None:
        self.breaches.append(f"{self.turn.turn_id} at {self._clock.monotonic():.2f}: {type(operation).__name__} {what}")
