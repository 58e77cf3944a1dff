"""Runs turns of an agent, one after the other on one event loop. Ctrl-C can end each of them.

The event loop runs only during a turn; between turns the main thread waits for input. An agent may ignore a request to
stop, so during a turn each further Ctrl-C does more:

    first       cancel the turn; the agent has `GRACE_S` seconds to end
    second      stop waiting for the agent and leave it running; after `GRACE_S` seconds this happens by itself
    unnoticed   if the event loop has not handled one Ctrl-C before the next, the agent blocks the loop: raise
                KeyboardInterrupt in the agent's own code, because nothing else can stop it
    after that  Ctrl-C ends the process, as in any other program

An agent that was left running may continue in the background; its later events are not shown.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.cli.failures import print_traceback, raised_at
from tailrace.contract import checked
from tailrace.errors import RuntimeFault, TailraceError
from tailrace.events import Event, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.signals import TurnStop, exit_later, handles_signals, stop_handling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tailrace.ports import Prompt, Runtime

GRACE_S = 2.0

Terminal: TypeAlias = TurnCompleted | TurnFailed | TurnCancelled


class Turns:
    """Runs the turns of one agent and shows their events.

    `complain` shows a line for each failure that is not an event. With `debug`, tracebacks of the agent's failures go
    to standard error.
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
        # Keep references to the tasks, because the loop has only weak references.
        self._left_running: list[asyncio.Task[None]] = []
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._loop.set_exception_handler(self._background_failure)

    def run(self, prompt: Prompt, *, turn_id: str) -> Terminal:
        """Run one turn and return its terminal event. A turn that Ctrl-C ended has a terminal event too."""
        turn = _Turn(self._runtime, self._show, stop=TurnStop(self._loop), grace_s=self._grace_s, debug=self._debug)
        with handles_signals(turn.stop.press, (signal.SIGINT,)):
            supervision = self._loop.create_task(turn.supervise(prompt, turn_id))
            while not supervision.done():
                try:
                    self._loop.run_until_complete(supervision)
                except KeyboardInterrupt:
                    # The KeyboardInterrupt stopped the agent's code. Run the loop again: `supervise` ends the turn.
                    continue
        if turn.left_running is not None:
            self._left_running.append(turn.left_running)
            self._complain("the agent did not stop and was left running; the session goes on")
        if turn.hint:
            self._complain(turn.hint)
        return supervision.result()

    def close(self, exit_code: int) -> None:
        """Wait a moment for the remaining tasks and threads of the agent, then exit even if they still run.

        Without this limit, a task or thread that does not end would keep the process alive.
        """
        stop_handling((signal.SIGINT,))
        exit_later(self._grace_s, exit_code)
        self._loop.set_exception_handler(lambda *_: None)
        self._runner.close()

    def _background_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error in a task that the agent started and does not await."""
        error = context.get("exception")
        message = f"{type(error).__name__}: {error}" if error is not None else context["message"]
        self._complain(f"the agent failed in the background: {message}")
        if self._debug and error is not None:
            print_traceback(error)


@asynccontextmanager
async def _closing(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Close the stream at the end of the block, if it has a method `aclose`."""
    try:
        yield events
    finally:
        if (aclose := getattr(events, "aclose", None)) is not None:
            await aclose()


class _Turn:
    """One turn. The agent runs in a task of its own, which is left running if the agent does not stop."""

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
        self.left_running: asyncio.Task[None] | None = None
        self.hint = ""  # where the agent failed
        self._grace_s = grace_s
        self._runtime = runtime
        self._show = show
        self._debug = debug
        self._terminal: Terminal | None = None

    async def supervise(self, prompt: Prompt, turn_id: str) -> Terminal:
        """Run the turn and return its terminal event.

        If a stop is requested and the agent does not end in time, end the turn and leave the agent running.
        """
        running = asyncio.create_task(self._run(prompt, turn_id))
        await _first_of(running, self.stop.first)
        if not running.done():
            running.cancel()
            await _first_of(running, self.stop.second, timeout_s=self._grace_s)
        if not running.done():
            self.left_running = running
        elif not running.cancelled():
            error = running.exception()
            # A KeyboardInterrupt stopped an agent that blocked the loop. Any other error comes from `show`: raise it.
            if error is not None and not isinstance(error, KeyboardInterrupt):
                raise error
        if self._terminal is None:
            self._terminal = TurnCancelled()
            await self._show(self._terminal)
        return self._terminal

    async def _run(self, prompt: Prompt, turn_id: str) -> None:
        """Run the agent, let the contract check its events, and show them."""
        events = checked(self._until_stopped(prompt), turn_id=turn_id, cancelled=lambda: self.stop.asked)
        async with _closing(events):
            async for event in events:
                if self.left_running is not None:
                    return
                await self._show(event)
                if isinstance(event, Terminal):
                    self._terminal = event

    async def _until_stopped(self, prompt: Prompt) -> AsyncIterator[Event]:
        """The agent's events until the person requests a stop. Then the stream ends, even if the agent continues."""
        try:
            async with _closing(self._runtime.run(prompt)) as events:
                async for event in events:
                    if self.stop.asked:
                        break
                    yield event
        except asyncio.CancelledError as error:
            if not self.stop.asked:
                raise RuntimeFault("something the agent waited for was cancelled") from error
            # Ctrl-C requested this cancellation. `uncancel` says that it is handled, for timeouts and task groups.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        except SystemExit as error:
            raise RuntimeFault(f"the agent called sys.exit({error.code!r})") from error
        except (KeyboardInterrupt, GeneratorExit):
            # KeyboardInterrupt stops an agent that blocks the loop; GeneratorExit closes this stream.
            raise
        except BaseException as error:
            if self.stop.asked:
                return
            self._locate(error)
            if isinstance(error, Exception):
                raise
            # Some libraries raise errors that are not an `Exception`. They must fail the turn, not the session.
            raise RuntimeFault(f"the agent raised {type(error).__name__}: {error}") from error

    def _locate(self, error: BaseException) -> None:
        """Find out in which file and line the agent failed, for the hint to the person.

        An error of tailrace needs no hint, because its text says what to do.
        """
        if self._debug:
            print_traceback(error)
        elif not isinstance(error, TailraceError):
            place = raised_at(error)
            self.hint = f"raised at {place}; --debug shows the traceback" if place else "--debug shows the traceback"


async def _first_of(task: asyncio.Task[None], event: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait until the task is done, the event is set, or the timeout has passed. The task is not cancelled."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
