"""The shapes in which LangGraph streams, each brought to one: a mode, and what that mode tells.

How the graph is asked decides how the same thing is wrapped, and in which words a model's steps are told:

- `astream`: with one mode the payload; with several (mode, payload); with subgraphs (namespace, mode, payload)
- `astream(version="v2")`: {type: mode, ns, data: payload}
- `astream_events(version="v2")`: {event, run_id, data}, where models and tools have events of their own
- `astream_events(version="v3")`: {method: mode, params: {data: payload}}, where a message is told step by step

All of it ends up as the first has it, and a model's steps as chunks of a message.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tailrace.runtimes.sdk import as_text

Said: TypeAlias = tuple[str, Any]
_UNKNOWN: Said = ("", None)
_NOTHING: Said = ("lifecycle", None)
_SEPARATOR = "|"  # between the tasks of a namespace, each of which is `node:task`


class ToolCallChunk(msgspec.Struct):
    """A piece of a call as the model writes it; only the first one has the id and the name."""

    id: str | None = None
    name: str | None = None
    args: str | None = None
    index: Any = None


class ToolCall(msgspec.Struct):
    """A call as the model made it."""

    name: str
    id: str | None = None
    args: Any = None

    @property
    def call(self) -> str:
        """Which call it is."""
        return self.id or self.name


class Tokens(msgspec.Struct):
    """What a model call has cost, or a part of it."""

    input_tokens: int = 0
    output_tokens: int = 0


class Block(msgspec.Struct):
    """A piece of a message's content; providers have several words for the same."""

    type: str = ""
    text: str = ""
    reasoning: str = ""
    thinking: str = ""
    summary: list[dict[str, Any]] | None = None
    signature: Any = None
    encrypted_content: Any = None
    index: Any = None

    @property
    def thought(self) -> str:
        """What the model thinks, where it does."""
        summed_up = "".join(as_text(part.get("text", "")) for part in self.summary or ())
        return self.reasoning or self.thinking or summed_up


class Message(msgspec.Struct):
    """A message, or a chunk of one. Old versions know no `chunk_position`, and so do not tell where one ends."""

    type: str
    content: str | list[str | Block] = ""
    id: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_chunks: list[ToolCallChunk] = []
    usage_metadata: Tokens | None = None
    chunk_position: str | msgspec.UnsetType | None = msgspec.UNSET
    additional_kwargs: dict[str, Any] = {}

    @property
    def blocks(self) -> list[Block]:
        """Its content, each piece with its place: as the provider counts, or as they come."""
        pieces = [self.content] if isinstance(self.content, str) else self.content
        blocks = [Block(type="text", text=piece) if isinstance(piece, str) else piece for piece in pieces]
        for place, block in enumerate(blocks):
            block.index = place if block.index is None else block.index
        thought = self.additional_kwargs.get("reasoning_content")
        return [Block(type="reasoning", reasoning=thought), *blocks] if isinstance(thought, str) else blocks

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(block.text for block in self.blocks if block.type == "text")


class Answer(msgspec.Struct):
    """What a tool gave back."""

    tool_call_id: str
    content: Any = ""
    name: str | None = None
    status: str = "success"


def unwrapped(native: Any) -> Said:
    """The mode of what was said and the payload; the mode is empty where the shape is none of LangGraph's."""
    match native:
        case {"method": str(mode), "params": {"data": payload, **rest}}:
            return _of_v3(mode, payload, rest.get("interrupts"))
        case {"type": str(mode), "data": payload} | [str(mode), payload] | [[*_], str(mode), payload]:
            return mode, payload
        case {"event": str(name), "run_id": str(run), "data": dict(told)}:
            return _of_event(name, run, told)
        case [{"type": str()}, {}]:
            return "messages", native
        case {"messages": [*_]}:
            return "values", native
        case _:
            return _UNKNOWN


def _of_event(name: str, run: str, told: dict[str, Any]) -> Said:
    """An event of `astream_events`: a model's run takes the place of its task."""
    match name, told:
        case ("on_chat_model_stream", {"chunk": message}) | ("on_chat_model_end", {"output": message}):
            return "messages", [message, {"langgraph_checkpoint_ns": run}]
        case "on_tool_end", {"output": {"type": "tool"} as message}:
            return "messages", [message, {}]
        case _:
            return _NOTHING if name.startswith("on_") else _UNKNOWN


def _of_v3(mode: str, payload: Any, interrupts: Any) -> Said:
    """What version 3 tells in words of its own."""
    match mode, payload:
        case "values", _ if interrupts:
            return "updates", {"__interrupt__": interrupts}
        case "messages", [{"event": str(event)} as step, metadata]:
            return "messages", [{"type": "AIMessageChunk", "chunk_position": None} | _chunk(event, step), metadata]
        case "tools", {"event": "tool-finished", "output": {"type": "tool"} as message}:
            return "messages", [message, {}]
        case "tools", {"event": "tool-error", "tool_call_id": call, "message": words}:
            return "messages", [{"type": "tool", "tool_call_id": call, "content": words, "status": "error"}, {}]
        case "tools", _:
            return _NOTHING
        case _:
            return mode, payload


def _chunk(event: str, step: dict[str, Any]) -> dict[str, Any]:
    """A step of a message as the chunk it would be. Arguments are told at the end alone: pieces of them are whole."""
    place = step.get("index")
    match event, step:
        case "message-start", {"id": name}:
            return {"id": name}
        case "content-block-start", {"content": {"type": "tool_call_chunk", "id": call, "name": name}}:
            return {"tool_call_chunks": [{"id": call, "name": name, "index": place}]}
        case "content-block-delta", {"delta": {"type": "text-delta" | "reasoning-delta" as kind, **rest}}:
            return {"content": [rest | {"type": kind.removesuffix("-delta"), "index": place}]}
        case "content-block-finish", {"content": {"type": "tool_call", "args": arguments}}:
            return {"tool_call_chunks": [{"args": as_text(arguments), "index": place}]}
        case "message-finish", _:
            return {"usage_metadata": step.get("usage"), "chunk_position": "last"}
        case _:
            return {}


def tasks_of(metadata: Any) -> list[str]:
    """The tasks within which something was said, the outermost first."""
    match metadata:
        case {"langgraph_checkpoint_ns": str(namespace)}:
            return [task.rpartition(":")[2] for task in namespace.split(_SEPARATOR)]
        case _:
            return []
