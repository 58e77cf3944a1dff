"""What the translator makes of messages of the Agent Client Protocol. Turns are in `made_turns` and `recordings`."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from recorded_turns import Acp, lines_of
from turns import turn_of

from tailrace.events import Event, Notice, TextDelta, ToolFinished, ToolOutput, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.acp import AcpTranslator
from tailrace.runtimes.permissions import Choice
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED

CODEX = "@agentclientprotocol/codex-acp"
DONE = {"stopReason": "end_turn"}
END = TurnCompleted(stop_reason="end_turn")


def translated(*natives: Any, agent: str = "") -> list[Event]:
    """What comes of these updates, and of the result of the prompt if that is the last one."""
    translator = AcpTranslator(agent=agent)
    events: list[Event] = []
    for native in natives:
        is_result = "stopReason" in native
        events += translator.prompt_result(native) if is_result else translator.update({"update": native})
    return [*events, *translator.close()]


def text(piece: str, **fields: Any) -> Any:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}, **fields}


def thought(piece: str, **fields: Any) -> Any:
    return {**text(piece, **fields), "sessionUpdate": "agent_thought_chunk"}


def call(name: str = "t", **fields: Any) -> Any:
    return {"sessionUpdate": "tool_call", "toolCallId": name, "title": "Run it", **fields}


def more(name: str = "t", **fields: Any) -> Any:
    return {"sessionUpdate": "tool_call_update", "toolCallId": name, **fields}


UNKNOWN = {"sessionUpdate": "from_the_future", "x": 1}


FINISHED = more(status="completed", rawOutput="x")


def test_after_the_end_only_output_and_results_are_emitted() -> None:
    translator = AcpTranslator()
    events = [event for update in (call(), call("u")) for event in translator.update({"update": update})]
    assert translator.turn.has_open_calls()
    events += translator.prompt_result(DONE)
    late = [
        *(text("late"), thought("late"), call("v"), more("w", status="completed")),
        more(rawInput={"a": 1}, _meta={"terminal_output_delta": {"data": "tick\n"}}),
        *(FINISHED, more(status="completed", rawOutput="again"), more("u", status="failed"), UNKNOWN),
    ]
    events += [event for update in late for event in translator.update({"update": update})]
    events += [*translator.invalid_line(b"late"), *translator.notice("late"), *translator.prompt_result(DONE)]
    events += [*translator.prompt_error({"code": -32603, "message": "no"}), *translator.close()]
    assert turn_of(events).events[3:] == [
        *(END, ToolOutput(id="t", data="tick\n"), ToolFinished(id="t", result="x")),
        ToolFinished(id="u", is_error=True),
    ]
    assert not translator.turn.has_open_calls()


def test_text_that_starts_again_after_a_pause_is_retracted() -> None:
    """As with gemini-cli, where `test_gemini_translation` has more cases."""
    tries = [(0.0, "This is going "), (0.1, "to break"), (2.0, "This is going "), (2.1, "to break")]
    for pieces, answer, notices in (
        ([*tries, (6.0, "This is going "), (6.1, "to break")], ["This is going to break"], []),
        (
            [(0.0, "This is going to break"), (2.0, "This is going to "), (2.1, "be whole."), (2.2, " Yes.")],
            ["This is going to break", "This is going to be whole. Yes."],
            [MAY_BE_RESTARTED],
        ),
    ):
        translator = AcpTranslator(agent="OpenCode")
        events = [event for at_s, piece in pieces for event in translator.update({"update": text(piece)}, at_s)]
        found = turn_of([*events, *translator.prompt_result(DONE)])
        assert (found.answer, found.notices) == (answer, notices)


def test_gemini_answer_that_breaks_off_in_every_try_fails() -> None:
    translator = AcpTranslator(agent="gemini-cli")
    for at_s in (0.0, 1.2):
        translator.update({"update": text("This is going to break")}, at_s)
    nothing = {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}, "model_usage": []}}
    end = translator.prompt_result({"stopReason": "end_turn", "_meta": nothing})[-1]
    assert end == TurnFailed(message="the model's answer broke off", code="cut_off")


@pytest.mark.parametrize("result", [{}, [], "end_turn", 7, {"stopReason": None}])
def test_unreadable_end_is_a_failure(result: Any) -> None:
    assert AcpTranslator().prompt_result(result) == [
        TurnFailed(message="the agent ended the turn in a way that cannot be read", code="malformed")
    ]


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ({"code": -32000, "message": "Who are you."}, "Who are you. Log in first.", "auth_required"),
        ({"code": -32603, "message": "Oh", "data": {"details": "no disk"}}, "Oh: no disk", "internal_error"),
        ({"code": 5, "message": ""}, "the agent refused and gave no reason", "agent_error"),
        ({"code": "x"}, "the agent refused: {'code': 'x'}", "agent_error"),
        ("no", "the agent refused: no", "agent_error"),
    ],
)
def test_refused_prompt_is_a_failed_turn(error: Any, message: str, code: str) -> None:
    assert AcpTranslator().prompt_error(error, login_hint="Log in first.") == [TurnFailed(message=message, code=code)]


def test_only_text_that_repeats_the_error_is_retracted() -> None:
    translator = AcpTranslator()
    events = translator.update({"update": text("An error, I think", messageId="1")})
    found = turn_of([*events, *translator.prompt_error({"code": -32603, "message": "Internal error"})])
    assert found.answer == ["An error, I think"]


def test_log_printed_during_a_text_is_not_held_in_memory() -> None:
    translator = AcpTranslator()
    events = translator.update({"update": text("So ", messageId="1")})
    tracemalloc.start()
    for _ in range(1000):
        events += translator.invalid_line(b"x" * 100_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000
    events += translator.update({"update": text("be it.", messageId="1")})
    found = turn_of([*events, *translator.prompt_result(DONE)])
    assert found.answer == ["So be it."]
    assert len(found.notices) == 1


@pytest.mark.parametrize(
    ("piece", "agent", "event"),
    [
        (text("Warning: the tide is high\n\n"), CODEX, Notice(text="Warning: the tide is high")),
        (text("Warning: the tide is high"), "gemini-cli", TextDelta(text="Warning: the tide is high")),
        (text("Warning: says the model", messageId="1"), CODEX, TextDelta(text="Warning: says the model")),
        (text("Available skills: none"), CODEX, TextDelta(text="Available skills: none")),
    ],
)
def test_only_known_warnings_become_notices(piece: Any, agent: str, event: Event) -> None:
    assert translated(piece, agent=agent)[0] == event


def test_permission_request_has_arguments_and_choices() -> None:
    tool = {"toolCall": {"toolCallId": "t", "title": "rm"}, "options": []}
    assert AcpTranslator().permission_request(tool)[0] == [ToolStarted(id="t", name="rm")]
    recording = "acp_claude_cancel_stalltool"
    agent = Acp(recording)
    for message in lines_of(recording):
        if message.get("method") == "session/request_permission":
            break
        agent.feed(message)
    events, question = agent.translator.permission_request(message["params"])
    assert events == []
    assert question is not None
    assert question.arguments["description"] == "block"
    assert question.title.startswith("for i in")
    assert question.allowing() == Choice(id="allow", name="Allow", kind="allow_once")
    assert question.denying() == Choice(id="reject", name="Reject", kind="reject_once")
