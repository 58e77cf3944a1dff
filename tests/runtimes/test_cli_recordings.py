"""codex, gemini and opencode as they were recorded: what each recording comes to, whole, cut, and among garbage."""

from __future__ import annotations

import pytest
from cli_streams import METADATA, Expected, changed, hold, lines_of, own_text, translated, with_junk
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import turn_of

from example_counts import examples
from tailrace.events import TurnCancelled, TurnFailed

STOPPED = "stopped before the turn was complete"
BROKEN = "stream disconnected before completion: fake failure mid-stream"
CUT = "stream disconnected before completion: stream closed before response.completed"
REFUSED = "invalid request from fake"
BUSY = "We’re currently experiencing high demand, which may cause temporary errors."
ANSWER, REASONING = ["Let me check.", "The tool said hi."], ["I should run a command.", "Now I know."]

# Each was read line by line by a person; the translators are held to it.
EXPECTED = [
    Expected("codex_app_tool", ANSWER, [("shell", False)], REASONING),
    Expected("codex_app_parallel", ["Running two.", "Both done."], [("shell", False), ("shell", False)]),
    Expected("codex_app_longtool", ["Long tool.", "Long done."], [("shell", False)]),
    Expected("codex_app_toolfail", ["Trying.", "It failed as expected."], [("shell", True)]),
    Expected("codex_app_approval_accept", ["Trying.", "It failed as expected."], [("shell", True)]),
    Expected(
        "codex_app_approval_decline",
        ANSWER,
        [("shell", True)],
        REASONING,
        notes="declined: the command did not run, whatever the scripted model says of it",
    ),
    Expected(
        "codex_app_two_calls", ["Delegating.", "Parent done."], notes="nothing is reported between the model calls"
    ),
    Expected(
        "codex_app_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message=BROKEN,
        status=["Reconnecting... 1/1"],
        notes="sent twice, the first time by a try that failed",
    ),
    Expected("codex_app_http400", terminal=TurnFailed, message=REFUSED, notes="reported as an error and as the end"),
    Expected("codex_app_interrupt_midtext", ["Before stall "], terminal=TurnCancelled),
    Expected("codex_app_interrupt_midtool", ["Blocking tool."], [("shell", None)], terminal=TurnCancelled),
    Expected("codex_exec_hello", ["Hello from the fake model."]),
    Expected("codex_exec_tool", ANSWER, [("shell", False)], REASONING),
    Expected(
        "codex_exec_think2",
        ["Answer after two thoughts.", "Final."],
        [("shell", False)],
        ["First thought block.\n\nSecond thought block.", "Third thought."],
    ),
    Expected("codex_exec_longtool", ["Long tool.", "Long done."], [("shell", False)]),
    Expected("codex_exec_empty", ["Héllo wörld 👋🏽"], [("shell", False)], notes="its last message is empty"),
    Expected(
        "codex_exec_cut",
        ["This will be cut"],
        terminal=TurnFailed,
        message=CUT,
        status=[f"Reconnecting... 1/1 ({CUT})"],
    ),
    Expected(
        "codex_exec_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message=BROKEN,
        status=[f"Reconnecting... 1/1 ({BROKEN})"],
    ),
    Expected("codex_exec_http400", terminal=TurnFailed, message=REFUSED),
    Expected("codex_exec_http500", terminal=TurnFailed, message=BUSY, status=[f"Reconnecting... 1/1 ({BUSY})"]),
    Expected(
        "codex_exec_int_stall", ["Before stall "], terminal=TurnFailed, message=f"codex {STOPPED}", code="cut_off"
    ),
    Expected(
        "codex_exec_int_stalltool",
        ["Blocking tool."],
        [("shell", None)],
        terminal=TurnFailed,
        message=f"codex {STOPPED}",
        code="cut_off",
    ),
    Expected("gemini_cli_tool", ANSWER, [("run_shell_command", False)]),
    Expected(
        "gemini_cli_empty", ["Héllo wörld 👋🏽"], [("run_shell_command", False)], notes="its last answer is empty"
    ),
    Expected(
        "gemini_cli_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message="Model stream ended without a finish reason.",
        notes="sent four times, with nothing between; the command's exit code is 0",
    ),
    Expected("gemini_cli_http400", terminal=TurnFailed, message=f"API Error: {REFUSED}"),
    Expected("gemini_cli_int", ["Before stall "], terminal=TurnFailed, message=f"gemini {STOPPED}", code="cut_off"),
    Expected("opencode_serve_tool", ANSWER, [("bash", False)], REASONING),
    Expected("opencode_serve_longtool", ["Long tool.", "Long done."], [("bash", False)]),
    Expected(
        "opencode_serve_think2",
        ["Answer after two thoughts.", "Final."],
        [("bash", False)],
        ["First thought block.", "", "Second thought block.", "Third thought."],
        notes="the second thought is readable by its provider alone",
    ),
    Expected(
        "opencode_serve_subagent",
        ["Delegating.", "Parent done."],
        [("task", False), ("bash", False)],
        children="Child speaking.Child result.",
    ),
    Expected("opencode_serve_http400", terminal=TurnFailed, message=REFUSED, code="APIError"),
    Expected(
        "opencode_serve_errmid",
        terminal=TurnFailed,
        message=f"opencode {STOPPED}",
        code="cut_off",
        status=["Asking the model again: fake failure mid-stream"] * 3,
        notes="three tries failed and the fourth had not started: no text is left",
    ),
    Expected("opencode_serve_abort", ["Blocking tool."], [("bash", False)], terminal=TurnCancelled),
    Expected(
        "opencode_serve_permission",
        ["Let me check."],
        [("bash", True)],
        ["I should run a command."],
        notes="a rejection without a word ends the turn",
    ),
    Expected("opencode_run_tool", ANSWER, [("bash", False)], REASONING),
    Expected("opencode_run_toolfail", ["Trying.", "It failed as expected."], [("bash", True)], notes="exit code 3"),
    Expected("opencode_run_empty", ["Héllo wörld 👋🏽"], [("bash", False)]),
    Expected(
        "opencode_run_subagent", ["Delegating.", "Parent done."], [("task", False)], notes="the child is not reported"
    ),
    Expected(
        "opencode_run_think2_anthropic",
        ["Answer after two thoughts.", "Final."],
        [("bash", False)],
        ["First thought block.", "", "Second thought block.", "Third thought."],
    ),
    Expected("opencode_run_http400", terminal=TurnFailed, message=REFUSED, code="APIError"),
    Expected(
        "opencode_run_errmid",
        terminal=TurnFailed,
        message=f"opencode {STOPPED}",
        code="cut_off",
        status=["Asking the model again"] * 4,
        notes="killed in its tries",
    ),
    Expected("opencode_run_int", terminal=TurnFailed, message=f"opencode {STOPPED}", code="cut_off"),
]
# What ends a turn before the stream ends.
ENDS = {
    "codex": (b'"turn/completed"', b'"turn.completed"', b'"turn.failed"'),
    "gemini": (),
    "opencode": (b'"session.idle"', b'"idle"', b"MessageAbortedError"),
}
NAMES = [expected.recording for expected in EXPECTED]
every_recording = pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)


@every_recording
def test_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    notices = [METADATA] if expected.recording.startswith("codex") else []
    hold(expected.recording, Expected(**{**vars(expected), "notices": notices}))


@every_recording
def test_recording_that_is_cut_anywhere_is_a_turn_with_one_end(expected: Expected) -> None:
    lines, whole_end = lines_of(expected.recording), turn_of(translated(expected.recording)).terminal
    marks = ENDS[expected.recording.partition("_")[0]]
    for length in range(len(lines)):
        end = turn_of(translated(expected.recording, lines[:length])).terminal
        if end == whole_end:
            assert isinstance(end, TurnFailed) or any(mark in line for mark in marks for line in lines[:length])
        else:
            assert isinstance(end, TurnFailed)
            assert end.code == "cut_off" or end.message == expected.message


@every_recording
def test_garbage_between_the_lines_only_adds_notices(expected: Expected) -> None:
    events = translated(expected.recording, with_junk(lines_of(expected.recording)))
    turn = turn_of(events)
    assert type(turn.terminal) is expected.terminal
    if not expected.status and "errmid" not in expected.recording:  # behind a notice a failed try cannot be retracted
        assert own_text(events) == "".join(expected.answer)
    assert turn.tools == list(expected.tools)
    assert any("sent an unknown event" in notice for notice in turn.notices)


@pytest.mark.parametrize(
    "recordings",
    [
        ["codex_app_tool", "codex_app_errmid"],
        ["codex_exec_tool", "codex_exec_errmid"],
        ["gemini_cli_tool", "gemini_cli_errmid"],
        ["opencode_serve_tool", "opencode_serve_abort"],
        ["opencode_run_tool", "opencode_run_http400"],
    ],
    ids=lambda recordings: recordings[0],
)
@settings(max_examples=examples(30, search=1000))
@given(data=st.data())
def test_changed_lines_still_make_a_turn_with_one_end(recordings: list[str], data: st.DataObject) -> None:
    lines = data.draw(st.lists(changed(recordings), max_size=8))
    turn_of(translated(recordings[0], lines))
