"""One turn of an agent: runs the agent in a task of its own and gives out its events, checked.

An agent may ignore a request to stop. So the events end as soon as the turn is stopped. The agent then gets a few
seconds to clean up; after that it is left running, and its later events are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tailrace.contract import checked
from tailrace.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from tailrace.errors import Diagnostic
    from tailrace.events import Event
    from tailrace.ports import Prompt, Runtime

_log = logging.getLogger(__name__)

_QUEUE_SIZE = 64  # a smaller queue would switch between the two tasks more often
_STOP_S = 5.0
_END = object()

RUNNING: ContextVar[AgentTurn | None] = ContextVar("tailrace_agent_turn", default=None)
"""The turn for which the agent's code runs now: a question of the agent finds its chat by it."""


class AgentTurn:
    """A turn that can be stopped. `events` may be iterated once; closing the iterator stops the agent too.

    The prompt is made when the events are iterated: an error of `make_prompt` is then the failure of the turn.
    `is_started`: the agent may have begun. `is_shown` is set by
    the caller when nothing new of the turn is shown any more. `context` is for the caller.
    """

    def __init__(
        self, runtime: Runtime, make_prompt: Callable[[], Awaitable[Prompt]], *, turn_id: str, context: Any = None
    ) -> None:
        self.prompt: Prompt | None = None
        self.turn_id = turn_id
        self.context = context
        self.is_stopped = False
        self.is_started = False
        self.is_shown = asyncio.Event()
        self._runtime = runtime
        self._make_prompt = make_prompt
        self._queue: asyncio.Queue[Any] = asyncio.Queue(_QUEUE_SIZE)
        self._agent: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    def stop(self) -> None:
        """End the turn now: the next event is `turn_cancelled`."""
        self.is_stopped = True
        if self._agent is not None:
            self._agent.cancel()
        with suppress(asyncio.QueueFull):  # if it is full, the reader does not wait and sees `is_stopped`
            self._queue.put_nowait(_END)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of the turn, from `turn_started` to the terminal event."""
        stream = checked(
            self._events(), turn_id=self.turn_id, cancelled=lambda: self.is_stopped, on_diagnostic=self._log_diagnostic
        )
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def _events(self) -> AsyncGenerator[Event, None]:
        if self.is_stopped:
            return
        self.is_started = True
        token = RUNNING.set(self)
        try:
            self._agent = asyncio.create_task(self._run_agent(), name=f"agent of {self.turn_id}")
        finally:
            RUNNING.reset(token)
        try:
            while (item := await self._queue.get()) is not _END and not self.is_stopped:
                yield item
        finally:
            self._agent.cancel()
        if self._error is not None and not self.is_stopped:
            raise self._error

    async def _run_agent(self) -> None:
        try:
            self.prompt = await self._make_prompt()
            await self._put_events(self._runtime.run(self.prompt))
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self._error = RuntimeFault("something the agent waited for was cancelled")
        except Exception as error:  # noqa: BLE001 -- the agent's code; `checked` makes it the end of the turn
            _log.debug("the agent failed", exc_info=error)
            self._error = error
        except BaseException as error:  # noqa: BLE001 -- sys.exit and errors of libraries must not end the process
            self._error = RuntimeFault(f"the agent raised {type(error).__name__}: {error}")
        await self._queue.put(_END)

    async def _put_events(self, events: AsyncIterator[Event]) -> None:
        put = self._queue.put
        try:
            async for event in events:
                await put(event)
        finally:
            if (aclose := getattr(events, "aclose", None)) is not None:
                await aclose()

    async def wait_for_agent(self) -> None:
        """Wait until the agent has released what it uses, at most a few seconds. Call this after `events`."""
        if self._agent is None:
            return
        await asyncio.wait({self._agent}, timeout=_STOP_S)
        if not self._agent.done():
            _log.warning("the agent did not stop within %g s; its events are no longer read", _STOP_S)

    def _log_diagnostic(self, diagnostic: Diagnostic) -> None:
        _log.warning("turn %s: %s [%s]", self.turn_id, diagnostic.message, diagnostic.code)
