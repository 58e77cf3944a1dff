"""What passes between callers and a simulated platform, and what is reported of it: values, and nothing else.

A `Request` is an operation with its key; what comes back is an `Answer`, of which a caller sees what the `Reply` lets
through. A test tells a platform process what to do by a `Control`, and gets an `PlatformReport`.
`tailrace.testing.platform` acts on them, `tailrace.testing.platform_process` sends them as lines of JSON.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities, Idempotency, Keyed, Rate, Readback, Repeatable, Unkeyed
from tailrace.operations import Body, Operation, Target, Task
from tailrace.testing.faults import Rule

NOT_MODIFIED, WRONG, GONE, NOT_STREAMING, TOO_LONG, TOO_MANY = 304, 400, 404, 409, 413, 429


class Find(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="find"):
    """Which message was posted with the request's key?"""

    target: Target


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call. `scope` is what its key is bound to besides the chat: the account or device that makes it."""

    operation: Operation | Find
    key: str = ""
    scope: str = ""


class Done(msgspec.Struct, frozen=True, tag_field="answer", tag="done"):
    """It is so; the id of the message, where it is about one."""

    message_id: str = ""


class Absent(msgspec.Struct, frozen=True, tag_field="answer", tag="absent"):
    """No message with that key is seen."""


class Denied(msgspec.Struct, frozen=True, tag_field="answer", tag="denied", omit_defaults=True):
    """It was not done, by its status; `retry_after` is the header as it stands."""

    status: int
    reason: str
    retry_after: float | str | None = None
    everywhere: bool = False


Answer: TypeAlias = Done | Absent | Denied
Ending: TypeAlias = Literal["whole", "cut", "reset", "never", "unreachable"]


class Reply(msgspec.Struct, frozen=True):
    """What comes back: an answer, how much of it, and after how many seconds."""

    answer: Answer
    ending: Ending = "whole"
    delay_s: float = 0.0


class PlatformMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as people see it. `edits` counts what changed it, `streaming` is true while it grows.

    `tasks` are the steps a stream shows beside its text, each in its latest state.
    """

    message_id: str
    chat: str
    body: Body
    at: float
    thread: str | None = None
    key: str = ""
    media: str = ""
    edits: int = 0
    deleted: bool = False
    streaming: bool = False
    tasks: tuple[Task, ...] = ()

    @property
    def text(self) -> str:
        """What it says."""
        return self.body.text


class MessageVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A message as people saw it from a time on."""

    at: float
    message: PlatformMessage


class ShownDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft as people saw it from a time on, and until when."""

    chat: str
    thread: str | None
    draft_id: int
    body: Body
    at: float
    until: float

    @property
    def text(self) -> str:
        """What it says."""
        return self.body.text


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call as it was made: `fault` is the tag of what befell it."""

    kind: str
    chat: str
    at: float
    key: str = ""
    fault: str = ""


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """Something a well-behaved caller does not do."""

    about: Literal["pace", "size", "key"]
    chat: str
    at: float
    detail: str


class AddFaults(msgspec.Struct, frozen=True, tag_field="control", tag="faults"):
    """Put rules behind those that stand."""

    rules: tuple[Rule, ...]


class ClearFaults(msgspec.Struct, frozen=True, tag_field="control", tag="clear_faults"):
    """No call fails from now on."""


class Clear(msgspec.Struct, frozen=True, tag_field="control", tag="clear"):
    """Forget what people saw and what callers did."""


class Show(msgspec.Struct, frozen=True, tag_field="control", tag="show"):
    """Tell what people see and what callers did, once there are so many messages and so many calls were made.

    With a `chat` the messages are counted and told of that chat alone; `kind` is the kind of calls that are counted.
    """

    messages: int = 0
    calls: int = 0
    chat: str | None = None
    kind: str | None = None


class SetPort(msgspec.Struct, frozen=True, tag_field="control", tag="port"):
    """Let callers in, or refuse every connection as a closed port does."""

    open: bool


Control: TypeAlias = AddFaults | ClearFaults | Clear | Show | SetPort


class PlatformReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the platform knows: its messages, how often it was called for what, and the rules that still stand.

    Only `Show` is answered with it; whatever else is asked is answered by an empty one, or by the problem with it.
    """

    messages: list[PlatformMessage] = []
    counts: dict[str, int] = {}
    calls: list[CallRecord] = []
    complaints: list[Complaint] = []
    unspent: tuple[Rule, ...] = ()
    problem: str = ""


def capabilities_of(kind: str, *, per_chat: Rate | None = None, limit: int = 4096) -> Capabilities:
    """The capabilities of a simulated platform by one word: `keyed`, `readback`, `repeatable` or `unkeyed`.

    `keyed:60` keeps keys for 60 seconds (300 unless told), `readback:2` shows a message 2 seconds after its post.
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
