"""A strict little platform: a chat as it stands, call by call, and a complaint about each call it should never get.

It answers at once and truly; trouble is made by `random_turns.stage`. It measures on its own and keeps what people
took away, so that one can tell in the end who did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from cutting_laws.parts import measure
from tailrace.capabilities import DraftRules, StreamRules
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Typing,
)

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.operations import Body, Operation, Outcome, Target

_GONE = Refused("there is no such message", gone=True)


class Message:
    """One message; `text` is what people read in it."""

    def __init__(self, message_id: str, text: str, *, url: str = "", is_processing: bool = False) -> None:
        self.message_id = message_id
        self.text = text
        self.url = url
        self.is_processing = is_processing
        self.grows = False  # an open stream
        self.is_there = True


class Chat:
    """One chat of one platform; `complaints` says what was asked for that may not be asked for there."""

    def __init__(self, target: Target, limits: Capabilities) -> None:
        self._target = target
        self._limits = limits
        self._messages: dict[str, Message] = {}
        self.complaints: list[str] = []

    @property
    def seen(self) -> list[Message]:
        """The messages that are there, in order."""
        return [message for message in self._messages.values() if message.is_there]

    def find(self, message_id: str) -> Message:
        """A message that is there or was."""
        return self._messages[message_id]

    def take(self, operation: Operation) -> Outcome:
        """Do it, or say why not."""
        self._examine(operation)
        match operation:
            case Post() | OpenStream() | PostMedia():
                return self._begin(operation)
            case Edit():
                return self._set(operation.message_id, operation.body, ends=False)
            case CloseStream():
                return self._set(operation.stream_id, operation.body, ends=True)
            case AppendStream():
                return self._append(operation)
            case Delete():
                return self._delete(operation.message_id)
            case Draft() | Typing():
                return Delivered(Receipt(message_id=""))
            case _:
                assert_never(operation)

    def _begin(self, operation: Post | OpenStream | PostMedia) -> Outcome:
        message_id = str(len(self._messages) + 1)
        if isinstance(operation, PostMedia):
            message = Message(message_id, operation.caption, url=operation.url or operation.path or "")
        else:
            is_processing = isinstance(operation, Post) and operation.is_processing
            message = Message(message_id, operation.body.text, is_processing=is_processing)
            if isinstance(operation, OpenStream):
                message.grows = True
                message.text = operation.body.markdown or operation.body.text
        self._messages[message_id] = message
        return Delivered(Receipt(message_id=message_id))

    def _set(self, message_id: str, body: Body, *, ends: bool) -> Outcome:
        message = self._messages.get(message_id)
        if message is None or not message.is_there:
            return _GONE
        if message.grows and not ends:
            return Refused("the message is an open stream")
        message.text = body.text
        message.grows = False
        return Delivered(Receipt(message_id=message_id))

    def _append(self, operation: AppendStream) -> Outcome:
        message = self._messages.get(operation.stream_id)
        if message is None or not message.is_there:
            return _GONE
        if not message.grows:
            return Refused("the stream has ended")
        message.text += operation.text
        return Delivered(Receipt(message_id=operation.stream_id))

    def _delete(self, message_id: str) -> Outcome:
        message = self._messages.get(message_id)
        if message is None or not message.is_there:
            return _GONE
        message.is_there = False
        return Delivered(Receipt(message_id=message_id))

    def _examine(self, operation: Operation) -> None:
        name = type(operation).__name__
        if operation.target != self._target:
            self.complaints.append(f"{name} is for {operation.target}")
        if not self._can(operation):
            self.complaints.append(f"the channel cannot do this: {name}")
        match operation:
            case Post() | OpenStream() | Edit() | CloseStream() | Draft():
                self._examine_body(operation.body, name)
            case AppendStream() if isinstance(self._limits.native, StreamRules) and self._limits.native.per_call:
                self._measure(operation.text, self._limits.native.per_call, name)
            case PostMedia():
                self._measure(operation.caption, self._limits.caption_limit or self._limits.limit, "caption")

    def _examine_body(self, body: Body, name: str) -> None:
        if not body.text.strip():
            self.complaints.append(f"{name} is blank")
        self._measure(body.text, self._limits.limit, name)
        if body.markdown is not None:
            self._measure(body.markdown, self._limits.limit, name)
        lines = body.text.strip().count("\n") + 1
        if self._limits.lines is not None and lines > self._limits.lines:
            self.complaints.append(f"{name} has {lines} lines, {self._limits.lines} are enough")

    def _measure(self, text: str, limit: int, name: str) -> None:
        size = measure(text, self._limits.unit)
        if size > limit:
            self.complaints.append(f"{name} has {size} {self._limits.unit}, the limit is {limit}: {text!r}")

    def _can(self, operation: Operation) -> bool:
        limits, native = self._limits, self._limits.native
        match operation:
            case Edit():
                return limits.edits is not None
            case Delete():
                return limits.deletes
            case Typing():
                return limits.typing_s is not None
            case Draft():
                return isinstance(native, DraftRules) and (native.in_groups or not self._target.group)
            case OpenStream() | AppendStream() | CloseStream():
                is_there = self._target.thread is not None
                return isinstance(native, StreamRules) and (is_there or not native.in_threads_only)
            case _:
                return True
