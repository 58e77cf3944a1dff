"""The projector: one turn as it looks in one place, over time.

Events and the time go in, operations come out, one at a time and in order; what came of them goes in again. There is
one machine for all presentations: a document of sheets says what shall stand, receipts say what stands, and the next
operation is the first difference between the two. A row of `presentation.PRESENTATIONS` says how the sheet that is
still being written is shown.

    while it runs    sheets that are sealed are sent, in order; the open one is shown as its look says, at its pace
    when it ended    everything is sealed; what is left is asked for without a pause, and then nothing any more

Where a former process said some of it, nothing is changed before as much was said again.

Durable operations may be asked for one behind another: each is performed before the next. At most one interim operation
is on its way, and none while a durable one is. The shared budget of a chat is the courier's; the pace here is that of
one message, so that a person can read it and room is left for what must be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Snapshot
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Media,
    ModelChanged,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.markdown.dialects import shared_ruler
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Refused,
    Typing,
)
from tailrace.projector.activity import Activity
from tailrace.projector.answer_text import AnswerText
from tailrace.projector.blocks import Blocks
from tailrace.projector.live_preview import LivePreview, edits_every_s
from tailrace.projector.next_action import IDLE, Idle, NextAction, WaitUntil
from tailrace.projector.presentation import PRESENTATIONS, ProjectorSettings, rules_for
from tailrace.projector.processing_message import ProcessingMessage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeGuard

    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.operations import Durable, Interim, Operation, Outcome, Target, Task
    from tailrace.projector.message import TurnMessage

# After these a text block is another one, as it is for the fold.
_BREAKS_TEXT = (ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded)
_TYPING_AGAIN = 0.8  # of the time for which it is shown
_RETRY_S = 1.0  # where a platform does not say when
_NEVER = float("-inf")
CUT_OFF = "The answer ended before it was complete."


class Projector:
    """One turn in one place. `earlier` are the sheets that a former process left of it (see `resuming`)."""

    __slots__ = (
        "_activity",
        "_aside",
        "_asked",
        "_document",
        "_drawing",
        "_fresh",
        "_heard_at",
        "_interim",
        "_is_closed",
        "_is_running",
        "_is_stopped",
        "_limits",
        "_look",
        "_not_before",
        "_quiet_until",
        "_sent_at",
        "_settings",
        "_target",
        "_text_at",
        "_told",
        "_typed_at",
        "_waiting",
    )

    def __init__(
        self,
        target: Target,
        capabilities: Capabilities,
        settings: ProjectorSettings | None = None,
        *,
        earlier: Iterable[TurnMessage] = (),
    ) -> None:
        settings = settings or ProjectorSettings()
        look = rules_for(settings, capabilities, target)
        ruler = shared_ruler(capabilities.limit, capabilities.unit, capabilities.dialect, capabilities.lines)
        left = list(earlier)
        beside = next((sheet for sheet in reversed(left) if sheet.is_processing), None)
        self._target = target
        self._limits = capabilities
        self._settings = settings
        self._look = look
        self._document = AnswerText(
            target,
            capabilities,
            blocks=Blocks(ruler, settings.block_characters) if look.ends_at_paragraphs else None,
            is_followed=look.preview == "stream" or look.processing_message or beside is not None,
            silent=settings.silent,
            earlier=[sheet for sheet in left if not sheet.is_processing],
        )
        self._activity = Activity(reasoning=settings.reasoning)
        self._drawing = LivePreview(ruler, look, capabilities, settings, target)
        self._aside: ProcessingMessage | None = None
        if look.processing_message or beside is not None:
            self._aside = ProcessingMessage(
                ruler, settings, edit_every_s=edits_every_s(capabilities, target), sheet=beside
            )
        self._told = 0  # the edition of the document that the processing message follows
        self._fresh: list[str] = []
        self._heard_at = _NEVER  # when the last of them came
        self._asked: list[tuple[Durable, TurnMessage]] = []
        self._interim: Interim | None = None
        self._waiting = WaitUntil(_NEVER)
        self._quiet_until = _NEVER  # before this nothing but an event or a receipt makes a difference
        self._not_before = _NEVER
        self._text_at = self._typed_at = self._sent_at = _NEVER
        self._is_running = True
        self._is_stopped = False
        self._is_closed = False

    def feed(self, event: Event, now: float) -> None:
        """Take in what the agent said or did."""
        # Nearly every event is a piece of text, which is looked at when something can be shown.
        if type(event) is TextDelta and event.parent_tool_id is None:
            if self._is_running:
                self._fresh.append(event.text)
                self._heard_at = now
            return
        self._quiet_until = _NEVER
        self._absorb(now)
        if self._is_running and getattr(event, "parent_tool_id", None) is None:
            self._hear(event, now)
        if self._aside is not None:
            self._tell_aside(event, now)
        if self._activity.feed(event, now):
            self._drawing.touch()

    def _hear(self, event: Event, now: float) -> None:
        document = self._document
        if isinstance(event, _BREAKS_TEXT):
            document.end_block()
        match event:
            case BlockFinal():
                document.settle_block(event.text)
                self._text_at = now
            case TextRetracted():
                document.retract(event.scope)
            case Media():
                document.show_media(event)
            case Error():
                document.add_note(_complaint(event.message, event.code))
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._end(event)
                return
            case _:
                return
        self._drawing.touch()

    def _end(self, event: TurnCompleted | TurnFailed | TurnCancelled) -> None:
        document = self._document
        self._is_running = False
        if isinstance(event, TurnCancelled):
            self._is_stopped = True
            document.break_off()
            return
        document.complete(event.text if isinstance(event, TurnCompleted) else None)
        if isinstance(event, TurnFailed):
            document.add_note(_complaint(event.message, event.code))
        if self._settings.usage and (usage := self._activity.usage_line()):
            document.add_note(usage)
        document.end()

    def close(self, now: float) -> None:
        """No more events come. A turn that did not end by itself was cut off, and that is said."""
        if self._is_running:
            self.feed(TurnFailed(message=CUT_OFF), now)
        self._quiet_until = _NEVER
        self._is_closed = True

    def receipt(self, operation: Operation, outcome: Outcome, now: float) -> None:
        """Take in what came of an operation that was asked for."""
        self._quiet_until = _NEVER
        if isinstance(outcome, NotNow):
            wait = _RETRY_S if outcome.retry_after is None else outcome.retry_after
            self._not_before = max(self._not_before, now + wait)
        for nth, (asked, sheet) in enumerate(self._asked):
            if asked is operation:
                del self._asked[nth]
                sheet.answered(asked, outcome)
                self._drawing.spent(now)
                if self._is_stopped:
                    self._document.sheaf.drop_unseen()
                return
        if operation is not self._interim:
            return
        self._interim = None
        if self._aside is not None and self._aside.learn(operation, outcome):
            return
        if isinstance(operation, Draft) and isinstance(outcome, Refused):
            self._look = PRESENTATIONS["live" if self._limits.edits is not None else "final"]
            self._drawing.turn_to(self._look)
        elif isinstance(operation, Edit | AppendStream | Draft):
            self._drawing.learn(operation, outcome, self._document)

    @property
    def is_finished(self) -> bool:
        """Whether the turn has ended and every operation it needs was asked for."""
        if not self._is_closed:
            return False
        sheets = self._document.sheaf.unfinished()
        if any(not (sheet.is_over or sheet.final_is_sent) for sheet in sheets):
            return False
        return self._aside is None or self._aside.is_over

    def is_durable(self, operation: Operation) -> TypeGuard[Durable]:
        """Whether what was asked for is to stay, and so is written down; an edit alone does not tell."""
        return any(asked is operation for asked, _ in self._asked)

    @property
    def unsent(self) -> Snapshot:
        """The text that no durable operation carries yet, and the message that shows it."""
        self._absorb(self._heard_at)
        return self._document.unsaid(at_end=self._look.waits_for_end)

    def next(self, now: float) -> NextAction:
        """What the channel shall be asked for now; or that there is nothing, or nothing before a certain time."""
        if now < self._quiet_until:
            return self._waiting
        if self._is_running and (self._asked or self._interim is not None):
            return IDLE
        self._absorb(now)
        step: NextAction
        if not self._is_running:
            step = self._sealed(now) or self._last(now)
        elif self._look.waits_for_end:
            step = self._between(now)
        else:
            self._document.advance()
            step = (None if self._document.is_behind else self._sealed(now)) or self._between(now)
        if isinstance(step, WaitUntil) and self._is_running and (self._look.waits_for_end or self._drawing.is_paced):
            self._waiting, self._quiet_until = step, step.at
        return step

    def _absorb(self, now: float) -> None:
        """Take in the text that came, if any did."""
        if not self._fresh:
            return
        text = "".join(self._fresh)
        self._fresh.clear()
        document, activity = self._document, self._activity
        document.hear(text)
        self._text_at = now
        activity.settle()
        for thought in document.reasoning:
            activity.feed(ReasoningDelta(text=thought), now)
        document.reasoning.clear()
        if self._aside is not None:
            self._tell_aside(None, now)
        self._drawing.touch()

    def _tell_aside(self, event: Event | None, now: float) -> None:
        """The processing message says what the answer will, and what is beside it."""
        assert self._aside is not None, "only where there is one"
        document = self._document
        said = document.take_grown(None)
        if self._told != document.edition:
            self._told = document.edition
            self._aside.feed(TextRetracted(scope="turn"), now)
            said = document.text
        if said:
            self._aside.feed(TextDelta(text=said), now)
        if event is not None and not isinstance(event, BlockFinal | TextRetracted):
            self._aside.feed(event, now)

    def _sealed(self, now: float) -> Operation | WaitUntil | None:
        """The first sealed sheet that does not say what it shall: what makes it so. None where there is none."""
        for sheet in self._document.sheaf.unfinished():
            # Behind the one that is being written there is only what shall not be there.
            if sheet.is_over or sheet.final_is_sent or not sheet.is_sealed:
                continue
            if sheet.asked is not None:
                return None
            if now < (due := max(self._not_before, self._human_due)):
                return WaitUntil(due)
            operation = sheet.closing(self._target, self._limits, self._tasks(sheet))
            if isinstance(operation, Post | PostMedia):
                self._document.sheaf.send_behind(sheet)
            if operation is not None:
                return self._ask(operation, sheet, now)
        return None

    def _tasks(self, sheet: TurnMessage) -> tuple[Task, ...]:
        return self._activity.new_tasks() if sheet.is_stream and self._settings.tools else ()

    @property
    def _human_due(self) -> float:
        """When a person would have written the next message."""
        return self._sent_at + self._settings.human_delay_s if self._look.ends_at_paragraphs else _NEVER

    def _between(self, now: float) -> NextAction:
        """What is shown while the turn runs, besides what is sealed."""
        if now < self._not_before:
            return WaitUntil(self._not_before)
        steps: list[NextAction] = []
        if not self._document.is_behind:
            steps.append(self._drawing.step(self._document, self._activity, now))
            if self._document.is_gathering:
                steps.append(self._rest(now))
        if self._aside is not None:
            steps.append(self._aside.step(self._target, now))
        steps.append(self._typing(now))
        match _first(steps, now):
            case Post(is_processing=True) as post if self._aside is not None:
                return self._ask(post, self._aside.sheet, now)
            case Post() | OpenStream() | CloseStream() as durable:
                return self._ask(durable, self._document.sheaf.opened_sheet(), now)
            case Edit() | AppendStream() | Draft() | Typing() as interim:
                self._interim = interim
                return interim
            case step:
                return step

    def _rest(self, now: float) -> NextAction:
        """Paragraphs that waited for others go out once nothing came for a while."""
        if now < (due := self._text_at + self._settings.block_idle_s):
            return WaitUntil(due)
        self._document.rest()
        return WaitUntil(now)

    def _typing(self, now: float) -> NextAction:
        """Shown while people see nothing else of the turn."""
        lifetime = self._limits.typing_s
        if lifetime is None or self._is_seen:
            return IDLE
        if now < (due := self._typed_at + _TYPING_AGAIN * lifetime):
            return WaitUntil(due)
        self._typed_at = now
        return Typing(target=self._target)

    @property
    def _is_seen(self) -> bool:
        """Whether a message shows that the turn goes on."""
        if self._aside is not None and self._aside.sheet.message_id is not None:
            return True
        return self._look.preview != "hidden" and self._drawing.is_seen

    def _last(self, now: float) -> NextAction:
        """What is left when the turn ended and all it said is asked for."""
        if self._aside is None:
            return IDLE
        operation = self._aside.closing(self._target, self._limits)
        if operation is None:
            return IDLE
        if now < self._not_before:
            return WaitUntil(self._not_before)
        return self._ask(operation, self._aside.sheet, now)

    def _ask(self, operation: Durable, sheet: TurnMessage, now: float) -> Durable:
        sheet.asked = operation
        self._asked.append((operation, sheet))
        self._sent_at = now
        self._drawing.spent(now)
        return operation


def _first(steps: list[NextAction], now: float) -> NextAction:
    """The first of several steps that is due, else the earliest time to ask again."""
    waits: list[WaitUntil] = []
    for step in steps:
        if isinstance(step, WaitUntil) and step.at > now:
            waits.append(step)
        elif not isinstance(step, Idle):
            return step
    return min(waits, key=lambda wait: wait.at) if waits else IDLE


def _complaint(message: str, code: str | None) -> str:
    return f"⚠️ {message} [{code}]" if code else f"⚠️ {message}"
