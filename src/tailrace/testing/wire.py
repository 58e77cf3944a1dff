"""The messages of a simulated platform, as values.

A channel sends a `Request` or a `Poll` and gets an `Answer`. A `Reply` has the platform's answer, and says how much of
it the channel gets. A test sends a `Control` to a platform process and gets a `PlatformReport`.
`tailrace.testing.platform` makes the answers, `tailrace.testing.platform_process` sends them as lines of JSON.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities, Idempotency, Keyed, Rate, Readback, Repeatable, Unkeyed
from tailrace.inbound import Inbound
from tailrace.operations import Body, Operation, Target, Task
from tailrace.testing.faults import Rule

NOT_MODIFIED, WRONG, NO_ACCESS, GONE, NOT_STREAMING, TOO_LONG, TOO_MANY = 304, 400, 401, 404, 409, 413, 429


class Find(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="find"):
    """Look up the message that was sent with the key of the `Request`."""

    target: Target


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="acknowledge"):
    """Show a short text to the person who pressed a button. `event_id` is the id of the press."""

    target: Target
    event_id: str
    text: str


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="request", tag="call"):
    """One call of a channel. Its key counts only in `scope`, the account or device that makes the call."""

    operation: Operation | Find | Acknowledge
    key: str = ""
    scope: str = ""


class Poll(msgspec.Struct, frozen=True, tag_field="request", tag="poll"):
    """Ask for the next event, something that a person did. The platform may forget the events up to `taken`."""

    taken: int = 0


class Done(msgspec.Struct, frozen=True, tag_field="answer", tag="done"):
    """The call succeeded. `message_id` is the message that it created or changed, if any."""

    message_id: str = ""


class Absent(msgspec.Struct, frozen=True, tag_field="answer", tag="absent"):
    """There is no message with that key."""


class Denied(msgspec.Struct, frozen=True, tag_field="answer", tag="denied", omit_defaults=True):
    """The platform refused the call, or failed. After a status 5xx other than 503 the call may have been performed.

    `retry_after` is the header as the platform wrote it.
    """

    status: int
    reason: str
    retry_after: float | str | None = None
    everywhere: bool = False


class Arrived(msgspec.Struct, frozen=True, tag_field="answer", tag="arrived"):
    """An event, something that a person did, and its number. Later events have higher numbers."""

    number: int
    inbound: Inbound


Answer: TypeAlias = Done | Absent | Denied | Arrived
Ending: TypeAlias = Literal["whole", "cut", "reset", "never", "unreachable"]


class Reply(msgspec.Struct, frozen=True):
    """The platform's answer to a call, how much of the answer the channel gets, and after how many seconds."""

    answer: Answer
    ending: Ending = "whole"
    delay_s: float = 0.0


class PlatformMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as people see it. `edits` counts its changes; `streaming` is true while its stream is open.

    `tasks` are the steps that a stream shows beside its text, each in its latest state.
    """

    message_id: str
    chat: str
    body: Body
    at: float
    thread: str | None = None
    reply_to: str | None = None
    key: str = ""
    media: str = ""
    edits: int = 0
    deleted: bool = False
    streaming: bool = False
    tasks: tuple[Task, ...] = ()

    @property
    def text(self) -> str:
        """The text that people see."""
        return self.body.text


class MessageVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A message as people saw it from the time `at` until its next version."""

    at: float
    message: PlatformMessage


class ShownDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft as people saw it from the time `at` to the time `until`."""

    chat: str
    thread: str | None
    draft_id: int
    body: Body
    at: float
    until: float

    @property
    def text(self) -> str:
        """The text that people see."""
        return self.body.text


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that the platform got. `fault` is the tag of the fault that applied to it."""

    kind: str
    chat: str
    at: float
    key: str = ""
    fault: str = ""


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake of a caller: the call was too early or too long, or its key was used before for other content."""

    about: Literal["pace", "size", "key"]
    chat: str
    at: float
    detail: str


class AddFaults(msgspec.Struct, frozen=True, tag_field="control", tag="faults"):
    """Tell the platform to add rules for faults after the existing ones."""

    rules: tuple[Rule, ...]


class ClearFaults(msgspec.Struct, frozen=True, tag_field="control", tag="clear_faults"):
    """Tell the platform to remove all rules for faults."""


class AddInbound(msgspec.Struct, frozen=True, tag_field="control", tag="inbound"):
    """Let people do something on the platform, such as write a message. The channel then receives these events."""

    events: tuple[Inbound, ...]


class Clear(msgspec.Struct, frozen=True, tag_field="control", tag="clear"):
    """Tell the platform to forget all messages, events and calls."""


class Show(msgspec.Struct, frozen=True, tag_field="control", tag="show"):
    """Ask a simulated platform for a report of its messages and of the calls that it received.

    The platform answers when it has at least `messages` messages and `calls` calls. If `chat` is set, only messages of
    that chat count and are reported; if `kind` is set, only calls of that kind count.
    """

    messages: int = 0
    calls: int = 0
    chat: str | None = None
    kind: str | None = None


class SetPort(msgspec.Struct, frozen=True, tag_field="control", tag="port"):
    """Tell the platform process to accept connections, or to refuse all connections like a closed port."""

    open: bool


Control: TypeAlias = AddFaults | ClearFaults | AddInbound | Clear | Show | SetPort


class PlatformReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The messages and calls of a platform, and the rules for faults that may still apply.

    Only the answer to `Show` has these. The answer to any other control is empty, or has only a `problem`.
    """

    messages: list[PlatformMessage] = []
    counts: dict[str, int] = {}
    calls: list[CallRecord] = []
    complaints: list[Complaint] = []
    acknowledged: list[Acknowledge] = []
    unspent: tuple[Rule, ...] = ()
    problem: str = ""


def capabilities_of(kind: str, *, per_chat: Rate | None = None, limit: int = 4096) -> Capabilities:
    """The capabilities of a simulated platform. `kind` is `keyed`, `readback`, `repeatable` or `unkeyed`.

    The kind may have a number: `keyed:60` keeps keys for 60 seconds (the default is 300), `readback:2` lets a lookup
    find a message 2 seconds after its post.
    """
    name, _, seconds = kind.partition(":")
    idempotency: dict[str, Idempotency] = {
        "keyed": Keyed(window_s=float(seconds or 300.0)),
        "readback": Readback(visible_within_s=float(seconds or 0.0)),
        "repeatable": Repeatable(),
        "unkeyed": Unkeyed(),
    }
    if name not in idempotency:
        raise ValueError(f"there is no platform of the kind {name!r}: use one of {', '.join(idempotency)}")
    return Capabilities(idempotency=idempotency[name], per_chat=per_chat, limit=limit)
