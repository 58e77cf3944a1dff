"""The recorded runs of Claude Code, of its SDK and of Qwen Code, and what each of them comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from claude_streams import Line, lines_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sdk_streams import CUT_OFF, RECORDINGS, Expected, Turn, hold, turn_of

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
        notes="said four times, told once; the subtype of the result is success",
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
        notes="what the subagent is told is no answer",
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


def is_complaint(line: Line) -> bool:
    return bool(as_json(line).get("error")) and as_json(line)["type"] == "assistant"


def told(lines: list[Line], remark: str = "") -> list[Event]:
    translator = ClaudeTranslator()
    return [*(event for line in lines for event in translator.feed(line)), *translator.end(remark)]


def come_to(events: list[Event]) -> Turn:
    """The turn, in which all these events stand as they are."""
    return turn_of(replace(event, turn_id="t") if isinstance(event, TurnStarted) else event for event in events)


def turn(*lines: Line) -> Turn:
    return come_to(told(list(lines)))


def of_the_agent(events: list[Event]) -> list[Event]:
    return [event for event in events if getattr(event, "parent_tool_id", None) is None]


# Lines as they are made up where no recording has them.


def piece(kind: str, *, parent: str | None = None, **fields: Any) -> Line:
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": parent}


def begin(message: str) -> Line:
    return piece("message_start", message={"id": message})


def delta(text: str, index: int = 0) -> Line:
    return piece("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def whole(message: str, *blocks: dict[str, Any], parent: str | None = None, **fields: Any) -> Line:
    content = {"id": message, "content": list(blocks)}
    return {"type": "assistant", "message": content, "parent_tool_use_id": parent, **fields}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def streamed(message: str, *pieces: str, is_complete: bool = True) -> list[Line]:
    """A message of one block of text, up to its end or up to where the model's answer broke off behind it."""
    end: list[Line] = [piece("message_delta", delta={"stop_reason": "end_turn"})] if is_complete else []
    return [
        begin(message),
        piece("content_block_start", index=0, content_block=text("")),
        *(delta(said) for said in pieces),
        whole(message, text("".join(pieces))),
        piece("content_block_stop", index=0),
        *end,
        piece("message_stop"),
    ]


def result(**fields: Any) -> Line:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "", **fields}


GO_ON: Line = {"type": "user", "message": {"role": "user", "content": [text("Your response above was cut off.")]}}


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_each_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(come_to(told(lines_of(expected.recording))), expected)


def test_every_recording_is_read() -> None:
    recorded = {path.stem for path in RECORDINGS.glob("*.ndjson") if path.stem.startswith(("claude", "qwen"))}
    assert {name.partition(" ")[0] for name in NAMES} == recorded


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_that_is_cut_anywhere_is_a_turn_that_was_cut_off(name: str) -> None:
    lines = lines_of(name)
    for cut in range(len(lines)):
        before = lines[:cut]
        terminal = come_to(told(before)).terminal
        if not any(is_result(line) or is_complaint(line) for line in before):
            assert isinstance(terminal, TurnFailed)
            assert terminal.code == CUT_OFF


@pytest.mark.parametrize("name", NAMES)
def test_garbage_between_the_lines_changes_nothing_that_is_said(name: str) -> None:
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
    clean = come_to(told(lines_of(name)))
    dirty = come_to(told([one for line in lines_of(name) for one in (*garbage, line)]))
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
def test_rubbish_is_told_in_sound_events(rubbish: Any) -> None:
    for line in (json.dumps(rubbish).encode(), {"type": "stream_event", "event": rubbish}):
        events = told([begin("m"), line, *streamed("m2", "still here")])
        for event in events:
            validate_event(event)
        assert "still here" in "".join(event.text for event in events if isinstance(event, TextDelta))


# 1. Deltas win.


def test_the_whole_of_what_came_in_pieces_closes_it_and_is_not_said_again() -> None:
    events = told(lines_of("claude_cli_hello"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "Hello",
        " from",
        " the fake",
        " model.",
    ]
    assert [event for event in events if isinstance(event, BlockFinal)] == [BlockFinal()]


def test_the_whole_corrects_pieces_that_were_lost() -> None:
    lines = lines_of("claude_cli_hello")
    assert turn(*(line for line in lines if b" the fake" not in line or b"assistant" in line)).answer == [HELLO]


def test_a_message_that_comes_only_as_a_whole_is_said() -> None:
    lines = lines_of("claude_cli_tool")
    told_whole = turn(*(line for line in lines if as_json(line)["type"] != "stream_event"))
    assert told_whole.answer == [CHECK, SAID_HI]
    assert told_whole.thoughts == [RUN_IT, KNOW]
    assert told_whole.tools == [BASH]


def test_the_answer_of_the_result_is_used_where_nothing_was_said() -> None:
    assert turn(result(result="42")).answer == ["42"]
    assert turn(*streamed("m", "said"), result(result="said")).answer == ["said"]


# 2. A block is known by its place.


def test_blocks_that_share_their_index_and_change_their_messages_name_are_kept_apart() -> None:
    events = told(lines_of("qwen_cli_tool"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        *("Let me ", "check.", "The tool ", "said hi", "."),
    ]


def test_a_paragraph_that_was_really_said_twice_is_told_twice() -> None:
    assert turn(*streamed("m", "Again."), *streamed("n", "Again."), result()).answer == ["Again.", "Again."]


# 3. Tools are known by their call.


def test_a_result_may_come_while_the_next_call_is_still_being_written() -> None:
    events = told(lines_of("claude_cli_parallel"))
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


def test_the_arguments_of_a_call_are_told_when_they_are_complete() -> None:
    [call] = come_to(told(lines_of("claude_cli_tool"))).calls
    assert call.arguments == {"command": "echo tool-says-hi", "description": "run"}
    assert call.result == "tool-says-hi"


def test_a_subagent_in_the_background_is_at_work_until_its_notification_comes() -> None:
    events = told(lines_of("claude_cli_subagent"))
    [finished] = [event for event in events if isinstance(event, ToolFinished) and event.id == "toolu_fake0028"]
    assert finished.result == "Child result."
    speaks = TextDelta(text="Child result.", parent_tool_id="toolu_fake0028")
    assert events.index(speaks) < events.index(finished)
    assert [event.text for event in events if isinstance(event, ToolProgress)] == ["child task", "Running run"]


def test_a_subagent_that_is_waited_for_returns_what_it_returned() -> None:
    [agent, _] = come_to(told(lines_of("claude_cli_subagent_forwarded"))).calls
    assert "[Subagent hand-back]" in agent.result


def test_a_result_of_a_call_that_nobody_told_of_begins_it() -> None:
    content = [
        {"type": "text", "text": "a picture:"},
        {"type": "image", "source": {"data": "aGk="}},
    ]
    returned = {"type": "tool_result", "tool_use_id": "t", "content": content}
    [call] = turn({"type": "user", "message": {"content": [returned]}}, result()).calls
    assert (call.name, call.result, call.is_error) == ("tool", "a picture:\n[image]", False)


# 5. What a failed try said is taken back, and nothing is said twice.


def test_what_broke_off_in_the_middle_is_taken_back_before_it_is_said_again() -> None:
    events = told(lines_of("claude_cli_cut_block"))
    said = [event for event in events if isinstance(event, TextDelta | BlockFinal)]
    once = TextDelta(text="The answer is fo")
    assert said == [once, BlockFinal(text=""), once, BlockFinal()]


def test_a_message_that_ends_without_a_reason_has_broken_off_in_its_last_call() -> None:
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    begun = [begin("m"), piece("content_block_start", index=0, content_block=call)]
    ended = [piece("message_delta", delta={"stop_reason": None}), piece("message_stop")]
    assert turn(*begun, *ended, result()).tools == [FAILED_BASH]


def test_what_stands_of_a_message_that_broke_off_and_is_said_again_is_not_told_again() -> None:
    events = told(lines_of("claude_cli_errmid"))
    said = [event for event in events if isinstance(event, TextDelta | BlockFinal)]
    assert said == [TextDelta(text="This will "), TextDelta(text="break"), BlockFinal()]


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
def test_after_a_break_only_what_is_new_is_told(pieces: list[str], more: list[str]) -> None:
    lines = [*streamed("m", "One ", "two three", is_complete=False), GO_ON, *streamed("n", *pieces), result()]
    assert turn(*lines).answer == ["One two three", *more]


def test_after_a_break_a_message_that_comes_only_as_a_whole_is_not_told_again_either() -> None:
    broken = [*streamed("m", "One", is_complete=False), GO_ON]
    assert turn(*broken, whole("n", text("One"), text("Two")), result()).answer == ["One", "Two"]


def test_two_blocks_that_stand_may_both_be_said_again() -> None:
    first, second = whole("m", text("One")), whole("m", text("Two"))
    started = [begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("One"), first]
    broken = [*started, piece("content_block_start", index=1, content_block=text("")), delta("Two", 1), second]
    assert turn(*broken, GO_ON, *broken, *streamed("n", "Three"), result()).answer == ["One", "Two", "Three"]


def test_a_stream_that_begins_anew_without_having_ended_takes_back_what_was_open() -> None:
    started = [begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("Half a sen")]
    assert turn(*started, *streamed("n", "A sentence."), result()).answer == ["A sentence."]


def test_what_was_said_last_stands_when_the_turn_ends_in_the_middle_of_it() -> None:
    started = [begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("Half a sen")]
    ended = turn(*started)
    assert ended.answer == ["Half a sen"]
    assert isinstance(ended.terminal, TurnFailed)


def test_what_was_said_last_stands_also_where_the_message_is_given_up() -> None:
    started = [begin("m"), piece("content_block_start", index=0, content_block=text("")), delta("Half a sen")]
    ended = turn(*started, piece("content_block_stop", index=0), piece("message_stop"), result(is_error=True))
    assert ended.answer == ["Half a sen"]
    assert isinstance(ended.terminal, TurnFailed)


# 6. There is one end, and it is told by more than one sign.


def test_a_success_that_is_an_error_has_failed() -> None:
    failed = come_to(told(lines_of("claude_cli_http400"))).terminal
    assert failed == TurnFailed(message=BAD_REQUEST, code="api_error", status_code=400)


def test_a_complaint_without_a_result_is_why_the_turn_failed() -> None:
    [*lines, _] = lines_of("claude_cli_http500")
    assert come_to(told(lines)).terminal == TurnFailed(message=BOOM, code="server_error", status_code=500)


def test_what_is_known_beside_the_lines_is_said_where_they_do_not_say_why() -> None:
    remark = "claude exited with code 1: unknown option"
    assert come_to(told([], remark)).terminal == TurnFailed(message=remark, code=CUT_OFF)
    assert come_to(told([result(result="fine")], remark)).terminal == TurnCompleted(text="fine")


def test_of_several_results_the_last_counts() -> None:
    failed, fine = result(is_error=True, result="no luck"), result(result="luck", stop_reason="end_turn")
    assert turn(failed, fine).terminal == TurnCompleted(text="luck", stop_reason="end_turn")
    assert isinstance(turn(fine, failed).terminal, TurnFailed)


def test_the_second_answer_of_a_prompt_is_a_further_block() -> None:
    lines = lines_of("claude_cli_subagent")
    answer = come_to(of_the_agent(told(lines))).answer
    assert answer == ["Delegating.", "Parent done.", "Parent done."]


# 7. Usage


def test_a_request_is_counted_once_and_with_all_that_the_model_read() -> None:
    spent = [event for event in told(lines_of("claude_cli_tool")) if isinstance(event, Usage)]
    once = Usage(input_tokens=157, output_tokens=33, scope="request")
    assert spent == [once, once, Usage(input_tokens=314, output_tokens=66, scope="turn")]


def test_a_turn_with_two_results_has_cost_the_sum_of_them() -> None:
    spent = [event for event in told(lines_of("claude_cli_subagent")) if isinstance(event, Usage)]
    assert spent[-1] == Usage(input_tokens=471, output_tokens=99, scope="turn")


def test_whoever_gives_a_total_counts_what_was_cached_within_it() -> None:
    [spent] = [event for event in told(lines_of("qwen_cli_tool")) if isinstance(event, Usage)]
    assert spent == Usage(input_tokens=200, output_tokens=66, scope="turn")


# 8. Who speaks


def test_what_a_subagent_says_and_does_stands_under_its_call() -> None:
    events = told(lines_of("claude_cli_interleaved"))
    under = [event for event in events if getattr(event, "parent_tool_id", None) == "toolu_fake0028"]
    assert [event.text for event in under if isinstance(event, TextDelta)] == ["Child speaking.", "Child result."]
    assert [event.name for event in under if isinstance(event, ToolStarted)] == ["Bash"]
    assert come_to(of_the_agent(events)).answer == ["Delegating.", *["Parent has more to say now."] * 2]


def test_a_sentence_of_the_agent_is_not_broken_by_what_others_say_meanwhile() -> None:
    events = told(lines_of("claude_cli_interleaved"))
    at = events.index(TextDelta(text="Parent "))
    pieces = ["Parent ", "has ", "more ", "to ", "say ", "now."]
    assert events[at : at + 7] == [*(TextDelta(text=said) for said in pieces), BlockFinal()]


# 9. What belongs to the provider


@pytest.mark.parametrize("name", ["claude_cli_think2", "claude_sdk_think2"])
def test_signatures_and_thoughts_that_cannot_be_read_are_kept_as_they_are(name: str) -> None:
    ends = [event.metadata for event in told(lines_of(name)) if isinstance(event, ReasoningEnd)]
    assert ends == [
        {"signature": "c2lnLTE="},
        {"redacted_thinking": "ZW5jcnlwdGVk"},
        {"signature": "c2lnLTI="},
        {"signature": "c2lnLTM="},
    ]


def test_thoughts_that_come_only_as_wholes_keep_theirs() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
    ]
    ends = [event.metadata for event in told([whole("m", *blocks)]) if isinstance(event, ReasoningEnd)]
    assert ends == [{"signature": "c2ln"}, {"redacted_thinking": "c2VjcmV0"}]


# 10. What nobody has heard of


def test_a_line_of_a_new_kind_is_told_once_and_changes_nothing_else() -> None:
    new: Line = {"type": "system", "subtype": "weather", "sky": "blue"}
    events = told([new, new, *streamed("m", "fine"), new, result()])
    assert [event.text for event in events if isinstance(event, Notice)] == [
        'claude sent an unknown event: {"type": "system", "subtype": "weather", "sky": "blue"}'
    ]
    assert isinstance(events[-1], TurnCompleted)


def test_a_remark_in_the_middle_of_a_sentence_waits_for_its_end() -> None:
    lines = streamed("m", "Half a ", "sentence.")
    lines.insert(3, {"type": "weather"})
    lines.insert(4, {"type": "system", "subtype": "status", "status": "compacting"})
    kinds = [type(event) for event in told([*lines, result()])]
    assert kinds == [TurnStarted, TextDelta, TextDelta, BlockFinal, Notice, Status, TurnCompleted]


def test_the_turn_begins_with_whatever_is_told_first() -> None:
    init: Line = {"type": "system", "subtype": "init", "session_id": "s", "model": "a"}
    assert told([init])[0] == TurnStarted(runtime="claude", session_id="s")
    assert told([{"type": "weather"}, init])[0] == TurnStarted(runtime="claude")
    turn({"type": "weather"}, init, result())


def test_another_model_in_the_same_turn_is_told() -> None:
    events = told(lines_of("claude_sdk_model_switch"))
    assert [event for event in events if isinstance(event, ModelChanged)] == [ModelChanged(model_id="claude-opus-4-5")]


def test_the_conversation_is_known_once_it_has_begun() -> None:
    translator = ClaudeTranslator()
    gone, hello = lines_of("claude_cli_session_gone"), lines_of("claude_cli_hello")
    assert translator.feed(gone[0]) == []
    assert (translator.session_id, translator.error_text) == ("", GONE)
    translator.feed(hello[0])
    assert translator.session_id == "e77349bd-ba6e-48cf-a338-73b3401fb591"


def test_ten_thousand_pieces_are_as_many_events() -> None:
    pieces = ["word "] * 10_000
    said = [event for event in told([*streamed("m", *pieces), result()]) if isinstance(event, TextDelta)]
    assert len(said) == 10_000
    again = told([*streamed("m", *pieces, is_complete=False), GO_ON, *streamed("n", *pieces, "more"), result()])
    assert len([event for event in again if isinstance(event, TextDelta)]) == 10_001
