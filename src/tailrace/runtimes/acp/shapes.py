"""The messages of the Agent Client Protocol as far as they are told on: what is read of each, and what content says.

Everything else in a message is ignored, and what may be left out may be null: agents run ahead of the published schema.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.events import Event, Media

_CODES = {
    -32000: "auth_required",
    -32601: "not_supported",
    -32602: "invalid_request",
    -32603: "internal_error",
}


def within(value: Any, *path: str) -> Any:
    """What stands at a path of names; None where there is nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Update(msgspec.Struct, rename="camel", kw_only=True):
    """Anything an agent says of its session; `meta` is its own."""

    meta: Any = msgspec.field(default=None, name="_meta")

    @property
    def parent(self) -> str | None:
        """The call under which a subagent says it."""
        found = within(self.meta, "claudeCode", "parentToolUseId")
        return found if isinstance(found, str) else None


class Piece(Update, kw_only=True):
    """A piece of a message, or of a thought."""

    content: Any
    message_id: str | None = None


class Tool(Update, kw_only=True):
    """A call begins, or what has changed of it."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    content: list[Any] | None = None

    @property
    def label(self) -> str:
        """What the tool is called; where nobody says, what it is called for."""
        named = within(self.meta, "claudeCode", "toolName")
        return self.name or (named if isinstance(named, str) else "") or self.title or self.kind or "tool"

    @property
    def ends(self) -> bool:
        """Whether the call is finished, well or not."""
        return self.status in {"completed", "failed"}


class Entry(msgspec.Struct):
    """A step of a plan."""

    content: str
    status: str = "pending"


class Plan(Update, kw_only=True):
    """All the steps of a plan."""

    entries: list[Entry]


class PlanUpdate(Update, kw_only=True):
    """A plan by its id: steps, Markdown, or a file."""

    plan: Any


class Mode(Update, kw_only=True):
    """The mode the agent works in from now on."""

    current_mode_id: str


class Remark(Update, kw_only=True):
    """A notice to the person."""

    title: str
    description: str | None = None


class Option(msgspec.Struct, rename="camel"):
    """A way to answer a request for permission."""

    option_id: str
    name: str
    kind: str = ""


class PermissionRequest(msgspec.Struct, rename="camel"):
    """What the agent would do, and how it may be answered."""

    tool_call: Tool
    options: list[Option]


class Ended(msgspec.Struct, rename="camel"):
    """The answer to a prompt."""

    stop_reason: str
    usage: Any = None
    meta: Any = msgspec.field(default=None, name="_meta")


class Tokens(msgspec.Struct, rename="camel"):
    """What a prompt has cost."""

    input_tokens: int
    output_tokens: int
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def taken_in(self) -> int:
        """All that the model read; what was cached is counted apart."""
        return self.input_tokens + (self.cached_read_tokens or 0) + (self.cached_write_tokens or 0)

    @property
    def given_out(self) -> int:
        """All that it wrote; some count its thoughts apart, which only the total tells."""
        return self.output_tokens if self.total_tokens is None else max(self.total_tokens - self.taken_in, 0)


class Refusal(msgspec.Struct):
    """An error in place of a result."""

    message: str = ""
    code: int = 0
    data: Any = None


def refusal_of(error: Any) -> tuple[str, str]:
    """What an agent answers in place of a result, as a sentence and a code."""
    try:
        refusal = msgspec.convert(error, Refusal)
    except msgspec.ValidationError:
        return f"the agent refused: {error}", "agent_error"
    message = refusal.message or "the agent refused and did not say why"
    details = within(refusal.data, "details")
    said = f"{message}: {details}" if isinstance(details, str) and details not in message else message
    return said, _CODES.get(refusal.code, "agent_error")


def as_text(content: Any) -> str | None:
    """A block of content as text; None where it is none."""
    match content:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": str(uri), **rest}:
            return f"[{rest.get('title') or rest.get('name') or uri}]({uri})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
    return None


def as_media(content: Any, parent: str | None) -> Event | None:
    """A picture or a sound, by its address where it has one, else by one that holds it whole; None where it is none."""
    match content:
        case {"type": "image" | "audio", "uri": str(uri), **rest}:
            return Media(url=uri, mime=str(rest.get("mimeType", "")), parent_tool_id=parent)
        case {"type": "image" | "audio", "data": str(encoded), "mimeType": str(mime)}:
            return Media(url=f"data:{mime};base64,{encoded}", mime=mime, parent_tool_id=parent)
    return None


def said_by(content: list[Any] | None) -> str:
    """What the content of a call says; a terminal says nothing by itself."""
    said: list[str] = []
    for part in content or ():
        match part:
            case {"type": "content", "content": inner} if text := as_text(inner):
                said.append(text)
            case {"type": "diff", "path": str(path)}:
                said.append(f"Edited {path}")
    return "\n".join(said)
