"""The grammar of a turn: any stream becomes a valid turn, and a refusal says what to do; `docs/events.md` agrees."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from event_strategies import any_event, content, late, started, terminals
from tailrace.contract import EVENT_KINDS, GRAMMAR, EventKind, GrammarState, Refusal, checked
from tailrace.events import (
    EVENT_CLASSES,
    TAGS,
    Error,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.errors import Diagnostic


class Items:
    """A stream of the given items; raises the exceptions among them."""

    def __init__(self, *things: Any) -> None:
        self.left = list(things)

    def __aiter__(self) -> Items:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        if not self.left:
            raise StopAsyncIteration
        thing = self.left.pop(0)
        if isinstance(thing, BaseException):
            raise thing
        return thing


class Source(Items):
    """A stream that counts how often it was closed."""

    def __init__(self, *things: Any, close_error: Exception | None = None) -> None:
        super().__init__(*things)
        self.closed = 0
        self.close_error = close_error

    async def aclose(self) -> None:
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


def events_of(source: Any, **options: Any) -> list[Event]:
    """The events of the checked stream, to its end."""

    async def collect() -> list[Event]:
        return [event async for event in checked(source, turn_id="t1", **options)]

    return asyncio.run(collect())


def run(*things: Any, stopped: bool = False, **faults: Exception) -> tuple[list[Event], list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    source = Source(*things, **faults)
    events = events_of(source, cancelled=lambda: stopped, on_diagnostic=diagnostics.append)
    assert source.closed == 1
    return events, diagnostics


STARTED = TurnStarted(turn_id="t1")
A, B = TextDelta(text="a"), TextDelta(text="b")
DONE = TurnCompleted()


@given(st.none() | started, st.lists(content, max_size=8), terminals, st.lists(late, max_size=3), st.booleans())
def test_valid_turn_only_gets_a_start_and_an_id(
    start: TurnStarted | None, middle: list[Event], end: Event, after: list[Event], stopped: bool
) -> None:
    events, diagnostics = run(*([] if start is None else [start]), *middle, end, *after, stopped=stopped)
    begun = STARTED if start is None else replace(start, turn_id=start.turn_id or "t1")
    assert events == [begun, *middle, end, *after]
    assert diagnostics == []


@given(st.lists(any_event | st.sampled_from(["text", None, 5]) | st.builds(ValueError), max_size=12))
def test_any_stream_becomes_a_valid_turn(things: list[Any]) -> None:
    events, diagnostics = run(*things)
    kinds = [EVENT_KINDS[type(event)] for event in events]
    assert kinds[0] is EventKind.START
    assert kinds.count(EventKind.START) == 1
    assert kinds.count(EventKind.TERMINAL) == 1
    assert set(kinds[kinds.index(EventKind.TERMINAL) + 1 :]) <= {EventKind.LATE}
    assert len(diagnostics) <= 1


def test_table_covers_every_state_and_kind() -> None:
    assert set(EVENT_KINDS) == set(EVENT_CLASSES)
    assert set(GRAMMAR) == set(GrammarState)
    assert all(set(row) == set(EventKind) for row in GRAMMAR.values())


def test_stream_without_a_terminal_event_fails() -> None:
    for things in ([], [A], [STARTED, A]):
        events, diagnostics = run(*things)
        assert events[0] == STARTED
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].code == "missing_terminal"
        assert diagnostics == []


def test_stopped_stream_without_a_terminal_event_is_cancelled() -> None:
    assert run(A, stopped=True) == ([STARTED, A, TurnCancelled()], [])
    assert run(A, ConnectionError("pipe"), stopped=True) == ([STARTED, A, TurnCancelled()], [])


class Shout(TextDelta, frozen=True, kw_only=True):
    """No event, although it is derived from one: the union is closed."""


NUMBER: Any = 5
NO_EVENTS = ("text", 5, None, {"type": "text_delta", "text": "a"}, object(), TextDelta, Shout(text="a"))


@pytest.mark.parametrize(
    ("before", "thing", "code", "field"),
    [
        *((before, thing, "not_an_event", None) for thing in NO_EVENTS for before in ([], [A])),
        *(([before], STARTED, "turn_already_started", None) for before in (STARTED, A)),
        ([], TextDelta(text=NUMBER), "wrong_type", "text"),
        ([A, B], TextDelta(text="a", parent_tool_id=NUMBER), "wrong_type", "parent_tool_id"),
        ([A], ToolOutput(data="a", id=NUMBER), "wrong_type", "id"),
        ([], TurnStarted(turn_id=NUMBER), "wrong_type", "turn_id"),
        ([STARTED], TurnCompleted(text=NUMBER), "wrong_type", "text"),
    ],
)
def test_turn_fails_with_the_diagnostic_of_a_wrong_event(
    before: list[Event], thing: Any, code: str, field: str | None
) -> None:
    events, [diagnostic] = run(*before, thing, B, DONE)
    assert (diagnostic.code, diagnostic.index, diagnostic.field) == (code, len(before), field)
    assert diagnostic.event_type == (None if code == "not_an_event" else type(thing).__struct_config__.tag)
    started_once = [STARTED, *(event for event in before if event != STARTED)]
    assert events == [*started_once, TurnFailed(message=diagnostic.message, code=code)]


def test_diagnostic_says_how_to_send_text_and_json() -> None:
    assert "TextDelta" in run("text")[1][0].message
    assert "decode_event" in run({"type": "text_delta"})[1][0].message


@pytest.mark.parametrize(
    ("event", "code"),
    [
        *((event, "after_terminal") for event in (A, ReasoningDelta(text="x"), Error(message="m"), STARTED)),
        *((event, "second_terminal") for event in (DONE, TurnFailed(message="m"), TurnCancelled())),
        (ToolFinished(id=NUMBER), "wrong_type"),
    ],
)
def test_wrong_event_behind_the_terminal_event_is_refused(event: Event, code: str) -> None:
    events, [diagnostic] = run(A, DONE, event, ToolFinished(id="1"))
    assert events == [STARTED, A, DONE]
    assert (diagnostic.code, diagnostic.index) == (code, 2)
    assert diagnostic.event_type == type(event).__struct_config__.tag


HIGH, LOW, SMILE = "\ud83d", "\ude00", "\U0001f600"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such model"), "ValueError: no such model"),
        (KeyError(), "KeyError"),
        (ValueError(f"bad {HIGH}"), "ValueError: bad \ufffd"),
    ],
)
def test_turn_fails_if_the_stream_raises(error: Exception, message: str) -> None:
    assert run(A, error) == ([STARTED, A, TurnFailed(message=message, code="runtime_raised")], [])


@pytest.mark.parametrize("faults", [([OSError("stuck")], {}), ([], {"close_error": OSError("stuck")})])
def test_exception_after_the_terminal_event_is_only_reported(faults: tuple[list[Any], dict[str, Any]]) -> None:
    raised, at_close = faults
    events, [diagnostic] = run(A, DONE, *raised, **at_close)
    assert events == [STARTED, A, DONE]
    assert (diagnostic.code, diagnostic.index) == ("raised_late", 2)
    assert "OSError: stuck" in diagnostic.message


def test_object_that_cannot_be_iterated_fails_the_turn() -> None:
    begun, failed = events_of(None)
    assert begun == STARTED
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith("TypeError: ")


def test_callback_may_raise_and_may_be_left_out() -> None:
    def refuse(diagnostic: Diagnostic) -> None:
        raise RuntimeError(diagnostic.code)

    for options in ({"on_diagnostic": refuse}, {}):
        events = events_of(Source(A, "text", DONE), **options)
        assert [type(event) for event in events] == [TurnStarted, TextDelta, TurnFailed]


def test_turn_failed_comes_before_the_stream_is_closed() -> None:
    async def go() -> None:
        source: Any = Source("text", A)
        stream = checked(source, turn_id="t1")
        assert await anext(stream) == STARTED
        assert isinstance(await anext(stream), TurnFailed)
        assert source.closed == 0
        await stream.aclose()
        assert source.closed == 1

    asyncio.run(go())


def test_refusal_after_the_terminal_event_stops_reading() -> None:
    async def endless() -> AsyncIterator[Event]:
        yield DONE
        while True:
            yield A

    assert events_of(endless()) == [STARTED, DONE]


def test_cancellation_passes_through_and_closes_the_stream() -> None:
    closed = asyncio.Event()
    waiting = asyncio.Event()

    async def stuck() -> AsyncIterator[Event]:
        try:
            yield A
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def consume() -> None:
        async for _ in checked(stuck(), turn_id="t1", cancelled=lambda: True):
            pass

    async def go() -> None:
        task = asyncio.create_task(consume())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert closed.is_set()


def test_stream_without_aclose_is_accepted() -> None:
    assert events_of(Items(A, DONE)) == [STARTED, A, DONE]


def delta(text: str, parent: str | None = None) -> TextDelta:
    return TextDelta(text=text, parent_tool_id=parent)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([delta(f"a{HIGH}"), delta(f"{LOW}b")], [delta("a"), delta(f"{SMILE}b")]),
        ([delta(HIGH), delta(LOW)], [delta(SMILE)]),
        ([delta(f"a{HIGH}{LOW}b")], [delta(f"a{SMILE}b")]),
        ([delta(f"a{HIGH}"), delta("b")], [delta("a"), delta("\ufffdb")]),
        ([delta(f"a{LOW}b")], [delta("a\ufffdb")]),
        ([delta(f"a{HIGH}")], [delta("a"), delta("\ufffd")]),
        (
            [delta(f"a{HIGH}"), delta(f"s{HIGH}", "1"), delta(LOW), delta(LOW, "1")],
            [delta("a"), delta("s", "1"), delta(SMILE), delta(SMILE, "1")],
        ),
        (
            [ReasoningDelta(text=HIGH), ReasoningDelta(text=LOW), ToolOutput(data=HIGH), ToolOutput(data=LOW)],
            [ReasoningDelta(text=SMILE), ToolOutput(data=SMILE)],
        ),
        (
            [ToolStarted(id="1", name="x", arguments={"a": [HIGH + LOW, LOW]})],
            [ToolStarted(id="1", name="x", arguments={"a": [SMILE, "\ufffd"]})],
        ),
        ([delta(HIGH), ToolStarted(id="1", name="x")], [delta("\ufffd"), ToolStarted(id="1", name="x")]),
    ],
)
def test_halves_of_characters_are_joined_or_replaced(events: list[Event], expected: list[Event]) -> None:
    assert run(A, *events, DONE) == ([STARTED, A, *expected, DONE], [])
    assert run(*events)[0][:-1] == [STARTED, *expected], "also at the end of a stream that just stops"


@given(st.lists(st.text(st.characters(codec=None) | st.sampled_from([HIGH, LOW]), max_size=4), max_size=8))
def test_any_text_can_be_encoded_afterwards(pieces: list[str]) -> None:
    events, _ = run(*(delta(piece) for piece in pieces), DONE)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text.encode("utf-8").decode("utf-8") == text
    assert text == "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


ROOT = Path(__file__).parents[1]
DOC = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")


def test_document_names_every_event_with_its_fields() -> None:
    for tag, cls in zip(TAGS, EVENT_CLASSES, strict=True):
        [row] = [line for line in DOC.splitlines() if line.startswith(f"| `{tag}` |")]
        for field in cls.__struct_fields__:
            assert field == "parent_tool_id" or f"`{field}`" in row


def test_document_names_every_code() -> None:
    codes = {cell.code for row in GRAMMAR.values() for cell in row.values() if isinstance(cell, Refusal)}
    codes |= {"missing_field", "unknown_field", "wrong_type"}
    for name in ("events.py", "contract.py", "runtimes/dialects.py"):
        codes |= set(re.findall(r'code="(\w+)"', (ROOT / "src" / "tailrace" / name).read_text(encoding="utf-8")))
    assert "missing_terminal" in codes
    assert {code for code in codes if f"| `{code}` |" not in DOC} == set()


def test_example_in_the_document_is_a_valid_turn() -> None:
    code = DOC.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/events.md", "exec"), names)
    found: list[Diagnostic] = []
    events = events_of(names["agent"]("hello"), on_diagnostic=found.append)
    assert isinstance(events[-1], TurnCompleted)
    assert found == []
