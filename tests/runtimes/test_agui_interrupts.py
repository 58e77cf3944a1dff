"""The questions that an AG-UI run stops for: their text, and how the person's next message answers them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from agui_events import FINISHED, arguments, call, result
from turns import turn_of

from tailrace.events import Event, ToolFinished, ToolStarted
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.agui.history import AguiHistory

# LangChain's middleware waits for the approval of two calls.
REQUESTS = {
    "action_requests": [{"name": "wipe", "args": {"disk": "a"}}, {"name": "send", "args": {}}],
    "review_configs": [{"action_name": "wipe", "allowed_decisions": ["approve", "reject"]}],
}
REJECTED = {"decisions": [{"type": "reject", "message": "not that disk"}] * 2}


def interrupted(*interrupts: dict[str, Any]) -> dict[str, Any]:
    return FINISHED | {"outcome": {"type": "interrupt", "interrupts": list(interrupts)}}


def run_input(history: AguiHistory, text: str) -> dict[str, Any]:
    return history.run_input(text, thread_id="t", run_id="r", message_id=f"u-{text}")


def run(history: AguiHistory, *natives: Any) -> tuple[list[Event], AguiHistory]:
    """The events of a run, and the history after it was saved and loaded."""
    translator = AguiTranslator("", history.tool_names)
    events: list[Event] = []
    for native in natives:
        history.feed(native)
        events += translator.feed(native)
    events += translator.close()
    return events, AguiHistory(history.encode(translator.interrupts))


def question_and_reply(*natives: Any) -> tuple[list[str], dict[str, Any]]:
    """The answer of a first run, which asks a question, and the input of the next run, which replies."""
    history = AguiHistory()
    run_input(history, "wipe it")
    events, history = run(history, *natives)
    return turn_of(events).answer, run_input(history, "not that disk")


def test_calls_that_a_graph_names_are_rejected() -> None:
    event = {"type": "CUSTOM", "name": "on_interrupt", "value": msgspec.json.encode(REQUESTS).decode()}
    answer, reply = question_and_reply(event, FINISHED)
    assert answer == ["Waiting for approval: wipe, send"]
    assert reply["forwardedProps"] == {"command": {"resume": REJECTED}}


def test_calls_that_an_outcome_names_are_rejected() -> None:
    interrupt = {"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": REQUESTS, "ns": None}}}
    answer, reply = question_and_reply(interrupted(interrupt))
    assert answer == ["Waiting for approval: wipe, send"]
    assert reply["resume"] == [{"interruptId": "i", "status": "resolved", "payload": REJECTED}]


def test_a_call_that_adk_wants_approved_is_named_and_cancelled() -> None:
    adk = {"originalFunctionCall": {"id": "c", "name": "wipe", "args": {}}, "toolConfirmation": {"confirmed": False}}
    interrupt = {"id": "d", "reason": "confirmation", "message": "Respond with …", "toolCallId": "d"}
    natives = [call("d", "adk_request_confirmation"), interrupted(interrupt | {"metadata": {"adk": adk}})]
    answer, reply = question_and_reply(*natives)
    assert answer == ["Waiting for approval: wipe"]
    assert reply["resume"] == [{"interruptId": "d", "status": "cancelled"}]


@pytest.mark.parametrize(
    ("interrupt", "text"),
    [
        ({"reason": "whom", "metadata": {"reason": "To whom?"}}, "To whom?"),  # Strands
        ({"reason": "whom", "metadata": {"reason": {"to": ["Ada"]}}}, "Waiting for whom"),
        ({"reason": "whom", "message": None, "toolCallId": None, "metadata": None}, "Waiting for whom"),
        ({"metadata": {"langgraph": {"raw": {"action_requests": "none"}}}}, "Waiting for an answer"),
        ({"metadata": {"langgraph": {"raw": {"action_requests": [7]}}}}, "Waiting for an answer"),
    ],
)
def test_a_question_is_shown_and_answered_by_the_next_message(interrupt: dict[str, Any], text: str) -> None:
    answer, reply = question_and_reply(interrupted({"id": "i", **interrupt}))
    assert answer == [text]
    assert reply["resume"] == [{"interruptId": "i", "status": "resolved", "payload": "not that disk"}]
    assert [message["content"] for message in reply["messages"]] == ["wipe it"]


def test_a_question_without_an_id_is_answered_by_a_command() -> None:
    event = {"type": "CUSTOM", "name": "on_interrupt", "value": "Which disk?"}
    answer, reply = question_and_reply(event, FINISHED)
    assert answer == ["Which disk?"]
    assert reply["forwardedProps"] == {"command": {"resume": "not that disk"}}
    assert "resume" not in reply


def test_the_next_message_does_not_approve_a_call() -> None:
    history = AguiHistory()
    run_input(history, "before")
    _, history = run(history, interrupted({"id": "i", "toolCallId": "c"}))
    reply = run_input(history, "yes")
    assert reply["resume"] == [{"interruptId": "i", "status": "cancelled"}]
    assert [message["content"] for message in reply["messages"]] == ["before", "yes"]
    assert "resume" not in run_input(history, "and now?")


def test_a_waiting_call_keeps_its_name_in_the_next_run() -> None:
    history = AguiHistory()
    run_input(history, "send it")
    natives = [call("c", "send"), *arguments("c", "{}"), interrupted({"id": "i", "reason": "whom"})]
    _, history = run(history, *natives)
    run_input(history, "to Ada")
    events, _ = run(history, result("c", "sent"), FINISHED)
    assert events[:2] == [ToolStarted(id="c", name="send"), ToolFinished(id="c", result="sent")]
