"""The laws of a turn on a channel, as a watch that sees everything that is asked for while it is.

What must hold at each moment is held here: pace, waits, order of asking, who may be addressed, what may be shown. What
must hold in the end is `random_turns.judge`'s.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from random_turns.expected import WORD, Account
from tailrace.capabilities import DraftRules, StreamRules
from tailrace.events import ToolStarted, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Typing,
)
from tailrace.projector import WaitUntil

if TYPE_CHECKING:
    from collections.abc import Mapping

    from random_turns.scenes import Scene
    from tailrace.events import Event
    from tailrace.operations import Operation, Outcome
    from tailrace.projector import NextAction

_NEVER = float("-inf")
_NEARLY = 1e-6
_THOUGHT = re.compile(r"(?<![A-Za-z0-9])s\d+")


def shown_by(operation: Operation) -> str:
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


def addressed_by(operation: Operation) -> str | None:
    """The message that it is about, if any."""
    match operation:
        case Edit() | Delete():
            return operation.message_id
        case AppendStream() | CloseStream():
            return operation.stream_id
        case _:
            return None


class Watch:
    """Sees one process carry one turn. `known`: the messages that a former one left, and whether they are no answer."""

    def __init__(self, scene: Scene, known: Mapping[str, bool]) -> None:
        self._scene = scene
        self._known = set(known)
        self._processing_messages = {message_id for message_id, is_processing in known.items() if is_processing}
        self._on_the_way: list[tuple[Operation, bool]] = []
        self._began_at: float | None = None  # when there was first something to show
        self._not_before = _NEVER
        self._shown_at = _NEVER
        self._draft_at: float | None = None
        self._streams: dict[str, float] = {}  # those that are open, by when they were asked for
        self._has_posted = False
        self._started_at: float | None = None
        self._tool_at: float | None = None
        self._is_work_over = False  # the message that shows it was asked for what it says in the end
        self.account = Account(usage=scene.settings.usage)
        self._words: set[str] = set()
        self.breaches: list[str] = []

    def heard(self, event: Event, now: float) -> None:
        """The projector was fed this."""
        text = self.account.text
        self.account.feed(event)
        if not self.account.text.startswith(text):
            self._draft_at = None  # what it shows was taken back: it may vanish
        self._words = set(self.account.words)
        if self._started_at is None:
            self._started_at = now
        if self._began_at is None and not isinstance(event, TurnStarted):
            self._began_at = now
        if self._tool_at is None and isinstance(event, ToolStarted):
            self._tool_at = now
        if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled):
            self._draft_at = None

    def closed(self) -> None:
        """The projector was told that no more events come."""
        self.account.close()
        self._words = set(self.account.words)
        self._draft_at = None

    def asked(self, operation: Operation, now: float, *, is_durable: bool) -> None:
        """The projector asks for this."""
        self._hold_order(operation, is_durable=is_durable)
        if now < self._not_before - _NEARLY:
            self._complain(f"{_named(operation)} {self._not_before - now:.3f} s before the platform takes anything")
        if not is_durable and not isinstance(operation, Typing):
            self._hold_pace(operation, now)
        self._hold_words(operation)
        if isinstance(operation, Post) and operation.is_processing:
            self._hold_work(now)
        elif isinstance(operation, Post | OpenStream):
            self._hold_first(operation, now)
            self._has_posted = True
        if is_durable:
            self._hold_end_of_work(operation)
        if not isinstance(operation, Typing):
            self._shown_at = now
        if isinstance(operation, Draft):
            self._draft_at = now
        elif is_durable:
            self._draft_at = None
        if isinstance(operation, CloseStream | Delete):
            self._streams.pop(addressed_by(operation) or "", None)
        self._on_the_way.append((operation, is_durable))

    def grows(self, text: str) -> None:
        """An open stream is made to say this: all that is said there, without a gap."""
        found, said = WORD.findall(text), self.account.words
        start = said.index(found[0]) if found and found[0] in said else 0
        if found != said[start : start + len(found)]:
            self._complain(f"the stream says {text!r}, and not what was said")

    def answered(self, operation: Operation, outcome: Outcome, asked_at: float, now: float) -> None:
        """The projector is told what came of it."""
        self._on_the_way = [(other, kind) for other, kind in self._on_the_way if other is not operation]
        match outcome:
            case NotNow():
                wait = 1.0 if outcome.retry_after is None else outcome.retry_after
                self._not_before = max(self._not_before, now + wait)
            case Delivered() if isinstance(operation, Post | OpenStream | PostMedia | Edit | CloseStream):
                self._known.add(outcome.receipt.message_id)
                if isinstance(operation, OpenStream) and not outcome.receipt.degraded:
                    self._streams[outcome.receipt.message_id] = asked_at
                if isinstance(operation, Post) and operation.is_processing:
                    self._processing_messages.add(outcome.receipt.message_id)
        if isinstance(operation, Draft) and not isinstance(outcome, Delivered):
            self._draft_at = None
        if isinstance(operation, AppendStream) and not isinstance(outcome, Delivered | NotNow):
            self._streams.pop(operation.stream_id, None)

    def waits(self, step: NextAction, now: float) -> None:
        """The projector has nothing to do before a certain time, or before something happens."""
        if self._on_the_way or now < self._not_before or self.account.is_over:
            return
        until = step.at if isinstance(step, WaitUntil) else float("inf")
        if until <= now:
            return
        native = self._scene.capabilities.native
        if isinstance(native, DraftRules) and self._draft_at is not None and until > self._draft_at + native.lifetime_s:
            self._complain("the draft is left to vanish while the turn runs")
        if isinstance(native, StreamRules) and native.lifetime_s is not None:
            for opened_at in self._streams.values():
                if until > opened_at + native.lifetime_s:
                    self._complain("the stream is left to end by itself while the turn runs")

    def _hold_order(self, operation: Operation, *, is_durable: bool) -> None:
        name = _named(operation)
        if not is_durable and self._on_the_way:
            self._complain(f"{name} is shown while {_named(self._on_the_way[0][0])} is on its way")
        if is_durable and self._on_the_way and not self.account.is_over:
            self._complain(
                f"{name} is asked for while the turn runs and {_named(self._on_the_way[0][0])} is on its way"
            )
        if not is_durable and self.account.is_over:
            self._complain(f"{name} is shown after the turn ended")
        addressed = addressed_by(operation)
        if addressed is not None and addressed not in self._known:
            self._complain(f"{name} is about {addressed!r}, which no receipt named")
        if self.account.is_cancelled and isinstance(operation, Post | PostMedia | OpenStream):
            self._complain(f"{name} begins a message after the turn was cancelled")

    def _hold_pace(self, operation: Operation, now: float) -> None:
        limits, target = self._scene.capabilities, self._scene.target
        every_s = limits.native.every_s if limits.native is not None else 0.0
        if isinstance(operation, Edit):
            assert limits.edits is not None, "the chat complains about it"
            in_groups = limits.edits.every_s_in_groups if target.group else None
            every_s = in_groups or limits.edits.every_s
            if operation.message_id in self._processing_messages:
                every_s = max(every_s, self._scene.settings.processing_every_s)
        if addressed_by(operation) not in self._processing_messages:
            every_s = max(every_s, self._scene.settings.edit_every_s)
        if now < self._shown_at + every_s - _NEARLY:
            self._complain(f"{_named(operation)} {now - self._shown_at:.3f} s after the last call, not {every_s} s")

    def _hold_words(self, operation: Operation) -> None:
        text = shown_by(operation)
        if self._scene.settings.reasoning:
            text = text.partition("💭")[0]
        if stray := [word for word in WORD.findall(text) if word not in self._words]:
            self._complain(f"{_named(operation)} shows {' '.join(stray)}, which does not stand: {text!r}")
        if "NO" in text or "think" in text:
            self._complain(f"{_named(operation)} shows a silent reply or a tag: {text!r}")
        if _THOUGHT.search(text):
            self._complain(f"{_named(operation)} shows a thought: {text!r}")

    def _hold_first(self, operation: Operation, now: float) -> None:
        """The first message of the answer has something to read in it, or time has passed."""
        settings, look = self._scene.settings, self._scene.look
        if self._has_posted or self.account.is_over or look.preview == "hidden" or look.shows_every_delta:
            return
        is_alone = all(item.kind == "text" for item in self.account.items)
        written = len(self.account.text.strip()) + len("\n```")  # what ends code may stand there, too
        if not is_alone or written >= settings.first_characters:
            return
        if self._began_at is not None and now < self._began_at + settings.first_s - _NEARLY:
            self._complain(f"{_named(operation)} comes too early: {shown_by(operation)!r}")

    def _hold_work(self, now: float) -> None:
        """A message beside the answer is begun only where the work takes a while, or tools are used."""
        settings = self._scene.settings
        times = [] if self._started_at is None else [self._started_at + settings.processing_every_s]
        if self._tool_at is not None:
            times.append(self._tool_at + settings.first_s)
        if not times or now < min(times) - _NEARLY:
            self._complain("the processing message comes too early")

    def _hold_end_of_work(self, operation: Operation) -> None:
        """It says what is left of it when all of the answer was asked for."""
        if addressed_by(operation) in self._processing_messages:
            self._is_work_over = True
        elif self._is_work_over and isinstance(operation, Post | PostMedia) and not self._scene.weather.raw:
            self._complain(f"{_named(operation)} comes after the processing message was finished")

    def _complain(self, breach: str) -> None:
        self.breaches.append(breach)


def _named(operation: Operation) -> str:
    return type(operation).__name__
