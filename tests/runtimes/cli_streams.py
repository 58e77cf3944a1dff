"""Recorded streams of codex, gemini and opencode, their translators, and what a reader expects of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sdk_streams
from hypothesis import strategies as st
from sdk_streams import RECORDINGS, Turn, turn_of

from event_strategies import json_values
from tailrace.events import TextDelta, TurnFailed
from tailrace.runtimes.codex.client import CodexClient
from tailrace.runtimes.codex.translator import CodexExecTranslator
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.opencode.translator import OpencodeRunTranslator, OpencodeTranslator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.events import Event

METADATA = (
    "Model metadata for `gpt-5.1-codex` not found. Defaulting to fallback metadata; this can degrade performance and "
    "cause issues."
)


@dataclass(frozen=True)
class Expected(sdk_streams.Expected):
    """What a reader of a recording expects: `answer` is the agent's own text, `children` that of its subagents.

    `message` and `code` are those of a failure.
    """

    children: str = ""
    message: str | None = None


def raw_lines(recording: str) -> list[bytes]:
    """What the recording holds, without its header."""
    return (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines()[1:]


@cache
def lines_of(recording: str) -> list[bytes]:
    """The lines that an agent wrote, also of a recording that holds both directions."""
    lines = [json.loads(line) for line in raw_lines(recording)]
    if not any("ev" in line for line in lines):
        return raw_lines(recording)
    return [json.dumps(line["ev"]).encode() for line in lines if line.get("dir") != "out"]


class Codex:
    """The client of `codex app-server`, which allows everything; `sent` is what it sends."""

    def __init__(self) -> None:
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

    def __init__(self, lines: Sequence[bytes]) -> None:
        created = (json.loads(line) for line in lines if b'"session.created"' in line)
        session = next((event["properties"]["sessionID"] for event in created), "ses_none")
        self.translator = OpencodeTranslator(session)

    def feed(self, line: bytes) -> list[Event]:
        try:
            return self.translator.feed(json.loads(line))
        except ValueError:
            return self.translator.feed(line.decode(errors="replace"))

    def close(self) -> list[Event]:
        return self.translator.close()


AnyTranslator = Codex | CodexExecTranslator | GeminiTranslator | OpencodeBus | OpencodeRunTranslator


def translator(recording: str) -> AnyTranslator:
    """The translator of a recording."""
    match recording.split("_"):
        case ["codex", "app", *_]:
            return Codex()
        case ["codex", *_]:
            return CodexExecTranslator()
        case ["gemini", *_]:
            return GeminiTranslator()
        case ["opencode", "serve", *_]:
            return OpencodeBus(lines_of(recording))
        case _:
            return OpencodeRunTranslator()


def translated(recording: str, lines: Sequence[bytes] | None = None) -> list[Event]:
    """The events that the recording, or other lines of its kind, comes to."""
    lines = lines_of(recording) if lines is None else lines
    made = translator(recording)
    return [*(event for line in lines for event in made.feed(line)), *made.close()]


def own(events: Sequence[Event]) -> list[Event]:
    """The events that are not a subagent's."""
    return [event for event in events if getattr(event, "parent_tool_id", None) is None]


def hold(recording: str, expected: Expected) -> None:
    """Compare a recording with what is expected of it."""
    events = translated(recording)
    turn = turn_of(own(events))
    assert turn.answer == list(expected.answer)
    assert turn.thoughts == list(expected.thoughts)
    assert turn.status == list(expected.status)
    assert turn.notices == list(expected.notices)
    assert turn_of(events).tools == list(expected.tools)
    children = (event for event in events if isinstance(event, TextDelta) and event.parent_tool_id is not None)
    assert "".join(event.text for event in children) == expected.children
    assert_end(turn, expected)


def assert_end(turn: Turn, expected: Expected) -> None:
    terminal = turn.terminal
    assert type(terminal) is expected.terminal
    if isinstance(terminal, TurnFailed):
        assert (terminal.message, terminal.code) == (expected.message, expected.code)
    assert turn.errors == ([] if expected.message is None else [expected.message])


def own_text(events: Sequence[Event]) -> str:
    """The agent's text, joined."""
    return "".join(turn_of(own(events)).answer)


def with_junk(lines: Sequence[bytes]) -> list[bytes]:
    """The lines with unreadable ones between them."""
    junk = [b"", b"not json", b"\xff\xfe", b"null", b"[]", b"{}", b'{"type": 5}', b'{"type": "unheard/of"}', b'{"a"']
    return [piece for at, line in enumerate(lines) for piece in (junk[at % len(junk)], line)]


@st.composite
def changed(draw: st.DrawFn, recordings: Sequence[str]) -> bytes:
    """A recorded line with one value changed, or bytes that are no line."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=12))
    lines = [line for recording in recordings for line in lines_of(recording)]
    value = json.loads(draw(st.sampled_from(lines)))
    place = value
    while isinstance(place, dict) and place:
        name = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or draw(st.booleans()):
            place[name] = draw(json_values)
            break
        place = place[name]
    return json.dumps(value).encode()
