"""What the events of the OpenAI Agents SDK become. Recordings are in `test_recordings`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from recorded_turns import natives
from recorded_turns import translated as recorded
from turns import Case, case, table, turn_of

from tailrace.errors import UsageError
from tailrace.events import Event, Status, TextRetracted, ToolInput, ToolStarted, TurnFailed
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.openai_agents import OpenAIAgentsRuntime, OpenAIAgentsTranslator
from tailrace.runtimes.sdk import SdkFailure


def translated(*natives: Any) -> list[Event]:
    """The events of a run that ends with an answer after these."""
    translator = OpenAIAgentsTranslator()
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.finished(output="over"), *translator.close()]


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "raw_response_event", "data": {"type": f"response.{kind}", **fields}}


def item(name: str, raw_item: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "run_item_stream_event", "name": name, "item": {"raw_item": raw_item, **fields}}


def delta(text: str, index: int = 0) -> dict[str, Any]:
    # Chat Completions models give every item this id.
    return raw("output_text.delta", item_id="__fake_id__", output_index=index, delta=text)


def section(index: int, text: str) -> dict[str, Any]:
    return raw("reasoning_summary_text.delta", output_index=0, summary_index=index, delta=text)


def message(text: str) -> dict[str, Any]:
    return {"id": "__fake_id__", "type": "message", "content": [{"type": "output_text", "text": text}]}


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments}


def added(raw_item: dict[str, Any]) -> dict[str, Any]:
    return raw("output_item.added", output_index=0, item=raw_item)


def done(raw_item: dict[str, Any]) -> dict[str, Any]:
    return raw("output_item.done", output_index=0, item=raw_item)


BEGUN = raw("created", response={})
DONE = raw("completed", response={"usage": None})
OUTPUT = {"type": "function_call_output", "call_id": "c"}
REASONING = {"type": "reasoning", "summary": [{"text": "hm"}, {"text": "well"}], "encrypted_content": "blob"}
SEARCH = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "tides"}}
ONE_MESSAGE = item("message_output_created", message("one"))


@table(
    case(
        "the whole corrects its deltas",
        *[BEGUN, delta("teh end"), done(message("the end")), DONE, item("message_output_created", message("the end"))],
        answer=["the end"],
    ),
    case(
        "a response without deltas is read from its items",
        *[BEGUN, DONE, item("reasoning_item_created", REASONING), ONE_MESSAGE],
        *[item("tool_called", call("look", '{"at": 1}')), item("tool_output", OUTPUT, output={"seen": True})],
        answer=["one"],
        thoughts=["hm\n\nwell"],
        calls=[("look", {"at": 1}, {"seen": True})],
    ),
    case(
        "a message that no model call sent is read from its item",
        *[BEGUN, delta("one"), done(message("one")), DONE, ONE_MESSAGE],
        item("message_output_created", message("I had to stop here")),
        answer=["one", "I had to stop here"],
    ),
    case(
        "a retry keeps the text of completed model calls",
        *[BEGUN, delta("One."), DONE, BEGUN, delta("Tw"), BEGUN, delta("Two."), DONE],
        answer=["One.", "Two."],
    ),
    case(
        "sections of reasoning are paragraphs",
        *[BEGUN, section(0, "One "), section(0, "side."), section(1, "The other."), DONE],
        thoughts=["One side.\n\nThe other."],
    ),
    case(
        "unknown events are notices, but finer steps of the provider are ignored",
        *[raw("output_text.annotation.added"), raw("code_interpreter_call.in_progress"), {"type": "new"}],
        notices=['openai-agents sent an unknown event: {"type": "new"}'],
    ),
)
def test_text_and_reasoning(case: Case) -> None:
    case.check(translated(*case.natives))


@table(
    case(
        "a tool of the provider ends with its call",
        *[BEGUN, added(SEARCH), raw("web_search_call.searching", output_index=0, item_id="ws"), done(SEARCH), DONE],
        item("tool_called", SEARCH),
        calls=[("web_search", {"query": "tides"}, "")],
        tools=[("web_search", False)],
    ),
    case(
        "a handoff with a name of its own ends when it is done",
        *[BEGUN, added(call("escalate")), DONE, item("handoff_requested", call("escalate"))],
        item("handoff_occured", OUTPUT | {"output": "gone"}),
        tools=[("escalate", False)],
    ),
    case(
        "a tool with the name of a handoff starts when it is called",
        *[BEGUN, added(call("transfer_to_savings")), done(call("transfer_to_savings")), DONE],
        *[item("tool_called", call("transfer_to_savings")), item("tool_output", OUTPUT, output="done")],
        tools=[("transfer_to_savings", False)],
    ),
)
def test_tools(case: Case) -> None:
    case.check(translated(*case.natives))


def test_a_tool_starts_when_the_model_begins_to_write_the_call() -> None:
    translator = OpenAIAgentsTranslator()
    translator.feed(BEGUN)
    assert translator.feed(added(call("look", ""))) == [ToolStarted(id="c", name="look")]
    assert translator.feed(done(call("look", '{"at": '))) == [ToolInput(id="c", arguments='{"at": ')]
    assert translator.feed(item("tool_called", call("look"))) == []


def test_a_tool_is_known_across_an_approval_and_the_run_after_it() -> None:
    recording = "oai_approval_interrupt"
    lines = natives(recording)
    resumed = next(place for place, line in enumerate(lines) if "_client" in line)
    together = [line for line in lines if not {"_after", "_client"} & {*line}]
    assert turn_of(recorded(recording, [*together, lines[-1]])).tools == [("danger", False)]
    apart = turn_of(recorded(recording, lines[resumed + 1 :]))
    assert (apart.tools, apart.answer) == ([("tool", False)], ["approved and done"])


def test_an_approval_that_the_provider_asks_for_is_a_status() -> None:
    asked = item("mcp_approval_requested", {"type": "mcp_approval_request", "name": "wipe", "id": "a"})
    assert OpenAIAgentsTranslator().feed(asked) == [Status(text="Waiting for approval: wipe")]


@pytest.mark.parametrize("kind", ["InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"])
def test_text_that_a_guardrail_refuses_is_retracted(kind: str) -> None:
    translator = OpenAIAgentsTranslator()
    natives = [BEGUN, delta("a secret"), done(message("a secret")), DONE]
    natives.append(item("message_output_created", message("a secret")))
    events = [event for native in natives for event in translator.feed(native)]
    events += [*translator.raised(SdkFailure(kind=kind, message="no")), *translator.close()]
    assert TextRetracted(reason="no", scope="turn") in events
    turn = turn_of(events)
    assert (turn.answer, turn.terminal) == ([], TurnFailed(message="no", code="guardrail"))


@pytest.mark.parametrize(
    "error",
    [
        raw("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
        {"type": "raw_response_event", "data": {"type": "error", "message": "max_output_tokens"}},
    ],
    ids=["incomplete", "error"],
)
def test_the_provider_s_error_replaces_the_text_of_the_exception(error: dict[str, Any]) -> None:
    translator = OpenAIAgentsTranslator()
    assert translator.feed(error) == []
    translator.raised(SdkFailure(kind="ModelBehaviorError", message="stream ended with terminal event"))
    assert translator.close() == [TurnFailed(message="max_output_tokens", code="runtime_raised")]


def test_without_the_sdk_the_error_says_what_to_install() -> None:
    runtime: Runtime = OpenAIAgentsRuntime(object())

    async def start() -> None:
        await anext(aiter(runtime.run(Prompt(text="hello"))))

    with pytest.raises(UsageError, match=r"pip install -e '\.\[openai-agents\]'"):
        asyncio.run(start())
