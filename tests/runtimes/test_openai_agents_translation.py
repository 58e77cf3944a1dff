"""The recorded runs of the OpenAI Agents SDK, and what each of them comes to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sdk_streams import CUT_OFF, Expected, Turn, hold, hold_among_garbage, lines_of, littered, turn_of

from tailrace.errors import UsageError
from tailrace.events import (
    BlockFinal,
    Event,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.openai_agents import OpenAIAgentsRuntime, OpenAIAgentsTranslator
from tailrace.runtimes.sdk import SdkFailure

CHECK, SAID_HI = "Let me check.", "The tool said hi."
RUN_IT, KNOW = "I should run a command.", "Now I know."
WEATHER = ("get_weather", False)
NESTED = "oai_agent_as_tool_nested"
WAITING = "Waiting for approval: danger"

EXPECTED = [
    Expected("oai_agent_as_tool", ["parent answer"], [("ask_sub", False)]),
    Expected(
        NESTED,
        ["sub answer", "parent answer"],
        [("ask_sub", False)],
        notes="what the subagent of the run before said, in its place in that run",
    ),
    Expected("oai_approval_interrupt", ["approved and done"], [("danger", False)], notes="approved, and gone on with"),
    Expected(
        "oai_approval_interrupt 1",
        [WAITING],
        [("danger", None)],
        status=[WAITING],
        notes="up to the approval, which is the end where nobody can be asked",
    ),
    Expected("oai_cancel_after_turn", [CHECK], [WEATHER], [RUN_IT], TurnCancelled),
    Expected("oai_cancel_immediate", ["w0 w1 w2 "], terminal=TurnCancelled),
    Expected("oai_chat_badargs", ["Bad.", "Recovered."], [("get_weather", True)]),
    Expected("oai_chat_empty", ["Héllo wörld 👋🏽"], [WEATHER], notes="the second model call says nothing"),
    Expected(
        "oai_chat_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["fake failure mid-stream"],
        code="runtime_raised",
    ),
    Expected(
        "oai_chat_http400",
        terminal=TurnFailed,
        errors=["Error code: 400 - invalid request from fake"],
        code="runtime_raised",
    ),
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
    Expected(
        "oai_responses_cut",
        ["This will be cut"],
        terminal=TurnFailed,
        errors=["Model did not produce a final response!"],
        code="runtime_raised",
    ),
    Expected(
        "oai_responses_http400",
        terminal=TurnFailed,
        errors=["Error code: 400 - invalid request from fake"],
        code="runtime_raised",
    ),
    Expected("oai_responses_parallel", ["Running two.", "Both done."], [WEATHER, WEATHER]),
    Expected(
        "oai_responses_think2",
        ["Answer after two thoughts.", "Final."],
        [WEATHER],
        ["First thought block.", "Second thought block.", "Third thought."],
        notes="between the first two thoughts is one of which only the provider's blob is told",
    ),
    Expected("oai_responses_tool", [CHECK, SAID_HI], [WEATHER], [RUN_IT, KNOW]),
    Expected(
        "oai_scripted_handoff",
        ["Transferring.", "hola"],
        thoughts=["route it"],
        status=["Handed over to spanish"],
        notes="the call that hands over is no tool",
    ),
    Expected(
        "oai_scripted_midstream_error",
        tools=[WEATHER],
        terminal=TurnFailed,
        errors=["provider died"],
        code="runtime_raised",
    ),
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
GARBAGE: list[Any] = [
    None,
    7,
    "event",
    [],
    {},
    {"type": "raw_response_event"},
    {"type": "raw_response_event", "data": {"type": "response.output_text.delta", "delta": 7, "output_index": 0}},
    {"type": "raw_response_event", "data": {"type": "response.output_item.done", "item": [], "output_index": 0}},
    {"type": "raw_response_event", "data": {"type": "somebody.elses"}},
    {"type": "run_item_stream_event", "name": "tool_output", "item": {"raw_item": None}},
    {"type": "run_item_stream_event", "name": "never_heard_of", "item": {}},
    {"type": "agent_updated_stream_event", "new_agent": None},
]


def recorded_run(recording: str) -> list[Any]:
    """The lines of a run: up to an approval where the name has a number, else with what came of that."""
    if recording == NESTED:
        return with_the_subagent()
    name, _, until_approval = recording.partition(" ")
    lines = lines_of(name)
    resumed = [place for place, line in enumerate(lines) if "resume" in str(line.get("ev", {}).get("_client", ""))]
    if not resumed:
        return lines
    return lines[: resumed[0]] if until_approval else [*lines[: resumed[0] - 1], *lines[resumed[0] + 1 :]]


def with_the_subagent() -> list[Any]:
    """A run with what its subagent says, which the SDK tells apart from it."""
    parent = lines_of(NESTED.removesuffix("_nested"))
    called = next(place for place, line in enumerate(parent) if line["ev"].get("name") == "tool_called")
    return [*parent[: called + 1], *lines_of(NESTED), *parent[called + 1 :]]


def translated(lines: list[Any], translator: OpenAIAgentsTranslator | None = None) -> list[Event]:
    """The run as the runtime would tell it; the recorder's own lines say how it ended."""
    translator = translator or OpenAIAgentsTranslator()
    events: list[Event] = []
    cancelled = False
    for line in lines:
        said = line.get("ev", line)
        match said:
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
            case _:
                events += translator.feed(said)
    return [*events, *translator.close(cancelled=cancelled)]


def turn(*events: Any) -> Turn:
    """A run of these events alone, which ends with an answer."""
    translator = OpenAIAgentsTranslator()
    told = [event for native in events for event in translator.feed(native)]
    return turn_of([*told, *translator.finished(output="over"), *translator.close()])


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "raw_response_event", "data": {"type": f"response.{kind}", **fields}}


def item(name: str, raw_item: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "run_item_stream_event", "name": name, "item": {"raw_item": raw_item, **fields}}


def message(text: str) -> dict[str, Any]:
    return {"id": "__fake_id__", "type": "message", "content": [{"type": "output_text", "text": text}]}


BEGUN = raw("created", response={})
DONE = raw("completed", response={"usage": None})


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn_of(translated(recorded_run(expected.recording))), expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_stream_that_breaks_off_anywhere_is_a_failed_turn_with_what_was_said(expected: Expected) -> None:
    lines = [line for line in recorded_run(expected.recording) if not {"_raised", "_after", "_client"} & {*line["ev"]}]
    whole = "".join(turn_of(translated(lines)).answer)
    for cut in range(len(lines) + 1):
        broken = turn_of(translated(lines[:cut]))
        assert isinstance(broken.terminal, TurnFailed)
        assert broken.terminal.code == CUT_OFF
        assert whole.startswith("".join(broken.answer))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_garbage_in_between_is_noticed_and_changes_nothing_else(expected: Expected) -> None:
    hold_among_garbage(turn_of(translated(littered(recorded_run(expected.recording), GARBAGE))), expected)


def test_deltas_win_and_the_whole_of_a_block_says_nothing_twice() -> None:
    events = translated(lines_of("oai_responses_tool"))
    said = [event.text for event in events if isinstance(event, TextDelta)]
    assert said == ["Let me ", "check.", "The tool ", "said hi", "."]
    assert [event.text for event in events if isinstance(event, BlockFinal)] == [None, None]


def test_a_whole_that_differs_from_its_deltas_corrects_them() -> None:
    found = turn(
        BEGUN,
        raw("output_text.delta", output_index=0, delta="teh end"),
        raw("output_item.done", output_index=0, item=message("the end")),
        DONE,
        item("message_output_created", message("the end")),
    )
    assert found.answer == ["the end"]


def test_a_response_without_deltas_is_told_by_its_items() -> None:
    thought = {"type": "reasoning", "summary": [{"text": "hm"}, {"text": "well"}], "encrypted_content": "blob"}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at": 1}'}
    found = turn(
        BEGUN,
        DONE,
        item("reasoning_item_created", thought),
        item("message_output_created", message("one")),
        item("tool_called", call),
        item("tool_output", {"type": "function_call_output", "call_id": "c"}, output={"seen": True}),
    )
    assert found.thoughts == ["hm\n\nwell"]
    assert found.answer == ["one"]
    assert [(one.name, one.arguments, one.result) for one in found.calls] == [("look", {"at": 1}, {"seen": True})]


def test_an_item_that_no_model_call_made_is_told_as_well() -> None:
    found = turn(
        BEGUN,
        raw("output_text.delta", output_index=0, delta="one"),
        raw("output_item.done", output_index=0, item=message("one")),
        DONE,
        item("message_output_created", message("one")),
        item("message_output_created", message("I had to stop here")),
    )
    assert found.answer == ["one", "I had to stop here"]


def test_blocks_are_known_by_their_place_because_chat_models_call_every_item_the_same() -> None:
    found = turn(
        BEGUN,
        raw("output_text.delta", item_id="__fake_id__", output_index=0, delta="one"),
        raw("output_text.delta", item_id="__fake_id__", output_index=1, delta="two"),
        DONE,
        BEGUN,
        raw("output_text.delta", item_id="__fake_id__", output_index=0, delta="three"),
        DONE,
    )
    assert found.answer == ["one", "two", "three"]


def test_a_tool_is_known_over_an_approval_and_the_run_that_follows_it() -> None:
    lines = lines_of("oai_approval_interrupt")
    resumed = next(place for place, line in enumerate(lines) if "_client" in line["ev"])
    together = [line for line in lines if not {"_after", "_client"} & {*line["ev"]}]
    assert turn_of(translated([*together, lines[-1]])).tools == [("danger", False)]
    apart = turn_of(translated(lines[resumed + 1 :]))
    assert (apart.tools, apart.answer) == ([("tool", False)], ["approved and done"])


def test_a_tool_is_told_when_the_model_begins_to_write_the_call() -> None:
    translator = OpenAIAgentsTranslator()
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": ""}
    translator.feed(BEGUN)
    begun = translator.feed(raw("output_item.added", output_index=0, item=call))
    assert begun == [ToolStarted(id="c", name="look")]
    written = translator.feed(raw("output_item.done", output_index=0, item=call | {"arguments": '{"at": '}))
    assert written == [ToolInput(id="c", arguments='{"at": ')]
    assert translator.feed(item("tool_called", call)) == []


def test_a_tool_of_the_provider_ends_with_its_call() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "tides"}}
    found = turn(
        BEGUN,
        raw("output_item.added", output_index=0, item=search),
        raw("web_search_call.searching", output_index=0, item_id="ws"),
        raw("output_item.done", output_index=0, item=search),
        DONE,
        item("tool_called", search),
    )
    assert found.tools == [("web_search", False)]
    assert found.calls[0].arguments == {"query": "tides"}


def test_a_handoff_under_a_name_of_its_own_ends_when_it_is_done() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "escalate", "arguments": "{}"}
    found = turn(
        BEGUN,
        raw("output_item.added", output_index=0, item=call),
        DONE,
        item("handoff_requested", call),
        item("handoff_occured", {"type": "function_call_output", "call_id": "c", "output": "gone"}),
    )
    assert found.tools == [("escalate", False)]


def test_a_tool_that_is_named_like_a_handoff_is_told_when_it_is_called() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "transfer_to_savings", "arguments": "{}"}
    found = turn(
        BEGUN,
        raw("output_item.added", output_index=0, item=call),
        raw("output_item.done", output_index=0, item=call),
        DONE,
        item("tool_called", call),
        item("tool_output", {"type": "function_call_output", "call_id": "c"}, output="done"),
    )
    assert found.tools == [("transfer_to_savings", False)]


def test_a_model_that_is_asked_again_takes_back_what_it_said() -> None:
    found = turn(
        BEGUN,
        raw("output_text.delta", output_index=0, delta="The answ"),
        BEGUN,
        raw("output_text.delta", output_index=0, delta="The answer."),
        DONE,
    )
    assert found.answer == ["The answer."]


def test_what_a_completed_model_call_said_stands_when_the_next_is_asked_again() -> None:
    found = turn(
        BEGUN,
        raw("output_text.delta", output_index=0, delta="One."),
        DONE,
        BEGUN,
        raw("output_text.delta", output_index=0, delta="Tw"),
        BEGUN,
        raw("output_text.delta", output_index=0, delta="Two."),
        DONE,
    )
    assert found.answer == ["One.", "Two."]


@pytest.mark.parametrize("kind", ["InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"])
def test_what_a_guardrail_objects_to_does_not_stand(kind: str) -> None:
    translator = OpenAIAgentsTranslator()
    events = [
        *translator.feed(BEGUN),
        *translator.feed(raw("output_text.delta", output_index=0, delta="a secret")),
        *translator.feed(raw("output_item.done", output_index=0, item=message("a secret"))),
        *translator.feed(DONE),
        *translator.feed(item("message_output_created", message("a secret"))),
        *translator.raised(SdkFailure(kind=kind, message="no")),
        *translator.close(),
    ]
    assert TextRetracted(reason="no", scope="turn") in events
    found = turn_of(events)
    assert (found.answer, found.errors) == ([], ["no"])
    assert isinstance(found.terminal, TurnFailed)
    assert found.terminal.code == "guardrail"


def test_the_end_is_the_cancellation_before_the_failure_before_the_answer() -> None:
    def ended(*, cancelled: bool, failed: bool, answered: bool) -> Event:
        translator = OpenAIAgentsTranslator()
        if answered:
            translator.finished(output="yes")
        if failed:
            translator.raised(SdkFailure(kind="RuntimeError", message="no", status_code=503))
        (terminal,) = translator.close(cancelled=cancelled)
        return terminal

    assert ended(cancelled=True, failed=True, answered=True) == TurnCancelled()
    failure = TurnFailed(message="no", code="runtime_raised", status_code=503)
    assert ended(cancelled=False, failed=True, answered=True) == failure
    assert ended(cancelled=False, failed=False, answered=True) == TurnCompleted(text="yes")


def test_a_run_that_ends_without_an_output_was_cut_off() -> None:
    translator = OpenAIAgentsTranslator()
    translator.finished(output=None)
    (terminal,) = translator.close()
    assert isinstance(terminal, TurnFailed)
    assert terminal.code == CUT_OFF


def test_an_answer_that_no_model_spoke_is_told_at_the_end() -> None:
    assert turn().answer == ["over"]
    translator = OpenAIAgentsTranslator()
    translator.finished(output={"city": "Oslo"})
    assert turn_of(translator.close()).answer == ['{"city":"Oslo"}']


def test_usage_says_whether_it_is_of_a_request_or_of_the_turn() -> None:
    events = translated(lines_of("oai_responses_tool"))
    assert [event for event in events if isinstance(event, Usage)] == [
        Usage(input_tokens=100, output_tokens=33, scope="request"),
        Usage(input_tokens=100, output_tokens=33, scope="request"),
    ]
    total = OpenAIAgentsTranslator().finished(output="", tokens=(200, 66))
    assert total == [Usage(input_tokens=200, output_tokens=66, scope="turn")]


def test_a_subagent_is_heard_under_the_call_that_it_is() -> None:
    events = translated(with_the_subagent())
    assert [(event.text, event.parent_tool_id) for event in events if isinstance(event, TextDelta)] == [
        ("sub answer", "c_sub"),
        ("parent answer", None),
    ]
    finished = next(place for place, event in enumerate(events) if isinstance(event, ToolFinished))
    spoken = next(place for place, event in enumerate(events) if isinstance(event, TextDelta))
    assert spoken < finished


def test_what_the_provider_keeps_with_a_thought_is_kept_as_it_is() -> None:
    ends = [event for event in translated(lines_of("oai_responses_think2")) if isinstance(event, ReasoningEnd)]
    assert [end.metadata for end in ends] == ["c2lnLTE=", "ZW5jcnlwdGVk", "c2lnLTI=", "c2lnLTM="]


def test_the_sections_of_a_thought_stand_apart() -> None:
    found = turn(
        BEGUN,
        raw("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="One "),
        raw("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="side."),
        raw("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="The other."),
        DONE,
    )
    assert found.thoughts == ["One side.\n\nThe other."]


def test_what_the_provider_says_of_a_failure_is_clearer_than_the_exception() -> None:
    for trouble in (
        raw("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
        {"type": "raw_response_event", "data": {"type": "error", "message": "max_output_tokens"}},
    ):
        translator = OpenAIAgentsTranslator()
        assert translator.feed(trouble) == []
        translator.raised(SdkFailure(kind="ModelBehaviorError", message="stream ended with terminal event"))
        (terminal,) = translator.close()
        assert terminal == TurnFailed(message="max_output_tokens", code="runtime_raised")


def test_finer_steps_of_the_provider_are_passed_over_and_what_is_unknown_is_noticed() -> None:
    found = turn(raw("output_text.annotation.added"), raw("code_interpreter_call.in_progress"), {"type": "new"})
    assert found.notices == ['openai-agents sent an unknown event: {"type": "new"}']


def test_an_approval_that_the_provider_asks_for_is_a_status() -> None:
    asked = item("mcp_approval_requested", {"type": "mcp_approval_request", "name": "wipe", "id": "a"})
    assert OpenAIAgentsTranslator().feed(asked) == [Status(text="Waiting for approval: wipe")]


def test_ten_thousand_pieces_come_to_as_many_events() -> None:
    translator = OpenAIAgentsTranslator()
    translator.feed(BEGUN)
    events = [
        event
        for number in range(10_000)
        for event in translator.feed(raw("output_text.delta", output_index=0, delta=f"{number} "))
    ]
    assert len(events) == 10_000
    assert turn_of([*events, *translator.finished(output=""), *translator.close()]).answer == [
        "".join(f"{number} " for number in range(10_000))
    ]


def test_without_the_sdk_the_agent_says_what_to_install() -> None:
    runtime: Runtime = OpenAIAgentsRuntime(object())

    async def begin() -> None:
        async for _ in runtime.run(Prompt(text="hello")):
            pass

    with pytest.raises(UsageError, match=r"pip install -e '\.\[openai-agents\]'"):
        asyncio.run(begin())
