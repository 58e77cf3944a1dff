"""The messages of the Agent Client Protocol: the fields that we read, and the text of their content.

Other fields are ignored, and every optional field may be null, because agents are newer than the published schema.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.events import Event, Media

_CODES = {-32000: "auth_required", -32601: "not_supported", -32602: "invalid_request", -32603: "internal_error"}


def at_path(value: Any, *path: str) -> Any:
    """Follow names through nested objects: `at_path(value, "a", "b")` is `value["a"]["b"]`. None if it is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class SessionUpdate(msgspec.Struct, rename="camel", kw_only=True):
    """Any report of an agent about its session. `meta` holds fields that only this agent defines."""

    meta: Any = msgspec.field(default=None, name="_meta")

    @property
    def parent(self) -> str | None:
        """The id of the tool call that runs the subagent which sent this report; None for the agent itself."""
        found = at_path(self.meta, "claudeCode", "parentToolUseId")
        return found if isinstance(found, str) else None


class ContentChunk(SessionUpdate, kw_only=True):
    """A piece of a message of the agent, or of its reasoning."""

    content: Any
    message_id: str | None = None


class ToolUpdate(SessionUpdate, kw_only=True):
    """A tool call starts, or some fields of a known call have changed; all other fields are None."""

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
        """The tool's name; if there is none, its title."""
        named = at_path(self.meta, "claudeCode", "toolName")
        return self.name or (named if isinstance(named, str) else "") or self.title or self.kind or "tool"

    @property
    def is_finished(self) -> bool:
        """Whether the tool call has ended, with or without success."""
        return self.status in {"completed", "failed"}


class _PlanEntry(msgspec.Struct):
    content: str
    status: str = "pending"


class AcpPlan(SessionUpdate, kw_only=True):
    """The current plan of the agent, with all its steps."""

    entries: list[_PlanEntry]


class PlanUpdate(SessionUpdate, kw_only=True):
    """One of several plans. Its content is a list of steps, a Markdown text, or the address of a file."""

    plan: Any


class ModeUpdate(SessionUpdate, kw_only=True):
    """The agent works in another mode from now on."""

    current_mode_id: str


class NoticeUpdate(SessionUpdate, kw_only=True):
    """A notice of the agent for the person."""

    title: str
    description: str | None = None


class _PermissionOption(msgspec.Struct, rename="camel"):
    """One of the possible answers to a request for permission."""

    option_id: str
    name: str
    kind: str = ""


class PermissionRequest(msgspec.Struct, rename="camel"):
    """The agent asks for permission to make a tool call. `options` are the possible answers."""

    tool_call: ToolUpdate
    options: list[_PermissionOption]


class PromptResult(msgspec.Struct, rename="camel"):
    """The response to a prompt: why the agent stopped, and the tokens that it used."""

    stop_reason: str
    usage: Any = None
    meta: Any = msgspec.field(default=None, name="_meta")


class AcpUsage(msgspec.Struct, rename="camel"):
    """The tokens that the agent used for a prompt."""

    input_tokens: int
    output_tokens: int
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def all_input_tokens(self) -> int:
        """All tokens that the model read. Agents do not include cached tokens in `input_tokens`, so these are added."""
        return self.input_tokens + (self.cached_read_tokens or 0) + (self.cached_write_tokens or 0)

    @property
    def all_output_tokens(self) -> int:
        """All tokens that the model wrote, with reasoning.

        Some agents do not include reasoning in `output_tokens`, so this is computed from the total if the agent sends
        one.
        """
        return self.output_tokens if self.total_tokens is None else max(self.total_tokens - self.all_input_tokens, 0)


class _ErrorResponse(msgspec.Struct):
    """The error with which an agent responds to a request, in place of a result."""

    message: str = ""
    code: int = 0
    data: Any = None


def error_text_and_code(error: Any) -> tuple[str, str]:
    """Read the error with which an agent responded. Returns a sentence for people, and a code."""
    try:
        refusal = msgspec.convert(error, _ErrorResponse)
    except msgspec.ValidationError:
        return f"the agent refused: {error}", "agent_error"
    message = refusal.message or "the agent refused and gave no reason"
    details = at_path(refusal.data, "details")
    message = f"{message}: {details}" if isinstance(details, str) and details not in message else message
    return message, _CODES.get(refusal.code, "agent_error")


def content_text(content: Any) -> str | None:
    """A content block as text; None if it is not text."""
    match content:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": str(uri), **rest}:
            return f"[{rest.get('title') or rest.get('name') or uri}]({uri})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
    return None


def content_media(content: Any, parent: str | None) -> Event | None:
    """An image or a sound, by its URL or as a data URL; None for other content."""
    match content:
        case {"type": "image" | "audio", "uri": str(uri), **rest}:
            return Media(url=uri, mime=str(rest.get("mimeType", "")), parent_tool_id=parent)
        case {"type": "image" | "audio", "data": str(encoded), "mimeType": str(mime)}:
            return Media(url=f"data:{mime};base64,{encoded}", mime=mime, parent_tool_id=parent)
    return None


def tool_content_text(content: list[Any] | None) -> str:
    """The content of a tool call as text. An edited file becomes "Edited PATH"; terminal output is left out."""
    texts: list[str] = []
    for part in content or ():
        match part:
            case {"type": "content", "content": inner} if text := content_text(inner):
                texts.append(text)
            case {"type": "diff", "path": str(path)}:
                texts.append(f"Edited {path}")
    return "\n".join(texts)
