"""The contract of a runtime as tests, for every runtime: subclass `RuntimeContract`, give it a player, run pytest.

    class TestMine(RuntimeContract):
        def player(self, folder: Path) -> Player:
            return MyPlayer(folder)

Owns what is asked of every runtime, whatever its agent says and however: that its turns have one beginning and one end,
that what it says is what its agent said, and that it leaves nothing behind. The player, which says what its agent is
given to say, is described in `runtime_scenes`. What one runtime makes of its own agent's habits has tests of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import TextDelta, ToolFinished, ToolStarted, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.markdown import Splitter, split
from tailrace.testing.runtime_scenes import (
    LONG_ANSWER,
    PROMPT,
    STALL,
    Heard,
    Player,
    Terminal,
    hear,
    nothing_runs,
    open_tools,
    parts_on_discord,
    processes,
    scenario,
    told,
)
from tailrace.testing.runtime_work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import TypeAlias

    from tailrace.events import Event
    from tailrace.ports import Runtime

    _Leaving: TypeAlias = Callable[[Runtime, int, float], Awaitable[list[Event]]]

FIRST, SECOND = ("Let me ", "look ", "it up."), ("It is ", "**sunny**", ".")
WHY = "the model has had enough"
LONG_TURN = 2_000
_MOST_EVENTS = 200
_CONTENT = (TextDelta, ToolStarted, ToolFinished)
_DISCORD = 2000
# Four times the work for four times the events, and some noise: an agent's output may come in more reads, or in fewer.
_FOUR_TIMES = 5.0


class RuntimeContract:
    """What every runtime does; `player` says whose."""

    # One beginning, one end

    @scenario
    async def test_a_turn_has_one_beginning_and_one_end(self, player: Player) -> None:
        """And nothing after it but what tools still tell."""
        heard = await _turn(player, _conversation(player))
        kinds = [type(event) for event in heard.events]
        assert kinds[0] is TurnStarted, f"a turn begins with turn_started, this one with {heard.events[0]!r}"
        assert kinds.count(TurnStarted) == 1, "a turn begins once"
        assert isinstance(heard.terminal, TurnCompleted), f"the agent was done, but the turn ended as {heard.terminal}"

    @scenario
    async def test_nothing_happens_before_it_is_asked_for(self, player: Player) -> None:
        """`run` is only iterated by whoever wants the turn; one that is closed before is no turn at all."""
        runtime = await player.runtime([*_conversation(player), STALL])
        events = _closable(runtime)
        assert processes() == [], "`run` must do nothing until it is iterated, and has started a process"
        await events.aclose()
        await nothing_runs(player.turn_timeout_s)

    @scenario
    async def test_a_cut_stream_is_a_failure_wherever_it_is_cut(self, player: Player) -> None:
        """Never a completion: what is missing may be the most important part."""
        native = [*player.text(*FIRST), *player.tool("call-1", "sunny"), *player.text(*SECOND)]
        cuts = [[*native[:length], *player.cut()] for length in range(len(native) + 1)]
        for cut, heard in zip(cuts, await asyncio.gather(*(_turn(player, cut) for cut in cuts)), strict=True):
            end = heard.terminal
            assert isinstance(end, TurnFailed), f"the stream was cut after {cut}, the turn ended as {end!r}"
            assert end.code, f"a failure has a code, so that programs can tell it: {end!r}"

    # What is said

    @scenario
    async def test_the_text_is_what_the_agent_finally_holds(self, player: Player) -> None:
        """Whether it came in pieces, as a whole, or as both."""
        heard = await _turn(player, _conversation(player))
        assert heard.texts == ["".join(FIRST), "".join(SECOND)], "the text is not what the agent said"
        one = await _turn(player, [*player.text(LONG_ANSWER), *player.ending()])
        assert one.texts == [LONG_ANSWER], "the text is not what the agent said"

    @scenario
    async def test_tools_are_shown_and_answered(self, player: Player) -> None:
        """Each call begins once and ends once, between what was said before it and after."""
        heard = await _turn(player, _conversation(player))
        begun = [event.id for event in heard.events if isinstance(event, ToolStarted)]
        finished = [event.id for event in heard.events if isinstance(event, ToolFinished)]
        assert len(begun) == 1, f"the agent called one tool, the turn shows {begun}"
        assert finished == begun, f"the call {begun} was answered, the turn shows the answers of {finished}"

    @scenario
    async def test_cuts_do_not_depend_on_how_the_answer_came(self, player: Player) -> None:
        """By characters, by words or whole: people see the same messages."""
        expected = [part.body.text for part in split(LONG_ANSWER, _DISCORD, dialect="discord")]
        assert len(expected) > 2
        for pieces in (list(LONG_ANSWER), words(LONG_ANSWER), [LONG_ANSWER]):
            heard = await _turn(player, [*player.text(*pieces), *player.ending()], at_most=len(pieces) + _MOST_EVENTS)
            assert _split_as_it_came(heard) == expected, f"cut otherwise, in {len(pieces)} pieces"
            assert parts_on_discord(heard.events) == expected, f"shown otherwise, in {len(pieces)} pieces"

    @scenario
    async def test_an_error_keeps_what_was_said_before_it(self, player: Player) -> None:
        """And is told in the agent's own words."""
        said = "".join(FIRST)
        for block in (player.text(*FIRST), player.text(*FIRST, is_whole=False)):
            heard = await _turn(player, [*block, *player.failure(WHY)])
            assert isinstance(heard.terminal, TurnFailed), f"the agent failed, the turn ended as {heard.terminal!r}"
            assert heard.texts == [said], f"{said!r} was said before the error; what is left is {heard.texts}"
            assert WHY in heard.terminal.message, f"the agent said {WHY!r}, people are told {heard.terminal.message!r}"

    # What cannot be understood

    @scenario
    async def test_a_malformed_event_ends_the_turn_honestly(self, player: Player) -> None:
        """It is told who said it, what was said before stands, and the next turn is as good as any."""
        said = "".join(FIRST)
        broken = [*player.text(*FIRST), *player.malformed(), *player.cut()]
        runtime = await player.runtime(broken, _conversation(player))
        heard = await hear(runtime.run(PROMPT), at_most=_MOST_EVENTS, turn_timeout_s=player.turn_timeout_s)
        end = heard.terminal
        assert isinstance(end, TurnFailed), f"the stream broke at a malformed event, the turn ended as {end!r}"
        assert end.code, f"a failure has a code, so that programs can tell it: {end!r}"
        assert heard.texts == [said], f"{said!r} was said before the malformed event; what is left is {heard.texts}"
        _tells_of_it(heard, player, runtime)
        again = await hear(runtime.run(PROMPT), at_most=_MOST_EVENTS, turn_timeout_s=player.turn_timeout_s)
        assert isinstance(again.terminal, TurnCompleted), f"the next turn suffers from it: {again.terminal!r}"
        assert again.texts == ["".join(FIRST), "".join(SECOND)], "the next turn suffers from it"

    @scenario
    async def test_a_malformed_event_between_others_is_told_and_loses_nothing_before_it(self, player: Player) -> None:
        """An agent that goes on may be heard on, or the turn may end there; either is said."""
        native = [*player.text(*FIRST), *player.malformed(), *player.text(*SECOND), *player.ending()]
        runtime = await player.runtime(native)
        heard = await hear(runtime.run(PROMPT), at_most=_MOST_EVENTS, turn_timeout_s=player.turn_timeout_s)
        whole = ["".join(FIRST), "".join(SECOND)] if isinstance(heard.terminal, TurnCompleted) else ["".join(FIRST)]
        assert heard.texts == whole, f"{whole} was said, what is left is {heard.texts}"
        _tells_of_it(heard, player, runtime)

    # Leaving

    @scenario
    async def test_closing_the_turn_at_any_point_leaves_nothing(self, player: Player) -> None:
        """No process, and no tool that looks as if it ran."""
        await _is_over(player, await _left_everywhere(player, _closed_after))

    @scenario
    async def test_cancelling_the_reader_at_any_point_leaves_nothing(self, player: Player) -> None:
        """As when a person presses Ctrl-C while the agent thinks."""
        await _is_over(player, await _left_everywhere(player, _cancelled_after))

    # Size

    @scenario
    async def test_a_long_turn_costs_what_its_events_cost(self, player: Player) -> None:
        """Four times the events are four times the work, in one block or in many, up to two thousand."""
        for kind, told_in in _LONG_TURNS.items():
            less, more = [await _work(player, told_in(player, size)) for size in (LONG_TURN // 4, LONG_TURN)]
            assert more <= _FOUR_TIMES * less, (
                f"four times the events are {more / less:.1f} times the work, in {kind}: {more} lines against {less}"
            )


def words(text: str) -> list[str]:
    """The text in pieces of a word and the blank behind it."""
    *others, last = text.split(" ")
    return [*(f"{word} " for word in others), last]


def _conversation(player: Player) -> list[Any]:
    """A turn with a bit of everything."""
    return [*player.text(*FIRST), *player.tool("call-1", "sunny"), *player.text(*SECOND), *player.ending()]


async def _turn(player: Player, native: Sequence[Any], *, at_most: int = _MOST_EVENTS) -> Heard:
    """The turn that comes of a stream; what is wrong with it by the grammar fails the test."""
    heard = await hear(
        (await player.runtime(native)).run(PROMPT), at_most=at_most, turn_timeout_s=player.turn_timeout_s
    )
    assert heard.diagnostics == [], f"the stream breaks the grammar of a turn: {heard.diagnostics[0].message}"
    return heard


def _tells_of_it(heard: Heard, player: Player, runtime: Runtime) -> None:
    names = (*player.names, runtime.name)
    is_told = bool(heard.diagnostics) or any(name in complaint for complaint in heard.complaints for name in names)
    assert is_told, f"nobody learns that {names} said something malformed: {heard.complaints}"


def _split_as_it_came(heard: Heard) -> list[str]:
    splitter = Splitter(_DISCORD, dialect="discord")
    pieces = [event.text for event in heard.events if isinstance(event, TextDelta)] or heard.texts
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    return [part.body.text for part in (*parts, *splitter.close())]


async def _left_everywhere(player: Player, leave: _Leaving) -> list[list[Event]]:
    """Turns of an agent that does not end by itself, each left at another event; what was heard of each."""
    said: list[Event] = []
    runtime = await player.runtime(_conversation(player))
    await hear(_noted(runtime, said), at_most=_MOST_EVENTS, turn_timeout_s=player.turn_timeout_s)
    # What comes only because the agent has ended cannot be waited for here.
    count = max(at for at, event in enumerate(said) if isinstance(event, _CONTENT)) + 1
    runtimes = [await player.runtime([*_conversation(player), STALL]) for _ in range(count + 1)]
    return await asyncio.gather(*(leave(runtime, at, player.turn_timeout_s) for at, runtime in enumerate(runtimes)))


async def _noted(runtime: Runtime, said: list[Event]) -> AsyncGenerator[Event, None]:
    """A turn as it is; `said` is what the runtime itself said of it."""
    async with aclosing(_closable(runtime)) as events:
        async for event in events:
            said.append(event)
            yield event


async def _closed_after(runtime: Runtime, count: int, turn_timeout_s: float) -> list[Event]:
    """Read so many events and close the turn; what was heard."""
    heard: list[Event] = []

    async def read() -> None:
        events = _closable(runtime)
        while len(heard) < count and (event := await anext(events, None)) is not None:
            heard.append(event)
        await events.aclose()

    reading = asyncio.create_task(read())
    await asyncio.wait({reading}, timeout=turn_timeout_s)
    assert reading.done(), f"closing the turn after {heard} takes for ever"
    await reading
    return heard


async def _cancelled_after(runtime: Runtime, count: int, turn_timeout_s: float) -> list[Event]:
    """Read on and be cancelled when so many events are heard; what was heard."""
    heard: list[Event] = []
    enough = asyncio.Event()

    async def read() -> None:
        async with aclosing(_closable(runtime)) as events:
            if not count:
                enough.set()
            async for event in events:
                heard.append(event)
                if len(heard) == count:
                    enough.set()

    reading = asyncio.create_task(read())
    waiting = asyncio.create_task(enough.wait())
    either: set[asyncio.Task[Any]] = {reading, waiting}
    await asyncio.wait(either, timeout=turn_timeout_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert enough.is_set(), f"the turn does not go on behind {heard}"
    reading.cancel()
    await asyncio.wait({reading}, timeout=turn_timeout_s)
    assert reading.done(), f"a reader that is cancelled after {heard} cannot leave"
    if not reading.cancelled() and (error := reading.exception()) is not None:
        raise error
    return heard


def _closable(runtime: Runtime) -> AsyncGenerator[Event, None]:
    events: Any = runtime.run(PROMPT)
    assert hasattr(events, "aclose"), "the iterator of a turn must have `aclose`, which cancels the turn"
    generator: AsyncGenerator[Event, None] = events
    return generator


async def _is_over(player: Player, turns: list[list[Event]]) -> None:
    """Nothing of the agent runs, and whoever showed the turns can end them."""
    await nothing_runs(player.turn_timeout_s)
    try:
        async with asyncio.timeout(player.turn_timeout_s):
            await player.at_rest()
    except TimeoutError:
        raise AssertionError("a turn was left, and the agent is still at work") from None
    for heard in turns:
        whole = await hear(told(heard), at_most=len(heard) + 2, turn_timeout_s=player.turn_timeout_s, cancelled=True)
        if not any(isinstance(event, Terminal) for event in heard):
            assert isinstance(whole.terminal, TurnCancelled), f"a turn that was left ended as {whole.terminal!r}"
        at_work = open_tools(whole.events)[-1:]
        assert at_work in ([], [[]]), f"a tool is shown at work though the turn was left after {heard}: {at_work}"


async def _work(player: Player, native: Sequence[Any]) -> int:
    """The lines that are run for a turn."""
    runtime = await player.runtime([*native, *player.ending()])
    with Work() as work:
        heard = await hear(runtime.run(PROMPT), at_most=2 * LONG_TURN, turn_timeout_s=player.turn_timeout_s)
    assert isinstance(heard.terminal, TurnCompleted), f"the agent was done, but the turn ended as {heard.terminal!r}"
    return work.lines


def _in_pieces(player: Player, size: int) -> list[Any]:
    return player.text(*(f"w{n} " for n in range(size)))


def _in_blocks(player: Player, size: int) -> list[Any]:
    return [event for n in range(size // 10) for event in player.text(f"Block {n}.")]


def _with_tools(player: Player, size: int) -> list[Any]:
    return [event for n in range(size // 10) for event in (*player.text(f"Step {n}."), *player.tool(f"call-{n}", "ok"))]


_LONG_TURNS = {"one block of many pieces": _in_pieces, "many blocks": _in_blocks, "many steps with tools": _with_tools}
