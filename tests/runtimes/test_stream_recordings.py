"""Recorded streams of agents behind an address and of Python SDKs: what each becomes, whole, cut and among garbage.

A person has read every recording; its row says what a reader expects. The rows of AG-UI and the AI SDK are in
`agui_streams` and `vercel_streams`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import agui_streams
import pytest
import vercel_streams
from sdk_streams import CUT_OFF, Expected, hold, lines_of, turn_of

from tailrace.events import Event, TurnCancelled, TurnFailed
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.langgraph import LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsTranslator
from tailrace.runtimes.pydantic_ai import PydanticAITranslator
from tailrace.runtimes.sdk import SdkFailure
from tailrace.runtimes.vercel import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHECK, SAID_HI, SUNNY = "Let me check.", "The tool said hi.", "It is sunny."
RUN_IT, RUN_TOOL, KNOW = "I should run a command.", "I should run a tool.", "Now I know."
WEATHER = ("get_weather", False)
RAISED: dict[str, Any] = {"terminal": TurnFailed, "code": "runtime_raised"}
WAITING = "Waiting for approval: danger"
LOOKING = "looking up echo tool-says-hi"
NESTED = "oai_agent_as_tool_nested"

OPENAI_AGENTS = [
    Expected("oai_agent_as_tool", ["parent answer"], [("ask_sub", False)]),
    Expected(
        NESTED,
        ["sub answer", "parent answer"],
        [("ask_sub", False)],
        notes="the subagent's events of the run before, at their place in that run",
    ),
    Expected("oai_approval_interrupt", ["approved and done"], [("danger", False)], notes="approved, then continued"),
    Expected(
        "oai_approval_interrupt 1",
        [WAITING],
        [("danger", None)],
        status=[WAITING],
        notes="up to the approval, which is the end if nobody can be asked",
    ),
    Expected("oai_cancel_after_turn", [CHECK], [WEATHER], [RUN_IT], TurnCancelled),
    Expected("oai_cancel_immediate", ["w0 w1 w2 "], terminal=TurnCancelled),
    Expected("oai_chat_badargs", ["Bad.", "Recovered."], [("get_weather", True)]),
    Expected("oai_chat_empty", ["Héllo wörld 👋🏽"], [WEATHER], notes="the second model call sends nothing"),
    Expected("oai_chat_errmid", ["This will break"], errors=["fake failure mid-stream"], **RAISED),
    Expected("oai_chat_http400", errors=["Error code: 400 - invalid request from fake"], **RAISED),
    Expected("oai_chat_tool", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW]),
    Expected(
        "oai_guardrail_input",
        terminal=TurnFailed,
        errors=["Guardrail InputGuardrail triggered tripwire"],
        code="guardrail",
    ),
    Expected(
        "oai_maxturns",
        ["again ", "again "],
        [WEATHER, WEATHER],
        terminal=TurnFailed,
        errors=["Max turns (2) exceeded"],
        code="max_turns",
    ),
    Expected("oai_responses_cut", ["This will be cut"], errors=["Model did not produce a final response!"], **RAISED),
    Expected("oai_responses_http400", errors=["Error code: 400 - invalid request from fake"], **RAISED),
    Expected("oai_responses_parallel", ["Running two.", "Both done."], [WEATHER, WEATHER]),
    Expected(
        "oai_responses_think2",
        ["Answer after two thoughts.", "Final."],
        [WEATHER],
        ["First thought block.", "Second thought block.", "Third thought."],
        notes="between the first two is one of which the provider sends only its own data",
    ),
    Expected("oai_responses_tool", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW]),
    Expected(
        "oai_scripted_handoff",
        ["Transferring.", "hola"],
        thoughts=["route it"],
        status=["Handed over to spanish"],
        notes="the call that hands over is no tool",
    ),
    Expected("oai_scripted_midstream_error", tools=[WEATHER], errors=["provider died"], **RAISED),
    Expected("oai_scripted_toolerror", ["done"], [("boom", True), WEATHER]),
    Expected("oai_session_cancel_after_turn", [CHECK], [WEATHER], [RUN_IT], TurnCancelled),
    Expected(
        "oai_session_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["fake failure mid-stream"],
        code="server_error",
    ),
    Expected("oai_session_turn1", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW]),
    Expected("oai_session_turn2", ["Hello from the fake model."]),
]
PYDANTIC_AI = [
    Expected("pydantic_ai_tool", [CHECK, SUNNY], [WEATHER], [RUN_TOOL, KNOW]),
    Expected("pydantic_ai_parallel", ["Two.", "Both done."], [WEATHER, WEATHER]),
    Expected("pydantic_ai_errmid", ["partial text"], errors=["provider died mid-stream"], **RAISED),
    Expected("pydantic_ai_break", ["w0 w1 w2 w3 w4 "], terminal=TurnCancelled),
    Expected("pydantic_ai_testmodel", ['{"get_weather":"sunny in a"}'], [WEATHER]),
]
LANGGRAPH = [
    Expected("langgraph_tool_chat", [CHECK, SAID_HI], [WEATHER], status=[LOOKING]),
    Expected("langgraph_tool_responses", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW], status=[LOOKING]),
    Expected("langgraph_v2_tool_responses", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW], status=[LOOKING]),
    Expected("langgraph_events_v2_chat", [CHECK, SAID_HI], [WEATHER]),
    Expected("langgraph_events_v3_responses", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW]),
    Expected(
        "langgraph_values_chat", [CHECK, SAID_HI], [WEATHER], notes="snapshots alone: each repeats the one before"
    ),
    Expected("langgraph_errmid_chat", ["This will break"], errors=["fake failure mid-stream"], **RAISED),
    Expected(
        "langgraph_break_chat", ["w0 w1 w2 w3 w4 "], terminal=TurnCancelled, notes="one mode, so without its name"
    ),
]

OPENAI_GARBAGE: list[Any] = [
    *(None, 7, "event", [], {}, {"type": "raw_response_event"}),
    {"type": "raw_response_event", "data": {"type": "response.output_text.delta", "delta": 7, "output_index": 0}},
    {"type": "raw_response_event", "data": {"type": "response.output_item.done", "item": [], "output_index": 0}},
    {"type": "raw_response_event", "data": {"type": "somebody.elses"}},
    {"type": "run_item_stream_event", "name": "tool_output", "item": {"raw_item": None}},
    {"type": "run_item_stream_event", "name": "never_heard_of", "item": {}},
    {"type": "agent_updated_stream_event", "new_agent": None},
]
PYDANTIC_GARBAGE: list[Any] = [
    *(None, 7, "event", [], {}, {"event_kind": None}, {"event_kind": []}, {"event_kind": "never_heard_of"}),
    {"event_kind": "part_delta", "index": 0, "delta": {"part_delta_kind": "text", "content_delta": 7}},
    {"event_kind": "part_start", "index": "first", "part": {"part_kind": "text"}},
    {"event_kind": "function_tool_result", "part": None},
]
LANGGRAPH_GARBAGE: list[Any] = [
    *(None, 7, "messages", [], {}, ["messages", None], ["updates", 7]),
    ["messages", [{"type": "AIMessageChunk", "content": 7}, {}]],
    ["messages", [{"content": "no type"}, {}]],
    {"type": "never_heard_of", "data": {}},
    {"method": "messages", "params": {"data": [[], []]}},
]


def openai_lines(recording: str) -> list[Any]:
    """The lines of a run: up to an approval if the name has a number, else with what came of it."""
    if recording == NESTED:
        return with_the_subagent()
    name, _, until_approval = recording.partition(" ")
    lines = lines_of(name)
    resumed = [place for place, line in enumerate(lines) if "resume" in str(line.get("ev", {}).get("_client", ""))]
    if not resumed:
        return lines
    return lines[: resumed[0]] if until_approval else [*lines[: resumed[0] - 1], *lines[resumed[0] + 1 :]]


def with_the_subagent() -> list[Any]:
    """A run with the events of its subagent, which the SDK sends apart from it."""
    parent = lines_of(NESTED.removesuffix("_nested"))
    called = next(place for place, line in enumerate(parent) if line["ev"].get("name") == "tool_called")
    return [*parent[: called + 1], *lines_of(NESTED), *parent[called + 1 :]]


def openai_events(lines: Sequence[Any]) -> list[Event]:
    """The events of a run. Lines of the recorder say how it ended."""
    translator = OpenAIAgentsTranslator()
    events: list[Event] = []
    cancelled = False
    for line in lines:
        match line.get("ev", line):
            case {"_raised": {"__exception__": kind, "message": message}}:
                events += translator.raised(SdkFailure(kind=kind, message=message))
            case {"_after": after}:
                interruptions = after.get("interruptions") or []
                waiting = [one["name"] for one in interruptions] if isinstance(interruptions, list) else []
                events += translator.finished(output=after.get("final_output"), waiting=waiting)
            case {"_client": _}:
                cancelled = True
            case {"_session_items": _}:
                pass
            case {"sub_event": event, "tool_call_id": call}:
                events += translator.feed(event, parent=call)
            case native:
                events += translator.feed(native)
    return [*events, *translator.close(cancelled=cancelled)]


def sdk_events(translator: PydanticAITranslator | LangGraphTranslator, lines: Sequence[Any]) -> list[Event]:
    """The events of a run. Lines of the recorder say that it raised or was cancelled; else it may be cut."""
    events: list[Event] = []
    cancelled = False
    for line in lines:
        match line["ev"]:
            case {"_raised": {"__exception__": kind, "message": message}}:
                events += translator.raised(SdkFailure(kind=kind, message=message))
            case {"_client": _}:
                cancelled = True
            case {"_end": _} if isinstance(translator, LangGraphTranslator):
                events += translator.finished()
            case native:
                events += translator.feed(native)
    return [*events, *translator.close(cancelled=cancelled)]


def address_events(translator: AguiTranslator | VercelTranslator, natives: Sequence[Any]) -> list[Event]:
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


@dataclass(frozen=True)
class Adapter:
    """The recordings of one adapter: their lines, and the events that a run of such lines becomes.

    `is_end` is true for a line that ends the run. `wrap` makes a line from a native event.
    """

    expected: Sequence[Expected]
    lines: Callable[[str], list[Any]]
    events: Callable[[Sequence[Any]], list[Event]]
    garbage: Sequence[Any]
    is_end: Callable[[Any], bool]
    wrap: Callable[[Any], Any] = lambda native: {"ev": native}


def is_of(*names: str) -> Callable[[Any], bool]:
    return lambda line: any(name in line["ev"] for name in names)


ADAPTERS = {
    "agui": Adapter(
        agui_streams.EXPECTED,
        agui_streams.natives_of,
        lambda lines: address_events(AguiTranslator(), lines),
        agui_streams.GARBAGE,
        lambda native: native["type"] in {"RUN_FINISHED", "RUN_ERROR"},
        lambda native: native,
    ),
    "vercel": Adapter(
        vercel_streams.EXPECTED,
        vercel_streams.natives_of,
        lambda lines: address_events(VercelTranslator(), lines),
        vercel_streams.GARBAGE,
        lambda native: native == vercel_streams.DONE or native["type"] in {"finish", "error", "abort"},
        lambda native: native,
    ),
    "openai-agents": Adapter(
        OPENAI_AGENTS, openai_lines, openai_events, OPENAI_GARBAGE, is_of("_raised", "_after", "_client")
    ),
    "pydantic-ai": Adapter(
        PYDANTIC_AI,
        lines_of,
        lambda lines: sdk_events(PydanticAITranslator(), lines),
        PYDANTIC_GARBAGE,
        is_of("_raised", "_client", "output"),
    ),
    "langgraph": Adapter(
        LANGGRAPH,
        lambda recording: [*lines_of(recording), {"ev": {"_end": True}}],
        lambda lines: sdk_events(LangGraphTranslator(), lines),
        LANGGRAPH_GARBAGE,
        is_of("_raised", "_client", "_end"),
    ),
}
every_recording = pytest.mark.parametrize(
    ("adapter", "expected"),
    [pytest.param(adapter, row, id=row.recording) for adapter in ADAPTERS.values() for row in adapter.expected],
)


@every_recording
def test_a_recording_becomes_what_a_reader_expects(adapter: Adapter, expected: Expected) -> None:
    hold(turn_of(adapter.events(adapter.lines(expected.recording))), expected)


@every_recording
def test_a_stream_that_is_cut_anywhere_fails_and_keeps_its_text(adapter: Adapter, expected: Expected) -> None:
    lines = [line for line in adapter.lines(expected.recording) if not adapter.is_end(line)]
    answer = "".join(turn_of(adapter.events(lines)).answer)
    for length in range(len(lines) + 1):
        cut = turn_of(adapter.events(lines[:length]))
        assert isinstance(cut.terminal, TurnFailed)
        assert cut.terminal.code == CUT_OFF
        assert answer.startswith("".join(cut.answer))


@every_recording
def test_garbage_between_the_events_is_noted_once_and_changes_nothing(adapter: Adapter, expected: Expected) -> None:
    lines = adapter.lines(expected.recording)
    garbage = [adapter.wrap(adapter.garbage[place % len(adapter.garbage)]) for place in range(len(lines))]
    turn = turn_of(adapter.events([either for pair in zip(garbage, lines, strict=True) for either in pair]))
    assert "".join(turn.answer) == "".join(expected.answer)
    assert turn.tools == list(expected.tools)
    assert type(turn.terminal) is expected.terminal
    assert turn.notices
    assert len(turn.notices) == len(set(turn.notices)), "the same is noted once"


def test_a_stream_of_the_ai_sdk_may_be_cut_after_its_finish() -> None:
    for expected in vercel_streams.EXPECTED:
        *natives, last = vercel_streams.natives_of(expected.recording)
        assert last == vercel_streams.DONE
        terminals = [turn_of(ADAPTERS["vercel"].events(part)).terminal for part in (natives, [*natives, last])]
        assert terminals[0] == terminals[1]
