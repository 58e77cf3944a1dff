"""What the translator reads of the AI SDK's UI message stream, and no more of it than that: versions 5 to 7."""

from __future__ import annotations

from typing import Any

import msgspec


class Block(msgspec.Struct, rename="camel"):
    """A text or a thought: it begins, goes on or is complete. The provider's own may come with any of these."""

    id: str
    delta: str = ""
    provider_metadata: Any = None


class Call(msgspec.Struct, rename="camel"):
    """A call: it begins, its input is complete or no good, it has an output, or none because it failed."""

    tool_call_id: str
    tool_name: str = ""
    input: Any = None
    output: Any = None
    error_text: str = ""
    preliminary: bool = False


class Request(msgspec.Struct, rename="camel"):
    """A call waits for somebody's leave, unless that was given by a rule."""

    approval_id: str
    tool_call_id: str
    is_automatic: bool = False


class Response(msgspec.Struct, rename="camel"):
    """Somebody has allowed a call, or not, and may say why."""

    approval_id: str
    reason: str = ""


class File(msgspec.Struct, rename="camel"):
    """A file that belongs to the answer."""

    url: str
    media_type: str = ""


class Source(msgspec.Struct):
    """What the answer rests on."""

    title: str = ""
    url: str = ""


class Trouble(msgspec.Struct, rename="camel"):
    """The answer has failed."""

    error_text: Any = ""


class Tokens(msgspec.Struct, rename="camel"):
    """What the answer has cost."""

    input_tokens: int
    output_tokens: int


class _Costs(msgspec.Struct, rename="camel"):
    total_usage: Tokens | None = None
    usage: Tokens | None = None


class Message(msgspec.Struct, rename="camel"):
    """The answer begins, is complete, or more is known of it; its metadata are whatever the application makes them."""

    finish_reason: Any = ""
    message_metadata: Any = None

    @property
    def tokens(self) -> Tokens | None:
        """What the answer has cost, where the application tells as the SDK's documentation does."""
        try:
            costs = msgspec.convert(self.message_metadata, _Costs)
        except msgspec.ValidationError:
            return None
        return costs.total_usage or costs.usage
