"""Players for the contract of runtimes whose agent is a command: its native events, and a process that sends them."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.errors import ContractViolation
from tailrace.events import TurnFailed, decode_event
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.codex import CodexRuntime
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.runtimes.process import AgentProcess
from tailrace.testing.runtime_scenarios import STALL, Player

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from tailrace.events import Event
    from tailrace.ports import Prompt, Runtime

COMMAND = Path(__file__).parent / "stand_ins" / "playing_command.py"


class CommandPlayer(Player):
    """An agent that is a command; each native event is a line, or what a line is made of."""

    agent = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count(1)
        self._scripts = itertools.count(1)

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        scripts = self.folder / f"scripts-{next(self._scripts)}"
        scripts.mkdir()
        for number, turn in enumerate(turns):
            script = [*self.opening(), *turn]
            lines = [json.dumps({"stall": True} if native is STALL else native) for native in script]
            (scripts / f"{number:02}").write_text("\n".join(lines), encoding="utf-8")
        return self.started((sys.executable, "-S", "-E", str(COMMAND), str(scripts), self.agent))

    def started(self, command: tuple[str, ...]) -> Runtime:
        """The runtime that runs this command."""
        raise NotImplementedError

    def opening(self) -> list[Any]:
        """The native events at the start of every turn."""
        return []

    def malformed(self) -> list[Any]:
        return ['{"type": "half a li']


def line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


class ClaudePlayer(CommandPlayer):
    """`claude -p`: every block in pieces, and again as a whole."""

    agent = "claude"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return ClaudeRuntime(command, sessions=self.folder / "sessions")

    def opening(self) -> list[Any]:
        return [self.line("system", subtype="init", session_id="s", model="m")]

    def line(self, kind: str, **fields: Any) -> Any:
        return line(type=kind, **fields)

    def piece(self, kind: str, **fields: Any) -> Any:
        return self.line("stream_event", event={"type": kind, **fields}, parent_tool_use_id=None)

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        block = {"type": "text", "text": ""}
        deltas = [
            self.piece("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}) for piece in pieces
        ]
        return self.message(block, deltas, {"type": "text", "text": "".join(pieces)} if is_whole else None)

    def message(self, block: dict[str, Any], deltas: list[Any], whole: dict[str, Any] | None) -> list[Any]:
        """A message of one block; it breaks off where there is no whole."""
        name = f"msg_{next(self.numbers)}"
        begun = [
            self.piece("message_start", message={"id": name}),
            self.piece("content_block_start", index=0, content_block=block),
            *deltas,
        ]
        if whole is None:
            return begun
        reason = "tool_use" if whole["type"] == "tool_use" else "end_turn"
        return [
            *begun,
            self.line("assistant", message={"id": name, "content": [whole]}, parent_tool_use_id=None),
            self.piece("content_block_stop", index=0),
            self.piece("message_delta", delta={"stop_reason": reason}),
            self.piece("message_stop"),
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        begun = {"type": "tool_use", "id": call, "name": "Bash", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": False}
        return [
            *self.message(begun, [], {**begun, "input": {"command": "ls"}}),
            self.line("user", message={"role": "user", "content": [answer]}, parent_tool_use_id=None),
        ]

    def ending(self) -> list[Any]:
        return [self.line("result", subtype="success", is_error=False, result="", stop_reason="end_turn")]

    def failure(self, message: str) -> list[Any]:
        ends = {"subtype": "success", "is_error": True, "result": message, "terminal_reason": "api_error"}
        return [self.line("result", **ends)]


class GeminiPlayer(CommandPlayer):
    """gemini-cli: pieces without ids and without ends."""

    agent = "gemini"
    second = 0  # at which it speaks

    def started(self, command: tuple[str, ...]) -> Runtime:
        return GeminiRuntime(command, sessions=self.folder / "sessions")

    def opening(self) -> list[Any]:
        return [line(type="init", session_id="s"), line(type="message", role="user", content="Go on.")]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        del is_whole
        now = f"2026-11-15T10:00:{self.second:02}.000Z"
        return [line(type="message", role="assistant", content=piece, delta=True, timestamp=now) for piece in pieces]

    def tool(self, call: str, result: str) -> list[Any]:
        return [
            line(type="tool_use", tool_name="run_shell_command", tool_id=call, parameters={"command": "ls"}),
            line(type="tool_result", tool_id=call, status="success", output=result),
        ]

    def ending(self) -> list[Any]:
        return [line(type="result", status="success", stats={"input_tokens": 1, "output_tokens": 1})]

    def failure(self, message: str) -> list[Any]:
        return [
            line(type="error", severity="error", message=message),
            line(type="result", status="error", error={"message": message}),
        ]


class CodexAppPlayer(CommandPlayer):
    """`codex app-server`: items that start, grow and are completed."""

    agent = "codex-app"
    thread = "thread-1"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return CodexRuntime(command, sessions=self.folder / "sessions")

    def event(self, method: str, **params: Any) -> str:
        return line(method=method, params={"threadId": self.thread, "turnId": "turn-1", **params})

    def opening(self) -> list[Any]:
        return [self.event("turn/started", turn={"id": "turn-1", "status": "inProgress"})]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        item = {"type": "agentMessage", "id": f"msg_{next(self.numbers)}", "text": ""}
        whole = self.event("item/completed", item={**item, "text": "".join(pieces)})
        return [
            self.event("item/started", item=item),
            *(self.event("item/agentMessage/delta", itemId=item["id"], delta=piece) for piece in pieces),
            *([whole] if is_whole else []),
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        item = {"type": "commandExecution", "id": call, "command": "/bin/bash -lc 'ls'", "status": "inProgress"}
        done = {**item, "status": "completed", "aggregatedOutput": result, "exitCode": 0}
        return [
            self.event("item/started", item=item),
            self.event("item/commandExecution/outputDelta", itemId=call, delta=result),
            self.event("item/completed", item=done),
        ]

    def ending(self) -> list[Any]:
        return [self.event("turn/completed", turn={"id": "turn-1", "status": "completed", "items": []})]

    def failure(self, message: str) -> list[Any]:
        error = {"message": message}
        return [
            self.event("error", error=error, willRetry=False),
            self.event("turn/completed", turn={"id": "turn-1", "status": "failed", "items": [], "error": error}),
        ]


class CodexExecPlayer(CommandPlayer):
    """`codex exec`: whole items."""

    agent = "codex-exec"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return CodexRuntime(command, sessions=self.folder / "sessions")

    def opening(self) -> list[Any]:
        return [line(type="thread.started", thread_id="t"), line(type="turn.started")]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        del is_whole
        item = {"id": f"item_{next(self.numbers)}", "type": "agent_message", "text": "".join(pieces)}
        return [line(type="item.completed", item=item)]

    def tool(self, call: str, result: str) -> list[Any]:
        item = {"id": call, "type": "command_execution", "command": "ls", "status": "in_progress"}
        done = {**item, "status": "completed", "aggregated_output": result, "exit_code": 0}
        return [line(type="item.started", item=item), line(type="item.completed", item=done)]

    def ending(self) -> list[Any]:
        return [line(type="turn.completed", usage={"input_tokens": 1, "output_tokens": 1})]

    def failure(self, message: str) -> list[Any]:
        return [line(type="error", message=message), line(type="turn.failed", error={"message": message})]


class OpencodeServePlayer(CommandPlayer):
    """`opencode serve`: parts in their current state, and deltas."""

    agent = "opencode-serve"
    within = "msg_1"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return OpencodeRuntime(command, sessions=self.folder / "sessions")

    def event(self, kind: str, **properties: Any) -> Any:
        return {"type": kind, "properties": {"sessionID": "session-1", **properties}}

    def part(self, kind: str, **fields: Any) -> Any:
        part = {"id": f"prt_{next(self.numbers)}", "messageID": self.within, "type": kind, **fields}
        return self.event("message.part.updated", part=part)

    def opening(self) -> list[Any]:
        return [self.event("session.status", status={"type": "busy"}), self.part("step-start")]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        name = f"prt_{next(self.numbers)}"
        whole = self.part("text", id=name, text="".join(pieces), time={"start": 1, "end": 2})
        return [
            self.part("text", id=name, text="", time={"start": 1}),
            *(self.event("message.part.delta", partID=name, field="text", delta=piece) for piece in pieces),
            *([whole] if is_whole else []),
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        asked = {"input": {"command": "ls"}, "metadata": {}}
        return [
            self.part("tool", tool="bash", callID=call, state={**asked, "status": "running"}),
            self.part("tool", tool="bash", callID=call, state={**asked, "status": "completed", "output": result}),
        ]

    def ending(self) -> list[Any]:
        return [self.part("step-finish", reason="stop"), self.event("session.idle")]

    def failure(self, message: str) -> list[Any]:
        return [
            self.event("session.error", error={"name": "APIError", "data": {"message": message}}),
            self.event("session.idle"),
        ]

    def malformed(self) -> list[Any]:
        return [self.event("message.part.updated", part=7)]


class OpencodeRunPlayer(CommandPlayer):
    """`opencode run`: parts that are complete."""

    agent = "opencode-run"
    within = "msg_1"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return OpencodeRuntime(command, sessions=self.folder / "sessions")

    def part(self, kind: str, part: str, **fields: Any) -> str:
        of = {"id": f"prt_{next(self.numbers)}", "messageID": self.within, "type": part, **fields}
        return line(type=kind, sessionID="session-1", part=of)

    def opening(self) -> list[Any]:
        return [self.part("step_start", "step-start")]

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        del is_whole
        return [self.part("text", "text", text="".join(pieces), time={"start": 1, "end": 2})]

    def tool(self, call: str, result: str) -> list[Any]:
        state = {"status": "completed", "input": {"command": "ls"}, "output": result, "metadata": {"exit": 0}}
        return [self.part("tool_use", "tool", tool="bash", callID=call, state=state)]

    def ending(self) -> list[Any]:
        return [self.part("step_finish", "step-finish", reason="stop")]

    def failure(self, message: str) -> list[Any]:
        return [line(type="error", sessionID="session-1", error={"name": "APIError", "data": {"message": message}})]


class AcpPlayer(CommandPlayer):
    """An agent of the Agent Client Protocol."""

    agent = "acp"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return AcpRuntime(command, options=AcpOptions(cwd=str(self.folder)))

    def update(self, kind: str, **fields: Any) -> Any:
        return {"update": {"sessionUpdate": kind, **fields}}

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        del is_whole
        name = f"msg_{next(self.numbers)}"
        return [
            self.update("agent_message_chunk", messageId=name, content={"type": "text", "text": piece})
            for piece in pieces
        ]

    def tool(self, call: str, result: str) -> list[Any]:
        return [
            self.update("tool_call", toolCallId=call, title="ls", status="pending"),
            self.update("tool_call_update", toolCallId=call, status="in_progress", rawInput={"command": "ls"}),
            self.update("tool_call_update", toolCallId=call, status="completed", rawOutput=result),
        ]

    def ending(self) -> list[Any]:
        return [{"answer": {"stopReason": "end_turn"}}]

    def failure(self, message: str) -> list[Any]:
        return [{"refuse": {"code": -32603, "message": message}}]


class NdjsonRuntime:
    """A command that writes canonical events, one a line: a runtime as anybody may write it."""

    name = "ndjson"

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        async with AgentProcess(self._command, grace_s=1.0) as process:
            await process.write(prompt.text.encode())
            process.close_input()
            async for written in process.lines():
                try:
                    yield decode_event(written)
                except ContractViolation as violation:
                    found = violation.diagnostic
                    yield TurnFailed(message=f"{self.name} wrote no event: {found.message}", code=found.code)
                    return


class NdjsonPlayer(CommandPlayer):
    agent = "ndjson"

    def started(self, command: tuple[str, ...]) -> Runtime:
        return NdjsonRuntime(command)

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        end = [line(type="block_final", text="".join(pieces))] if is_whole else []
        return [*(line(type="text_delta", text=piece) for piece in pieces), *end]

    def tool(self, call: str, result: str) -> list[Any]:
        begun = line(type="tool_started", id=call, name="ls")
        return [begun, line(type="tool_finished", id=call, result=result)]

    def ending(self) -> list[Any]:
        return [line(type="turn_completed")]

    def failure(self, message: str) -> list[Any]:
        return [line(type="turn_failed", message=message)]
