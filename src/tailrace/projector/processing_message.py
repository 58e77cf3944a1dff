"""The processing message: how the work goes on, in a message of its own beside the answer.

It is begun when the work takes a while, brought up to date at its own pace, and left as a record of the tools once the
answer has gone out; what it said of the answer is taken from it then, so that nobody reads that twice. Where nothing is
left it is taken away. The wording is `processing`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import ToolStarted
from tailrace.operations import Delivered, Edit, Post, Refused
from tailrace.projector.activity import escaped
from tailrace.projector.message import TurnMessage, body_hash
from tailrace.projector.next_action import IDLE, WaitUntil
from tailrace.projector.processing_text import ProcessingText

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.markdown.dialects import Ruler
    from tailrace.operations import Body, Durable, Operation, Outcome, Target
    from tailrace.projector.next_action import NextAction
    from tailrace.projector.presentation import ProjectorSettings

_BREAK = "  \n"  # ends a line in Markdown


class ProcessingMessage:
    """The processing message of one turn; `sheet` is that of a former process, where there is one."""

    __slots__ = ("_due", "_every_s", "_first_s", "_interim", "_ruler", "_text", "_version", "sheet")

    def __init__(
        self, ruler: Ruler, settings: ProjectorSettings, *, edit_every_s: float, sheet: TurnMessage | None
    ) -> None:
        self._ruler = ruler
        self._first_s = settings.first_s
        self._every_s = max(settings.processing_every_s, edit_every_s)
        self._text = ProcessingText(limit=ruler.limit, resolved=True)
        self._version = self._text.version
        self._due: float | None = None  # when it is to be begun, or brought up to date
        self._interim: Edit | None = None
        self.sheet = sheet or TurnMessage()
        self.sheet.is_processing = True

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be asked for."""
        return self.sheet.is_over or self.sheet.final_is_sent

    def feed(self, event: Event, now: float) -> None:
        """Take in what happened."""
        if self._due is None:
            self._due = now + self._every_s
        if isinstance(event, ToolStarted) and self.sheet.message_id is None and self.sheet.asked is None:
            self._due = min(self._due, now + self._first_s)
        self._text.feed(event, now)

    def step(self, target: Target, now: float) -> NextAction:
        """What to show now; a `Post` is to stay, an `Edit` is not."""
        if self._due is None or self.sheet.frozen or self.sheet.lost:
            return IDLE
        if now < self._due:
            return WaitUntil(self._due)
        self._due = now + self._every_s
        if self.sheet.message_id is not None and self._text.version == self._version:
            return WaitUntil(self._due)
        self._version = self._text.version
        body = self._body(self._text.render(now))
        if self.sheet.message_id is None:
            return Post(target=target, body=body, is_processing=True)
        if body_hash(body) == self.sheet.shown:
            return WaitUntil(self._due)
        self._interim = Edit(target=target, message_id=self.sheet.message_id, body=body)
        self.sheet.shown = None  # until it is known that this is
        return self._interim

    def learn(self, operation: Operation, outcome: Outcome) -> bool:
        """Take in what came of an edit; whether it was one of this message."""
        if operation is not self._interim or self._interim is None:
            return False
        self.sheet.shown = body_hash(self._interim.body) if isinstance(outcome, Delivered) else None
        self.sheet.frozen = isinstance(outcome, Refused)
        if not isinstance(outcome, Delivered):
            self._version = -1  # what it says is not known to be there
        self._interim = None
        return True

    def closing(self, target: Target, limits: Capabilities) -> Durable | None:
        """The turn ended and its answer is on its way: what is left to be done with the message."""
        if self.sheet.asked is not None:
            return None
        record = self._text.without_answer()
        if record and self.sheet.message_id is not None:
            self.sheet.seal(self._body(record))
        else:
            self.sheet.drop()
        if self.sheet.is_over:
            return None
        return self.sheet.closing(target, limits)

    def _body(self, text: str) -> Body:
        """The text as it stands, in as many of its last lines as fit, or in the beginning of the last one."""
        lines = [escaped(line) for line in text.split("\n")]
        while len(lines) > 1 and not self._ruler.fits(_BREAK.join(lines)):
            lines = lines[(len(lines) + 3) // 4 :]
        source = _BREAK.join(lines)
        return self._ruler.body(source[: self._ruler.fitting("", source)] if len(lines) == 1 else source)
