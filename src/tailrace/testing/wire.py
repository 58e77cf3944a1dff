"""The values that callers and tests exchange with a simulated platform.

A caller sends a `Request`, which is an operation with its key, and gets a `Reply`: an `Answer`, and how much of it
arrives. A test sends a `Control` to a platform process and gets a `PlatformReport`. `tailrace.testing.platform` acts on
them; `tailrace.testing.platform_process` sends them as lines of JSON.
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
    """The call succeeded; the id of the message, if the call is about one."""

    message_id: str = ""


class Absent(msgspec.Struct, frozen=True, tag_field="answer", tag="absent"):
    """People see no message with that key."""


class Denied(msgspec.Struct, frozen=True, tag_field="answer", tag="denied", omit_defaults=True):
    """The call was refused with this status; `retry_after` is the unchanged header."""

    status: int
    reason: str
    retry_after: float | str | None = None
    everywhere: bool = False


Answer: TypeAlias = Done | Absent | Denied
Ending: TypeAlias = Literal["whole", "cut", "reset", "never", "unreachable"]


class Reply(msgspec.Struct, frozen=True):
    """An answer, how much of it arrives, and after how many seconds."""

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
        """The text."""
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
        """The text."""
        return self.body.text


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that was made; `fault` is the tag of the fault that was applied to it."""

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
    """Add rules after those that are there."""

    rules: tuple[Rule, ...]


class ClearFaults(msgspec.Struct, frozen=True, tag_field="control", tag="clear_faults"):
    """Remove all rules: no call fails from now on."""


class Clear(msgspec.Struct, frozen=True, tag_field="control", tag="clear"):
    """Forget what people saw and what callers did."""


class Show(msgspec.Struct, frozen=True, tag_field="control", tag="show"):
    """Report what people see and what callers did, once there are at least so many messages and calls.

    With a `chat` only the messages of that chat are counted and reported; `kind` is the kind of calls that are counted.
    """

    messages: int = 0
    calls: int = 0
    chat: str | None = None
    kind: str | None = None


class SetPort(msgspec.Struct, frozen=True, tag_field="control", tag="port"):
    """Accept connections, or refuse them as a closed port does."""

    open: bool


Control: TypeAlias = AddFaults | ClearFaults | Clear | Show | SetPort


class PlatformReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The messages, the number of calls by kind, the calls, the complaints, and the rules that are not used up.

    Only the answer to `Show` has these. The answer to any other control is empty, or has only the `problem` with it.
    """

    messages: list[PlatformMessage] = []
    counts: dict[str, int] = {}
    calls: list[CallRecord] = []
    complaints: list[Complaint] = []
    unspent: tuple[Rule, ...] = ()
    problem: str = ""


def capabilities_of(kind: str, *, per_chat: Rate | None = None, limit: int = 4096) -> Capabilities:
    """The capabilities of a simulated platform by one word: `keyed`, `readback`, `repeatable` or `unkeyed`.

    `keyed:60` keeps keys for 60 seconds (default 300), `readback:2` shows a message 2 seconds after its post.
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
