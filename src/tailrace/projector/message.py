"""A sheet: one message of a turn, as it shall be and as it is known to be.

What it shall say is decided by the document, what it says is learnt from receipts; the difference is what the channel
is asked for next. So whatever happens in between (an edit that is refused, text that is taken back, a process that
died) the same comparison leads to the same message. A sheet is over once both are the same, or nothing can make them
so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tailrace.operations import (
    Ambiguous,
    Body,
    CloseStream,
    Delete,
    Delivered,
    Edit,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Refused,
)

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.operations import Durable, Outcome, Target, Task

EMPTY = Body(text="…")
"""What a message shows whose text was taken back, until there is other text, or where it cannot be taken away."""


class TurnMessage:
    """One message. `body` is what it shall say in the end, None while that is not known; `media` one that is no text.

    `said` is the last one that was sent to stay, `shown` the last one that people may see. A `frozen` sheet shows
    nothing more before its end; a `dropped` one shall not be there.
    """

    __slots__ = (
        "asked",
        "begun_with",
        "body",
        "dropped",
        "frozen",
        "is_processing",
        "is_stream",
        "is_text",
        "lost",
        "media",
        "message_id",
        "opened_at",
        "said",
        "shown",
        "since",
        "source",
        "unable",
    )

    def __init__(self) -> None:
        self.body: Body | None = None
        self.media: PostMedia | None = None
        self.is_text = False  # it is part of what the agent said
        self.is_processing = False  # it shows how the work goes on
        self.dropped = False
        self.message_id: str | None = None
        self.said: BodyHash | None = None
        self.shown: BodyHash | None = None
        self.asked: Durable | None = None
        self.is_stream = False
        self.frozen = False
        self.lost = False  # whether what it says in the end arrived will not be known, or it surely did not
        self.unable = False  # it shall not be there, and nothing can take it away
        self.since: float | None = None  # when there was first something to show
        self.opened_at = 0.0
        self.source = ""  # its text, once that is known
        self.begun_with = 0  # how much of its text it was begun with

    def unsaid_of(self, text: str) -> str:
        """What of its text no message says yet, and none on its way will."""
        return text[self.begun_with :] if self.message_id is None and self.asked is not None else text

    @property
    def is_sealed(self) -> bool:
        """Whether it is known what it shall say in the end."""
        return self.dropped or self.body is not None or self.media is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done for it."""
        if self.asked is not None or not self.is_sealed:
            return False
        if self.lost:
            return True
        if self.dropped:
            return self.message_id is None or self.unable
        if self.media is not None:
            return self.message_id is not None
        if self.message_id is None or self.is_stream or self.said != self.shown or self.body is None:
            return False
        return self.said == body_hash(self.body)

    @property
    def final_is_sent(self) -> bool:
        """Whether what was asked for last is all that it needs: what comes behind it can be asked for."""
        match self.asked:
            case None:
                return False
            case Post() | Edit() | CloseStream():
                return self.asked.body == self.body and not self.dropped
            case PostMedia():
                return True
            case Delete():
                return self.dropped
            case OpenStream():
                return False

    def seal(self, body: Body) -> None:
        """This is what it shall say."""
        self.body = body
        self.dropped = False
        self.lost = self.lost and _reads_alike(self.said, body)

    def can_say(self, body: Body | None, *, edits: bool) -> bool:
        """Whether its message can say this, or, where it is not known yet what, whether it may go on.

        One that is being taken away cannot, nor one that may be there without anybody knowing how to change it.
        """
        if self._is_leaving:
            return False
        if self.media is not None:
            return True
        if body is None and (self.message_id is None or not self.is_sealed):
            return True
        is_changeable = edits or self.is_stream if self.message_id is not None else not self.lost
        return is_changeable or _reads_alike(self.said, body)

    @property
    def _is_leaving(self) -> bool:
        """Whether it is on its way to be taken away, or what it says is; or was."""
        match self.asked:
            case None:
                return self.dropped and self.message_id is None and self.shown is None and not self.lost
            case Edit(body=body) | CloseStream(body=body):
                return self.dropped and body is EMPTY
            case _:
                return isinstance(self.asked, Delete)

    def unseal(self) -> None:
        """What it shall say is open again: text was taken back."""
        self.body = None
        self.dropped = False
        self.lost = self.lost and self.message_id is None

    def renewed(self) -> TurnMessage:
        """Another message that shall say the same, in place of this one."""
        again = TurnMessage()
        again.body, again.media, again.source, again.is_text = self.body, self.media, self.source, self.is_text
        self.drop()
        return again

    def drop(self) -> None:
        """It shall not be there."""
        self.dropped = True
        self.lost = self.lost and self.message_id is None

    def closing(self, target: Target, limits: Capabilities, tasks: tuple[Task, ...] = ()) -> Durable | None:
        """What makes a sealed sheet what it shall be; None where nothing can."""
        if self.dropped:
            return self._removal(target, limits)
        if self.media is not None:
            return self.media
        assert self.body is not None, "only what is sealed is closed"
        if limits.edits is None and self.message_id is not None and not self.is_stream:
            if _reads_alike(self.said, self.body):
                self.said = self.shown = body_hash(self.body)
                return None
            self._forget_message()  # it cannot be changed: what it says in the end comes as a new one
        if self.message_id is None:
            return Post(target=target, body=self.body, is_processing=self.is_processing)
        if self.is_stream:
            return CloseStream(target=target, stream_id=self.message_id, body=self.body, tasks=tasks)
        return Edit(target=target, message_id=self.message_id, body=self.body)

    def _removal(self, target: Target, limits: Capabilities) -> Durable | None:
        """What takes the message away, or what it says where it cannot be taken away itself."""
        assert self.message_id is not None, "a sheet that never was is over"
        if limits.deletes:
            return Delete(target=target, message_id=self.message_id)
        if self.is_stream:
            return CloseStream(target=target, stream_id=self.message_id, body=EMPTY)
        if limits.edits is not None and self.media is None and self.said != body_hash(EMPTY):
            return Edit(target=target, message_id=self.message_id, body=EMPTY)
        self.unable = True
        return None

    def answered(self, operation: Durable, outcome: Outcome) -> None:
        """Take in what came of something durable that was asked for."""
        self.asked = None
        match outcome:
            case Delivered(receipt=receipt):
                self._done(operation, receipt.message_id, degraded=bool(receipt.degraded))
            case NotNow():
                pass
            case Refused(gone=True) if isinstance(operation, Edit | CloseStream | Delete):
                self._forget_message()  # somebody took it away: what it says in the end comes as a new one
            case Ambiguous() if isinstance(operation, Edit | CloseStream) and operation.body != self.body:
                self.shown = None  # it may be there, or not any more: what it says in the end will tell
                self.frozen = True
            case _:
                self._missed(operation)

    def _done(self, operation: Durable, message_id: str, *, degraded: bool) -> None:
        if isinstance(operation, Delete):
            self._forget_message()
            return
        self.message_id = message_id or self.message_id or ""
        self.lost = self.unable = False
        if not isinstance(operation, PostMedia):
            self.said = self.shown = body_hash(operation.body)
            self.is_stream = isinstance(operation, OpenStream) and not degraded

    def _missed(self, operation: Durable) -> None:
        match operation:
            case Delete():
                self.unable = True
            case PostMedia():
                self.lost = True
            case Post() | OpenStream():
                # The same is not said again; anything else comes as a new message.
                self.said = body_hash(operation.body)
                self.lost = self.body is None or _reads_alike(body_hash(operation.body), self.body)
            case Edit() | CloseStream() if operation.body == self.body:
                self.said = body_hash(operation.body)
                self.lost = True
            case Edit() | CloseStream():
                self.frozen = True
                self._forget_message()  # what it says in the end comes as a new one

    def _forget_message(self) -> None:
        self.message_id = None
        self.is_stream = False
        self.said = self.shown = None


class BodyHash(NamedTuple):
    """What is kept of a body that was sent: enough to know it again. A chat has many messages, and each many bodies."""

    text: int
    whole: int
    size: int


def body_hash(body: Body) -> BodyHash:
    """The hash of a body."""
    return BodyHash(hash(body.text), hash(body), len(body.text))


def _reads_alike(said: BodyHash | None, body: Body | None) -> bool:
    """Whether people would read the same; what is rendered in pieces may differ in its markup."""
    return said is not None and body is not None and said.text == hash(body.text)
