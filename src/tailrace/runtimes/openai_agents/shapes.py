"""The fields of the SDK's events that the translator reads.

Raw events come from the model and have the form of the OpenAI Responses API, also for other providers. Items are the
SDK's own form of messages and tool calls.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.sdk import json_or_text

# Calls that the provider makes itself. Such a call ends with its own item, and no output item follows.
_HOSTED = {"code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "web_search_call"}


class _ContentPart(msgspec.Struct):
    """A part of a message, or a section of reasoning."""

    text: str = ""
    refusal: str = ""


class ResponseItem(msgspec.Struct):
    """An item of a model's response: a message, reasoning, or a tool call of any kind."""

    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    status: str | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    operation: Any = None
    code: Any = None
    queries: Any = None
    output: Any = None
    error: Any = None
    encrypted_content: str | None = None
    content: list[_ContentPart] | None = None
    summary: list[_ContentPart] = []

    @property
    def is_call(self) -> bool:
        """Whether the item is a tool call of any kind."""
        return self.type.endswith("_call")

    @property
    def is_hosted(self) -> bool:
        """Whether the item is a call of a tool that the provider runs itself, such as a web search."""
        return self.type in _HOSTED

    @property
    def call_key(self) -> str:
        """What identifies a tool call, or the output of one: an id, or the type if this kind of call has no id."""
        return self.call_id or self.id or self.type

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.name or self.type.removesuffix("_call")

    @property
    def parameters(self) -> Any:
        """The arguments of a tool call. Each kind of call has them in another field."""
        given = (self.arguments, self.input, self.action, self.operation, self.code, self.queries)
        return json_or_text(next((value for value in given if value is not None), None))


class ItemEvent(msgspec.Struct):
    """An item starts or is complete."""

    item: ResponseItem
    output_index: int


class DeltaEvent(msgspec.Struct):
    """A piece of a text or of reasoning. Reasoning comes in sections."""

    delta: str
    output_index: int
    content_index: int = 0
    summary_index: int = 0


class ProviderError(msgspec.Struct):
    """An error that the provider reports."""

    message: str = ""
    code: str | None = None
    reason: str = ""


class _RequestUsage(msgspec.Struct):
    input_tokens: int
    output_tokens: int


class _ModelResponse(msgspec.Struct):
    """The result of a model call: its error, if any, and its tokens."""

    error: ProviderError | None = None
    incomplete_details: ProviderError | None = None
    usage: _RequestUsage | None = None


class ResponseEvent(msgspec.Struct):
    """A model call starts or ends."""

    response: _ModelResponse


class RunItem(msgspec.Struct):
    """An item of the SDK: a part of a complete response, or the output of a tool call."""

    raw_item: ResponseItem
    output: Any = None
