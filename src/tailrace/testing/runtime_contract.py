"""The contract of a runtime as tests. To test yours, subclass `RuntimeContract`, give it a player, and run pytest.

    class TestMine(RuntimeContract):
        def player(self, folder: Path) -> Player:
            return MyPlayer(folder)

The tests check what every runtime must do with any agent: a turn has one start and one end, its text is the text that
the agent sent, and no process is left running. The player provides the agent's events, see `runtime_scenarios`. You
need tests of your own for the behaviour that only your agent has.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import TextDelta, ToolFinished, ToolStarted, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.markdown import Splitter, split
from tailrace.testing.line_count import LineCount
from tailrace.testing.runtime_scenarios import (
    LONG_ANSWER,
    PROMPT,
    STALL,
    Player,
    ReceivedTurn,
    Terminal,
    messages_on_discord,
    open_tools,
    receive,
    replayed,
    running_processes,
    scenario,
    wait_for_processes_to_end,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import TypeAlias

    from tailrace.events import Event
    from tailrace.ports import Runtime

    _Leaving: TypeAlias = Callable[[Runtime, int, float], Awaitable[list[Event]]]

FIRST, SECOND = ("Let me ", "look ", "it up."), ("It is ", "**sunny**", ".")
WHY = "the model is overloaded"
LONG_TURN = 2_000
_MAX_EVENTS = 200
_CONTENT = (TextDelta, ToolStarted, ToolFinished)
_DISCORD = 2000
# Four times the events may cost four times the work, and a little more: the number of reads is not always the same.
_MAX_GROWTH = 5.0


class RuntimeContract:
    """The tests for every runtime. `player` creates the agent."""

    # One start, one end

    @scenario
    async def test_a_turn_has_one_start_and_one_end(self, player: Player) -> None:
        """After the end, only results of tools may come."""
        turn = await _turn(player, _conversation(player))
        kinds = [type(event) for event in turn.events]
        assert kinds[0] is TurnStarted, f"a turn starts with turn_started, this one with {turn.events[0]!r}"
        assert kinds.count(TurnStarted) == 1, "a turn has one turn_started"
        assert isinstance(turn.terminal, TurnCompleted), (
            f"the agent completed the turn, but it ended with {turn.terminal}"
        )

    @scenario
    async def test_run_does_nothing_before_it_is_iterated(self, player: Player) -> None:
        """A turn that is closed before the first event starts no agent."""
        runtime = await player.runtime([*_conversation(player), STALL])
        events = _closable(runtime)
        assert running_processes() == [], "`run` must do nothing before it is iterated, but it has started a process"
        await events.aclose()
        await wait_for_processes_to_end(player.turn_timeout_s)

    @scenario
    async def test_a_stream_that_breaks_off_is_a_failure(self, player: Player) -> None:
        """A turn without an end never counts as completed, because the most important part may be missing."""
        native = [*player.text(*FIRST), *player.tool("call-1", "sunny"), *player.text(*SECOND)]
        cuts = [[*native[:length], *player.cut()] for length in range(len(native) + 1)]
        for cut, turn in zip(cuts, await asyncio.gather(*(_turn(player, cut) for cut in cuts)), strict=True):
            end = turn.terminal
            assert isinstance(end, TurnFailed), f"the stream broke off after {cut}, but the turn ended with {end!r}"
            assert end.code, f"turn_failed needs a code, so that programs can react to it: {end!r}"

    # The answer

    @scenario
    async def test_the_text_is_what_the_agent_said(self, player: Player) -> None:
        """Each text block of the turn has the text that the agent sent, also a long one."""
        turn = await _turn(player, _conversation(player))
        assert turn.texts == ["".join(FIRST), "".join(SECOND)], "the text is not what the agent said"
        one = await _turn(player, [*player.text(LONG_ANSWER), *player.ending()])
        assert one.texts == [LONG_ANSWER], "the text is not what the agent said"

    @scenario
    async def test_tools_start_and_finish_once(self, player: Player) -> None:
        """Each tool call has one start and one result."""
        turn = await _turn(player, _conversation(player))
        started = [event.id for event in turn.events if isinstance(event, ToolStarted)]
        finished = [event.id for event in turn.events if isinstance(event, ToolFinished)]
        assert len(started) == 1, f"the agent called one tool, but the turn has the starts of {started}"
        assert finished == started, f"the agent got the result of {started}, but the turn has the results of {finished}"

    @scenario
    async def test_messages_do_not_depend_on_the_deltas(self, player: Player) -> None:
        """Whether the text comes by characters, by words or as a whole, people see the same messages."""
        expected = [part.body.text for part in split(LONG_ANSWER, _DISCORD, dialect="discord")]
        assert len(expected) > 2
        for pieces in (list(LONG_ANSWER), words(LONG_ANSWER), [LONG_ANSWER]):
            turn = await _turn(player, [*player.text(*pieces), *player.ending()], max_events=len(pieces) + _MAX_EVENTS)
            assert _split_as_it_came(turn) == expected, (
                f"the text is cut differently if it comes in {len(pieces)} pieces"
            )
            assert messages_on_discord(turn.events) == expected, (
                f"the messages are different if the text comes in {len(pieces)} pieces"
            )

    @scenario
    async def test_an_error_keeps_the_text_before_it(self, player: Player) -> None:
        """People see the text before the error, and the error text that the agent sent."""
        text = "".join(FIRST)
        for block in (player.text(*FIRST), player.text(*FIRST, is_whole=False)):
            turn = await _turn(player, [*block, *player.failure(WHY)])
            assert isinstance(turn.terminal, TurnFailed), f"the agent failed, but the turn ended with {turn.terminal!r}"
            assert turn.texts == [text], f"the text before the error was {text!r}, but the turn has {turn.texts}"
            assert WHY in turn.terminal.message, f"the error was {WHY!r}, but the turn has {turn.terminal.message!r}"

    # Malformed events

    @scenario
    async def test_a_malformed_event_fails_the_turn(self, player: Player) -> None:
        """The error names the agent, the text before the event stays, and the next turn works."""
        text = "".join(FIRST)
        broken = [*player.text(*FIRST), *player.malformed(), *player.cut()]
        runtime = await player.runtime(broken, _conversation(player))
        turn = await receive(runtime.run(PROMPT), max_events=_MAX_EVENTS, turn_timeout_s=player.turn_timeout_s)
        end = turn.terminal
        assert isinstance(end, TurnFailed), (
            f"the stream broke off at a malformed event, but the turn ended with {end!r}"
        )
        assert end.code, f"turn_failed needs a code, so that programs can react to it: {end!r}"
        assert turn.texts == [text], f"the text before the malformed event was {text!r}, but the turn has {turn.texts}"
        _reports_it(turn, player, runtime)
        again = await receive(runtime.run(PROMPT), max_events=_MAX_EVENTS, turn_timeout_s=player.turn_timeout_s)
        assert isinstance(again.terminal, TurnCompleted), (
            f"after a malformed event the next turn ended with {again.terminal!r}"
        )
        assert again.texts == ["".join(FIRST), "".join(SECOND)], (
            "after a malformed event the text of the next turn is wrong"
        )

    @scenario
    async def test_a_malformed_event_in_the_middle_is_reported(self, player: Player) -> None:
        """The runtime reports the event and keeps the text before it. After that it may continue or end the turn."""
        native = [*player.text(*FIRST), *player.malformed(), *player.text(*SECOND), *player.ending()]
        runtime = await player.runtime(native)
        turn = await receive(runtime.run(PROMPT), max_events=_MAX_EVENTS, turn_timeout_s=player.turn_timeout_s)
        texts = ["".join(FIRST), "".join(SECOND)] if isinstance(turn.terminal, TurnCompleted) else ["".join(FIRST)]
        assert turn.texts == texts, f"the agent said {texts}, but the turn has {turn.texts}"
        _reports_it(turn, player, runtime)

    # Closing and cancelling

    @scenario
    async def test_closing_the_turn_at_any_event_leaves_nothing(self, player: Player) -> None:
        """After the turn is closed, no process runs, and no tool is shown as running."""
        await _assert_ended(player, await _leave_everywhere(player, _close_after))

    @scenario
    async def test_cancelling_the_reader_at_any_event_leaves_nothing(self, player: Player) -> None:
        """The reader is the task that reads the turn's events. Ctrl-C cancels this task while the agent thinks."""
        await _assert_ended(player, await _leave_everywhere(player, _cancel_after))

    # Size

    @scenario
    async def test_the_work_grows_linearly_with_the_events(self, player: Player) -> None:
        """Four times as many events cost about four times as much work, for each shape of a turn."""
        for kind, make_turn in _LONG_TURNS.items():
            less, more = [await _work(player, make_turn(player, size)) for size in (LONG_TURN // 4, LONG_TURN)]
            assert more <= _MAX_GROWTH * less, (
                f"with {kind}, four times the events cost {more / less:.1f} times the work: {more} lines, not {less}"
            )


def words(text: str) -> list[str]:
    """Cut the text into pieces. Each piece is a word with the space after it."""
    *others, last = text.split(" ")
    return [*(f"{word} " for word in others), last]


def _conversation(player: Player) -> list[Any]:
    """The native events of a turn: text, a tool call, and text again."""
    return [*player.text(*FIRST), *player.tool("call-1", "sunny"), *player.text(*SECOND), *player.ending()]


async def _turn(player: Player, native: Sequence[Any], *, max_events: int = _MAX_EVENTS) -> ReceivedTurn:
    """Run a turn in which the agent sends these native events. Fails if the turn breaks the grammar of a turn."""
    turn = await receive(
        (await player.runtime(native)).run(PROMPT), max_events=max_events, turn_timeout_s=player.turn_timeout_s
    )
    assert turn.diagnostics == [], f"the turn breaks the grammar: {turn.diagnostics[0].message}"
    return turn


def _reports_it(turn: ReceivedTurn, player: Player, runtime: Runtime) -> None:
    names = (*player.names, runtime.name)
    is_reported = bool(turn.diagnostics) or any(name in text for text in turn.error_texts for name in names)
    assert is_reported, f"the malformed event is not reported with a name of {names}: {turn.error_texts}"


def _split_as_it_came(turn: ReceivedTurn) -> list[str]:
    splitter = Splitter(_DISCORD, dialect="discord")
    pieces = [event.text for event in turn.events if isinstance(event, TextDelta)] or turn.texts
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    return [part.body.text for part in (*parts, *splitter.close())]


async def _leave_everywhere(player: Player, leave: _Leaving) -> list[list[Event]]:
    """Play turns of an agent that does not end, and leave each turn after another number of events.

    Returns the events of each turn.
    """
    raw: list[Event] = []
    runtime = await player.runtime(_conversation(player))
    await receive(_recorded(runtime, raw), max_events=_MAX_EVENTS, turn_timeout_s=player.turn_timeout_s)
    # Leave out the events after the content: they come only when the agent ends, and this agent does not end.
    count = max(at for at, event in enumerate(raw) if isinstance(event, _CONTENT)) + 1
    runtimes = [await player.runtime([*_conversation(player), STALL]) for _ in range(count + 1)]
    return await asyncio.gather(*(leave(runtime, at, player.turn_timeout_s) for at, runtime in enumerate(runtimes)))


async def _recorded(runtime: Runtime, raw: list[Event]) -> AsyncGenerator[Event, None]:
    """Run the turn and yield its events. Each is also added to `raw`, before anything checks or changes it."""
    async with aclosing(_closable(runtime)) as events:
        async for event in events:
            raw.append(event)
            yield event


async def _close_after(runtime: Runtime, count: int, turn_timeout_s: float) -> list[Event]:
    """Read `count` events and close the turn. Returns the events."""
    received: list[Event] = []

    async def read() -> None:
        events = _closable(runtime)
        while len(received) < count and (event := await anext(events, None)) is not None:
            received.append(event)
        await events.aclose()

    reading = asyncio.create_task(read())
    await asyncio.wait({reading}, timeout=turn_timeout_s)
    assert reading.done(), f"closing the turn after {received} does not end"
    await reading
    return received


async def _cancel_after(runtime: Runtime, count: int, turn_timeout_s: float) -> list[Event]:
    """Cancel the task that reads the turn when it has `count` events. Returns the events."""
    received: list[Event] = []
    enough = asyncio.Event()

    async def read() -> None:
        async with aclosing(_closable(runtime)) as events:
            if not count:
                enough.set()
            async for event in events:
                received.append(event)
                if len(received) == count:
                    enough.set()

    reading = asyncio.create_task(read())
    waiting = asyncio.create_task(enough.wait())
    either: set[asyncio.Task[Any]] = {reading, waiting}
    await asyncio.wait(either, timeout=turn_timeout_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert enough.is_set(), f"the turn does not continue after {received}"
    reading.cancel()
    await asyncio.wait({reading}, timeout=turn_timeout_s)
    assert reading.done(), f"a reader that is cancelled after {received} does not end"
    if not reading.cancelled() and (error := reading.exception()) is not None:
        raise error
    return received


def _closable(runtime: Runtime) -> AsyncGenerator[Event, None]:
    events: Any = runtime.run(PROMPT)
    assert hasattr(events, "aclose"), "the iterator that `run` returns needs `aclose`, which cancels the turn"
    generator: AsyncGenerator[Event, None] = events
    return generator


async def _assert_ended(player: Player, turns: list[list[Event]]) -> None:
    """Check that the agent does not run any more, and that people see the end of each turn and no running tools."""
    await wait_for_processes_to_end(player.turn_timeout_s)
    try:
        async with asyncio.timeout(player.turn_timeout_s):
            await player.wait_until_idle()
    except TimeoutError:
        raise AssertionError("the turn was left, but the agent still works") from None
    for events in turns:
        turn = await receive(
            replayed(events), max_events=len(events) + 2, turn_timeout_s=player.turn_timeout_s, cancelled=True
        )
        if not any(isinstance(event, Terminal) for event in events):
            assert isinstance(turn.terminal, TurnCancelled), f"the turn was left, but it ended with {turn.terminal!r}"
        running = open_tools(turn.events)[-1:]
        assert running in ([], [[]]), f"a tool is shown as running though the turn was left after {events}: {running}"


async def _work(player: Player, native: Sequence[Any]) -> int:
    """How much work a turn takes: the number of lines that the interpreter runs for it."""
    runtime = await player.runtime([*native, *player.ending()])
    with LineCount() as count:
        turn = await receive(runtime.run(PROMPT), max_events=2 * LONG_TURN, turn_timeout_s=player.turn_timeout_s)
    assert isinstance(turn.terminal, TurnCompleted), (
        f"the agent completed the turn, but it ended with {turn.terminal!r}"
    )
    return count.lines


def _in_pieces(player: Player, size: int) -> list[Any]:
    return player.text(*(f"w{n} " for n in range(size)))


def _in_blocks(player: Player, size: int) -> list[Any]:
    return [event for n in range(size // 10) for event in player.text(f"Block {n}.")]


def _with_tools(player: Player, size: int) -> list[Any]:
    return [event for n in range(size // 10) for event in (*player.text(f"Step {n}."), *player.tool(f"call-{n}", "ok"))]


_LONG_TURNS = {"one block of many pieces": _in_pieces, "many blocks": _in_blocks, "many steps with tools": _with_tools}
