"""The lines of `--output-format stream-json` as far as they are used. Claude and Qwen Code have the same format.

This module owns their fields; `translator` owns their meaning. Only fields that are used are named, so that changes of
other fields do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tailrace.surrogates import decode_line


class _Usage(msgspec.Struct):
    """The tokens that a model call used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def all_input_tokens(self) -> int:
        """All tokens that the model read.

        Claude does not include cached tokens in `input_tokens`, so they are added. Agents that send a total include
        them.
        """
        if self.total_tokens is not None:
            return self.total_tokens - self.output_tokens
        return self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)


class ContentBlock(msgspec.Struct):
    """A block of a message (text, reasoning or tool call): in its complete form, or in the form in which it starts."""

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


class BlockDelta(msgspec.Struct):
    """A piece of a block. At the end of a message, the reason why it ended."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    """A message from the model, or a message to the model."""

    id: str = ""
    content: str | list[ContentBlock] = []

    @property
    def blocks(self) -> list[ContentBlock]:
        """The content as blocks. A plain text is one block."""
        return [ContentBlock(type="text", text=self.content)] if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """All text of the message."""
        return "\n".join(block.text for block in self.blocks)


class ModelEvent(msgspec.Struct):
    """An event of the model's own stream, which the command passes on."""

    type: str
    index: int = 0
    message: _Message | None = None
    content_block: ContentBlock | None = None
    delta: BlockDelta | None = None
    usage: _Usage | None = None


class StreamLine(msgspec.Struct, tag="stream_event"):
    """A line with a piece of a message."""

    event: ModelEvent
    parent_tool_use_id: str | None = None


class AssistantLine(msgspec.Struct, tag="assistant"):
    """A line with complete blocks of a message. If `error` is set, the command wrote the text, not the model."""

    message: _Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    api_error_status: int | None = None


class UserLine(msgspec.Struct, tag="user"):
    """A line with tool results, or with a message that the command sends to the model in the user's name."""

    message: _Message
    parent_tool_use_id: str | None = None
    tool_use_result: Any = None

    @property
    def is_background_launch(self) -> bool:
        """Whether the tool result only says that the tool continues in the background."""
        return isinstance(self.tool_use_result, Mapping) and self.tool_use_result.get("status") == "async_launched"


class _TaskUsage(msgspec.Struct):
    """How long a background task has run."""

    duration_ms: float = 0.0


class SystemLine(msgspec.Struct, tag="system"):
    """A line in which the command reports about itself. The subtype decides which fields it has."""

    subtype: str
    session_id: str | None = None
    model: str = ""
    status: str | None = None
    tool_use_id: str | None = None
    tool_name: str = ""
    description: str = ""
    message: str = ""
    summary: str = ""
    usage: _TaskUsage | None = None
    attempt: int = 0
    max_retries: int = 0
    error: str | None = None
    error_status: int | None = None


class ProgressLine(msgspec.Struct, tag="tool_progress"):
    """A line that says that a tool is still running."""

    tool_use_id: str
    elapsed_time_seconds: float = 0.0


class ResultLine(msgspec.Struct, tag="result"):
    """The last line of an answer: the model has answered, or cannot answer."""

    subtype: str = ""
    is_error: bool = False
    result: str | None = None
    errors: list[Any] | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_error_status: int | None = None
    usage: _Usage | None = None

    @property
    def is_aborted(self) -> bool:
        """Whether the turn was stopped on request. Claude reports this with an error subtype, too."""
        return (self.terminal_reason or "").startswith("aborted")

    @property
    def error_text(self) -> str:
        """The error as the command describes it."""
        return self.result or "; ".join(str(error) for error in self.errors or ()) or self.subtype


ClaudeLine: TypeAlias = StreamLine | AssistantLine | UserLine | SystemLine | ProgressLine | ResultLine

_decoder: msgspec.json.Decoder[ClaudeLine] = msgspec.json.Decoder(ClaudeLine)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
# The class is found by the tag, because msgspec analyses a union again in each `convert`.
_SHAPES: dict[Any, type[ClaudeLine]] = {
    "stream_event": StreamLine,
    "assistant": AssistantLine,
    "user": UserLine,
    "system": SystemLine,
    "tool_progress": ProgressLine,
    "result": ResultLine,
}


def parse_line(line: bytes | Mapping[str, Any]) -> ClaudeLine | None:
    """Parse a line of output, given as JSON text or as a decoded object. None for an unknown or invalid line."""
    try:
        return decode_line(line, _decoder) if isinstance(line, bytes) else msgspec.convert(line, _SHAPES[line["type"]])
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, TypeError):
        return None


def raw_line(line: bytes | Mapping[str, Any]) -> Any:
    """A line that could not be parsed, to show it in a notice: the decoded JSON, or the text if it is not JSON."""
    if not isinstance(line, bytes):
        return line
    try:
        return decode_line(line, _anything)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line.decode(errors="replace")


def line_kind(line: Any) -> str:
    """The kind of a line that is not known. Each kind is reported only once."""
    if not isinstance(line, Mapping):
        return "no line"
    kind, subtype = line.get("type"), line.get("subtype")
    return f"{kind}/{subtype}" if kind == "system" else str(kind)


def result_text(content: Any) -> str:
    """The result of a tool as text. Of an image or a file, only the kind is named."""
    if isinstance(content, str) or content is None:
        return content or ""
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(_block_text(block) for block in blocks)


def _block_text(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return str(block)
