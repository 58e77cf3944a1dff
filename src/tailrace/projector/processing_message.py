"""The processing message: a message of its own, beside the answer, that shows what the agent is doing.

It is posted when the work takes some time, and updated at its own interval. When the answer has been sent, the text of
the agent is removed from the processing message, so that people do not see it twice. The tool calls stay as a record.
Without tool calls the message is deleted. `ProcessingText` owns the wording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import ToolStarted
from tailrace.operations import Delivered, Edit, Post, Refused
from tailrace.projector.message import TurnMessage, body_hash
from tailrace.projector.next_action import IDLE, WaitUntil
from tailrace.projector.processing_text import ProcessingText
from tailrace.projector.wording import escaped

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.markdown.dialects import Measurer
    from tailrace.operations import Body, Durable, Operation, Outcome, Target
    from tailrace.projector.next_action import NextAction
    from tailrace.projector.presentation import ProjectorSettings

_LINE_BREAK = "  \n"  # in Markdown


class ProcessingMessage:
    """The processing message of one turn. `message` is the one that a crashed process sent for this turn, or None."""

    __slots__ = ("_due", "_every_s", "_first_s", "_interim", "_measurer", "_text", "_version", "message")

    def __init__(
        self, measurer: Measurer, settings: ProjectorSettings, *, edit_every_s: float, message: TurnMessage | None
    ) -> None:
        self._measurer = measurer
        self._first_s = settings.first_s
        self._every_s = max(settings.processing_every_s, edit_every_s)
        self._text = ProcessingText(limit=measurer.limit, shows_outcomes=True)
        self._version = self._text.version
        self._due: float | None = None  # when it is posted or updated next
        self._interim: Edit | None = None
        self.message = message or TurnMessage()
        self.message.is_processing = True

    @property
    def is_finished(self) -> bool:
        """Whether the message needs no more operations: `next` or `final_operation` has returned the last one."""
        return self.message.is_finished or self.message.final_is_sent

    @property
    def is_visible(self) -> bool:
        """Whether people see the message."""
        return self.message.message_id is not None

    def feed(self, event: Event, now: float) -> None:
        """Take the next event of the turn. The next update of the message will show it."""
        if self._due is None:
            self._due = now + self._every_s
        if isinstance(event, ToolStarted) and self.message.message_id is None and self.message.pending is None:
            self._due = min(self._due, now + self._first_s)
        self._text.feed(event, now)

    def next(self, target: Target, now: float) -> NextAction:
        """The next update of the message, or when to ask again. A `Post` is durable, an `Edit` is interim."""
        if self._due is None or self.message.frozen or self.message.lost:
            return IDLE
        if now < self._due:
            return WaitUntil(self._due)
        self._due = now + self._every_s
        if self.message.message_id is not None and self._text.version == self._version:
            return WaitUntil(self._due)
        self._version = self._text.version
        body = self._body(self._text.render(now))
        if self.message.message_id is None:
            return Post(target=target, body=body, is_processing=True)
        if body_hash(body) == self.message.shown:
            return WaitUntil(self._due)
        self._interim = Edit(target=target, message_id=self.message.message_id, body=body)
        self.message.shown = None  # unknown until the outcome comes
        return self._interim

    def record_outcome(self, operation: Operation, outcome: Outcome) -> bool:
        """Record the outcome of an edit. Returns False if the operation is not an edit of this message."""
        if operation is not self._interim or self._interim is None:
            return False
        self.message.shown = body_hash(self._interim.body) if isinstance(outcome, Delivered) else None
        self.message.frozen = isinstance(outcome, Refused)
        if not isinstance(outcome, Delivered):
            self._version = -1  # it is unknown what the message shows
        self._interim = None
        return True

    def final_operation(self, target: Target, limits: Capabilities) -> Durable | None:
        """The operation that finishes the message: leave only the tool calls in it, or delete it.

        Call this when the turn has ended and all operations of its answer were returned.
        """
        if self.message.pending is not None:
            return None
        record = self._text.tools_only()
        if record and self.message.message_id is not None:
            self.message.seal(self._body(record))
        else:
            self.message.drop()
        if self.message.is_finished:
            return None
        return self.message.final_operation(target, limits)

    def _body(self, text: str) -> Body:
        """The end of the text as a body: as many lines as fit.

        If the last line alone is too long, its beginning is shown.
        """
        lines = [escaped(line) for line in text.split("\n")]
        while len(lines) > 1 and not self._measurer.fits(_LINE_BREAK.join(lines)):
            lines = lines[(len(lines) + 3) // 4 :]
        source = _LINE_BREAK.join(lines)
        return self._measurer.body(source[: self._measurer.fitting_length("", source)] if len(lines) == 1 else source)
