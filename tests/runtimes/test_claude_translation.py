"""The recorded runs of Claude Code, of its SDK and of Qwen Code, and what single lines come to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from claude_streams import Line, lines_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sdk_streams import CUT_OFF, Expected, Turn, hold, turn_of

from tailrace.events import (
    BlockFinal,
    Event,
    ModelChanged,
    Notice,
    ReasoningEnd,
    Status,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
    validate_event,
)
from tailrace.runtimes.claude import ClaudeTranslator

CHECK, SAID_HI = "Let me check.", "The tool said hi."
RUN_IT, KNOW = "I should run a command.", "Now I know."
HELLO = "Hello from the fake model."
BASH, FAILED_BASH = ("Bash", False), ("Bash", True)
NOT_ALLOWED = "A variable in this command can't be checked before it runs"
CUT = "claude stopped before the turn was complete"
BROKE = "API Error: Server error mid-response. The response above may be incomplete."
BAD_REQUEST = "API Error: 400 invalid request from fake"
BOOM = (
    "API Error: 500 boom. This is a server-side issue, usually temporary — try again in a moment. "
    "If it persists, check your inference gateway (127.0.0.1:8931)."
)
COST = (
    "Total cost:            $0.0000\nTotal duration (API):  0s\nTotal duration (wall): 0s\n"
    "Total code changes:    0 lines added, 0 lines removed\n"
    "Usage:                 0 input, 0 output, 0 cache read, 0 cache write"
)
GONE = "No conversation found with session ID: 11111111-2222-4333-8444-555555555555"
THINK2 = ["First thought block.", "", "Second thought block.", "Third thought."]

# A number behind the name is one of the turns of a recording that holds several prompts.
EXPECTED = [
    Expected("claude_cli_2_1_197_tool", [CHECK, SAID_HI], [BASH], [RUN_IT, KNOW]),
    Expected(
        "claude_cli_api_retry",
        terminal=TurnFailed,
        errors=[CUT],
        code=CUT_OFF,
        status=[f"the model failed (unknown), trying again: {nth} of 10" for nth in range(1, 9)],
        notes="killed while it was still trying",
    ),
    Expected("claude_cli_cut_block", ["The answer is fo"], notes="the first try is taken back, the second is whole"),
    Expected("claude_cli_cut_call", ["Calling.", "Afterwards."], [FAILED_BASH], notes="the call was never made"),
    Expected(
        "claude_cli_cut_second_block",
        ["First block. ", "ock continued."],
        thoughts=["Hm."],
        notes="the first block stands, what there was of the second does not",
    ),
    Expected(
        "claude_cli_denied",
        ["Blocking tool.", "never"],
        [FAILED_BASH],
        notices=[f"Bash was not allowed: {NOT_ALLOWED}"],
    ),
    Expected(
        "claude_cli_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=[BROKE],
        code="api_error",
        notes="sent four times, emitted once; the subtype of the result is success",
    ),
    Expected("claude_cli_hello", [HELLO]),
    Expected("claude_cli_http400", terminal=TurnFailed, errors=[BAD_REQUEST], code="api_error"),
    Expected(
        "claude_cli_http500",
        terminal=TurnFailed,
        errors=[BOOM],
        code="api_error",
        status=["the model failed (500), trying again: 1 of 1"],
    ),
    Expected(
        "claude_cli_interleaved",
        [
            *("Delegating.", "Parent has more to say now.", "Child speaking.", "Child result."),
            "Parent has more to say now.",
        ],
        [("Agent", False), BASH],
        ["Child thinks."],
        notes="what the subagent says in the middle of the agent's sentence comes behind it",
    ),
    Expected("claude_cli_longtool", ["Long tool.", "Long done."], [BASH]),
    Expected(
        "claude_cli_max_turns",
        ["again ", "again "],
        [BASH, BASH],
        terminal=TurnFailed,
        errors=["Reached maximum number of turns (2)"],
        code="error_max_turns",
    ),
    Expected("claude_cli_parallel", ["Running two.", "Both done."], [BASH, BASH]),
    Expected(
        "claude_cli_session_gone", terminal=TurnFailed, errors=[GONE], code="error_during_execution", notes="no init"
    ),
    Expected("claude_cli_sigint", ["Before stall "], terminal=TurnCancelled),
    Expected("claude_cli_slash_command", [COST], notes="the command answers itself, and that is no error"),
    Expected(
        "claude_cli_subagent",
        ["Delegating.", "Parent done.", "Child speaking.", "Child result.", "Parent done."],
        [("Agent", False), BASH],
        notes="in the background; two answers and two results",
    ),
    Expected(
        "claude_cli_subagent_forwarded",
        ["Delegating.", "Child speaking.", "Child result.", "Parent done."],
        [("Agent", False), BASH],
        notes="the prompt of the subagent is no answer",
    ),
    Expected("claude_cli_think2", ["Answer after two thoughts.", "Final."], [BASH], THINK2),
    Expected("claude_cli_tool", [CHECK, SAID_HI], [BASH], [RUN_IT, KNOW]),
    Expected("claude_cli_toolfail", ["Trying.", "It failed as expected."], [FAILED_BASH]),
    Expected("claude_sdk_interrupt_midtext 1", ["Before stall "], terminal=TurnCancelled),
    Expected("claude_sdk_interrupt_midtext 2", [HELLO]),
    Expected("claude_sdk_model_switch 1", [HELLO]),
    Expected("claude_sdk_model_switch 2", [HELLO], notes="what set_model returned is no answer"),
    Expected("claude_sdk_think2", ["Answer after two thoughts.", "Final."], [BASH], THINK2),
    Expected("claude_sdk_tool", [CHECK, SAID_HI], [BASH], [RUN_IT, KNOW]),
    Expected("qwen_cli_tool", [CHECK, SAID_HI], [("run_shell_command", False)], [RUN_IT, KNOW]),
]
NAMES = [expected.recording for expected in EXPECTED]


def as_json(line: Line) -> dict[str, Any]:
    return line if isinstance(line, dict) else dict(json.loads(line))


def is_result(line: Line) -> bool:
    return str(as_json(line)["type"]) == "result"


def is_error_line(line: Line) -> bool:
    return bool(as_json(line).get("error")) and as_json(line)["type"] == "assistant"


def events_of(lines: list[Line], exit_error: str = "") -> list[Event]:
    translator = ClaudeTranslator()
    return [*(event for line in lines for event in translator.feed(line)), *translator.end(exit_error)]


def turn_from(events: list[Event]) -> Turn:
    """The turn of these events."""
    return turn_of(replace(event, turn_id="t") if isinstance(event, TurnStarted) else event for event in events)


def turn(*lines: Line) -> Turn:
    return turn_from(events_of(list(lines)))


# Lines that no recording has.


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


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn_from(events_of(lines_of(expected.recording))), expected)


@pytest.mark.parametrize("name", NAMES)
def test_recording_that_is_cut_anywhere_is_a_failed_turn(name: str) -> None:
    lines = lines_of(name)
    for cut in range(len(lines)):
        before = lines[:cut]
        terminal = turn_from(events_of(before)).terminal
        if not any(is_result(line) or is_error_line(line) for line in before):
            assert isinstance(terminal, TurnFailed)
            assert terminal.code == CUT_OFF


@pytest.mark.parametrize("name", NAMES)
def test_garbage_between_the_lines_only_adds_notices(name: str) -> None:
    garbage: list[Line] = [
        b"\x00\xff",
        b"(node:12) Warning: something",
        b"[1, 2]",
        b"{}",
        b'{"type": "stream_event"}',
        b'{"type": "assistant", "message": {"content": [{"type": 5}]}}',
        b'{"type": "system", "subtype": "brand_new", "n": 1}',
        {"type": "stream_event", "event": {"type": "content_block_delta", "index": 99, "delta": {"text": "lost"}}},
        {"type": "brand_new", "subtype": 7},
    ]
    clean = turn_from(events_of(lines_of(name)))
    dirty = turn_from(events_of([one for line in lines_of(name) for one in (*garbage, line)]))
    assert (dirty.answer, dirty.tools, dirty.errors) == (clean.answer, clean.tools, clean.errors)
    assert dirty.terminal == clean.terminal
    assert len(dirty.notices) <= len(garbage)
    assert any('"brand_new", "n": 1' in notice for notice in dirty.notices)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        *("type", "subtype", "event", "index", "delta", "text", "content_block", "message", "content"),
                        *("id", "name", "tool_use_id", "is_error", "usage", "stop_reason", "result", "errors"),
                    ]
                ),
                inner
                | st.sampled_from(["stream_event", "assistant", "user", "system", "result", "tool_result", "init"]),
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_any_line_gives_valid_events_and_loses_no_text(value: Any) -> None:
    for line in (json.dumps(value).encode(), {"type": "stream_event", "event": value}):
        events = events_of([begin("m"), line, *streamed("m2", "still here")])
        for event in events:
            validate_event(event)
        assert "still here" in "".join(event.text for event in events if isinstance(event, TextDelta))


# 1. Deltas win.


def test_complete_block_restores_lost_pieces() -> None:
    lines = lines_of("claude_cli_hello")
    assert turn(*(line for line in lines if b" the fake" not in line or b"assistant" in line)).answer == [HELLO]


def test_text_of_the_result_is_used_if_there_was_none() -> None:
    assert turn(result(result="42")).answer == ["42"]
    assert turn(*streamed("m", "said"), result(result="said")).answer == ["said"]


# 3. Tools are known by their call.


def test_result_may_come_while_the_next_call_is_streamed() -> None:
    events = events_of(lines_of("claude_cli_parallel"))
    kinds = [(type(event), event.id) for event in events if isinstance(event, ToolStarted | ToolInput | ToolFinished)]
    first, second = "toolu_fake0006", "toolu_fake0007"
    assert kinds == [
        (ToolStarted, first),
        (ToolInput, first),
        (ToolStarted, second),
        (ToolFinished, first),
        (ToolInput, second),
        (ToolFinished, second),
    ]


def test_background_subagent_runs_until_its_notification() -> None:
    events = events_of(lines_of("claude_cli_subagent"))
    [finished] = [event for event in events if isinstance(event, ToolFinished) and event.id == "toolu_fake0028"]
    assert finished.result == "Child result."
    speaks = TextDelta(text="Child result.", parent_tool_id="toolu_fake0028")
    assert events.index(speaks) < events.index(finished)
    assert [event.text for event in events if isinstance(event, ToolProgress)] == ["child task", "Running run"]


def test_foreground_subagent_returns_its_result() -> None:
    [agent, _] = turn_from(events_of(lines_of("claude_cli_subagent_forwarded"))).calls
    assert "[Subagent hand-back]" in agent.result


def test_result_of_an_unknown_call_starts_it() -> None:
    content = [{"type": "text", "text": "a picture:"}, {"type": "image", "source": {"data": "aGk="}}]
    returned = {"type": "tool_result", "tool_use_id": "t", "content": content}
    [call] = turn({"type": "user", "message": {"content": [returned]}}, result()).calls
    assert (call.name, call.result, call.is_error) == ("tool", "a picture:\n[image]", False)


# 5. Text of a failed try is retracted, and nothing is repeated.


def test_block_that_broke_off_is_retracted_before_the_retry() -> None:
    events = events_of(lines_of("claude_cli_cut_block"))
    blocks = [event for event in events if isinstance(event, TextDelta | BlockFinal)]
    once = TextDelta(text="The answer is fo")
    assert blocks == [once, BlockFinal(text=""), once, BlockFinal()]


def test_repeat_of_a_complete_block_is_not_emitted() -> None:
    events = events_of(lines_of("claude_cli_errmid"))
    blocks = [event for event in events if isinstance(event, TextDelta | BlockFinal)]
    assert blocks == [TextDelta(text="This will "), TextDelta(text="break"), BlockFinal()]


CALL = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
HALF = [begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("Half a sen")]
FIRST, SECOND = whole("m", text("One")), whole("m", text("Two"))
TWO_BLOCKS = [
    *(begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("One"), FIRST),
    *(piece("content_block_start", index=1, content_block=text("")), delta("Two", 1), SECOND),
]
BROKEN = streamed("m", "One", is_complete=False)


@pytest.mark.parametrize(
    ("lines", "answer", "has_failed"),
    [
        ([*HALF, *streamed("n", "A sentence."), result()], ["A sentence."], False),
        (HALF, ["Half a sen"], True),
        (
            [*HALF, piece("content_block_stop", index=0), piece("message_stop"), result(is_error=True)],
            ["Half a sen"],
            True,
        ),
        ([*BROKEN, CONTINUE, whole("n", text("One"), text("Two")), result()], ["One", "Two"], False),
        ([*TWO_BLOCKS, CONTINUE, *TWO_BLOCKS, *streamed("n", "Three"), result()], ["One", "Two", "Three"], False),
    ],
    ids=["new message", "end of the stream", "message given up", "repeated whole", "two blocks repeated"],
)
def test_open_text_is_retracted_only_if_the_model_continues(
    lines: list[Line], answer: list[str], has_failed: bool
) -> None:
    found = turn(*lines)
    assert found.answer == answer
    assert isinstance(found.terminal, TurnFailed) == has_failed


def test_message_that_ends_without_a_reason_broke_off_in_its_last_call() -> None:
    started = [begin("m"), piece("content_block_start", index=0, content_block=CALL)]
    ended = [piece("message_delta", delta={"stop_reason": None}), piece("message_stop")]
    assert turn(*started, *ended, result()).tools == [FAILED_BASH]


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


# 6. There is one end, reported by more than one line.


def test_success_with_an_error_is_a_failure() -> None:
    failed = turn_from(events_of(lines_of("claude_cli_http400"))).terminal
    assert failed == TurnFailed(message=BAD_REQUEST, code="api_error", status_code=400)


def test_error_line_without_a_result_is_the_failure() -> None:
    [*lines, _] = lines_of("claude_cli_http500")
    assert turn_from(events_of(lines)).terminal == TurnFailed(message=BOOM, code="server_error", status_code=500)


def test_exit_error_is_used_if_the_lines_give_no_reason() -> None:
    exit_error = "claude exited with code 1: unknown option"
    assert turn_from(events_of([], exit_error)).terminal == TurnFailed(message=exit_error, code=CUT_OFF)
    assert turn_from(events_of([result(result="fine")], exit_error)).terminal == TurnCompleted(text="fine")


def test_last_of_several_results_counts() -> None:
    failed, fine = result(is_error=True, result="no luck"), result(result="luck", stop_reason="end_turn")
    assert turn(failed, fine).terminal == TurnCompleted(text="luck", stop_reason="end_turn")
    assert isinstance(turn(fine, failed).terminal, TurnFailed)


# 7. Usage


REQUEST = Usage(input_tokens=157, output_tokens=33, scope="request")


@pytest.mark.parametrize(
    ("recording", "usage"),
    [
        ("claude_cli_tool", [REQUEST, REQUEST, Usage(input_tokens=314, output_tokens=66, scope="turn")]),
        ("claude_cli_subagent", [Usage(input_tokens=471, output_tokens=99, scope="turn")]),
        ("qwen_cli_tool", [Usage(input_tokens=200, output_tokens=66, scope="turn")]),
    ],
)
def test_usage_counts_each_request_once_and_all_results_of_a_turn(recording: str, usage: list[Usage]) -> None:
    found = [event for event in events_of(lines_of(recording)) if isinstance(event, Usage)]
    assert found[-len(usage) :] == usage


# 8. Subagents


def test_sentence_of_the_agent_is_not_interrupted_by_subagents() -> None:
    events = events_of(lines_of("claude_cli_interleaved"))
    at = events.index(TextDelta(text="Parent "))
    pieces = ["Parent ", "has ", "more ", "to ", "say ", "now."]
    assert events[at : at + 7] == [*(TextDelta(text=one) for one in pieces), BlockFinal()]


# 9. Metadata of the provider


@pytest.mark.parametrize("name", ["claude_cli_think2", "claude_sdk_think2"])
def test_signatures_and_redacted_reasoning_are_passed_on(name: str) -> None:
    ends = [event.metadata for event in events_of(lines_of(name)) if isinstance(event, ReasoningEnd)]
    assert ends == [
        {"signature": "c2lnLTE="},
        {"redacted_thinking": "ZW5jcnlwdGVk"},
        {"signature": "c2lnLTI="},
        {"signature": "c2lnLTM="},
    ]


# 10. Unknown lines, and the start of the turn


def test_notice_within_a_sentence_waits_for_its_end() -> None:
    lines = streamed("m", "Half a ", "sentence.")
    lines.insert(3, {"type": "weather"})
    lines.insert(4, {"type": "system", "subtype": "status", "status": "compacting"})
    kinds = [type(event) for event in events_of([*lines, result()])]
    assert kinds == [TurnStarted, TextDelta, TextDelta, BlockFinal, Notice, Status, TurnCompleted]


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
    assert (translator.session_id, translator.error_text) == ("", GONE)
    translator.feed(hello[0])
    assert translator.session_id == "e77349bd-ba6e-48cf-a338-73b3401fb591"
