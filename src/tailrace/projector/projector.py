"""The projector decides what one chat shows of one turn, over time.

Events and the time go in; operations come out, one at a time and in order; their outcomes go in again. All
presentations share this code: the messages of the answer say what should be in the chat, outcomes say what is there,
and the next operation removes the first difference. A row of `presentation.PRESENTATIONS` says how the open message is
shown (the one that is still being written).

    while the turn runs    messages with final text are sent in order; the open one is updated at an interval
    after the turn         all messages have their final text; the last operations come without a pause

A process may crash or be stopped, and a new process may resume the turn. The events are then fed again from the first
one. No message is changed before as much text was fed again as the crashed process had sent.

Several durable operations can be pending, because the sender performs them in order. At most one interim operation is
pending, and never together with a durable one. The sender keeps the rate limits of the chat. The projector keeps the
interval between updates of one message, so that people can read it and part of the rate limit is left for durable
operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Snapshot
from tailrace.events import (
    BlockFinal,
    Error,
    Media,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.markdown.dialects import shared_measurer
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
from tailrace.projector.activity import TurnActivity
from tailrace.projector.answer_text import AnswerText
from tailrace.projector.blocks import Blocks
from tailrace.projector.live_preview import LivePreview, edits_every_s
from tailrace.projector.next_action import IDLE, Idle, NextAction, WaitUntil
from tailrace.projector.presentation import PRESENTATIONS, ProjectorSettings, rules_for
from tailrace.projector.processing_message import ProcessingMessage
from tailrace.projector.turn_text import BREAKS_TEXT
from tailrace.projector.wording import failure_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeGuard

    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.operations import Durable, Interim, Operation, Outcome, Target, Task
    from tailrace.projector.message import TurnMessage

_TYPING_AFTER_S = 0.3  # an agent that answers at once needs no typing sign, and its first text does not wait for one
_TYPING_AGAIN = 0.8  # the share of its lifetime after which the typing sign is sent again
_RETRY_S = 1.0  # the wait if the platform names none
_NEVER = float("-inf")
CUT_OFF = "The answer ended before it was complete."


class Projector:
    """Shows one turn in one chat.

    If a process that crashed or was stopped has sent a part of the turn, `earlier` are its messages (see `resuming`).
    """

    def __init__(
        self,
        target: Target,
        capabilities: Capabilities,
        settings: ProjectorSettings | None = None,
        *,
        earlier: Iterable[TurnMessage] = (),
    ) -> None:
        settings = settings or ProjectorSettings()
        rules = rules_for(settings, capabilities, target)
        measurer = shared_measurer(capabilities.limit, capabilities.unit, capabilities.dialect, capabilities.lines)
        messages = list(earlier)
        processing = next((message for message in reversed(messages) if message.is_processing), None)
        has_processing = rules.processing_message or processing is not None
        self._target = target
        self._limits = capabilities
        self._settings = settings
        self._rules = rules
        self._answer = AnswerText(
            target,
            capabilities,
            blocks=Blocks(measurer, settings.block_characters) if rules.ends_at_paragraphs else None,
            keeps_appended=rules.preview == "stream" or has_processing,
            silent=settings.silent,
            earlier=[message for message in messages if not message.is_processing],
        )
        self._activity = TurnActivity(reasoning=settings.reasoning)
        self._preview = LivePreview(measurer, rules, capabilities, settings, target)
        self._processing: ProcessingMessage | None = None
        if has_processing:
            every_s = edits_every_s(capabilities, target)
            self._processing = ProcessingMessage(measurer, settings, edit_every_s=every_s, message=processing)
        self._processing_revision = 0  # the revision of the answer that the processing message shows
        self._new_text: list[str] = []  # text not yet fed to the answer
        self._new_text_at = _NEVER
        self._pending: list[tuple[Durable, TurnMessage]] = []
        self._interim: Interim | None = None
        self._wait = WaitUntil(_NEVER)
        self._quiet_until = _NEVER  # until then `next` returns `_wait`, unless an outcome or event comes
        self._not_before = _NEVER
        self._text_at = self._sent_at = _NEVER
        self._typing_due: float | None = None
        self._is_running = True
        self._is_cancelled = False
        self._is_closed = False

    def feed(self, event: Event, now: float) -> None:
        """Take the next event of the turn. `next` gives the operations that follow from it."""
        # Nearly every event is a delta. Its text is processed only when something can be shown.
        if type(event) is TextDelta and event.parent_tool_id is None:
            if self._is_running:
                self._new_text.append(event.text)
                self._new_text_at = now
            return
        self._quiet_until = _NEVER
        self._feed_new_text(now)
        if self._is_running and getattr(event, "parent_tool_id", None) is None:
            self._feed_answer(event, now)
        if self._processing is not None:
            self._feed_processing(event, now)
        if self._activity.feed(event, now):
            self._preview.mark_changed()

    def _feed_answer(self, event: Event, now: float) -> None:
        answer = self._answer
        if isinstance(event, BREAKS_TEXT):
            answer.break_text()
        if self._rules.ends_at_blocks and isinstance(event, ToolFinished | BlockFinal):
            answer.end_message()
        match event:
            case BlockFinal():
                answer.close_block(event.text)
                self._text_at = now
            case TextRetracted():
                answer.retract(event.scope)
            case Media():
                answer.add_media(event)
            case Error():
                answer.add_note(f"⚠️ {failure_text(event)}")
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._end(event)
                return
            case _:
                return
        self._preview.mark_changed()

    def _end(self, event: TurnCompleted | TurnFailed | TurnCancelled) -> None:
        answer = self._answer
        self._is_running = False
        if isinstance(event, TurnCancelled):
            self._is_cancelled = True
            answer.cancel()
            return
        answer.complete(event.text if isinstance(event, TurnCompleted) else None)
        if isinstance(event, TurnFailed):
            answer.add_note(f"⚠️ {failure_text(event)}")
        if self._settings.usage and (usage := self._activity.usage_line()):
            answer.add_note(usage)
        answer.end()

    def close(self, now: float) -> None:
        """Tell the projector that no more events come. If the turn has no terminal event, the chat gets a note."""
        if self._is_running:
            self.feed(TurnFailed(message=CUT_OFF), now)
        self._quiet_until = _NEVER
        self._is_closed = True

    def receipt(self, operation: Operation, outcome: Outcome, now: float) -> None:
        """Record the outcome of an operation that `next` returned."""
        self._quiet_until = _NEVER
        if isinstance(outcome, NotNow):
            wait = _RETRY_S if outcome.retry_after is None else outcome.retry_after
            self._not_before = max(self._not_before, now + wait)
        for index, (pending, message) in enumerate(self._pending):
            if pending is operation:
                del self._pending[index]
                message.record_outcome(pending, outcome)
                self._preview.note_send(now)
                if self._is_cancelled:
                    self._answer.messages.drop_unposted()
                return
        if operation is not self._interim:
            return
        self._interim = None
        if self._processing is not None and self._processing.record_outcome(operation, outcome):
            return
        if isinstance(operation, Draft) and isinstance(outcome, Refused):
            self._rules = PRESENTATIONS["live" if self._limits.edits is not None else "final"]
            self._preview.use_rules(self._rules)
        elif isinstance(operation, Edit | AppendStream | Draft):
            self._preview.record_outcome(operation, outcome, self._answer)

    @property
    def is_finished(self) -> bool:
        """Whether the turn has ended and `next` has returned all its operations."""
        if not self._is_closed:
            return False
        messages = self._answer.messages.unfinished()
        if any(not (message.is_finished or message.final_is_sent) for message in messages):
            return False
        return self._processing is None or self._processing.is_finished

    def is_durable(self, operation: Operation) -> TypeGuard[Durable]:
        """Whether an operation that `next` returned has to be recorded in the ledger.

        The type is not enough to know that: an `Edit` can be durable (the final text) or interim.
        """
        return any(pending is operation for pending, _ in self._pending)

    @property
    def unsent(self) -> Snapshot | None:
        """The text that no durable operation contains yet, and the live message that shows it.

        It is saved in the ledger, so that it is not lost in a crash. None while a resumed turn repeats messages that
        the crashed process sent: what that process saved is still valid.
        """
        self._feed_new_text(self._new_text_at)
        if self._answer.messages.has_earlier:
            return None
        return self._answer.unsent(waits_for_end=self._rules.waits_for_end)

    def next(self, now: float) -> NextAction:
        """The next operation for the channel, or when to ask again."""
        if now < self._quiet_until:
            return self._wait
        if self._is_running and (self._pending or self._interim is not None):
            return IDLE
        self._feed_new_text(now)
        action: NextAction
        if not self._is_running:
            action = self._next_sealed(now) or self._next_after_end(now)
        elif self._rules.waits_for_end:
            action = self._next_interim(now)
        else:
            self._answer.seal_parts()
            action = (None if self._answer.is_behind else self._next_sealed(now)) or self._next_interim(now)
        more_text_waits = self._is_running and (self._rules.waits_for_end or self._preview.waits_for_interval)
        if isinstance(action, WaitUntil) and more_text_waits:
            self._wait, self._quiet_until = action, action.at
        return action

    def _feed_new_text(self, now: float) -> None:
        """Process the text deltas that `feed` has only collected since the last call."""
        if not self._new_text:
            return
        text = "".join(self._new_text)
        self._new_text.clear()
        if self._rules.ends_at_blocks:
            self._answer.end_message()
        self._answer.feed(text)
        self._text_at = now
        self._activity.clear_finished()
        for reasoning in self._answer.reasoning:
            self._activity.feed(ReasoningDelta(text=reasoning), now)
        self._answer.reasoning.clear()
        if self._processing is not None:
            self._feed_processing(None, now)
        self._preview.mark_changed()

    def _feed_processing(self, event: Event | None, now: float) -> None:
        """Update the message that shows the work of the agent while its turn runs.

        It gets the new text of the answer, then the event; with None only the text.
        """
        assert self._processing is not None, "only called where there is one"
        text = self._answer.take_appended(None)
        if self._processing_revision != self._answer.revision:
            self._processing_revision = self._answer.revision
            self._processing.feed(TextRetracted(scope="turn"), now)
            text = self._answer.run.text
        if text:
            self._processing.feed(TextDelta(text=text), now)
        if event is not None and not isinstance(event, BlockFinal | TextRetracted):
            self._processing.feed(event, now)

    def _next_sealed(self, now: float) -> Operation | WaitUntil | None:
        """The operation for the first message with a final text that is not in the chat yet; None if there is none.

        A `WaitUntil` means that the operation must not be sent before that time.
        """
        for message in self._answer.messages.unfinished():
            # Skip the open message too. All messages after it are dropped ones.
            if message.is_finished or message.final_is_sent or not message.is_sealed:
                continue
            if message.pending is not None:
                return None
            if now < (due := max(self._not_before, self._human_due)):
                return WaitUntil(due)
            operation = message.final_operation(self._target, self._limits, self._stream_tasks(message))
            if isinstance(operation, Post | PostMedia):
                self._answer.messages.repost_after(message)
            if operation is not None:
                return self._ask(operation, message, now)
        return None

    def _stream_tasks(self, message: TurnMessage) -> tuple[Task, ...]:
        return self._activity.changed_tasks() if message.is_stream and self._settings.tools else ()

    @property
    def _human_due(self) -> float:
        """The earliest time for the next message, because messages shall not come faster than a person writes them."""
        return self._sent_at + self._settings.human_delay_s if self._rules.ends_at_paragraphs else _NEVER

    def _next_interim(self, now: float) -> NextAction:
        """What to show next while the turn runs: a preview, the processing message or the typing sign."""
        if now < self._not_before:
            return WaitUntil(self._not_before)
        actions: list[NextAction] = []
        if not self._answer.is_behind:
            actions.append(self._preview.next(self._answer, self._activity, now))
            if self._answer.is_gathering:
                actions.append(self._flush_blocks(now))
        if self._processing is not None:
            actions.append(self._processing.next(self._target, now))
        actions.append(self._typing(now))
        match _first_due(actions, now):
            case Post(is_processing=True) as post if self._processing is not None:
                return self._ask(post, self._processing.message, now)
            case Post() | OpenStream() | CloseStream() as durable:
                return self._ask(durable, self._answer.messages.open_or_begin(), now)
            case Edit() | AppendStream() | Draft() | Typing() as interim:
                self._interim = interim
                return interim
            case wait:
                return wait

    def _flush_blocks(self, now: float) -> NextAction:
        """Make messages of the paragraphs that wait for more text, once no text came for a while."""
        if now < (due := self._text_at + self._settings.block_idle_s):
            return WaitUntil(due)
        self._answer.flush_blocks()
        return WaitUntil(now)

    def _typing(self, now: float) -> NextAction:
        """Show the typing sign, as long as people see no other message that shows that the agent is working."""
        lifetime = self._limits.typing_s
        if lifetime is None or self._is_visible:
            return IDLE
        if self._typing_due is None:
            self._typing_due = now + _TYPING_AFTER_S
        if now < self._typing_due:
            return WaitUntil(self._typing_due)
        self._typing_due = now + _TYPING_AGAIN * lifetime
        return Typing(target=self._target)

    @property
    def _is_visible(self) -> bool:
        """Whether people see a message that shows that the agent is working."""
        if self._processing is not None and self._processing.is_visible:
            return True
        return self._rules.preview != "hidden" and self._preview.is_visible

    def _next_after_end(self, now: float) -> NextAction:
        """The operation that finishes the processing message, after all messages of the answer."""
        if self._processing is None:
            return IDLE
        operation = self._processing.final_operation(self._target, self._limits)
        if operation is None:
            return IDLE
        if now < self._not_before:
            return WaitUntil(self._not_before)
        return self._ask(operation, self._processing.message, now)

    def _ask(self, operation: Durable, message: TurnMessage, now: float) -> Durable:
        message.pending = operation
        self._pending.append((operation, message))
        self._sent_at = now
        self._preview.note_send(now)
        return operation


def _first_due(actions: list[NextAction], now: float) -> NextAction:
    """The first of these actions that can be done now. If there is none, the earliest time to ask again."""
    waits: list[WaitUntil] = []
    for action in actions:
        if isinstance(action, WaitUntil) and action.at > now:
            waits.append(action)
        elif not isinstance(action, Idle):
            return action
    return min(waits, key=lambda wait: wait.at) if waits else IDLE
