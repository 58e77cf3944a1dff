"""What the translator of Claude Code makes of single lines. Turns are in `made_turns` and `recordings`."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_turns import lines_of
from turns import CUT_OFF, Turn, turn_of

from tailrace.events import Event, ModelChanged, TurnCompleted, TurnFailed, TurnStarted
from tailrace.runtimes.claude import ClaudeTranslator

Line = bytes | dict[str, Any]


def events_of(lines: list[Line], exit_error: str = "") -> list[Event]:
    translator = ClaudeTranslator()
    return [*(event for line in lines for event in translator.feed(line)), *translator.end(exit_error)]


def turn(*lines: Line) -> Turn:
    return turn_of(events_of(list(lines)))


def piece(kind: str, *, parent: str | None = None, **fields: Any) -> Line:
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": parent}


def begin(message: str) -> Line:
    return piece("message_start", message={"id": message})


def delta(text: str, index: int = 0) -> Line:
    return piece("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def whole(message: str, *blocks: dict[str, Any], parent: str | None = None, **fields: Any) -> Line:
    content = {"id": message, "content": list(blocks)}
    return {"type": "assistant", "message": content, "parent_tool_use_id": parent, **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def streamed(message: str, *pieces: str, is_complete: bool = True) -> list[Line]:
    """A message of one block of text, up to its end or up to where the model's answer broke off behind it."""
    end: list[Line] = [piece("message_delta", delta={"stop_reason": "end_turn"})] if is_complete else []
    return [
        begin(message),
        piece("content_block_start", index=0, content_block=text("")),
        *(delta(one) for one in pieces),
        whole(message, text("".join(pieces))),
        piece("content_block_stop", index=0),
        *end,
        piece("message_stop"),
    ]


def result(**fields: Any) -> Line:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "", **fields}


CONTINUE: Line = {"type": "user", "message": {"role": "user", "content": [text("Your response above was cut off.")]}}


def test_complete_block_restores_lost_pieces() -> None:
    lines = lines_of("claude_cli_hello")
    kept = [line for line in lines if b" the fake" not in line or b"assistant" in line]
    assert turn(*kept).answer == ["Hello from the fake model."]


@pytest.mark.parametrize(
    ("pieces", "more"),
    [
        (["One two", " three"], []),
        (["One two three", " four"], [" four"]),
        (["One two three four"], [" four"]),
        (["One ", "two three four", " five"], [" four five"]),
        (["One ", "or two"], ["One or two"]),
        (["One two"], ["One two"]),
        (["four"], ["four"]),
        ([""], []),
    ],
)
def test_after_a_break_only_new_text_is_emitted(pieces: list[str], more: list[str]) -> None:
    lines = [*streamed("m", "One ", "two three", is_complete=False), CONTINUE, *streamed("n", *pieces), result()]
    assert turn(*lines).answer == ["One two three", *more]


def test_error_line_without_a_result_is_the_failure() -> None:
    end = turn(*lines_of("claude_cli_http500")[:-1]).terminal
    assert isinstance(end, TurnFailed)
    assert end.message.startswith("API Error: 500 boom. This is a server-side issue")
    assert (end.code, end.status_code) == ("server_error", 500)


def test_exit_error_is_used_if_the_lines_give_no_reason() -> None:
    exit_error = "claude exited with code 1: unknown option"
    assert turn_of(events_of([], exit_error)).terminal == TurnFailed(message=exit_error, code=CUT_OFF)
    assert turn_of(events_of([result(result="fine")], exit_error)).terminal == TurnCompleted(text="fine")


def test_turn_started_comes_before_the_first_event() -> None:
    init: Line = {"type": "system", "subtype": "init", "session_id": "s", "model": "a"}
    assert events_of([init])[0] == TurnStarted(runtime="claude", session_id="s")
    assert events_of([{"type": "weather"}, init])[0] == TurnStarted(runtime="claude")
    turn({"type": "weather"}, init, result())


def test_change_of_the_model_is_reported() -> None:
    events = events_of(lines_of("claude_sdk_model_switch"))
    assert [event for event in events if isinstance(event, ModelChanged)] == [ModelChanged(model_id="claude-opus-4-5")]


def test_session_id_is_known_once_the_turn_has_started() -> None:
    translator = ClaudeTranslator()
    gone, hello = lines_of("claude_cli_session_gone"), lines_of("claude_cli_hello")
    assert translator.feed(gone[0]) == []
    assert (translator.session_id, translator.error_text[:21]) == ("", "No conversation found")
    translator.feed(hello[0])
    assert translator.session_id == "e77349bd-ba6e-48cf-a338-73b3401fb591"
