"""A real AG-UI server on this machine: whose agent it is, the tool it has, and its end with all that it began.

Needs uvicorn, in the environment of the framework that is served.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

LIMIT_S = 10
# What works at a server as long as it serves: uvicorn itself, what looks for its end on behalf of all streams, and what
# puts old sessions of ADK away.
_STAYING = {"Server.serve", "_shutdown_watcher", "SessionManager._cleanup_loop"}


class Tool:
    """The shell of the agents in these tests: knows `echo`, `exit`, and `sleep` until it may `end` or is stopped."""

    def __init__(self) -> None:
        self.was_stopped = threading.Event()
        self._has_begun = threading.Event()
        self._has_ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def bash(self, command: str, description: str = "") -> str:
        """Run a command.

        Args:
            command: What to run.
            description: What that is for.
        """
        if "exit" in command:
            raise RuntimeError("went wrong")
        if "sleep" not in command:
            return command.removeprefix("echo ")
        self._loop = asyncio.get_running_loop()
        self._has_begun.set()
        try:
            await self._has_ended.wait()
        except asyncio.CancelledError:
            self.was_stopped.set()
            raise
        return f"{description} is done"

    async def wait(self) -> None:
        """Wait until it is at work."""
        assert await asyncio.to_thread(self._has_begun.wait, LIMIT_S), "the tool was never called"

    def end(self) -> None:
        """Let it be done with what it is at."""
        assert self._loop is not None, "the tool was never called"
        self._loop.call_soon_threadsafe(self._has_ended.set)


class Served:
    """An application on a port of this machine, in a thread: entering starts it, leaving ends it.

    Nothing is waited for in the beginning: who calls before the server takes calls stands in the queue of its socket.
    """

    def __init__(self, application: Any, path: str = "/") -> None:
        options = {"log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 1}
        self._server = uvicorn.Server(uvicorn.Config(application, **options))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}{path}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(LIMIT_S)
        self._socket.close()
        assert not self._thread.is_alive(), "the server does not end"

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve(sockets=[self._socket]))

    def left_running(self) -> list[str]:
        """What runs still have to do at the server though nobody asks any more; they have time to come to an end."""
        return asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(2 * LIMIT_S)

    async def _settle(self) -> list[str]:
        """Wait for all tasks but the server's own and this one, also those that others begin on their way out."""
        deadline = self._loop.time() + LIMIT_S
        while tasks := [task for task in asyncio.all_tasks() if not self._is_own(task)]:
            left = deadline - self._loop.time()
            if left <= 0:
                return [repr(task) for task in tasks]
            await asyncio.wait(tasks, timeout=left)
        return []

    def _is_own(self, task: asyncio.Task[Any]) -> bool:
        return task is asyncio.current_task() or getattr(task.get_coro(), "__qualname__", "") in _STAYING
