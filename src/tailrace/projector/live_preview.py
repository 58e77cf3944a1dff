"""Shows the message that is still being written: by edits, as a draft, as a stream, or not at all.

This module owns when the message begins, how often it is updated, which lines are below its text, and what happens to a
stream that the platform ends too early. `AnswerText` owns the text. When the text is complete, the projector sends it
again as a whole, so a lost update does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.capabilities import DraftRules, StreamRules
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delivered,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Post,
    Refused,
)
from tailrace.projector.message import EMPTY, body_hash
from tailrace.projector.next_action import IDLE, WaitUntil
from tailrace.projector.preview_body import PreviewBody
from tailrace.projector.wording import escaped

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.markdown.dialects import Measurer
    from tailrace.operations import Body, Outcome, Target, Task
    from tailrace.projector.activity import TurnActivity
    from tailrace.projector.answer_text import AnswerText
    from tailrace.projector.message import TurnMessage
    from tailrace.projector.next_action import NextAction
    from tailrace.projector.presentation import PresentationRules, ProjectorSettings

_RENEWED_AFTER = 0.8  # the share of its lifetime after which a stream or a draft is renewed
_LONGEST_WAIT_S = 2.0  # how much longer an edit with little new text waits for more text
_NEVER = float("-inf")
# Slack reads text in angle brackets as mentions and links, also text of an agent. Appended text is not rendered, so it
# is escaped here. The body that closes the stream is rendered.
_ESCAPES = {"slack": str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})}


def edits_every_s(limits: Capabilities, target: Target) -> float:
    """The minimum time between two edits of a message in that chat."""
    rules = limits.edits
    if rules is None:
        return 0.0
    return rules.every_s_in_groups if target.group and rules.every_s_in_groups else rules.every_s


class LivePreview:
    """Decides how the message that is being written is shown until its text is final."""

    def __init__(
        self,
        measurer: Measurer,
        rules: PresentationRules,
        limits: Capabilities,
        settings: ProjectorSettings,
        target: Target,
    ) -> None:
        self._measurer = measurer
        self._rules = rules
        self._limits = limits
        self._settings = settings
        self._target = target
        self._message: TurnMessage | None = None
        self._preview_body: PreviewBody | None = None
        self._body_revision = 0  # the revision of the answer that the preview shows
        self._is_changed = False  # there is something that people do not see yet
        self._updated_at = _NEVER
        self._shown_length = 0  # of the text in the latest edit
        self._appending = ""  # the text of the pending append
        self._unsent_tasks: tuple[Task, ...] = ()  # tasks of an append that the platform did not accept
        self._is_broken = False  # it is unknown what the stream shows, or the stream takes no more text
        self._stream_revision = 0  # the revision of the answer that the stream began with

    def mark_changed(self) -> None:
        """Remember that text or activity lines have changed since the last update."""
        self._is_changed = True

    def use_rules(self, rules: PresentationRules) -> None:
        """Show the message in another way from now on, because the platform refused the first way."""
        self._rules = rules
        self._is_changed = True

    def note_send(self, now: float) -> None:
        """Remember that something was sent to the chat now: the next update waits for a full interval."""
        self._updated_at = now

    @property
    def is_visible(self) -> bool:
        """Whether people see the message that is being written."""
        if self._message is None or self._message.is_sealed:
            return False
        return self._message.message_id is not None or self._message.shown is not None

    @property
    def waits_for_interval(self) -> bool:
        """True if the next update is an edit that must wait for its interval.

        Until the interval is over, the projector then does nothing, however much text comes.
        """
        return self._is_changed and self.is_visible and not self._rules.shows_every_delta

    def next(self, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        """The next update of the message, or when to ask again.

        `Post`, `OpenStream` and `CloseStream` are durable operations; the other updates are interim.
        """
        if self._rules.preview == "hidden":
            return IDLE
        if (message := answer.messages.open_message) is None:
            if not answer.run.tail.strip() and not self._footer(activity, now):
                return IDLE
            message = answer.messages.open_or_begin()
        if message is not self._message:
            self._start(message)
        if message.frozen or message.lost:
            return IDLE
        if message.message_id is None:
            update = self._draft if self._rules.preview == "draft" else self._begin
        else:
            update = self._append if message.is_stream else self._edit
        return update(message, answer, activity, now)

    def _start(self, message: TurnMessage) -> None:
        self._message = message
        self._preview_body = None
        self._is_broken = message.is_stream  # an earlier process opened it
        self._appending = ""
        self._is_changed = True

    def _begin(self, message: TurnMessage, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        """Post the message or open the stream, once there is enough text to read."""
        text = answer.run.tail
        enough = 1 if self._rules.shows_every_delta else self._settings.first_characters
        length = len(text.strip())
        if not length and not self._footer(activity, now):
            return IDLE
        if message.waiting_since is None:
            message.waiting_since = now
        if length < max(enough, 1) and now < (due := message.waiting_since + self._settings.first_s):
            return WaitUntil(due)
        body = self._body(answer, activity, now)
        if body is None:
            return IDLE
        self._is_changed = False
        message.posted_length = len(text.rstrip())
        if self._rules.preview == "stream":
            message.opened_at = now
            self._stream_revision = answer.revision
            self._is_changed = bool(activity.tasks())
            return OpenStream(target=self._target, body=self._stream_start(answer) if length else body)
        self._shown_length = len(text)
        return Post(target=self._target, body=self._with_buttons(body))

    def _with_buttons(self, body: Body) -> Body:
        return replace(body, buttons=self._settings.buttons) if self._settings.buttons else body

    def _stream_start(self, answer: AnswerText) -> Body:
        """The text with which a stream is opened: as much as fits. The rest is appended later."""
        tail = answer.run.tail
        text = tail.rstrip()
        if not self._measurer.fits(text):
            text = text[: self._measurer.fitting_length("", text)].rstrip() or text
        rest = tail[len(text) :]
        answer.appended[:] = [rest] if rest else []
        return self._measurer.body(text)

    def _edit(self, message: TurnMessage, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        if self._limits.edits is None or not self._is_changed:
            return IDLE
        every_s = max(edits_every_s(self._limits, self._target), self._settings.edit_every_s)
        if now < (due := self._updated_at + every_s):
            return WaitUntil(due)
        grown = len(answer.run.tail) - self._shown_length
        if 0 < grown < self._settings.edit_characters and now < (due := due + _LONGEST_WAIT_S):
            return WaitUntil(due)
        body = self._with_buttons(self._body(answer, activity, now) or EMPTY)
        self._is_changed = False
        if body_hash(body) == message.shown:
            return IDLE
        self._updated_at = now
        self._shown_length = len(answer.run.tail)
        message.shown = None  # unknown until the outcome comes
        assert message.message_id is not None, "only a message that was posted is edited"
        return Edit(target=self._target, message_id=message.message_id, body=body)

    def _draft(self, message: TurnMessage, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        rules = self._limits.native
        assert isinstance(rules, DraftRules), "rules_for chooses drafts only where there are some"
        renewal = self._updated_at + _RENEWED_AFTER * rules.lifetime_s if message.shown is not None else _NEVER
        if not self._is_changed and now < renewal:
            return WaitUntil(renewal)
        body = self._body(answer, activity, now) or (EMPTY if message.shown is not None else None)
        if body is None or (body_hash(body) == message.shown and now < renewal):
            self._is_changed = False
            return IDLE if body is None else WaitUntil(renewal)
        if now < (due := self._updated_at + max(rules.every_s, self._settings.edit_every_s)):
            return WaitUntil(due)
        self._is_changed = False
        self._updated_at = now
        return Draft(target=self._target, draft_id=answer.messages.all.index(message) + 1, body=body)

    def _append(self, message: TurnMessage, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        rules = self._limits.native
        assert isinstance(rules, StreamRules), "a stream is opened only where there are rules for it"
        ends_at = float("inf") if rules.lifetime_s is None else message.opened_at + _RENEWED_AFTER * rules.lifetime_s
        self._is_broken = self._is_broken or self._stream_revision != answer.revision
        if self._is_broken or (now >= ends_at and not answer.cut()):
            return self._close_early(message, answer, activity, now)
        if message.is_sealed:
            return WaitUntil(now)  # `cut` sealed it: the projector closes it, and the next message begins
        if answer.run.is_over_limit:
            self._is_changed = False  # append nothing: this text may belong to the next message
        if self._is_changed or (answer.appended and not answer.run.is_over_limit):
            if now < (due := self._updated_at + max(rules.every_s, self._settings.edit_every_s)):
                return WaitUntil(min(due, ends_at))
            if (append := self._append_operation(rules, message, answer, activity)) is not None:
                self._updated_at = now
                return append
        return IDLE if rules.lifetime_s is None else WaitUntil(ends_at)

    def _append_operation(
        self, rules: StreamRules, message: TurnMessage, answer: AnswerText, activity: TurnActivity
    ) -> AppendStream | None:
        """Append the text and tasks that are new, as much as one call takes. None if nothing is new."""
        assert message.message_id is not None, "a stream has the id of its message"
        tasks = self._unsent_tasks + (activity.changed_tasks() if rules.tasks and self._settings.tools else ())
        self._unsent_tasks = ()
        character_size = self._measurer.max_character_size * len(self._escaped_for_stream("&"))
        self._appending = answer.take_appended(None if rules.per_call is None else rules.per_call // character_size)
        self._is_changed = False
        if not self._appending and not tasks:
            return None
        text = self._escaped_for_stream(self._appending)
        return AppendStream(target=self._target, stream_id=message.message_id, text=text, tasks=tasks)

    def _escaped_for_stream(self, text: str) -> str:
        escapes = _ESCAPES.get(self._limits.dialect)
        return text.translate(escapes) if escapes is not None else text

    def _close_early(self, message: TurnMessage, answer: AnswerText, activity: TurnActivity, now: float) -> NextAction:
        """Close a stream that takes no more text although the message is not complete.

        Further text is then shown by edits. If the channel cannot edit, show nothing until the text is final.
        """
        if self._limits.edits is None:
            return IDLE
        assert message.message_id is not None, "a stream has the id of its message"
        body = self._body(answer, activity, now) or EMPTY
        return CloseStream(target=self._target, stream_id=message.message_id, body=body, tasks=activity.tasks())

    def _body(self, answer: AnswerText, activity: TurnActivity, now: float) -> Body | None:
        if self._preview_body is None or self._body_revision != answer.revision:
            self._preview_body, self._body_revision = PreviewBody(self._measurer), answer.revision
        return self._preview_body.body(answer.run.tail, self._footer(activity, now))

    def _footer(self, activity: TurnActivity, now: float) -> str:
        """The lines below the text that show what the agent is doing; "" if they are not shown."""
        has_tasks = isinstance(self._limits.native, StreamRules) and self._limits.native.tasks
        if not self._settings.tools or (self._rules.preview == "stream" and has_tasks):
            return ""
        return "  \n".join(escaped(line) for line in activity.lines(now))

    def record_outcome(self, operation: Edit | AppendStream | Draft, outcome: Outcome, answer: AnswerText) -> None:
        """Record the outcome of an update that `next` returned."""
        message = self._message
        if message is None:
            return
        match operation:
            case AppendStream() if isinstance(outcome, NotNow):
                answer.appended.insert(0, self._appending)
                self._unsent_tasks = operation.tasks
                self._is_changed = True
            case AppendStream():
                self._is_broken = self._is_broken or not isinstance(outcome, Delivered)
            case _ if isinstance(outcome, Delivered):
                message.shown = body_hash(operation.body)
            case _:
                message.shown = None
                message.frozen = isinstance(outcome, Refused)
                self._is_changed = True
