"""What an AG-UI run stops to ask, as people read it, and how what they say next answers it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from agui_streams import FINISHED, arguments, call, result
from sdk_streams import turn_of

from tailrace.events import Event, ToolFinished, ToolStarted
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.agui.history import AguiHistory

# As LangChain's middleware asks leave for two calls.
WANTED = {
    "action_requests": [{"name": "wipe", "args": {"disk": "a"}}, {"name": "send", "args": {}}],
    "review_configs": [{"action_name": "wipe", "allowed_decisions": ["approve", "reject"]}],
}
REFUSED = {"decisions": [{"type": "reject", "message": "not that disk"}] * 2}


def asking(*interrupts: dict[str, Any]) -> dict[str, Any]:
    return FINISHED | {"outcome": {"type": "interrupt", "interrupts": list(interrupts)}}


def run(*natives: Any, transcript: AguiHistory) -> tuple[list[Event], AguiHistory]:
    """What a run comes to, and the conversation as it is after it was kept."""
    translator = AguiTranslator("", transcript.tool_names)
    events: list[Event] = []
    for native in natives:
        transcript.feed(native)
        events += translator.feed(native)
    events += translator.close()
    return events, AguiHistory(transcript.encode(translator.interrupts))


def asked(*natives: Any) -> tuple[list[str], dict[str, Any]]:
    """What a first run asks, and the input of the next one, which answers it."""
    transcript = AguiHistory()
    question(transcript, "wipe it")
    events, after = run(*natives, transcript=transcript)
    return turn_of(events).answer, question(after, "not that disk")


def question(transcript: AguiHistory, text: str) -> dict[str, Any]:
    return transcript.run_input(text, thread_id="t", run_id="r", message_id=f"u-{text}")


def test_a_graph_that_wants_leave_says_for_what_and_is_refused_with_what_is_said_next() -> None:
    event = {"type": "CUSTOM", "name": "on_interrupt", "value": msgspec.json.encode(WANTED).decode()}
    words, answer = asked(event, FINISHED)
    assert words == ["Waiting for approval: wipe, send"]
    assert answer["forwardedProps"] == {"command": {"resume": REFUSED}}


def test_the_same_in_the_outcome_of_a_run() -> None:
    interrupt = {"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": WANTED, "ns": None}}}
    words, answer = asked(asking(interrupt))
    assert words == ["Waiting for approval: wipe, send"]
    assert answer["resume"] == [{"interruptId": "i", "status": "resolved", "payload": REFUSED}]


def test_a_tool_of_adk_that_wants_leave_is_named_and_nobody_gives_it() -> None:
    told = {"originalFunctionCall": {"id": "c", "name": "wipe", "args": {}}, "toolConfirmation": {"confirmed": False}}
    interrupt = {"id": "d", "reason": "confirmation", "message": "Respond with …", "toolCallId": "d"}
    words, answer = asked(call("d", "adk_request_confirmation"), asking(interrupt | {"metadata": {"adk": told}}))
    assert words == ["Waiting for approval: wipe"]
    assert answer["resume"] == [{"interruptId": "d", "status": "cancelled"}]


@pytest.mark.parametrize(
    ("interrupt", "words"),
    [
        ({"reason": "whom", "metadata": {"reason": "To whom?"}}, "To whom?"),  # Strands
        ({"reason": "whom", "metadata": {"reason": {"to": ["Ada"]}}}, "Waiting for whom"),
        ({"reason": "whom", "message": None, "toolCallId": None, "metadata": None}, "Waiting for whom"),
        ({"metadata": {"langgraph": {"raw": {"action_requests": "none"}}}}, "Waiting for an answer"),
        ({"metadata": {"langgraph": {"raw": {"action_requests": [7]}}}}, "Waiting for an answer"),
    ],
)
def test_a_question_is_told_in_the_words_there_are_and_answered(interrupt: dict[str, Any], words: str) -> None:
    told, answer = asked(asking({"id": "i", **interrupt}))
    assert told == [words]
    assert answer["resume"] == [{"interruptId": "i", "status": "resolved", "payload": "not that disk"}]


def test_a_call_that_waited_over_a_question_has_its_name_in_the_run_that_ends_it() -> None:
    transcript = AguiHistory()
    question(transcript, "send it")
    natives = [call("c", "send"), *arguments("c", "{}"), asking({"id": "i", "reason": "whom"})]
    _, after = run(*natives, transcript=transcript)
    question(after, "to Ada")
    events, _ = run(result("c", "sent"), FINISHED, transcript=after)
    assert events[:2] == [ToolStarted(id="c", name="send"), ToolFinished(id="c", result="sent")]
