from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


class Source:
    """A stream of the given items; raises the exceptions among them, and counts how often it was closed."""

    def __init__(self, *things: Any, close_error: Exception | None = None) -> None:
        self.left = list(things)
        self.closed = 0
        self.close_error = close_error

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        if not self.left:
            raise StopAsyncIteration
        thing = self.left.pop(0)
        if isinstance(thing, BaseException):
            raise thing
        return thing

    async def aclose(self) -> None:
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


def run(*things: Any, stopped: bool = False) -> tuple[list[Event], list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    source = Source(*things)

    async def collect() -> list[Event]:
        stream = checked(source, turn_id="t1", cancelled=lambda: stopped, on_diagnostic=diagnostics.append)
        return [event async for event in stream]

    events = asyncio.run(collect())
    assert source.closed == 1
    return events, diagnostics


STARTED = TurnStarted(turn_id="t1")
A, B = TextDelta(text="a"), TextDelta(text="b")
DONE = TurnCompleted()


def test_a_complete_turn_passes_unchanged() -> None:
    turn = [TurnStarted(turn_id="own", runtime="r"), A, ToolStarted(id="1", name="x"), B, DONE]
    events, diagnostics = run(*turn)
    assert events == turn
    assert all(given is got for given, got in zip(turn, events, strict=True))
    assert diagnostics == []


def test_a_missing_turn_started_is_added() -> None:
    assert run(A, DONE) == ([STARTED, A, DONE], [])
    assert run(DONE) == ([STARTED, DONE], [])


def test_turn_started_without_an_id_gets_one() -> None:
    assert run(TurnStarted(runtime="r"), DONE) == ([TurnStarted(turn_id="t1", runtime="r"), DONE], [])


@pytest.mark.parametrize("terminal", [DONE, TurnFailed(message="m"), TurnCancelled()])
def test_each_terminal_ends_the_turn(terminal: Event) -> None:
    assert run(A, terminal) == ([STARTED, A, terminal], [])


def test_a_stream_without_a_terminal_event_fails() -> None:
    for things in ([], [A], [TurnStarted(turn_id="t1"), A]):
        events, diagnostics = run(*things)
        assert events[0] == STARTED
        assert isinstance(events[-1], TurnFailed)
        assert events[-1].code == "missing_terminal"
        assert diagnostics == []


def test_a_stopped_stream_without_a_terminal_event_is_cancelled() -> None:
    assert run(A, stopped=True) == ([STARTED, A, TurnCancelled()], [])
    assert run(A, ConnectionError("pipe"), stopped=True) == ([STARTED, A, TurnCancelled()], [])


def test_a_terminal_event_is_kept_after_a_stop() -> None:
    assert run(A, DONE, stopped=True) == ([STARTED, A, DONE], [])


def test_late_tool_events_pass() -> None:
    late_ones = [ToolOutput(data="x"), ToolFinished(id="1"), ToolFinished(id="unknown")]
    assert run(A, DONE, *late_ones) == ([STARTED, A, DONE, *late_ones], [])


@pytest.mark.parametrize("event", [A, ReasoningDelta(text="x"), Error(message="m"), TurnStarted(turn_id="t2")])
def test_nothing_else_passes_after_the_terminal(event: Event) -> None:
    events, [diagnostic] = run(A, DONE, event, ToolFinished(id="1"))
    assert events == [STARTED, A, DONE]
    assert (diagnostic.code, diagnostic.index) == ("after_terminal", 2)
    assert diagnostic.event_type == type(event).__struct_config__.tag


@pytest.mark.parametrize("second", [DONE, TurnFailed(message="m"), TurnCancelled()])
def test_a_second_terminal_event_is_refused(second: Event) -> None:
    events, [diagnostic] = run(A, DONE, second)
    assert events == [STARTED, A, DONE]
    assert (diagnostic.code, diagnostic.index) == ("second_terminal", 2)


@pytest.mark.parametrize("before", [TurnStarted(turn_id="t1"), A])
def test_a_second_turn_started_fails_the_turn(before: Event) -> None:
    events, [diagnostic] = run(before, TurnStarted(turn_id="t1"), A, DONE)
    assert (diagnostic.code, diagnostic.index) == ("turn_already_started", 1)
    assert events[:-1] == ([before] if isinstance(before, TurnStarted) else [STARTED, before])
    assert events[-1] == TurnFailed(message=diagnostic.message, code="turn_already_started")


@pytest.mark.parametrize("thing", ["text", 5, None, {"type": "text_delta", "text": "a"}, object(), TextDelta])
def test_an_object_that_is_no_event_fails_the_turn(thing: Any) -> None:
    for before in ([], [A]):
        events, [diagnostic] = run(*before, thing, B, DONE)
        assert (diagnostic.code, diagnostic.index, diagnostic.event_type) == (
            "not_an_event",
            len(before),
            None,
        )
        assert events == [STARTED, *before, TurnFailed(message=diagnostic.message, code="not_an_event")]


def test_the_diagnostic_says_how_to_send_text_and_json() -> None:
    assert "TextDelta" in run("text")[1][0].message
    assert "decode_event" in run({"type": "text_delta"})[1][0].message


class Shout(TextDelta, frozen=True, kw_only=True):
    pass


def test_the_union_is_closed() -> None:
    assert run(Shout(text="a"))[1][0].code == "not_an_event"


NUMBER: Any = 5


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (TextDelta(text=NUMBER), "text"),
        (TextDelta(text="a", parent_tool_id=NUMBER), "parent_tool_id"),
        (ToolOutput(data="a", id=NUMBER), "id"),
        (TurnStarted(turn_id=NUMBER), "turn_id"),
        (TurnCompleted(text=NUMBER), "text"),
    ],
)
def test_a_field_of_the_wrong_type_fails_the_turn(event: Event, field: str) -> None:
    for before in ([], [A, B]):
        events, [diagnostic] = run(*before, event, B, DONE)
        assert (diagnostic.code, diagnostic.index, diagnostic.field) == ("wrong_type", len(before), field)
        assert diagnostic.event_type == type(event).__struct_config__.tag
        assert events == [STARTED, *before, TurnFailed(message=diagnostic.message, code="wrong_type")]


def test_a_malformed_late_event_is_refused() -> None:
    events, [diagnostic] = run(DONE, ToolFinished(id=NUMBER), ToolFinished(id="1"))
    assert events == [STARTED, DONE]
    assert (diagnostic.code, diagnostic.index) == ("wrong_type", 1)


def test_a_subagents_text_passes() -> None:
    text = TextDelta(text="a", parent_tool_id="1")
    assert run(A, text, DONE) == ([STARTED, A, text, DONE], [])


def test_an_exception_of_the_stream_fails_the_turn() -> None:
    events, diagnostics = run(A, ValueError("no such model"))
    assert events == [STARTED, A, TurnFailed(message="ValueError: no such model", code="runtime_raised")]
    assert diagnostics == []
    assert run(KeyError())[0][-1] == TurnFailed(message="KeyError", code="runtime_raised")


def test_an_exception_after_the_terminal_event_is_reported() -> None:
    events, [diagnostic] = run(A, DONE, ValueError("oops"))
    assert events == [STARTED, A, DONE]
    assert (diagnostic.code, diagnostic.index) == ("raised_late", 2)
    assert "ValueError: oops" in diagnostic.message


def test_an_object_that_cannot_be_iterated_fails_the_turn() -> None:
    async def collect() -> list[Event]:
        nothing: Any = None
        return [event async for event in checked(nothing, turn_id="t1")]

    begun, failed = asyncio.run(collect())
    assert begun == STARTED
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith("TypeError: ")


def test_an_exception_while_closing_is_reported() -> None:
    diagnostics: list[Diagnostic] = []

    async def collect() -> list[Event]:
        source = Source(A, DONE, close_error=OSError("stuck"))
        stream = checked(source, turn_id="t1", on_diagnostic=diagnostics.append)
        return [event async for event in stream]

    assert asyncio.run(collect()) == [STARTED, A, DONE]
    assert [(found.code, "OSError: stuck" in found.message) for found in diagnostics] == [("raised_late", True)]


def test_a_callback_that_raises_does_not_end_the_turn() -> None:
    def refuse(diagnostic: Diagnostic) -> None:
        raise RuntimeError(diagnostic.code)

    async def collect() -> list[Event]:
        things: Any = Source(A, "text", DONE)
        return [event async for event in checked(things, turn_id="t1", on_diagnostic=refuse)]

    assert [type(event) for event in asyncio.run(collect())] == [TurnStarted, TextDelta, TurnFailed]


def test_the_turn_fails_without_a_callback_too() -> None:
    async def collect() -> list[Event]:
        things: Any = Source("text")
        return [event async for event in checked(things, turn_id="t1")]

    assert [type(event) for event in asyncio.run(collect())] == [TurnStarted, TurnFailed]


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


def test_a_refusal_after_the_terminal_event_stops_reading() -> None:
    async def endless() -> AsyncIterator[Event]:
        yield DONE
        while True:
            yield A

    async def collect() -> list[Event]:
        return [event async for event in checked(endless(), turn_id="t1")]

    assert asyncio.run(collect()) == [STARTED, DONE]


def test_closing_early_closes_the_stream() -> None:
    async def go() -> int:
        source: Any = Source(A, B, DONE)
        stream = checked(source, turn_id="t1")
        async for event in stream:
            if event is A:
                break
        await stream.aclose()
        closed: int = source.closed
        return closed

    assert asyncio.run(go()) == 1


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


def test_a_stream_without_aclose_is_accepted() -> None:
    class Plain:
        def __init__(self) -> None:
            self.left: list[Event] = [A, DONE]

        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> Event:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    async def collect() -> list[Event]:
        return [event async for event in checked(Plain(), turn_id="t1")]

    assert asyncio.run(collect()) == [STARTED, A, DONE]


def test_the_table_covers_every_state_and_kind() -> None:
    assert set(EVENT_KINDS) == set(EVENT_CLASSES)
    assert set(GRAMMAR) == set(GrammarState)
    assert all(set(row) == set(EventKind) for row in GRAMMAR.values())


@given(st.lists(any_event | st.sampled_from(["text", None, 5]) | st.builds(ValueError), max_size=12))
def test_any_stream_becomes_a_valid_turn(things: list[Any]) -> None:
    events, diagnostics = run(*things)
    kinds = [EVENT_KINDS[type(event)] for event in events]
    assert kinds[0] is EventKind.START
    assert kinds.count(EventKind.START) == 1
    assert kinds.count(EventKind.TERMINAL) == 1
    assert set(kinds[kinds.index(EventKind.TERMINAL) + 1 :]) <= {EventKind.LATE}
    assert len(diagnostics) <= 1


@given(st.none() | started, st.lists(content, max_size=8), terminals, st.lists(late, max_size=3), st.booleans())
def test_a_valid_turn_is_not_changed(
    start: Event | None, middle: list[Event], end: Event, after: list[Event], stopped: bool
) -> None:
    begun = [] if start is None else [start]
    events, diagnostics = run(*begun, *middle, end, *after, stopped=stopped)
    assert events[1:] == [*middle, end, *after]
    assert diagnostics == []


HIGH, LOW, SMILE = "\ud83d", "\ude00", "\U0001f600"


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
    assert run(*events, DONE) == ([STARTED, *expected, DONE], [])
    assert run(A, *events, DONE) == ([STARTED, A, *expected, DONE], [])


def test_half_a_character_before_the_end_of_the_stream_is_replaced() -> None:
    events, _ = run(A, delta(HIGH))
    assert events[:-1] == [STARTED, A, delta("\ufffd")]


def test_messages_of_failures_have_no_halves_of_characters() -> None:
    assert run(A, ValueError(f"bad {HIGH}"))[0][-1] == TurnFailed(
        code="runtime_raised", message="ValueError: bad \ufffd"
    )


@given(st.lists(st.text(st.characters(codec=None) | st.sampled_from([HIGH, LOW]), max_size=4), max_size=8))
def test_any_text_can_be_encoded_afterwards(pieces: list[str]) -> None:
    events, _ = run(*(delta(piece) for piece in pieces), DONE)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text.encode("utf-8").decode("utf-8") == text
    assert text == "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


DOC = (Path(__file__).parents[1] / "docs" / "events.md").read_text(encoding="utf-8")
OTHER_CODES = {
    *("malformed_json", "unknown_type", "missing_field", "unknown_field", "wrong_type", "not_json"),
    *("not_an_event", "missing_terminal", "runtime_raised", "raised_late"),
}


def test_the_document_names_every_event_with_its_fields() -> None:
    for tag, cls in zip(TAGS, EVENT_CLASSES, strict=True):
        [row] = [line for line in DOC.splitlines() if line.startswith(f"| `{tag}` |")]
        for field in cls.__struct_fields__:
            assert field == "parent_tool_id" or f"`{field}`" in row


def test_the_document_names_every_code() -> None:
    refusals = {cell.code for row in GRAMMAR.values() for cell in row.values() if isinstance(cell, Refusal)}
    for code in refusals | OTHER_CODES:
        assert f"| `{code}` |" in DOC


def test_every_code_in_the_sources_is_documented() -> None:
    root = Path(__file__).parents[1] / "src" / "tailrace"
    for name in ("events.py", "contract.py", "runtimes/dialects.py"):
        for line in (root / name).read_text(encoding="utf-8").splitlines():
            _, found, rest = line.partition('code="')
            assert not found or f"| `{rest.partition(chr(34))[0]}` |" in DOC


def test_the_example_in_the_document_is_a_valid_turn() -> None:
    code = DOC.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/events.md", "exec"), names)

    async def collect() -> tuple[list[Event], list[Diagnostic]]:
        found: list[Diagnostic] = []
        stream = checked(names["agent"]("hello"), turn_id="t1", on_diagnostic=found.append)
        return [event async for event in stream], found

    events, diagnostics = asyncio.run(collect())
    assert isinstance(events[-1], TurnCompleted)
    assert diagnostics == []
