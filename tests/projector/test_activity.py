"""The activity of a turn as lines for people: short, harmless, in order, and without made-up outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event_strategies import any_event
from example_counts import examples
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Event,
    ModelChanged,
    Notice,
    PlanItem,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.markdown import render
from tailrace.markdown.graphemes import is_boundary
from tailrace.operations import Task
from tailrace.projector.activity import TurnActivity
from tailrace.projector.tool_calls import ToolCalls
from tailrace.projector.wording import escaped, last_line, one_line, text_end

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILY = "👨‍👩‍👧‍👦"
FLAG = "🇩🇪"


def after(*events: Event, reasoning: bool = False) -> TurnActivity:
    """The activity after the events, one a second from 0 on."""
    activity = TurnActivity(reasoning=reasoning)
    for now, event in enumerate(events):
        activity.feed(event, float(now))
    return activity


def shown(*events: Event, limit: int = 8, reasoning: bool = False) -> list[str]:
    return after(*events, reasoning=reasoning).lines(float(len(events)), limit)


def bash(call_id: str = "1", command: str = "ls", parent: str | None = None) -> ToolStarted:
    return ToolStarted(id=call_id, name="Bash", arguments={"command": command}, parent_tool_id=parent)


def test_main_argument_is_the_first_one_of_a_fixed_order() -> None:
    order = ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "title", "name"]
    arguments: dict[str, str] = {name: f"the {name}" for name in [*reversed(order), "other"]}
    for name in order:
        assert shown(ToolStarted(id="1", name="T", arguments=arguments)) == [f"🔧 T: the {name}"]
        arguments[name] = " \n"
    assert shown(ToolStarted(id="1", name="T", arguments=arguments)) == ["🔧 T"]


@pytest.mark.parametrize(
    ("arguments", "main_argument"),
    [
        ('{"command": "ls -la"}', ": ls -la"),
        ({"command": ["bash", "-lc", "ls"]}, ": bash -lc ls"),
        ({"command": ["ls", 1, None]}, ": ls"),
        ({"command": "  two\n\tlines  "}, ": two lines"),
        ({"command": 7, "path": "p"}, ": p"),
        ({"command": {"a": 1}}, ""),
        ('{"comm', ""),
        ("[" * 100_000, ""),
        ('{"command": "\ud800"}', ""),
        ({"command": "half \ud800"}, ": half \ufffd"),
        ('"ls"', ""),
        (["command"], ""),
        ({"command": 10**5000}, ""),
        (None, ""),
        (object(), ""),
    ],
)
def test_arguments_may_be_anything(arguments: Any, main_argument: str) -> None:
    assert shown(ToolStarted(id="1", name="T", arguments=arguments)) == [f"🔧 T{main_argument}"]
    before = ToolStarted(id="1", name="T", arguments={"command": "before"})
    assert shown(before, ToolInput(id="1", arguments=arguments)) == [f"🔧 T{main_argument}"]


def test_long_argument_is_cut_between_graphemes() -> None:
    assert shown(bash(command="x" * 60)) == ["🔧 Bash: " + "x" * 60]
    assert shown(bash(command="x" * 61)) == ["🔧 Bash: " + "x" * 59 + "…"]
    for whole in (FAMILY, FLAG, "e\u0301"):
        [line] = shown(bash(command="x" + whole * 100_000))
        words = line.removeprefix("🔧 Bash: x").removesuffix("…")
        assert words == whole * (len(words) // len(whole))
        assert 40 < len(words) < 60
    one_grapheme = "e" + "\u0301" * 1000
    assert len(one_line(one_grapheme)) == len(last_line(one_grapheme)) == 60
    assert shown(bash(command=" " * 10_000 + "ls" + " " * 10_000)) == ["🔧 Bash: ls"]
    assert shown(bash(command="a" + " " * 10_000 + "b")) == ["🔧 Bash: a…"]


def test_control_characters_in_a_name_are_replaced() -> None:
    name = "ev\x1b[31mil\u202etxt\u2028\r\nnext\x00" + "n" * 100
    [line] = shown(ToolStarted(id="1", name=name))
    assert line.startswith("🔧 ev\ufffd[31mil\ufffdtxt next\ufffdnnn")
    assert line.endswith("n…")
    assert len(line) == 62
    assert shown(ToolStarted(id="1", name=" \n ")) == ["🔧 tool"]


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [
        (0.31, "0.3s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.7, "1m 00s"),
        (65.0, "1m 05s"),
        (3600, "60m 00s"),
        (-5, "0.0s"),
    ],
)
def test_finished_call_shows_its_outcome_and_duration(seconds: float, duration: str) -> None:
    for is_error, mark in ((False, "✓"), (True, "✗")):
        activity = TurnActivity()
        activity.feed(bash(), 100.0)
        assert activity.feed(ToolFinished(id="1", result="secret", is_error=is_error), 100.0 + seconds)
        assert activity.lines(1000.0) == [f"🔧 Bash: ls {mark} {duration}"]


def test_scar_33_output_and_result_of_a_tool_are_never_shown() -> None:
    activity = after(bash())
    assert not activity.feed(ToolOutput(id="1", data="secret"), 1.0)
    assert not activity.feed(ToolOutput(data="secret", stream="stderr"), 1.0)
    activity.feed(ToolFinished(id="1", result={"key": "secret"}, is_error=True), 2.0)
    assert activity.lines(3.0) == ["🔧 Bash: ls ✗ 2.0s"]


def test_call_with_progress_shows_its_elapsed_time() -> None:
    activity = after(bash())
    assert activity.feed(ToolProgress(id="1", elapsed_s=8.5), 10.0)
    assert activity.lines(10.0) == ["🔧 Bash: ls (8s)"]
    assert activity.lines(72.0) == ["🔧 Bash: ls (1m 10s)"]
    assert activity.feed(ToolProgress(text="halfway\n\n"), 72.0)
    assert activity.lines(72.0) == ["🔧 Bash: ls (0s)", "  💬 halfway"]
    activity.feed(ToolFinished(id="1"), 73.0)
    assert activity.lines(80.0) == ["🔧 Bash: ls ✓ 1m 13s"]
    for impossible in (float("nan"), float("-inf"), -3.0):
        assert shown(bash(), ToolProgress(id="1", elapsed_s=impossible)) == ["🔧 Bash: ls (1s)"]
    assert len(shown(bash(), ToolProgress(id="1", elapsed_s=float("inf")))[0]) < 60


def test_text_of_the_agent_and_events_of_unknown_calls_are_ignored() -> None:
    activity = TurnActivity()
    unknown: list[Event] = [ToolFinished(id="9"), ToolInput(id="9", arguments={}), ToolProgress(id="9"), ToolProgress()]
    unknown += [TextDelta(text="x", parent_tool_id="9"), Status(text="x", parent_tool_id="9")]
    unknown += [TextDelta(text="a"), BlockFinal(text="a"), TextRetracted()]  # the agent's own text is the answer
    assert not any(activity.feed(event, 0.0) for event in unknown)
    activity.feed(bash("1", parent="9"), 0.0)
    activity.feed(bash("2", parent="2"), 0.0)
    assert not activity.feed(ToolFinished(id="9"), 1.0)
    assert activity.lines(1.0) == ["🔧 Bash: ls", "🔧 Bash: ls"]


def test_repeated_id_begins_another_call_and_a_second_result_is_ignored() -> None:
    events: list[Event] = [bash("tool", "a"), bash("tool", "b"), ToolFinished(id="tool"), bash("tool", "c")]
    assert shown(*events) == ["🔧 Bash: a …", "🔧 Bash: b ✓ 1.0s", "🔧 Bash: c"]
    activity = after(bash(), ToolFinished(id="1"))
    assert not activity.feed(ToolFinished(id="1", is_error=True), 5.0)
    assert activity.lines(5.0) == ["🔧 Bash: ls ✓ 1.0s"]


@pytest.mark.parametrize("terminal", [TurnCompleted(), TurnFailed(message="m"), TurnCancelled()])
def test_end_of_the_turn_stops_open_calls_and_a_late_result_counts(terminal: Event) -> None:
    activity = after(bash("1"), bash("2"), ToolFinished(id="2"), Status(text="at it"))
    assert activity.feed(terminal, 4.0)
    assert activity.lines(4.0) == ["🔧 Bash: ls …", "🔧 Bash: ls ✓ 1.0s"]
    assert not activity.feed(terminal, 4.0)
    assert not activity.feed(ToolProgress(id="1", elapsed_s=9.0), 4.5)
    assert activity.feed(ToolFinished(id="1"), 5.0)
    assert activity.lines(6.0) == ["🔧 Bash: ls ✓ 5.0s", "🔧 Bash: ls ✓ 1.0s"]


def test_tools_of_a_subagent_stand_below_its_call() -> None:
    events = [
        ToolStarted(id="a", name="Task"),
        ToolStarted(id="b", name="Task"),
        bash("a1", "one", "a"),
        bash("b1", "two", "b"),
        ToolStarted(id="a2", name="Task", parent_tool_id="a"),
        bash("a21", "three", "a2"),
        bash("a3", "four", "a"),
    ]
    assert shown(*events) == [
        "🔧 Task",
        "  🔧 Bash: one",
        "  🔧 Task",
        "    🔧 Bash: three",
        "  🔧 Bash: four",
        "🔧 Task",
        "  🔧 Bash: two",
    ]
    chain = [bash(str(n), str(n), str(n - 1)) for n in range(30)]
    assert shown(*chain)[-2:] == ["      🔧 Bash: 28", "      🔧 Bash: 29"], "deep calls are not indented further"


def test_last_line_of_a_subagent_is_shown_while_it_works() -> None:
    events: list[Event] = [
        ToolStarted(id="a", name="Task"),
        TextDelta(text="First line.\nThe sec", parent_tool_id="a"),
        TextDelta(text="ond\n\n", parent_tool_id="a"),
    ]
    assert shown(*events) == ["🔧 Task", "  💬 The second"]
    events.append(BlockFinal(text="All of it.", parent_tool_id="a"))
    assert shown(*events) == ["🔧 Task", "  💬 All of it."]
    events += [BlockFinal(parent_tool_id="a"), TextDelta(text="Next", parent_tool_id="a")]
    assert shown(*events) == ["🔧 Task", "  💬 Next"]
    assert shown(*events, TextRetracted(parent_tool_id="a")) == ["🔧 Task"]
    assert shown(*events, Status(text="at it", parent_tool_id="a")) == ["🔧 Task", "  💬 at it"]
    assert shown(*events, ToolFinished(id="a")) == ["🔧 Task ✓ 6.0s"]
    long = "".join(f"word{n} " for n in range(1000))
    [_, line] = shown(events[0], TextDelta(text=long, parent_tool_id="a"))
    assert line.startswith("  💬 …")
    assert line.endswith(" word998 word999")
    assert len(line) <= 64


def test_plan_is_shown_first_with_the_status_of_each_item() -> None:
    statuses = {"look": "completed", "think\nhard": "in_progress", "act": "pending", "?": "odd"}
    items = tuple(PlanItem(title=title, status=status) for title, status in statuses.items())
    activity = after(bash(), PlanUpdated(items=items))
    assert activity.lines(1.0) == ["☑ look", "▶ think hard", "☐ act", "☐ ?", "🔧 Bash: ls"]
    assert not activity.feed(PlanUpdated(items=items), 2.0)
    assert not activity.feed(PlanUpdated(items=(), parent_tool_id="1"), 2.0)
    assert activity.feed(PlanUpdated(items=items[:1]), 2.0)
    assert activity.lines(2.0) == ["☑ look", "🔧 Bash: ls"]


def test_latest_notice_and_status_are_shown_last() -> None:
    events: list[Event] = [Status(text="Thinking"), Notice(text="Slow today"), bash(), Status(text="Reading\nfiles")]
    assert shown(*events) == ["🔧 Bash: ls", "ℹ️ Slow today", "ℹ️ Reading files"]
    assert shown(*events, Status(text="")) == ["🔧 Bash: ls", "ℹ️ Slow today"]
    assert shown(ModelChanged(model_id="m", key_id="k")) == ["ℹ️ Switched to m (k)"]
    assert shown(ModelChanged(model_id="m")) == ["ℹ️ Switched to m"]
    assert shown(ConfigReloaded()) == ["ℹ️ Configuration reloaded"]


def test_reasoning_is_shown_only_if_it_is_asked_for() -> None:
    reasoning: list[Event] = [ReasoningDelta(text="One.\nTw"), ReasoningDelta(text="o.")]
    assert shown(*reasoning) == []
    assert not TurnActivity().feed(reasoning[0], 0.0)
    assert shown(*reasoning, reasoning=True) == ["💭 Two."]
    [line] = shown(*reasoning, ReasoningEnd(), ReasoningDelta(text="Three " * 100), reasoning=True)
    assert line.startswith("💭 …")
    assert line.endswith("Three Three")
    assert len(line) <= 122
    assert shown(ReasoningDelta(text="x", parent_tool_id="9"), reasoning=True) == []
    assert shown(*reasoning, TurnCompleted(), reasoning=True) == []


def test_new_text_of_the_agent_clears_what_does_not_run() -> None:
    activity = after(bash("1", "a"), bash("2", "b"), ToolFinished(id="1"), Status(text="s"), reasoning=True)
    activity.feed(ReasoningDelta(text="hm"), 4.0)
    activity.clear_finished()
    assert activity.lines(5.0) == ["🔧 Bash: b"]
    activity.feed(ToolFinished(id="2"), 6.0)
    assert activity.lines(6.0) == ["🔧 Bash: b ✓ 5.0s"]
    activity.clear_finished()
    assert activity.lines(6.0) == []


def test_newest_lines_are_shown_and_the_others_counted() -> None:
    calls = [bash(str(n), str(n)) for n in range(1, 13)]
    assert shown(*calls[:8]) == [f"🔧 Bash: {n}" for n in range(1, 9)]
    assert shown(*calls) == ["… 5 earlier", *(f"🔧 Bash: {n}" for n in range(6, 13))]
    assert shown(*calls, limit=2) == ["… 11 earlier", "🔧 Bash: 12"]
    assert shown(*calls, limit=1) == ["… 12 earlier"]
    plan = PlanUpdated(items=tuple(PlanItem(title=str(n), status="pending") for n in range(100)))
    assert shown(plan, *calls[:2]) == ["… 95 earlier", *(f"☐ {n}" for n in range(95, 100)), *shown(*calls[:2])]


def test_calls_that_are_not_kept_are_counted_and_running_ones_are_kept() -> None:
    activity = after(bash("long", "long"))
    for n in range(200):
        activity.feed(bash("x", str(n)), 0.0)
        activity.feed(ToolFinished(id="x"), 0.0)
    assert activity.lines(0.0, 4) == ["… 198 earlier", *(f"🔧 Bash: {n} ✓ 0.0s" for n in (197, 198, 199))]
    assert activity.lines(0.0, 100)[:2] == ["… 137 earlier", "🔧 Bash: long"]
    activity.clear_finished()
    assert activity.lines(0.0) == ["🔧 Bash: long"]


def test_calls_are_tasks_numbered_by_us() -> None:
    activity = after(bash("tool", "a"), bash("tool", "b" * 500), ToolFinished(id="tool", is_error=True))
    activity.feed(ToolStarted(id="tool", name="n" * 500, arguments={"path": "p" * 500}), 3.0)
    tasks = activity.tasks()
    assert [(task.id, task.status) for task in tasks] == [("1", "pending"), ("2", "error"), ("3", "in_progress")]
    assert tasks[0].title == "Bash: a"
    assert all(len(task.title) <= 256 for task in tasks)
    activity.feed(ToolFinished(id="tool"), 4.0)
    assert activity.tasks()[-1].status == "complete"
    assert TurnActivity().tasks() == TurnActivity().changed_tasks() == ()


def test_changed_tasks_include_those_that_are_no_longer_shown() -> None:
    activity = after(bash("1", "a"), bash("2", "b"))
    assert [task.id for task in activity.changed_tasks()] == ["1", "2"]
    assert activity.changed_tasks() == ()
    activity.feed(ToolProgress(id="1", elapsed_s=3.0), 2.0)
    assert activity.changed_tasks() == ()
    activity.feed(ToolFinished(id="2"), 3.0)
    activity.clear_finished()
    assert activity.changed_tasks() == (Task(id="2", title="Bash: b", status="complete"),)
    activity.feed(ToolInput(id="1", arguments={"command": "c"}), 4.0)
    activity.feed(TurnCompleted(), 5.0)
    assert activity.changed_tasks() == (Task(id="1", title="Bash: c", status="pending"),)


REQUEST, TURN, SESSION = (1000, 20, "request"), (7, 8, "turn"), (1_000_000, 2, "session")


@pytest.mark.parametrize(
    ("usages", "line"),
    [
        ([], ""),
        ([REQUEST, (500, 5, "request")], "1,500 tokens in, 25 out"),
        ([REQUEST, TURN, (9, 9, "request"), SESSION], "7 tokens in, 8 out"),
        ([(9, 9, "session"), SESSION], "1,000,000 tokens in, 2 out in this session"),
        ([SESSION, (3, 4, "request")], "3 tokens in, 4 out"),
    ],
)
def test_usage_line_has_the_best_total_of_the_turn(usages: list[tuple[int, int, Any]], line: str) -> None:
    events = [Usage(input_tokens=i, output_tokens=o, scope=scope) for i, o, scope in usages]
    of_subagent = Usage(input_tokens=1, output_tokens=1, scope="turn", parent_tool_id="1")
    assert after(*events, of_subagent).usage_line() == line


MARKUP = [
    *("**", "```", "&amp;", "&#35;", "http://x.y/a_b", "é", "🔧", "- ", "1. "),
    *"*_`[]()<>#~|\\!&-+=.:;/ '\"1$@^{}ab",
]


@settings(max_examples=examples(200, search=2_000))
@given(st.lists(st.sampled_from(MARKUP), min_size=1, max_size=12).map("".join), st.integers(0, 6))
def test_escaped_line_is_rendered_as_it_was(words: str, depth: int) -> None:
    words = words.strip() or "x"
    line, kept = " " * depth + words, "\xa0" * depth + words
    assert render(escaped(line), "plain").text == words
    assert render(f"before  \n{escaped(line)}  \nafter", "plain").text == f"before\n{kept}\nafter"
    assert render(f"{escaped(line)}  \n{escaped(line)}", "plain").text == f"{words}\n{kept}"
    assert escaped("    🔧 read_file: *.py") == "\xa0" * 4 + "🔧 read_file: \\*.py"


@settings(max_examples=examples(200, search=2_000))
@given(st.lists(any_event, max_size=30), st.integers(1, 10))
def test_lines_stay_within_the_limit_and_change_only_with_news(events: Sequence[Event], limit: int) -> None:
    activity = TurnActivity(reasoning=True)
    before: list[str] = []
    for now, event in enumerate(events):
        changed = activity.feed(event, float(now))
        assert len(activity.lines(float(now), limit)) <= limit
        lines = activity.lines(0.0, 1000)
        assert all(len(line.splitlines()) == 1 for line in lines)
        assert changed or lines == before
        before = lines


def test_memory_does_not_grow_with_finished_calls() -> None:
    calls = ToolCalls()
    for n in range(10_000):
        calls.begin(bash(str(n), "x"), 0.0)
        calls.update(ToolFinished(id=str(n)), 0.0)
        calls.changed_tasks()
    assert len(calls.lines(0.0)) == 64
    assert calls.left_out == 10_000 - 64
    assert len(calls._open) == len(calls._changed) == 0


@given(st.text(st.sampled_from(["a", "\u0301", "\U0001f468", "\u200d", "\U0001f1e9", "\r", "\n"])), st.integers(1, 6))
def test_text_end_is_the_end_of_the_text_and_fits(text: str, length: int) -> None:
    end = text_end(text, length)
    assert text.endswith(end)
    assert len(end) <= length
    assert bool(end) == bool(text)
    at = len(text) - len(end)
    longer = not any(is_boundary(text, later) for later in range(at + 1, len(text)))
    assert is_boundary(text, at) or longer, "a grapheme is cut only if it is longer than the end"
