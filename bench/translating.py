"""The cost of translating a native event of each runtime, against `json.loads` of its line.

The events are those of the recordings that the tests read. For agents that write lines the measurement includes the
decoding of the line. Python SDKs give objects; for them it starts with the plain value.
"""

from __future__ import annotations

import json
import time
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from bench.rows import Row, Scale, at_most, best_of_each
from tailrace.events import (
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.acp import AcpTranslator
from tailrace.runtimes.acp.agent import PERMISSION, UPDATE, RpcMessage
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.claude import ClaudeTranslator
from tailrace.runtimes.codex.client import CodexClient
from tailrace.runtimes.codex.translator import CodexExecTranslator
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.langgraph import LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsTranslator
from tailrace.runtimes.opencode.translator import OpencodeRunTranslator, OpencodeTranslator
from tailrace.runtimes.pydantic_ai import PydanticAITranslator
from tailrace.runtimes.vercel import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.events import Event

Feed: TypeAlias = "Callable[[Any], list[Event]]"

RECORDINGS = Path(__file__).parent.parent / "tests" / "runtimes" / "recordings"
_CONTENT = (TextDelta, ReasoningDelta, ToolStarted)
_END = (TextRetracted, TurnCompleted, TurnFailed, TurnCancelled)
_DEAREST = 3.0
_SUSPECTS = 3
_NOTES = {"_raised", "_after", "_client", "_session_items", "sub_event"}
_EVENTS_PER_DELTA = 50  # one event per so many deltas is measured: an event costs more than a delta


class Adapter(NamedTuple):
    """How one kind of recording is translated: its files, the translator of a turn, and the value it gets per line."""

    name: str
    files: str
    begin: Callable[[Sequence[bytes]], Feed]
    native: Callable[[bytes], Any] = bytes


class Turn(NamedTuple):
    """A recorded turn: its lines, the values that are fed, the translator, and the indexes of its content."""

    recording: str
    lines: list[bytes]
    natives: list[Any]
    begin: Callable[[], Feed]
    first: int
    last: int


def _acp(_: Sequence[bytes]) -> Feed:
    translator = AcpTranslator()
    decode = msgspec.json.Decoder(RpcMessage).decode

    def feed(line: bytes) -> list[Event]:
        message = decode(line)
        if message.method == UPDATE:
            return translator.update(message.params)
        if message.method == PERMISSION:
            return translator.permission_request(message.params)[0]
        return translator.prompt_result(message.result) if "stopReason" in (message.result or ()) else []

    return feed


def _opencode(lines: Sequence[bytes]) -> Feed:
    created = (json.loads(line) for line in lines if b'"session.created"' in line)
    translator = OpencodeTranslator(next((event["properties"]["sessionID"] for event in created), ""))
    return _of_values(translator.feed)


def _of_values(feed: Feed) -> Feed:
    """Feed the values of lines that are the data of server-sent events."""
    return lambda line: feed(frame_value(line.decode()))


ADAPTERS = (
    Adapter("acp", "acp_*", _acp),
    Adapter("agui", "agui_*", lambda _: _of_values(AguiTranslator("").feed)),
    Adapter("claude", "claude_cli_*", lambda _: ClaudeTranslator().feed),
    Adapter("claude-sdk, from values", "claude_cli_*", lambda _: ClaudeTranslator().feed, json.loads),
    Adapter("codex app-server", "codex_app_*", lambda _: CodexClient("").feed),
    Adapter("codex exec", "codex_exec_*", lambda _: CodexExecTranslator().feed),
    Adapter("gemini", "gemini_*", lambda _: GeminiTranslator().feed),
    Adapter("langgraph, from values", "langgraph_*", lambda _: LangGraphTranslator().feed, json.loads),
    Adapter("openai-agents, from values", "oai_*", lambda _: OpenAIAgentsTranslator().feed, json.loads),
    Adapter("opencode serve", "opencode_serve_*", _opencode),
    Adapter("opencode run", "opencode_run_*", lambda _: OpencodeRunTranslator().feed),
    Adapter("pydantic-ai, from values", "pydantic_ai_[!av]*", lambda _: PydanticAITranslator().feed, json.loads),
    Adapter("vercel", "vercel*_ui_*", lambda _: _of_values(VercelTranslator().feed)),
)


def rows(scale: Scale) -> Iterator[Row]:
    """One row per adapter, and one for the recording whose cost grows most with the length of its turn."""
    events = max(1, scale.deltas // _EVENTS_PER_DELTA)
    recorded = {adapter.name: _turns(adapter) for adapter in ADAPTERS}
    for name, turns in recorded.items():
        yield _per_event(name, turns, events, scale.repeats)
    with_content = [turn for turns in recorded.values() for turn in turns if turn.first < turn.last]
    yield _longer_turns(with_content, max(1, events // 4), scale.repeats)


def _turns(adapter: Adapter) -> list[Turn]:
    """The recorded turns of an adapter."""
    turns = []
    for path in sorted(RECORDINGS.glob(f"{adapter.files}.ndjson")):
        lines = [line for raw in path.read_bytes().splitlines()[1:] if (line := _agent_line(raw))]
        natives = [adapter.native(line) for line in lines]
        begin = partial(adapter.begin, lines)
        turns.append(Turn(path.stem, lines, natives, begin, *_content(natives, begin())))
    return turns


def _content(natives: Sequence[Any], feed: Feed) -> tuple[int, int]:
    """The index of the first content, and of the end or retraction of the turn.

    A retraction repeats the text that is still valid, so its cost grows with the text. No turn has thousands of them.
    """
    translated = [feed(native) for native in natives]
    content = [index for index, events in enumerate(translated) if any(isinstance(event, _CONTENT) for event in events)]
    ends = [index for index, events in enumerate(translated) if any(isinstance(event, _END) for event in events)]
    return (content or [len(translated)])[0], (ends or [len(translated)])[0]


def _agent_line(raw: bytes) -> bytes:
    """The agent's part of a line of a recording. Empty for a note of the recorder and for our own messages."""
    line = json.loads(raw)
    if "sse" in line:
        value = json.dumps(line["ev"]) if "ev" in line else line["sse"].removeprefix("data: ").strip()
        return b"" if value == "[DONE]" else str(value).encode()
    if "ev" not in line:
        return b"" if "_t" in line else raw
    value = line["ev"]
    is_note = isinstance(value, dict) and not _NOTES.isdisjoint(value)
    return b"" if is_note or line.get("dir") == "out" else json.dumps(value).encode()


def _per_event(name: str, turns: Sequence[Turn], events: int, repeats: int) -> Row:
    recorded = sum(len(turn.lines) for turn in turns)
    rounds = -(-events // recorded)

    def translate() -> None:
        for _ in range(rounds):
            for turn in turns:
                feed = turn.begin()
                for native in turn.natives:
                    feed(native)

    def load() -> None:
        for _ in range(rounds):
            for turn in turns:
                for line in turn.lines:
                    json.loads(line)

    ours, baseline = (
        taken / rounds / recorded for taken in best_of_each(repeats, [translate, load], time.process_time)
    )
    return at_most(f"an event of {name}, against json.loads of its line", ours, baseline, _DEAREST)


def _longer_turns(turns: Sequence[Turn], events: int, repeats: int) -> Row:
    """The row of the recording that costs most when the turn becomes four times as long."""

    def times_as_much(turn: Turn, repeats: int) -> tuple[float, float, float]:
        # The same number of events on both sides, so that a busy moment of the machine affects both equally.
        works = [_long(turn, 4 * events), _long(turn, events, times=4)]
        whole, quarters = best_of_each(repeats, works, time.process_time)
        return 4 * whole / quarters, whole, quarters / 4

    suspects = sorted(turns, key=lambda turn: times_as_much(turn, 2)[0])[-_SUSPECTS:]
    measured = {turn.recording: times_as_much(turn, 4 * repeats) for turn in suspects}
    worst = max(measured, key=lambda recording: measured[recording][0])
    _, whole, quarter = measured[worst]
    return at_most(f"a turn of {4 * events:,} events, against a quarter (the worst: {worst})", whole, quarter, 4.4)


def _long(turn: Turn, events: int, *, times: int = 1) -> Callable[[], None]:
    """A function that translates turns which begin like the recorded one and then repeat its content."""
    natives = [*turn.natives[: turn.first], *islice(cycle(turn.natives[turn.first : turn.last]), events)]

    def translate() -> None:
        for _ in range(times):
            feed = turn.begin()
            for native in natives:
                feed(native)

    return translate
