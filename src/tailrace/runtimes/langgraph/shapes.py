"""Converts all forms in which LangGraph streams to one form: a mode, and the payload of that mode.

The version and the options of a call decide how LangGraph wraps an item of its stream:

- `astream`: with one mode the payload; with several (mode, payload); with subgraphs (namespace, mode, payload) -
`astream(version="v2")`: {type: mode, ns, data: payload} - `astream_events(version="v2")`: {event, run_id, data}, where
models and tools have events of their own - `astream_events(version="v3")`: {method: mode, params: {data: payload}},
where a message comes as several events

All of them become (mode, payload), and the events of a message become chunks of the message.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tailrace.runtimes.sdk import as_text

_StreamItem: TypeAlias = tuple[str, Any]  # a mode and its payload
_UNKNOWN: _StreamItem = ("", None)
_IGNORED: _StreamItem = ("lifecycle", None)
_SEPARATOR = "|"  # between the tasks of a namespace, each of which is `node:task`


class _ToolCallChunk(msgspec.Struct):
    """A piece of a tool call, as the model writes it. Only the first piece has the id and the name."""

    id: str | None = None
    name: str | None = None
    args: str | None = None
    index: Any = None


class ModelToolCall(msgspec.Struct):
    """A complete tool call that a model has written."""

    name: str
    id: str | None = None
    args: Any = None

    @property
    def key(self) -> str:
        """The id of the tool call, or the tool's name if the call has no id."""
        return self.id or self.name


class _UsageMetadata(msgspec.Struct):
    """The tokens of a model call, or of a chunk of its message."""

    input_tokens: int = 0
    output_tokens: int = 0


class MessageBlock(msgspec.Struct):
    """A piece of a message's content. Providers use different fields for reasoning."""

    type: str = ""
    text: str = ""
    reasoning: str = ""
    thinking: str = ""
    summary: list[dict[str, Any]] | None = None
    signature: Any = None
    encrypted_content: Any = None
    index: Any = None

    @property
    def reasoning_text(self) -> str:
        """The reasoning in this piece; "" if the piece is no reasoning."""
        summary = "".join(as_text(part.get("text", "")) for part in self.summary or ())
        return self.reasoning or self.thinking or summary


class ModelMessage(msgspec.Struct):
    """A message of a model, or a chunk of it. The last chunk has the `chunk_position` "last".

    Old versions of LangChain do not send `chunk_position`, so the end of their messages is unknown.
    """

    type: str
    content: str | list[str | MessageBlock] = ""
    id: str | None = None
    name: str | None = None
    tool_calls: list[ModelToolCall] = []
    tool_call_chunks: list[_ToolCallChunk] = []
    usage_metadata: _UsageMetadata | None = None
    chunk_position: str | msgspec.UnsetType | None = msgspec.UNSET
    additional_kwargs: dict[str, Any] = {}

    @property
    def blocks(self) -> list[MessageBlock]:
        """The pieces of the content. If the provider gives a piece no index, the index is the piece's position."""
        pieces = [self.content] if isinstance(self.content, str) else self.content
        blocks = [MessageBlock(type="text", text=piece) if isinstance(piece, str) else piece for piece in pieces]
        for position, block in enumerate(blocks):
            block.index = position if block.index is None else block.index
        reasoning = self.additional_kwargs.get("reasoning_content")
        if not isinstance(reasoning, str):
            return blocks
        return [MessageBlock(type="reasoning", reasoning=reasoning), *blocks]

    @property
    def text(self) -> str:
        """All text of the message."""
        return "".join(block.text for block in self.blocks if block.type == "text")


class ToolMessage(msgspec.Struct):
    """The result of a tool call."""

    tool_call_id: str
    content: Any = ""
    name: str | None = None
    status: str = "success"


def unwrap(native: Any) -> _StreamItem:
    """Convert an item of the stream to its mode and its payload. For an unknown item, the mode is empty."""
    match native:
        case {"method": str(mode), "params": {"data": payload, **rest}}:
            return _from_v3(mode, payload, rest.get("interrupts"))
        case {"type": str(mode), "data": payload} | [str(mode), payload] | [[*_], str(mode), payload]:
            return mode, payload
        case {"event": str(name), "run_id": str(run), "data": dict(data)}:
            return _from_v2_event(name, run, data)
        case [{"type": str()}, {}]:
            return "messages", native
        case {"messages": [*_]}:
            return "values", native
        case _:
            return _UNKNOWN


def _from_v2_event(name: str, run: str, data: dict[str, Any]) -> _StreamItem:
    """Convert an event of `astream_events`. The id of a model's run is used as the id of its task."""
    match name, data:
        case ("on_chat_model_stream", {"chunk": message}) | ("on_chat_model_end", {"output": message}):
            return "messages", [message, {"langgraph_checkpoint_ns": run}]
        case "on_tool_end", {"output": {"type": "tool"} as message}:
            return "messages", [message, {}]
        case _:
            return _IGNORED if name.startswith("on_") else _UNKNOWN


def _from_v3(mode: str, payload: Any, interrupts: Any) -> _StreamItem:
    """Convert an event of version 3, in which messages, tools and interrupts have another form."""
    match mode, payload:
        case "values", _ if interrupts:
            return "updates", {"__interrupt__": interrupts}
        case "messages", [{"event": str(event)} as step, metadata]:
            return "messages", [{"type": "AIMessageChunk", "chunk_position": None} | _chunk(event, step), metadata]
        case "tools", {"event": "tool-finished", "output": {"type": "tool"} as message}:
            return "messages", [message, {}]
        case "tools", {"event": "tool-error", "tool_call_id": call, "message": text}:
            return "messages", [{"type": "tool", "tool_call_id": call, "content": text, "status": "error"}, {}]
        case "tools", _:
            return _IGNORED
        case _:
            return mode, payload


def _chunk(event: str, step: dict[str, Any]) -> dict[str, Any]:
    """The message chunk for one event of a message. The arguments of a tool call are taken only from its last event.

    Its earlier events each repeat all arguments so far.
    """
    index = step.get("index")
    match event, step:
        case "message-start", {"id": message_id}:
            return {"id": message_id}
        case "content-block-start", {"content": {"type": "tool_call_chunk", "id": call, "name": name}}:
            return {"tool_call_chunks": [{"id": call, "name": name, "index": index}]}
        case "content-block-delta", {"delta": {"type": "text-delta" | "reasoning-delta" as kind, **rest}}:
            return {"content": [rest | {"type": kind.removesuffix("-delta"), "index": index}]}
        case "content-block-finish", {"content": {"type": "tool_call", "args": arguments}}:
            return {"tool_call_chunks": [{"args": as_text(arguments), "index": index}]}
        case "message-finish", _:
            return {"usage_metadata": step.get("usage"), "chunk_position": "last"}
        case _:
            return {}


def tasks_of(metadata: Any) -> list[str]:
    """The ids of the graph tasks in which an item was made, the outermost first."""
    match metadata:
        case {"langgraph_checkpoint_ns": str(namespace)}:
            return [task.rpartition(":")[2] for task in namespace.split(_SEPARATOR)]
        case _:
            return []
