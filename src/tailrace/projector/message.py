"""One message of a turn: how it should be, and how it is in the chat as far as we know.

`AnswerText` sets the desired text; outcomes of operations tell what is in the chat. The next operation is the one that
makes both equal. So the chat gets the right message also after a refused edit, a retraction or a crash. A message is
finished when both are equal, or when no operation can make them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

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
    from tailrace.operations import Durable, Outcome, Receipt, Target, Task

EMPTY = Body(text="…")
"""Shown in place of retracted text, until there is other text. It stays if the message cannot be deleted."""


class TurnMessage(msgspec.Struct, kw_only=True, eq=False):
    """One message of a turn.

    `body` is its final text, or None while that is not known; `media` is set if it is a medium. `sent` is the last body
    of a durable operation, `shown` the last body that people may see. `pending` is the durable operation that has no
    outcome yet. A `frozen` message gets no more previews, only its final text. A `dropped` message should not exist in
    the chat.
    """

    body: Body | None = None
    media: PostMedia | None = None
    is_text: bool = False  # part of the agent's text
    is_processing: bool = False  # the processing message
    dropped: bool = False
    message_id: str | None = None
    sent: BodyHash | None = None
    shown: BodyHash | None = None
    pending: Durable | None = None
    is_stream: bool = False
    frozen: bool = False
    lost: bool = False  # its final text did not arrive, or it will stay unknown whether it did
    cannot_delete: bool = False  # it is dropped, and the channel cannot delete it
    waiting_since: float | None = None  # when there was first something to show
    opened_at: float = 0.0
    source: str = ""  # its Markdown, once it is sealed
    posted_length: int = 0  # the length of the text in the operation that began it

    def unsent_part(self, text: str) -> str:
        """Leave out of `text`, the source of this message, what a post of the message may have sent.

        That is the beginning of the text, if a post with it is pending, or if it is unknown whether such a post
        arrived.
        """
        if self.message_id is not None or not (self.pending is not None or self.lost):
            return text
        if self.sent is not None and self.sent.text == hash(text[: self.sent.size]):
            return text[self.sent.size :]  # only an earlier process knew `posted_length`
        return text[self.posted_length :]

    @property
    def is_sealed(self) -> bool:
        """Whether it is decided how the message should be in the end: its final text, its medium, or deleted."""
        return self.dropped or self.body is not None or self.media is not None

    @property
    def is_finished(self) -> bool:
        """Whether the message needs no further operation or outcome."""
        if self.pending is not None or not self.is_sealed:
            return False
        if self.lost:
            return True
        if self.dropped:
            return self.message_id is None or self.cannot_delete
        if self.media is not None:
            return self.message_id is not None
        if self.message_id is None or self.is_stream or self.sent != self.shown or self.body is None:
            return False
        return self.sent == body_hash(self.body)

    @property
    def final_is_sent(self) -> bool:
        """Whether the operation that finishes the message is already pending, so that the next message can be sent."""
        match self.pending:
            case None:
                return False
            case Post() | Edit() | CloseStream():
                return self.pending.body == self.body and not self.dropped
            case PostMedia():
                return True
            case Delete():
                return self.dropped
            case OpenStream():
                return False

    def seal(self, body: Body) -> None:
        """Set the final text of the message. If the text is retracted later, `unseal` reverses this."""
        self.body = body
        self.dropped = False
        self.lost = self.lost and _same_text(self.sent, body)

    def can_become(self, body: Body | None, *, edits: bool) -> bool:
        """Whether this message can be changed so that it shows `body`. None stands for a text that is not complete yet.

        False while the message is being deleted. Also False if the message may exist but its id is unknown: then it
        cannot be changed.
        """
        if self._is_being_removed:
            return False
        if self.media is not None:
            return True
        if body is None and (self.message_id is None or not self.is_sealed):
            return True
        is_changeable = edits or self.is_stream if self.message_id is not None else not self.lost
        return is_changeable or _same_text(self.sent, body)

    @property
    def _is_being_removed(self) -> bool:
        """Whether the message is already deleted, or a pending operation deletes it or removes its text."""
        match self.pending:
            case None:
                return self.dropped and self.message_id is None and self.shown is None and not self.lost
            case Edit(body=body) | CloseStream(body=body):
                return self.dropped and body is EMPTY
            case _:
                return isinstance(self.pending, Delete)

    def unseal(self) -> None:
        """Make the text of the message open again, because its final text was retracted."""
        self.body = None
        self.dropped = False
        self.lost = self.lost and self.message_id is None

    def replaced(self) -> TurnMessage:
        """Mark this message for deletion, and return a new one with the same content, which will be posted."""
        self.drop()
        return TurnMessage(body=self.body, media=self.media, source=self.source, is_text=self.is_text)

    def drop(self) -> None:
        """Mark the message as one that should not exist in the chat."""
        self.dropped = True
        self.lost = self.lost and self.message_id is None

    def final_operation(self, target: Target, limits: Capabilities, tasks: tuple[Task, ...] = ()) -> Durable | None:
        """The operation that makes the message as it should be in the end; None if nothing more can be done."""
        if self.dropped:
            return self._removal(target, limits)
        if self.media is not None:
            return self.media
        assert self.body is not None, "only a sealed message has a final operation"
        if limits.edits is None and self.message_id is not None and not self.is_stream:
            if _same_text(self.sent, self.body):
                self.sent = self.shown = body_hash(self.body)
                return None
            self._forget_message()  # it cannot be edited, so its final text is posted as a new message
        if self.message_id is None:
            self.posted_length = len(self.source)
            return Post(target=target, body=self.body, is_processing=self.is_processing)
        if self.is_stream:
            return CloseStream(target=target, stream_id=self.message_id, body=self.body, tasks=tasks)
        return Edit(target=target, message_id=self.message_id, body=self.body)

    def _removal(self, target: Target, limits: Capabilities) -> Durable | None:
        """The operation that removes a dropped message from the chat.

        If messages cannot be deleted, its text is replaced by `…`. None if that is not possible either.
        """
        assert self.message_id is not None, "a dropped message that was never posted is finished"
        if limits.deletes:
            return Delete(target=target, message_id=self.message_id)
        if self.is_stream:
            return CloseStream(target=target, stream_id=self.message_id, body=EMPTY)
        if limits.edits is not None and self.media is None and self.sent != body_hash(EMPTY):
            return Edit(target=target, message_id=self.message_id, body=EMPTY)
        self.cannot_delete = True
        return None

    def record_outcome(self, operation: Durable, outcome: Outcome) -> None:
        """Record the outcome of the pending operation: update what is known about the message in the chat."""
        self.pending = None
        match outcome:
            case Delivered(receipt=receipt):
                self.record_delivered(operation, receipt)
            case NotNow():
                pass
            case Refused(gone=True) if isinstance(operation, Edit | CloseStream | Delete):
                self._forget_message()  # a person deleted it, so its final text is posted as a new message
            case Ambiguous() if isinstance(operation, Edit | CloseStream) and operation.body != self.body:
                self.shown = None  # it is unknown what the message shows; the final text will correct it
                self.frozen = True
            case _:
                self._record_failed(operation)

    def record_delivered(self, operation: Durable, receipt: Receipt) -> None:
        """Record that the channel has performed an operation on this message."""
        if isinstance(operation, Delete):
            self._forget_message()
            return
        self.message_id = receipt.message_id or self.message_id or ""
        self.lost = self.cannot_delete = False
        if not isinstance(operation, PostMedia):
            self.sent = self.shown = body_hash(operation.body)
            self.is_stream = isinstance(operation, OpenStream) and not receipt.degraded

    def _record_failed(self, operation: Durable) -> None:
        match operation:
            case Delete():
                self.cannot_delete = True
            case PostMedia():
                self.lost = True
            case Post() | OpenStream():
                # The same text is not sent again; any other text is posted as a new message.
                self.sent = body_hash(operation.body)
                self.lost = self.body is None or _same_text(body_hash(operation.body), self.body)
            case Edit() | CloseStream() if operation.body == self.body:
                self.sent = body_hash(operation.body)
                self.lost = True
            case Edit() | CloseStream():
                self.frozen = True
                self._forget_message()  # its final text is posted as a new message

    def _forget_message(self) -> None:
        self.message_id = None
        self.is_stream = False
        self.sent = self.shown = None


class BodyHash(NamedTuple):
    """Hashes of a body that was sent, to recognise the same body later. The bodies would take too much memory.

    `text` is the hash of the text alone, `whole` that of the whole body, and `size` the length of the text.
    """

    text: int
    whole: int
    size: int


def body_hash(body: Body) -> BodyHash:
    """Make the `BodyHash` of a body."""
    return BodyHash(hash(body.text), hash(body), len(body.text))


def _same_text(sent: BodyHash | None, body: Body | None) -> bool:
    """Whether two bodies have the same text. Their markup may differ, because a preview is rendered in pieces."""
    return sent is not None and body is not None and sent.text == hash(body.text)
