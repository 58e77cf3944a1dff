"""Players for the contract of runtimes whose agent is a server or an object: its native events, and what sends them.

The SDKs are not installed here. In their place stand the smallest things that yield what the real ones do: an object
with the one method that is called, or a module that replaces the package while it is used.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import agui_events as agui
import vercel_chunks as vercel
from contract_commands import ClaudePlayer
from loopback import Loopback, Stall, streamed
from recorded_turns import sdk_object

from tailrace.events import BlockFinal, TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.agui import AguiRuntime
from tailrace.runtimes.claude import ClaudeSdkRuntime
from tailrace.runtimes.function import FunctionRuntime
from tailrace.runtimes.langgraph import LangGraphRuntime
from tailrace.runtimes.openai_agents import OpenAIAgentsRuntime, show_subagent
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime
from tailrace.runtimes.vercel import VercelRuntime
from tailrace.testing.runtime_scenarios import STALL, Player

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt, Runtime

CUT = SimpleNamespace(what="the connection is closed in the middle of the answer")
LOST = ConnectionError("the connection was lost")


class StreamPlayer(Player):
    """An agent within this process; it is idle when its stream is not read."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._readers = 0
        self._unread = asyncio.Event()
        self._unread.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        self._readers += 1
        self._unread.clear()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._unread.set()

    async def wait_until_idle(self) -> None:
        await self._unread.wait()

    async def stream(self, native: Sequence[Any]) -> AsyncGenerator[Any, None]:
        """What an SDK's stream gives; an exception among it is raised."""
        with self.working():
            for event in native:
                if event is STALL:
                    await asyncio.Event().wait()
                if isinstance(event, Exception):
                    raise event
                yield event


class Turns:
    """The turns that an agent plays: one for each prompt, the last for ever."""

    def __init__(self, turns: Sequence[Sequence[Any]]) -> None:
        self._turns = list(turns)

    def next(self) -> Sequence[Any]:
        return self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]


# Servers


class HttpPlayer(StreamPlayer):
    """An agent that is a server on this machine."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: list[asyncio.Server] = []

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        played = Turns(turns)
        served = Loopback([lambda _: self._pieces([*self.opening(), *played.next()])])

        async def answer(reader: StreamReader, writer: StreamWriter) -> None:
            with self.working():
                await served.answer(reader, writer)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self._servers.append(server)
        return self.connected(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/agent")

    def _pieces(self, native: Sequence[Any]) -> list[bytes | Stall]:
        """The response up to where the stream stalls or is cut."""
        end = next((at for at, event in enumerate(native) if event is STALL or event is CUT), None)
        if end is None:
            return [*streamed(native)]
        return [*streamed(native[:end])[:-1], *([Stall()] if native[end] is STALL else [])]

    def opening(self) -> list[Any]:
        raise NotImplementedError

    def connected(self, url: str) -> Runtime:
        raise NotImplementedError

    def cut(self) -> list[Any]:
        return [CUT]

    async def close(self) -> None:
        for server in self._servers:
            server.close()


class AguiPlayer(HttpPlayer):
    """An endpoint that speaks AG-UI."""

    names = ("the AG-UI agent",)

    def connected(self, url: str) -> Runtime:
        return AguiRuntime(url)

    def opening(self) -> list[Any]:
        return [{"type": "STEP_STARTED", "stepName": "model"}]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        native = agui.text(f"m{next(self.numbers)}", *pieces)
        return native if is_whole else native[:-1]

    def tool(self, call: str, result: str) -> list[Any]:
        return [agui.call(call), *agui.arguments(call, '{"a": ', "1}"), agui.result(call, result)]

    def ending(self) -> list[Any]:
        return [{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}]

    def failure(self, message: str) -> list[Any]:
        return [{"type": "RUN_ERROR", "message": message}]

    def malformed(self) -> list[Any]:
        return ['{"type": "TEXT_MESSAGE_CONTENT", "mess']


class VercelPlayer(HttpPlayer):
    """A chat route of the AI SDK."""

    names = ("the chat route",)

    def connected(self, url: str) -> Runtime:
        return VercelRuntime(url)

    def opening(self) -> list[Any]:
        return [{"type": "start"}, vercel.STEP]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        native = vercel.text(f"t{next(self.numbers)}", *pieces)
        return native if is_whole else native[:-1]

    def tool(self, call: str, result: str) -> list[Any]:
        return [vercel.called(call), vercel.output(call, result)]

    def ending(self) -> list[Any]:
        return [vercel.FINISH, vercel.DONE]

    def failure(self, message: str) -> list[Any]:
        return [{"type": "error", "errorText": message}, vercel.FINISH, vercel.DONE]

    def malformed(self) -> list[Any]:
        return [{"type": "text-delta", "id": "t1", "delta": 7}]


# Objects of an SDK


class Native:
    """An object of an SDK, with its fields."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        vars(self).update(fields)

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self.fields


class PydanticAIPlayer(StreamPlayer):
    """An agent of Pydantic AI."""

    _is_within = False

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        played = Turns(turns)

        @asynccontextmanager
        async def run_stream_events(_: str, **__: Any) -> AsyncIterator[AsyncIterator[Any]]:
            stream = self.stream(played.next())
            try:
                yield stream
            finally:
                await stream.aclose()

        return PydanticAIRuntime(SimpleNamespace(run_stream_events=run_stream_events), remembers=False)

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        index, before = next(self.numbers), "text" if self._is_within else None
        self._is_within = is_whole
        part = {"part_kind": "text", "content": pieces[0]}
        whole = Native(event_kind="part_end", index=index, part={"part_kind": "text", "content": "".join(pieces)})
        return [
            Native(event_kind="part_start", index=index, part=part, previous_part_kind=before),
            *(
                Native(event_kind="part_delta", index=index, delta={"part_delta_kind": "text", "content_delta": piece})
                for piece in pieces[1:]
            ),
            *([whole] if is_whole else []),
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        self._is_within = False
        named = {"tool_name": "look", "tool_call_id": call}
        return [
            Native(event_kind="function_tool_call", part={"part_kind": "tool-call", "args": "{}", **named}),
            Native(event_kind="function_tool_result", part={"part_kind": "tool-return", "content": result, **named}),
        ]

    def ending(self) -> list[Any]:
        self._is_within = False
        usage = {"input_tokens": 1, "output_tokens": 1}
        return [Native(event_kind="agent_run_result", result=SimpleNamespace(output="done", usage=usage))]

    def failure(self, message: str) -> list[Any]:
        self._is_within = False
        return [RuntimeError(message)]

    def malformed(self) -> list[Any]:
        self._is_within = False
        return [Native(event_kind="part_delta", index="first", delta=7)]


class LangGraphPlayer(StreamPlayer):
    """A compiled graph. Its stream has no end of its own but the end of the iteration: one that is cut raises."""

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        played = Turns(turns)
        return LangGraphRuntime(SimpleNamespace(astream=lambda *_, **__: self.stream(played.next())))

    def event(self, **message: Any) -> Any:
        return ((), "messages", [message, {"langgraph_checkpoint_ns": "model:task-1"}])

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        chunk = {"type": "AIMessageChunk", "id": f"lc_run--{next(self.numbers)}", "chunk_position": None}
        whole = {**chunk, "type": "ai", "content": "".join(pieces)}
        last = [self.event(**chunk | {"chunk_position": "last"}), ((), "updates", {"model": {"messages": [whole]}})]
        return [*(self.event(**chunk, content=piece) for piece in pieces), *(last if is_whole else [])]

    def tool(self, call: str, result: str) -> list[Any]:
        chunk = {"type": "AIMessageChunk", "id": f"lc_run--{next(self.numbers)}", "chunk_position": "last"}
        made = [{"id": call, "name": "look", "args": "{}", "index": 0}]
        return [
            self.event(**chunk, tool_call_chunks=made),
            self.event(type="tool", tool_call_id=call, content=result, name="look", status="success"),
        ]

    def ending(self) -> list[Any]:
        return []

    def failure(self, message: str) -> list[Any]:
        return [RuntimeError(message)]

    def malformed(self) -> list[Any]:
        return [((), "messages", 7)]

    def cut(self) -> list[Any]:
        return [LOST]


class PackagePlayer(StreamPlayer):
    """An agent whose runtime imports the SDK: while it plays, a module of ours stands in for the package."""

    def __init__(self, modules: dict[str, dict[str, Any]]) -> None:
        super().__init__()
        self._packages = list(modules)
        for name, content in modules.items():
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(content)

    async def close(self) -> None:
        for name in self._packages:
            del sys.modules[name]


class OpenAIAgentsPlayer(PackagePlayer):
    """An agent of the OpenAI Agents SDK; everything comes raw first, and then as items."""

    def __init__(self) -> None:
        super().__init__({"agents": {"__path__": []}, "agents.run": {"Runner": self}})

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        return OpenAIAgentsRuntime(Turns(turns))

    def run_streamed(self, agent: Turns, _: str, **__: Any) -> Any:
        """What `Runner` does."""
        return _Result(self, agent.next())

    def raw(self, kind: str, **fields: Any) -> Any:
        return SimpleNamespace(type="raw_response_event", data={"type": f"response.{kind}", **fields})

    def item(self, name: str, item: Any, output: Any = None) -> Any:
        held = SimpleNamespace(raw_item=item, output=output)
        return SimpleNamespace(type="run_item_stream_event", name=name, item=held)

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        message = {"type": "message", "id": "__fake_id__", "content": []}
        whole = {**message, "content": [{"type": "output_text", "text": "".join(pieces)}]}
        begun = [
            self.raw("created", response={}),
            self.raw("output_item.added", item=message, output_index=0),
            *(self.raw("output_text.delta", delta=piece, output_index=0, content_index=0) for piece in pieces),
        ]
        if not is_whole:
            return begun
        return [
            *begun,
            self.raw("output_item.done", item=whole, output_index=0),
            self.raw("completed", response={"usage": {"input_tokens": 1, "output_tokens": 1}}),
            self.item("message_output_created", whole),
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        made = {"type": "function_call", "id": "__fake_id__", "call_id": call, "name": "look", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": call, "output": result}
        return [
            self.raw("created", response={}),
            self.raw("output_item.added", item=made, output_index=0),
            self.raw("output_item.done", item=made, output_index=0),
            self.raw("completed", response={}),
            self.item("tool_called", made),
            self.item("tool_output", output, result),
        ]

    def ending(self) -> list[Any]:
        return [SimpleNamespace(type="final_output")]

    def failure(self, message: str) -> list[Any]:
        return [RuntimeError(message)]

    def malformed(self) -> list[Any]:
        return [self.raw("output_text.delta", delta=7, output_index=0)]


@dataclass
class Nested:
    """What an agent says that is a tool, under that call."""

    call: str
    event: Any


class _Result:
    """A streamed run: read by `stream_events`, ended by `cancel`."""

    interruptions = ()
    context_wrapper = SimpleNamespace(usage=SimpleNamespace(input_tokens=1, output_tokens=1))

    def __init__(self, player: OpenAIAgentsPlayer, native: Sequence[Any]) -> None:
        self.final_output: str | None = None
        self._player = player
        self._native = native
        self._cancelled = asyncio.Event()
        self._context = copy_context()  # in which the agent's tools would run

    async def stream_events(self) -> AsyncIterator[Any]:
        """As in the SDK, its reader is not done before the run is, or is cancelled."""
        with self._player.working():
            for event in self._native:
                if event is STALL:
                    await self._cancelled.wait()
                elif isinstance(event, Exception):
                    raise event
                elif isinstance(event, Nested):
                    call = SimpleNamespace(call_id=event.call)
                    self._context.run(show_subagent, {"tool_call": call, "event": event.event})
                elif event.type == "final_output":
                    self.final_output = "done"
                else:
                    yield event

    def cancel(self) -> None:
        self._cancelled.set()


@dataclass
class _ClaudeOptions:
    turns: Turns
    player: ClaudeSdkPlayer
    resume: str | None = None
    include_partial_messages: bool = False


class _ClaudeClient:
    """A client whose messages end when the prompt does."""

    def __init__(self, options: _ClaudeOptions) -> None:
        self._options = options

    async def connect(self, prompt: AsyncIterator[Any]) -> None:
        self._reading = asyncio.create_task(self._read(prompt))

    async def _read(self, prompt: AsyncIterator[Any]) -> None:
        async for _ in prompt:
            pass

    async def receive_messages(self) -> AsyncIterator[Any]:
        native = self._options.turns.next()
        async for message in self._options.player.stream([*self._options.player.opening(), *native]):
            yield message
        if any(type(message).__name__ == "ResultMessage" for message in native):
            await self._reading

    async def interrupt(self) -> None:
        """There is nothing that would not end with the client."""

    async def disconnect(self) -> None:
        self._reading.cancel()


class ClaudeSdkPlayer(PackagePlayer, ClaudePlayer):
    """Claude by its SDK: what the command prints, as objects."""

    def __init__(self, folder: Path) -> None:
        client = {"ClaudeSDKClient": _ClaudeClient, "ClaudeAgentOptions": _ClaudeOptions}
        PackagePlayer.__init__(self, {"claude_agent_sdk": client})
        self.folder = folder

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        return ClaudeSdkRuntime(_ClaudeOptions(Turns(turns), self), sessions=self.folder / "sessions")

    def line(self, kind: str, **fields: Any) -> Any:
        if kind == "system":
            return sdk_object({"__class__": "SystemMessage", "data": {"type": kind, **fields}})
        if kind == "stream_event":
            return sdk_object({"__class__": "StreamEvent", **fields})
        if kind == "result":
            return sdk_object({"__class__": "ResultMessage", **fields})
        message = fields.pop("message")
        blocks = [{"__class__": _class_of(block), **block} for block in message["content"]]
        for block in blocks:
            del block["type"]
        held = {"content": blocks, "message_id": message.get("id"), "error": None, **fields}
        return sdk_object({"__class__": f"{kind.title()}Message", **held})

    def malformed(self) -> list[Any]:
        return [sdk_object({"__class__": "StreamEvent", "event": 7})]


def _class_of(block: dict[str, Any]) -> str:
    return "".join(word.title() for word in block["type"].split("_")) + "Block"


# Functions


class FunctionPlayer(StreamPlayer):
    """A generator function of one's own. What it does not raise is complete: one that is cut raises."""

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        played = Turns(turns)

        async def answer(_: Prompt) -> AsyncGenerator[Any, None]:
            stream = self.stream(played.next())
            try:
                async for event in stream:
                    yield event
            finally:
                await stream.aclose()

        return FunctionRuntime(answer, name="function")

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        return [*(TextDelta(text=piece) for piece in pieces), *([BlockFinal()] if is_whole else [])]

    def tool(self, call: str, result: str) -> list[Any]:
        return [ToolStarted(id=call, name="look"), ToolFinished(id=call, result=result)]

    def ending(self) -> list[Any]:
        return [TurnCompleted()]

    def failure(self, message: str) -> list[Any]:
        return [TurnFailed(message=message)]

    def malformed(self) -> list[Any]:
        return [7]

    def cut(self) -> list[Any]:
        return [LOST]


class PlainFunctionPlayer(FunctionPlayer):
    """The same with plain text, which ends by returning and fails by raising."""

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        return [*pieces, *([BlockFinal()] if is_whole else [])]

    def ending(self) -> list[Any]:
        return []

    def failure(self, message: str) -> list[Any]:
        return [RuntimeError(message)]
