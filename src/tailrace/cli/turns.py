"""Turns of an agent, one after the other on one event loop, each of which Ctrl-C can end.

The event loop runs only while a turn does; between turns the main thread is free to wait for input. During a
turn Ctrl-C is ours and escalates, because an agent may be deaf to any one way of asking:

    first       the turn is cancelled; the agent has `GRACE_S` to come to an end
    second      the agent is left behind at once, as it is when the grace is over
    unnoticed   the loop has not noticed a press when the next one comes: the agent blocks the loop, and nothing
                but a KeyboardInterrupt raised in its own code reaches it
    after that  Ctrl-C kills the process, as it would without us

An agent left behind may go on in the background; what it says is not shown any more.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.cli.failures import print_traceback
from tailrace.contract import checked
from tailrace.delivery.stopping import TurnStop, exit_later, handles_signals, stop_handling
from tailrace.errors import RuntimeFault
from tailrace.events import Event, TurnCancelled, TurnCompleted, TurnFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tailrace.ports import Prompt, Runtime

GRACE_S = 2.0

Terminal: TypeAlias = TurnCompleted | TurnFailed | TurnCancelled


class Turns:
    """Runs turns of one agent and shows its events; `complain` is told what went wrong beside them.

    With `debug`, tracebacks of the agent's failures go to standard error.
    """

    def __init__(
        self,
        runtime: Runtime,
        show: Callable[[Event], Awaitable[None]],
        *,
        complain: Callable[[str], None],
        debug: bool = False,
        grace_s: float = GRACE_S,
    ) -> None:
        self._runtime = runtime
        self._show = show
        self._complain = complain
        self._grace_s = grace_s
        self._debug = debug
        # The loop alone would let go of a task that waits for nothing but itself.
        self._left_behind: list[asyncio.Task[None]] = []
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._loop.set_exception_handler(self._background_failure)

    def run(self, prompt: Prompt, *, turn_id: str) -> Terminal:
        """Run one turn to its end and give its terminal event, also when Ctrl-C is what ended it."""
        turn = _Turn(self._runtime, self._show, stop=TurnStop(self._loop), grace_s=self._grace_s, debug=self._debug)
        with handles_signals(turn.stop.press, (signal.SIGINT,)):
            supervision = self._loop.create_task(turn.supervise(prompt, turn_id))
            while not supervision.done():
                try:
                    self._loop.run_until_complete(supervision)
                except KeyboardInterrupt:
                    # It tore through the agent's code and out of the loop, which takes no harm from it. What
                    # is left of the turn is brought to an end by its supervision.
                    continue
        if turn.left_behind is not None:
            self._left_behind.append(turn.left_behind)
            self._complain("the agent did not stop when asked and was left behind; the session goes on")
        return supervision.result()

    def close(self, exit_code: int) -> None:
        """Give what the agent left running a moment to end, then leave the process without it.

        Tasks and threads that do not end would otherwise keep the process for as long as they like.
        """
        stop_handling((signal.SIGINT,))
        exit_later(self._grace_s, exit_code)
        self._loop.set_exception_handler(lambda *_: None)
        self._runner.close()

    def _background_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something the agent started beside its turn, and does not look after, has failed."""
        error = context.get("exception")
        said = f"{type(error).__name__}: {error}" if error is not None else context["message"]
        self._complain(f"the agent failed in the background: {said}")
        if self._debug and error is not None:
            print_traceback(error)


@asynccontextmanager
async def _closing(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Close the stream when the block is left, where it is one that can be closed."""
    try:
        yield events
    finally:
        if (aclose := getattr(events, "aclose", None)) is not None:
            await aclose()


class _Turn:
    """One turn; the agent plays in a task of its own, so that it can be left behind."""

    def __init__(
        self,
        runtime: Runtime,
        show: Callable[[Event], Awaitable[None]],
        *,
        stop: TurnStop,
        grace_s: float,
        debug: bool,
    ) -> None:
        self.stop = stop
        self._grace_s = grace_s
        self.left_behind: asyncio.Task[None] | None = None
        self._runtime = runtime
        self._show = show
        self._debug = debug
        self._terminal: Terminal | None = None

    async def supervise(self, prompt: Prompt, turn_id: str) -> Terminal:
        """Play the turn; where a stop is asked for and does not come, end the turn without the agent."""
        playing = asyncio.create_task(self._play(prompt, turn_id))
        await _first_of(playing, self.stop.first)
        if not playing.done():
            playing.cancel()
            await _first_of(playing, self.stop.second, at_most_s=self._grace_s)
        if not playing.done():
            self.left_behind = playing
        elif not playing.cancelled():
            error = playing.exception()
            # KeyboardInterrupt is how an agent that blocked the loop was ended; all else is a failing `show`.
            if error is not None and not isinstance(error, KeyboardInterrupt):
                raise error
        if self._terminal is None:
            self._terminal = TurnCancelled()
            await self._show(self._terminal)
        return self._terminal

    async def _play(self, prompt: Prompt, turn_id: str) -> None:
        """Show the turn as the contract has it."""
        events = checked(self._heeded(prompt), turn_id=turn_id, cancelled=lambda: self.stop.asked)
        async with _closing(events):
            async for event in events:
                if self.left_behind is not None:
                    return
                await self._show(event)
                if isinstance(event, Terminal):
                    self._terminal = event

    async def _heeded(self, prompt: Prompt) -> AsyncIterator[Event]:
        """The agent's events until a stop is asked for; however the agent takes it, the stream just ends."""
        try:
            async with _closing(self._runtime.run(prompt)) as events:
                async for event in events:
                    if self.stop.asked:
                        break
                    yield event
        except asyncio.CancelledError as error:
            if not self.stop.asked:
                raise RuntimeFault("something the agent waited for was cancelled") from error
            # The request to cancel is met: what follows in this task is not to be cancelled again.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        except SystemExit as error:
            raise RuntimeFault(f"the agent called sys.exit({error.code!r})") from error
        except (KeyboardInterrupt, GeneratorExit):
            # How Ctrl-C reaches an agent that blocks the loop, and how this stream is closed.
            raise
        except BaseException as error:
            if self.stop.asked:
                return
            if self._debug:
                print_traceback(error)
            if isinstance(error, Exception):
                raise
            # Some libraries raise what is meant to pass by every handler; the session is to go on all the same.
            raise RuntimeFault(f"the agent raised {type(error).__name__}: {error}") from error


async def _first_of(task: asyncio.Task[None], event: asyncio.Event, at_most_s: float | None = None) -> None:
    """Wait until the task is done, the event is set or the time is over; the task is left as it is."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
