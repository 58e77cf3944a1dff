"""What opencode says, as far as it is understood: the events of its server, the lines of `run`, and parts of messages.

Owns their shape. What they mean for a turn is for the translators to say. Only what is used is named, so that a field
that comes or goes elsewhere changes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field


class Time(msgspec.Struct):
    """When a part began, and when it was complete."""

    end: float | None = None


class State(msgspec.Struct):
    """How a call stands; `metadata` is the tool's own."""

    status: str
    input: Any = None
    output: Any = ""
    error: str = ""
    metadata: dict[str, Any] = {}


class Cache(msgspec.Struct):
    """Tokens that were read from a cache, or written to one."""

    read: int = 0
    write: int = 0


class Tokens(msgspec.Struct):
    """What a model call has spent; what was cached, and what was thought, is counted apart."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: Cache = field(default_factory=Cache)


class Part(msgspec.Struct):
    """A part of a message; which fields count depends on the type."""

    id: str
    type: str
    message_id: str = field(name="messageID", default="")
    text: str = ""
    synthetic: bool = False
    ignored: bool = False
    time: Time | None = None
    metadata: Any = None
    tool: str = ""
    call_id: str = field(name="callID", default="")
    state: State | None = None
    reason: str = ""
    tokens: Tokens | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all of it has been said."""
        return self.time is not None and self.time.end is not None


class Details(msgspec.Struct):
    """More of a failure."""

    message: str = ""
    status_code: int | None = field(name="statusCode", default=None)


class Failure(msgspec.Struct):
    """What failed."""

    name: str
    data: Details = field(default_factory=Details)

    @property
    def is_abort(self) -> bool:
        """Whether nothing failed, but somebody asked for an end."""
        return self.name == "MessageAbortedError"

    @property
    def message(self) -> str:
        """Why, in words."""
        return self.data.message or self.name


# The events of the server


class Said(msgspec.Struct, kw_only=True):
    """What an event tells, and of which session; not all are of one."""

    session_id: str | None = field(name="sessionID", default=None)


class PartSaid(Said, kw_only=True):
    """A part as it is now."""

    part: Part


class Piece(Said, kw_only=True):
    """More of a part."""

    part_id: str = field(name="partID")
    field: str
    delta: str


class Message(msgspec.Struct):
    """Who says something, and what became of it."""

    id: str
    role: str = ""
    error: Failure | None = None


class MessageSaid(Said, kw_only=True):
    """A message as it is now, without its parts."""

    info: Message


class Session(msgspec.Struct):
    """A session; one of a subagent has a parent."""

    id: str
    parent_id: str | None = field(name="parentID", default=None)


class SessionSaid(Said, kw_only=True):
    """A session as it is now."""

    info: Session


class Status(msgspec.Struct):
    """What a session is at."""

    type: str
    message: str = ""


class StatusSaid(Said, kw_only=True):
    """What a session is at has changed."""

    status: Status


class ErrorSaid(Said, kw_only=True):
    """Something failed for good."""

    error: Failure | None = None


class Todo(msgspec.Struct):
    """A step of a plan."""

    content: str
    status: str


class TodosSaid(Said, kw_only=True):
    """The plan as it stands."""

    todos: list[Todo]


class PermissionAsked(Said, kw_only=True):
    """A tool wants to be allowed something."""

    id: str
    permission: str
    patterns: list[str] = []
    metadata: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """What it is about, in a line: the command as it is, where it is one."""
        command = self.metadata.get("command")
        return f"{self.permission} {command if isinstance(command, str) else ', '.join(self.patterns)}".strip()


class QuestionAsked(Said, kw_only=True):
    """The agent wants to know something of the person."""

    id: str


# The lines of `run`


class Line(msgspec.Struct):
    """A line of `run --format json`."""

    type: str
    session_id: str = field(name="sessionID", default="")
    part: Part | None = None
    error: Failure | None = None
