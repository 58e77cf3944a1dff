"""What the translator reads of the SDK's events, and no more of them than that.

Raw events are those of the OpenAI Responses API, also where the model is another one; items are the SDK's own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.sdk import json_or_text

# Calls that the provider makes itself: their end comes with the call, and no output of its own follows.
_HOSTED = {"code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "web_search_call"}


class Part(msgspec.Struct):
    """A piece of a message, or a section of a thought."""

    text: str = ""
    refusal: str = ""


class Item(msgspec.Struct):
    """What a model puts out: a message, a thought, or a call, of whatever kind."""

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
    content: list[Part] | None = None
    summary: list[Part] = []

    @property
    def is_call(self) -> bool:
        """Whether it is a call, of whatever kind."""
        return self.type.endswith("_call")

    @property
    def is_hosted(self) -> bool:
        """Whether it is a call that the provider makes itself."""
        return self.type in _HOSTED

    @property
    def call(self) -> str:
        """Which call it is, or is about."""
        return self.call_id or self.id or self.type

    @property
    def tool(self) -> str:
        """What is called."""
        return self.name or self.type.removesuffix("_call")

    @property
    def parameters(self) -> Any:
        """What it is called with, which each kind of call keeps under another name."""
        given = (self.arguments, self.input, self.action, self.operation, self.code, self.queries)
        return json_or_text(next((value for value in given if value is not None), None))


class Announced(msgspec.Struct):
    """An item begins, or is complete."""

    item: Item
    output_index: int


class Piece(msgspec.Struct):
    """A piece of a text, or of a thought; thoughts come in sections."""

    delta: str
    output_index: int
    content_index: int = 0
    summary_index: int = 0


class Trouble(msgspec.Struct):
    """What the provider says went wrong."""

    message: str = ""
    code: str | None = None
    reason: str = ""


class Tokens(msgspec.Struct):
    """What a model call has cost."""

    input_tokens: int
    output_tokens: int


class Response(msgspec.Struct):
    """How a model call came out."""

    error: Trouble | None = None
    incomplete_details: Trouble | None = None
    usage: Tokens | None = None


class Answer(msgspec.Struct):
    """A model call begins, or is over."""

    response: Response


class RunItem(msgspec.Struct):
    """An item as the SDK has it once the response is complete, or what became of a call."""

    raw_item: Item
    output: Any = None
