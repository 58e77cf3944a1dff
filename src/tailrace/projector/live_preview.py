"""How the message that is still being written is shown: by edits, as a draft, by a stream, or not at all.

It owns the pace of one growing message, when there is enough to begin it, what stands below its text, and what becomes
of a stream that ends too early. What the message says is the document's; what it says in the end is sent by the
projector. Losing anything that is shown here loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from tailrace.projector.activity import escaped
from tailrace.projector.appending import appendable
from tailrace.projector.message import EMPTY, body_hash
from tailrace.projector.next_action import IDLE, WaitUntil
from tailrace.projector.preview_body import PreviewBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.capabilities import Capabilities
    from tailrace.markdown.dialects import Ruler
    from tailrace.operations import Body, Outcome, Target, Task
    from tailrace.projector.activity import Activity
    from tailrace.projector.answer_text import AnswerText
    from tailrace.projector.message import TurnMessage
    from tailrace.projector.next_action import NextAction
    from tailrace.projector.presentation import PresentationRules, ProjectorSettings

_BEFORE_ITS_END = 0.8  # of its lifetime, a stream or a draft is renewed
_NEVER = float("-inf")


def edits_every_s(limits: Capabilities, target: Target) -> float:
    """The seconds that pass between two edits of a message there, at least."""
    rules = limits.edits
    if rules is None:
        return 0.0
    return rules.every_s_in_groups if target.group and rules.every_s_in_groups else rules.every_s


class LivePreview:
    """The growing message of one turn."""

    __slots__ = (
        "_appending",
        "_broken",
        "_edition",
        "_grown_of",
        "_growth",
        "_has_news",
        "_limits",
        "_look",
        "_ruler",
        "_settings",
        "_sheet",
        "_shown_at",
        "_target",
        "_tasks_again",
    )

    def __init__(
        self, ruler: Ruler, look: PresentationRules, limits: Capabilities, settings: ProjectorSettings, target: Target
    ) -> None:
        self._ruler = ruler
        self._look = look
        self._limits = limits
        self._settings = settings
        self._target = target
        self._sheet: TurnMessage | None = None
        self._growth: PreviewBody | None = None
        self._grown_of = 0  # the edition of the document that it grew from
        self._has_news = False  # there is something that people do not see yet
        self._shown_at = _NEVER
        self._appending = ""  # the text of the append that is on its way
        self._tasks_again: tuple[Task, ...] = ()  # those of an append that did not go
        self._broken = False  # nobody knows what the stream shows, or it takes no more
        self._edition = 0  # of the document, when the stream was begun

    def touch(self) -> None:
        """There is something new to show."""
        self._has_news = True

    def turn_to(self, look: PresentationRules) -> None:
        """Show it in another way from now on: the platform does not do what it was thought to."""
        self._look = look
        self._has_news = True

    def spent(self, now: float) -> None:
        """Something was sent to the chat."""
        self._shown_at = now

    @property
    def is_seen(self) -> bool:
        """Whether people see the message that is being written."""
        if self._sheet is None or self._sheet.is_sealed:
            return False
        return self._sheet.message_id is not None or self._sheet.shown is not None

    @property
    def is_paced(self) -> bool:
        """Whether it is the pace that news wait for: more of them make no difference until then."""
        return self._has_news and self.is_seen and not self._look.shows_every_delta

    def step(self, document: AnswerText, activity: Activity, now: float) -> NextAction:
        """What to show now; a `Post`, an `OpenStream` and a `CloseStream` are to stay, all else is not."""
        if self._look.preview == "hidden":
            return IDLE
        if (sheet := document.sheaf.open_sheet) is None:
            if not document.tail.strip() and not self._footer(activity, now):
                return IDLE
            sheet = document.sheaf.opened_sheet()
        if sheet is not self._sheet:
            self._begin(sheet)
        return IDLE if sheet.frozen or sheet.lost else self._way(sheet)(sheet, document, activity, now)

    def _way(self, sheet: TurnMessage) -> Callable[[TurnMessage, AnswerText, Activity, float], NextAction]:
        if sheet.message_id is None:
            return self._draft if self._look.preview == "draft" else self._first
        return self._append if sheet.is_stream else self._edit

    def _begin(self, sheet: TurnMessage) -> None:
        self._sheet = sheet
        self._growth = None
        self._broken = sheet.is_stream  # a former process began it
        self._appending = ""
        self._has_news = True

    def _first(self, sheet: TurnMessage, document: AnswerText, activity: Activity, now: float) -> NextAction:
        """Begin the message when there is enough to read."""
        text = document.tail
        enough = 1 if self._look.shows_every_delta else self._settings.first_characters
        visible = len(text.strip())
        if not visible and not self._footer(activity, now):
            return IDLE
        if sheet.since is None:
            sheet.since = now
        if visible < max(enough, 1) and now < (due := sheet.since + self._settings.first_s):
            return WaitUntil(due)
        body = self._body(document, activity, now)
        if body is None:
            return IDLE
        self._has_news = False
        sheet.begun_with = len(text.rstrip())
        if self._look.preview == "stream":
            sheet.opened_at = now
            self._edition = document.edition
            self._has_news = bool(activity.tasks())
            return OpenStream(target=self._target, body=self._beginning(document) if visible else body)
        return Post(target=self._target, body=body)

    def _beginning(self, document: AnswerText) -> Body:
        """What a stream begins with: as much of the text as fits; the rest is appended."""
        tail = document.tail
        text = tail.rstrip()
        if not self._ruler.fits(text):
            text = text[: self._ruler.fitting("", text)].rstrip() or text
        rest = tail[len(text) :]
        document.grown[:] = [rest] if rest else []
        return self._ruler.body(text)

    def _edit(self, sheet: TurnMessage, document: AnswerText, activity: Activity, now: float) -> NextAction:
        if self._limits.edits is None or not self._has_news:
            return IDLE
        every_s = max(edits_every_s(self._limits, self._target), self._settings.edit_every_s)
        if now < (due := self._shown_at + every_s):
            return WaitUntil(due)
        body = self._body(document, activity, now) or EMPTY
        self._has_news = False
        if body_hash(body) == sheet.shown:
            return IDLE
        self._shown_at = now
        sheet.shown = None  # until it is known that this is
        assert sheet.message_id is not None, "only a message can be edited"
        return Edit(target=self._target, message_id=sheet.message_id, body=body)

    def _draft(self, sheet: TurnMessage, document: AnswerText, activity: Activity, now: float) -> NextAction:
        rules = self._limits.native
        assert isinstance(rules, DraftRules), "the look was chosen by the rules"
        again = self._shown_at + _BEFORE_ITS_END * rules.lifetime_s if sheet.shown is not None else _NEVER
        if not self._has_news and now < again:
            return WaitUntil(again)
        body = self._body(document, activity, now) or (EMPTY if sheet.shown is not None else None)
        if body is None or (body_hash(body) == sheet.shown and now < again):
            self._has_news = False
            return IDLE if body is None else WaitUntil(again)
        if now < (due := self._shown_at + max(rules.every_s, self._settings.edit_every_s)):
            return WaitUntil(due)
        self._has_news = False
        self._shown_at = now
        return Draft(target=self._target, draft_id=document.sheaf.sheets.index(sheet) + 1, body=body)

    def _append(self, sheet: TurnMessage, document: AnswerText, activity: Activity, now: float) -> NextAction:
        rules = self._limits.native
        assert isinstance(rules, StreamRules), "a stream was opened by these rules"
        ends_at = float("inf") if rules.lifetime_s is None else sheet.opened_at + _BEFORE_ITS_END * rules.lifetime_s
        self._broken = self._broken or self._edition != document.edition
        if self._broken or (now >= ends_at and not document.cut()):
            return self._end_early(sheet, document, activity, now)
        if sheet.is_sealed:
            return WaitUntil(now)  # it was cut: the projector ends it, and another one begins
        if document.is_over:
            self._has_news = False  # what is appended cannot be taken back where it turns out to be the next message's
        if self._has_news or (document.grown and not document.is_over):
            if now < (due := self._shown_at + max(rules.every_s, self._settings.edit_every_s)):
                return WaitUntil(min(due, ends_at))
            if (append := self._news(rules, sheet, document, activity)) is not None:
                self._shown_at = now
                return append
        return IDLE if rules.lifetime_s is None else WaitUntil(ends_at)

    def _news(
        self, rules: StreamRules, sheet: TurnMessage, document: AnswerText, activity: Activity
    ) -> AppendStream | None:
        """What came since the last append, as far as one call takes it; None where that is nothing."""
        assert sheet.message_id is not None, "a stream has the id of its message"
        tasks = self._tasks_again + (activity.new_tasks() if rules.tasks and self._settings.tools else ())
        self._tasks_again = ()
        self._appending = document.take_grown(None if rules.per_call is None else rules.per_call // self._widest)
        self._has_news = False
        if not self._appending and not tasks:
            return None
        text = appendable(self._appending, self._limits.dialect)
        return AppendStream(target=self._target, stream_id=sheet.message_id, text=text, tasks=tasks)

    def _end_early(self, sheet: TurnMessage, document: AnswerText, activity: Activity, now: float) -> NextAction:
        """The stream cannot go on: it does as a message that is edited, or else shows nothing more before its end."""
        if self._limits.edits is None:
            return IDLE
        assert sheet.message_id is not None, "a stream has the id of its message"
        body = self._body(document, activity, now) or EMPTY
        return CloseStream(target=self._target, stream_id=sheet.message_id, body=body, tasks=activity.tasks())

    @property
    def _widest(self) -> int:
        """How much of the unit one character takes at most, as it is appended."""
        return self._ruler.widest * len(appendable("&", self._limits.dialect))

    def _body(self, document: AnswerText, activity: Activity, now: float) -> Body | None:
        if self._growth is None or self._grown_of != document.edition:
            self._growth, self._grown_of = PreviewBody(self._ruler), document.edition
        return self._growth.body(document.tail, self._footer(activity, now))

    def _footer(self, activity: Activity, now: float) -> str:
        """What stands below the text while the turn runs."""
        if not self._settings.tools or (self._look.preview == "stream" and self._has_tasks):
            return ""
        return "  \n".join(escaped(line) for line in activity.lines(now))

    @property
    def _has_tasks(self) -> bool:
        return isinstance(self._limits.native, StreamRules) and self._limits.native.tasks

    def learn(self, operation: Edit | AppendStream | Draft, outcome: Outcome, document: AnswerText) -> None:
        """Take in what came of something that was shown."""
        sheet = self._sheet
        if sheet is None:
            return
        match operation:
            case AppendStream() if isinstance(outcome, NotNow):
                document.grown.insert(0, self._appending)
                self._tasks_again = operation.tasks
                self._has_news = True
            case AppendStream():
                self._broken = self._broken or not isinstance(outcome, Delivered)
            case _ if isinstance(outcome, Delivered):
                sheet.shown = body_hash(operation.body)
            case _:
                sheet.shown = None
                sheet.frozen = isinstance(outcome, Refused)
                self._has_news = True
