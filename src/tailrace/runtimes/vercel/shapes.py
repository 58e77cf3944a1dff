"""The fields of the AI SDK's UI message stream, versions 5 to 7, that the translator reads."""

from __future__ import annotations

from typing import Any

import msgspec


class BlockChunk(msgspec.Struct, rename="camel"):
    """A text block or reasoning block starts, continues or ends. Each chunk may have provider metadata."""

    id: str
    delta: str = ""
    provider_metadata: Any = None


class ToolChunk(msgspec.Struct, rename="camel"):
    """A tool call: it starts, its input is complete or invalid, it has an output, or it has failed."""

    tool_call_id: str
    tool_name: str = ""
    input: Any = None
    output: Any = None
    error_text: str = ""
    preliminary: bool = False


class ToolApprovalRequest(msgspec.Struct, rename="camel"):
    """A tool call waits for approval, unless a rule approves it automatically."""

    approval_id: str
    tool_call_id: str
    is_automatic: bool = False


class ToolApprovalResponse(msgspec.Struct, rename="camel"):
    """A tool call was approved or denied, with a reason or without one."""

    approval_id: str
    reason: str = ""


class FileChunk(msgspec.Struct, rename="camel"):
    """A file that belongs to the answer."""

    url: str
    media_type: str = ""


class SourceChunk(msgspec.Struct):
    """A web page or document that the answer is based on."""

    title: str = ""
    url: str = ""


class StreamError(msgspec.Struct, rename="camel"):
    """The answer has failed."""

    error_text: Any = ""


class _AnswerUsage(msgspec.Struct, rename="camel"):
    input_tokens: int
    output_tokens: int


class _Metadata(msgspec.Struct, rename="camel"):
    total_usage: _AnswerUsage | None = None
    usage: _AnswerUsage | None = None


class MessageChunk(msgspec.Struct, rename="camel"):
    """The answer starts or ends, or gets metadata, which each application defines itself."""

    finish_reason: Any = ""
    message_metadata: Any = None

    @property
    def usage(self) -> _AnswerUsage | None:
        """The tokens, if the application sends them in the metadata as the SDK's documentation shows."""
        try:
            metadata = msgspec.convert(self.message_metadata, _Metadata)
        except msgspec.ValidationError:
            return None
        return metadata.total_usage or metadata.usage
