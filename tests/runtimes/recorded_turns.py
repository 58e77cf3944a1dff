"""The recordings of agents: how each is read, and what its translator makes of its lines.

`recordings/expected` holds the events of each turn. A number behind a name, as in `claude_sdk_model_switch-2`, is one
of several turns in a recording.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import fields

from tailrace.events import ReasoningDelta, TextDelta, ToolOutput
from tailrace.runtimes.acp import AcpTranslator
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.claude import ClaudeTranslator
from tailrace.runtimes.claude.sdk_runtime import line_from_message
from tailrace.runtimes.codex.client import CodexClient
from tailrace.runtimes.codex.translator import CodexExecTranslator
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.langgraph import LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsTranslator
from tailrace.runtimes.opencode.translator import OpencodeRunTranslator, OpencodeTranslator
from tailrace.runtimes.pydantic_ai import PydanticAITranslator
from tailrace.runtimes.sdk import SdkFailure
from tailrace.runtimes.sse import FrameDecoder
from tailrace.runtimes.vercel import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.events import Event

RECORDINGS = Path(__file__).parent / "recordings"
EXPECTED = RECORDINGS / "expected"
NAMES = sorted(path.stem for path in EXPECTED.glob("*.ndjson"))
_PIECES: dict[type[Event], str] = {TextDelta: "text", ReasoningDelta: "text", ToolOutput: "data"}


class Translator(Protocol):
    """Makes events of lines; `close` gives those at the end of the stream."""

    def feed(self, line: Any, /) -> list[Event]: ...
    def close(self) -> list[Event]: ...


@dataclass(frozen=True)
class Kind:
    """The recordings whose names start alike: how they are read, and which of their lines end or fail a turn."""

    translator: Callable[[str], Translator]
    read: Callable[[str], list[Any]]
    is_end: Callable[[Any], bool]
    garbage: Sequence[Any]


def kind_of(name: str) -> Kind:
    return KINDS[max((prefix for prefix in KINDS if name.startswith(prefix)), key=len)]


@cache
def lines_of(name: str) -> list[Any]:
    """What the agent sent in this turn."""
    return kind_of(name).read(name)


def translated(name: str, lines: Iterable[Any] | None = None) -> list[Event]:
    """The events of the turn, or of other lines of the same agent."""
    translator = kind_of(name).translator(name)
    return [
        *(event for line in (lines_of(name) if lines is None else lines) for event in translator.feed(line)),
        *translator.close(),
    ]


def summary(events: Iterable[Event]) -> list[Any]:
    """The events as JSON values, as `recordings/expected` has them: deltas in a row are one, with a list of pieces."""
    rows: list[Any] = []
    for event in events:
        given = {f.name: getattr(event, f.name) for f in fields(event)}
        changed = {f.name: given[f.name] for f in fields(event) if repr(given[f.name]) != repr(f.default)}
        row = msgspec.json.decode(msgspec.json.encode({"type": event.__struct_config__.tag, **changed}))
        pieces = _PIECES.get(type(event))
        if pieces is not None:
            row[pieces] = [row[pieces]]
            if rows and {**rows[-1], pieces: []} == {**row, pieces: []}:
                rows[-1][pieces] += row[pieces]
                continue
        rows.append(row)
    return rows


def expected_of(name: str) -> list[Any]:
    rows = [json.loads(line) for line in (EXPECTED / f"{name}.ndjson").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "_notes" not in row]


# Reading


def recorded(name: str) -> list[Any]:
    """The lines of a recording without its header."""
    text = (RECORDINGS / f"{name.partition('-')[0]}.ndjson").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()[1:]]


def natives(name: str) -> list[Any]:
    """The events of an SDK, and what the recorder noted about the end of the run."""
    return [line.get("ev", line) for line in recorded(name)]


def graph_natives(name: str) -> list[Any]:
    return [*natives(name), {"_end": True}]


def command_lines(name: str) -> list[bytes]:
    """The lines that a command wrote, also of a recording that holds both directions."""
    raw = (RECORDINGS / f"{name}.ndjson").read_bytes().splitlines()[1:]
    lines = [json.loads(line) for line in raw]
    if not any("ev" in line for line in lines):
        return raw
    return [json.dumps(line["ev"]).encode() for line in lines if line.get("dir") != "out"]


def sdk_object(fields: dict[str, Any]) -> object:
    """An object as Claude's SDK makes it, of a class of that name."""
    made = type(fields["__class__"], (), {})()
    for name, value in fields.items():
        is_blocks = isinstance(value, list) and all(isinstance(item, dict) and "__class__" in item for item in value)
        vars(made)[name] = [sdk_object(item) for item in value] if is_blocks else value
    del vars(made)["__class__"]
    return made


def sdk_objects(name: str) -> list[object]:
    """The objects that Claude's SDK gave, without the recorder's notes."""
    return [sdk_object(native) for native in natives(name) if "__class__" in native]


def claude_sdk_lines(name: str) -> list[Any]:
    """The lines that are made of the objects of Claude's SDK."""
    lines = [line_from_message(message) for message in sdk_objects(name)]
    _, _, turn = name.partition("-")
    ends = [0, *(at + 1 for at, line in enumerate(lines) if line["type"] == "result")]
    return [*(lines[ends[int(turn) - 1] : ends[int(turn)]] if turn else lines)]


def acp_messages(name: str) -> list[Any]:
    """The messages that came after the prompt."""
    lines = recorded(name)
    start = next(at for at, line in enumerate(lines) if line["ev"].get("method") == "session/prompt")
    return [line["ev"] for line in lines[start:] if line.get("dir") == "in"]


def agui_events(name: str) -> list[Any]:
    """The events of a recording. Where bytes were recorded too, they must decode to the same events."""
    for line in recorded(name):
        if "sse" in line:
            assert [frame_value(frame.data) for frame in FrameDecoder().feed(line["sse"].encode())] == [line["ev"]]
    return natives(name)


def vercel_chunks(name: str) -> list[Any]:
    """The chunks of a recording, decoded from its bytes where those were recorded."""
    lines = recorded(name)
    stream = "".join(f"{line['sse']}\n\n" for line in lines if "sse" in line).encode()
    chunks = [line["ev"] for line in lines if "ev" in line and "_response_headers" not in line["ev"]]
    return chunks + [frame_value(frame.data) for frame in FrameDecoder().feed(stream)]


def openai_natives(name: str) -> list[Any]:
    """The events of a run. A subagent's are at their place in it; an approved call ends it or is continued."""
    if name == "oai_agent_as_tool_nested":
        parent, child = natives("oai_agent_as_tool"), natives(name)
        called = next(at for at, native in enumerate(parent) if native.get("name") == "tool_called")
        return [*parent[: called + 1], *child, *parent[called + 1 :]]
    run = natives(name)
    resumed = next((at for at, native in enumerate(run) if "resume" in str(native.get("_client", ""))), None)
    if resumed is None:
        return run
    return run[:resumed] if name.endswith("-1") else [*run[: resumed - 1], *run[resumed + 1 :]]


# Translating


class Acp:
    """The translator of an ACP agent, which gets the messages of a connection."""

    def __init__(self, name: str = "") -> None:
        results = [line["ev"].get("result", {}) for line in (recorded(name) if name else [])]
        agent = next((result["agentInfo"]["name"] for result in results if "protocolVersion" in result), "")
        self.translator = AcpTranslator(agent=agent)

    def feed(self, message: Any) -> list[Event]:
        match message:
            case str():
                return self.translator.invalid_line(message.encode("latin-1", "replace"))
            case {"method": "session/request_permission", "params": params}:
                return self.translator.permission_request(params)[0]
            case {"method": _, "params": params}:
                return self.translator.update(params)
            case {"result": result}:
                return self.translator.prompt_result(result)
            case {"error": error}:
                return self.translator.prompt_error(error)
        return self.translator.update(message)

    def close(self) -> list[Event]:
        return self.translator.close()


class Claude(ClaudeTranslator):
    def close(self) -> list[Event]:
        return self.end("")


class Codex:
    """The client of `codex app-server`, which allows everything; `sent` is what it sends."""

    def __init__(self, _: str = "") -> None:
        self.client = CodexClient("[[scenario]] go", cwd="/workspace")
        self.sent = self.client.take_outgoing()

    def feed(self, line: bytes) -> list[Event]:
        events = self.client.feed(line)
        for asked in self.client.take_approval_requests():
            self.client.answer(asked, asked.question.allowing())
        self.sent += self.client.take_outgoing()
        return events

    def close(self) -> list[Event]:
        return self.client.translator.close()


class OpencodeBus:
    """The bus of an opencode server, read for the first session that it reports."""

    def __init__(self, name: str) -> None:
        created = (json.loads(line) for line in command_lines(name) if b'"session.created"' in line)
        self.translator = OpencodeTranslator(next((e["properties"]["sessionID"] for e in created), "ses_none"))

    def feed(self, line: bytes) -> list[Event]:
        try:
            return self.translator.feed(json.loads(line))
        except ValueError:
            return self.translator.feed(line.decode(errors="replace"))

    def close(self) -> list[Event]:
        return self.translator.close()


class SdkRun:
    """The translator of a run in this process. The recorder's notes say how the run ended."""

    def __init__(self, translator: OpenAIAgentsTranslator | PydanticAITranslator | LangGraphTranslator) -> None:
        self.translator = translator
        self.is_cancelled = False

    def feed(self, native: Any) -> list[Event]:
        match native, self.translator:
            case {"_raised": {"__exception__": str(kind), "message": str(message)}}, _:
                return self.translator.raised(SdkFailure(kind=kind, message=message))
            case {"_client": _}, _:
                self.is_cancelled = True
            case {"_session_items": _}, _:
                pass
            case {"_end": _}, LangGraphTranslator() as graph:
                return graph.finished()
            case {"_after": dict(after)}, OpenAIAgentsTranslator() as run:
                waiting = after.get("interruptions")
                calls = waiting if isinstance(waiting, list) else []
                names = [str(call["name"]) for call in calls if isinstance(call, dict) and "name" in call]
                return run.finished(output=after.get("final_output"), waiting=names)
            case {"sub_event": event, "tool_call_id": str(call)}, OpenAIAgentsTranslator() as run:
                return run.feed(event, parent=call)
            case _:
                return self.translator.feed(native)
        return []

    def close(self) -> list[Event]:
        return self.translator.close(cancelled=self.is_cancelled)


def has(*names: str) -> Callable[[Any], bool]:
    return lambda native: any(name in native for name in names)


def contains(*words: bytes) -> Callable[[Any], bool]:
    return lambda line: any(word in line for word in words)


def ends_claude(line: Any) -> bool:
    native = line if isinstance(line, dict) else json.loads(line)
    return native["type"] == "result" or (native["type"] == "assistant" and bool(native.get("error")))


def ends_vercel(chunk: Any) -> bool:
    return chunk == "[DONE]" or chunk["type"] in {"finish", "error", "abort"}


GARBAGE: dict[str, list[Any]] = json.loads((Path(__file__).parent / "garbage.json").read_text(encoding="utf-8"))
_LINES, _CLAUDE_LINES = ([line.encode("latin-1") for line in GARBAGE[name]] for name in ("commands", "claude"))
_AGUI = Kind(
    lambda _: AguiTranslator(),
    agui_events,
    lambda event: event["type"] in {"RUN_FINISHED", "RUN_ERROR"},
    GARBAGE["agui"],
)
_VERCEL = Kind(lambda _: VercelTranslator(), vercel_chunks, ends_vercel, GARBAGE["vercel"])
_ENDS = contains(b'"session.idle"', b'"idle"', b'"session.error"', b'"error"')
# By the beginning of the name; the longest one counts.
KINDS = {
    "acp": Kind(Acp, acp_messages, lambda message: "method" not in message, GARBAGE["acp"]),
    "agui": _AGUI,
    "pydantic_ai_agui": _AGUI,
    "claude": Kind(lambda _: Claude(), command_lines, ends_claude, _CLAUDE_LINES),
    "claude_sdk": Kind(lambda _: Claude(), claude_sdk_lines, ends_claude, _CLAUDE_LINES),
    "qwen": Kind(lambda _: Claude(), command_lines, ends_claude, _CLAUDE_LINES),
    "codex_app": Kind(Codex, command_lines, contains(b'"turn/completed"', b'"error"'), _LINES),
    "codex_exec": Kind(
        lambda _: CodexExecTranslator(),
        command_lines,
        contains(b'"turn.completed"', b'"turn.failed"', b'"error"'),
        _LINES,
    ),
    "gemini": Kind(lambda _: GeminiTranslator(), command_lines, contains(b'"error"'), _LINES),
    "langgraph": Kind(
        lambda _: SdkRun(LangGraphTranslator()), graph_natives, has("_raised", "_client", "_end"), GARBAGE["langgraph"]
    ),
    "oai": Kind(
        lambda _: SdkRun(OpenAIAgentsTranslator()),
        openai_natives,
        has("_raised", "_after", "_client"),
        GARBAGE["openai-agents"],
    ),
    "opencode_run": Kind(lambda _: OpencodeRunTranslator(), command_lines, _ENDS, _LINES),
    "opencode_serve": Kind(OpencodeBus, command_lines, _ENDS, _LINES),
    "pydantic_ai": Kind(
        lambda _: SdkRun(PydanticAITranslator()), natives, has("_raised", "_client", "output"), GARBAGE["pydantic-ai"]
    ),
    "pydantic_ai_vercel": _VERCEL,
    "vercel": _VERCEL,
}
