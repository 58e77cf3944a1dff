"""The lines of `--output-format stream-json`, as far as they are understood: Claude's, and Qwen Code's after it.

Owns their shape. What they mean for a turn is `translator`'s to say. Only what is used is named, so that a field
that comes or goes elsewhere changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tailrace.runtimes.surrogates import decode_line


class Tokens(msgspec.Struct):
    """What was spent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def taken_in(self) -> int:
        """All that the model read. Claude counts what was cached apart; whoever gives a total does not."""
        if self.total_tokens is not None:
            return self.total_tokens - self.output_tokens
        return self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)


class Block(msgspec.Struct):
    """A block of a message, complete or as it begins."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: Any = None
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class Delta(msgspec.Struct):
    """A further piece of a block, or why a message ended."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class Message(msgspec.Struct):
    """What one side said."""

    id: str = ""
    content: str | list[Block] = []

    @property
    def blocks(self) -> list[Block]:
        """What it is made of; a plain text is one block."""
        return [Block(type="text", text=self.content)] if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """All of its text."""
        return "\n".join(block.text for block in self.blocks)


class ModelEvent(msgspec.Struct):
    """An event of the model's own stream."""

    type: str
    index: int = 0
    message: Message | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: Tokens | None = None


class StreamLine(msgspec.Struct, tag="stream_event"):
    """A piece of a message."""

    event: ModelEvent
    parent_tool_use_id: str | None = None


class AssistantLine(msgspec.Struct, tag="assistant"):
    """Blocks of a message that are complete; with `error`, what the command says in place of the model."""

    message: Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    api_error_status: int | None = None


class UserLine(msgspec.Struct, tag="user"):
    """What tools returned, and what the command tells the model in the person's name."""

    message: Message
    parent_tool_use_id: str | None = None
    tool_use_result: Any = None

    @property
    def is_launch(self) -> bool:
        """Whether a tool only returned that its work goes on in the background."""
        return isinstance(self.tool_use_result, Mapping) and self.tool_use_result.get("status") == "async_launched"


class TaskTime(msgspec.Struct):
    """How long a task has been at work."""

    duration_ms: float = 0.0


class SystemLine(msgspec.Struct, tag="system"):
    """What the command says of itself; which fields there are depends on the subtype."""

    subtype: str
    session_id: str | None = None
    model: str = ""
    status: str | None = None
    tool_use_id: str | None = None
    tool_name: str = ""
    description: str = ""
    message: str = ""
    summary: str = ""
    usage: TaskTime | None = None
    attempt: int = 0
    max_retries: int = 0
    error: str | None = None
    error_status: int | None = None


class ProgressLine(msgspec.Struct, tag="tool_progress"):
    """A tool is still at work."""

    tool_use_id: str
    elapsed_time_seconds: float = 0.0


class ResultLine(msgspec.Struct, tag="result"):
    """The model has answered, or will not."""

    subtype: str = ""
    is_error: bool = False
    result: str | None = None
    errors: list[Any] | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_error_status: int | None = None
    usage: Tokens | None = None

    @property
    def is_aborted(self) -> bool:
        """Whether somebody asked for the end; the subtype is that of an error then."""
        return (self.terminal_reason or "").startswith("aborted")

    @property
    def complaint(self) -> str:
        """What went wrong, in the command's words."""
        return self.result or "; ".join(str(error) for error in self.errors or ()) or self.subtype


Line: TypeAlias = StreamLine | AssistantLine | UserLine | SystemLine | ProgressLine | ResultLine

_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
# Each by its own tag: a union that is converted to is put together anew every time.
_SHAPES: dict[Any, type[Line]] = {
    "stream_event": StreamLine,
    "assistant": AssistantLine,
    "user": UserLine,
    "system": SystemLine,
    "tool_progress": ProgressLine,
    "result": ResultLine,
}


def understood(line: bytes | Mapping[str, Any]) -> Line | None:
    """The line, given as JSON or as what that says; None where it is none of these."""
    try:
        return decode_line(line, _decoder) if isinstance(line, bytes) else msgspec.convert(line, _SHAPES[line["type"]])
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, TypeError):
        return None


def readable(line: bytes | Mapping[str, Any]) -> Any:
    """A line that was not understood, for whoever looks: as JSON if it is that, else as text."""
    if not isinstance(line, bytes):
        return line
    try:
        return decode_line(line, _anything)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line.decode(errors="replace")


def kind_of(line: Any) -> str:
    """By what a line calls itself one may know it again."""
    if not isinstance(line, Mapping):
        return "no line"
    kind, subtype = line.get("type"), line.get("subtype")
    return f"{kind}/{subtype}" if kind == "system" else str(kind)


def shown(content: Any) -> str:
    """What a tool returned, as text; a picture or a file is only named."""
    if isinstance(content, str) or content is None:
        return content or ""
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(_shown_block(block) for block in blocks)


def _shown_block(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return str(block)
