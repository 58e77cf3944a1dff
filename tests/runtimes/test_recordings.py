"""Every recorded turn of every agent: what it becomes whole, cut, among garbage, and with wrong values in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_turns import KINDS, NAMES, RECORDINGS, expected_of, kind_of, lines_of, recorded, summary, translated
from turns import CUT_OFF, Turn, turn_of

from event_strategies import json_values
from example_counts import examples
from stable_strategies import byte_strings, items
from tailrace.events import BlockFinal, TextRetracted, TurnFailed, validate_event

if TYPE_CHECKING:
    from collections.abc import Iterator

every_turn = pytest.mark.parametrize("name", NAMES)
every_kind = pytest.mark.parametrize("kind", KINDS)
# The SDK's client makes these from a stream. `test_histories` compares saved histories with them.
SNAPSHOTS = {f"vercel{version}_reader_snapshots" for version in (5, 6, 7)}


def turns_of_kind(kind: str) -> list[str]:
    return [name for name in NAMES if kind_of(name) is KINDS[kind]]


def test_every_recording_has_a_header_and_expected_events() -> None:
    names = {path.stem for path in RECORDINGS.glob("*.ndjson")}
    assert names - SNAPSHOTS == {name.partition("-")[0] for name in NAMES}
    for name in names:
        header = json.loads((RECORDINGS / f"{name}.ndjson").read_text(encoding="utf-8").splitlines()[0])["_header"]
        assert all(header[field] for field in ("runtime", "version", "how")), name
        assert recorded(name), name


@every_turn
def test_a_turn_has_the_expected_events(name: str) -> None:
    events = translated(name)
    assert summary(events) == expected_of(name)
    turn_of(events)


def own_text(turn: Turn) -> str:
    """The text of the agent without that of its subagents."""
    return "".join(turn_of(event for event in turn.events if getattr(event, "parent_tool_id", None) is None).answer)


@every_turn
def test_a_turn_that_is_cut_before_its_end_fails(name: str) -> None:
    lines, whole, kind = lines_of(name), turn_of(translated(name)), kind_of(name)
    is_retracted = any(isinstance(event, TextRetracted) or event == BlockFinal(text="") for event in whole.events)
    is_ended = False
    for length, line in enumerate(lines):
        cut = turn_of(translated(name, lines[:length]))
        if is_ended:
            assert cut.terminal == whole.terminal or isinstance(cut.terminal, TurnFailed)
        else:
            assert isinstance(cut.terminal, TurnFailed)
            assert cut.terminal.code == CUT_OFF
            assert is_retracted or own_text(whole).startswith(own_text(cut))
        is_ended = is_ended or kind.is_end(line)


@every_turn
def test_garbage_in_a_turn_is_noted_and_changes_nothing(name: str) -> None:
    lines, garbage = lines_of(name), kind_of(name).garbage
    # An event between two chunks of AG-UI would end their message.
    dirty = [either for line in lines for either in (*([] if "_CHUNK" in str(line) else garbage), line)]
    clean, found = turn_of(translated(name)), turn_of(translated(name, dirty))
    assert "".join(found.answer) == "".join(clean.answer)
    assert (found.tools, found.errors, found.terminal) == (clean.tools, clean.errors, clean.terminal)
    assert len(found.notices) > len(clean.notices)
    assert len(found.notices) == len(set(found.notices)), "the same is noted once"


def spoiled(value: Any, depth: int = 4) -> Iterator[Any]:
    """The value with a number in place of each of its fields, and of the fields of those."""
    yield 7
    if depth and isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: other} for other in spoiled(inner, depth - 1))
    elif depth and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in spoiled(inner, depth - 1))


def as_value(line: Any) -> Any:
    return json.loads(line) if isinstance(line, bytes) else line


def as_line(value: Any, like: Any) -> Any:
    return json.dumps(value).encode() if isinstance(like, bytes) else value


def valid_turn(name: str, lines: list[Any]) -> Turn:
    events = translated(name, lines)
    for event in events:
        validate_event(event)
    return turn_of(events)


@every_kind
def test_a_wrong_value_in_any_field_leaves_a_valid_turn(kind: str) -> None:
    name = max(turns_of_kind(kind), key=lambda name: len({str(line)[:40] for line in lines_of(name)[:80]}))
    lines = lines_of(name)
    for at, line in enumerate(lines):
        for value in spoiled(as_value(line)):
            valid_turn(name, [*lines[:at], as_line(value, line), *lines[at + 1 :]])


@st.composite
def changed(draw: st.DrawFn, lines: list[Any]) -> Any:
    """A recorded line with one value changed."""
    line = draw(items(lines))
    value = place = json.loads(json.dumps(as_value(line)))
    while isinstance(place, dict) and place:
        name = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or draw(st.booleans()):
            place[name] = draw(json_values)
            break
        place = place[name]
    return as_line(value, line)


@every_kind
@settings(max_examples=examples(20, search=1000))
@given(data=st.data())
def test_changed_lines_in_any_order_make_a_valid_turn(kind: str, data: st.DataObject) -> None:
    names = turns_of_kind(kind)
    lines = [line for name in names for line in lines_of(name)]
    is_text = isinstance(lines[0], bytes)
    noise = byte_strings(max_size=12) if is_text else json_values
    valid_turn(names[0], data.draw(st.lists(changed(lines) | noise, max_size=8)))
