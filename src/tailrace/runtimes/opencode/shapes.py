"""The output of opencode as far as it is used: the events of its server, the lines of `run`, and parts of messages.

This module owns their fields; the translators own their meaning. Only fields that are used are named, so that changes
of other fields do no harm.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field


class _PartTime(msgspec.Struct):
    """When a part was complete; `end` is None before that."""

    end: float | None = None


class _CallState(msgspec.Struct):
    """The state of a tool call. Each tool defines its own `metadata`."""

    status: str
    input: Any = None
    output: Any = ""
    error: str = ""
    metadata: dict[str, Any] = {}


class _CacheTokens(msgspec.Struct):
    """Tokens that were read from a cache, or written to one."""

    read: int = 0
    write: int = 0


class _StepTokens(msgspec.Struct):
    """The tokens of a model call. `input` does not include cached tokens, `output` does not include reasoning."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _CacheTokens = field(default_factory=_CacheTokens)


class OpencodePart(msgspec.Struct):
    """A part of a message: text, reasoning, a tool call or a step. The type decides which fields are set."""

    id: str
    type: str
    message_id: str = field(name="messageID", default="")
    text: str = ""
    synthetic: bool = False
    ignored: bool = False
    time: _PartTime | None = None
    metadata: Any = None
    tool: str = ""
    call_id: str = field(name="callID", default="")
    state: _CallState | None = None
    reason: str = ""
    tokens: _StepTokens | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the part is complete."""
        return self.time is not None and self.time.end is not None


class _ErrorDetails(msgspec.Struct):
    message: str = ""
    status_code: int | None = field(name="statusCode", default=None)


class OpencodeError(msgspec.Struct):
    """An error that opencode reports."""

    name: str
    data: _ErrorDetails = field(default_factory=_ErrorDetails)

    @property
    def is_abort(self) -> bool:
        """Whether the error only says that the turn was aborted on request."""
        return self.name == "MessageAbortedError"

    @property
    def message(self) -> str:
        """The reason of the error, in words; its name if it has no text."""
        return self.data.message or self.name


# The events of the server


class BusEvent(msgspec.Struct, kw_only=True):
    """The base of the server's events. `session_id` is the session that an event is about; some events name none."""

    session_id: str | None = field(name="sessionID", default=None)


class PartUpdated(BusEvent, kw_only=True):
    """A part of a message has changed; this is its whole current state."""

    part: OpencodePart


class PartDelta(BusEvent, kw_only=True):
    """A piece of a part: `delta` is appended to the field `field`."""

    part_id: str = field(name="partID")
    field: str
    delta: str


class _Message(msgspec.Struct):
    """A message: who wrote it (`role`), and its error, if any."""

    id: str
    role: str = ""
    error: OpencodeError | None = None


class MessageUpdated(BusEvent, kw_only=True):
    """A message has changed; this is its current state, without its parts."""

    info: _Message


class _Session(msgspec.Struct):
    """A session. The session of a subagent has a parent."""

    id: str
    parent_id: str | None = field(name="parentID", default=None)


class SessionUpdated(BusEvent, kw_only=True):
    """A session has changed; this is its current state."""

    info: _Session


class _SessionState(msgspec.Struct):
    type: str
    message: str = ""


class StatusUpdated(BusEvent, kw_only=True):
    """The state of a session has changed, for example to `idle` or `retry`."""

    status: _SessionState


class SessionError(BusEvent, kw_only=True):
    """The turn of a session has failed, and is not tried again."""

    error: OpencodeError | None = None


class _Todo(msgspec.Struct):
    content: str
    status: str


class TodosUpdated(BusEvent, kw_only=True):
    """The agent's plan has changed; `todos` has all its steps."""

    todos: list[_Todo]


class PermissionAsked(BusEvent, kw_only=True):
    """A tool asks for permission."""

    id: str
    permission: str
    patterns: list[str] = []
    metadata: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """What is asked, in one line: the name of the permission, and its subject, for example the command."""
        command = self.metadata.get("command")
        return f"{self.permission} {command if isinstance(command, str) else ', '.join(self.patterns)}".strip()


class QuestionAsked(BusEvent, kw_only=True):
    """The agent asks the person a question."""

    id: str


# The lines of `run`


class RunLine(msgspec.Struct):
    """A line of `run --format json`."""

    type: str
    session_id: str = field(name="sessionID", default="")
    part: OpencodePart | None = None
    error: OpencodeError | None = None
