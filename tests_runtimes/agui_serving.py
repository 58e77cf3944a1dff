"""A real AG-UI server on this machine, and the tool of its agent. Needs uvicorn in the environment of the framework."""

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
# Tasks that run as long as the server: of uvicorn, of the streams that wait for its end, and of ADK's sessions.
_SERVER_TASKS = {"Server.serve", "_shutdown_watcher", "SessionManager._cleanup_loop"}


class Tool:
    """The shell of the agents in these tests. It knows `echo`, `exit`, and `sleep`, which waits for `end`."""

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
        """Wait until the tool runs."""
        assert await asyncio.to_thread(self._has_begun.wait, LIMIT_S), "the tool was never called"

    def end(self) -> None:
        """Let the tool finish."""
        assert self._loop is not None, "the tool was never called"
        self._loop.call_soon_threadsafe(self._has_ended.set)


class Served:
    """An application on a port of this machine, in a thread. Entering starts it, leaving ends it.

    The start is not awaited: early connections wait in the queue of the socket.
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
        assert not self._thread.is_alive(), "the server did not end"

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve(sockets=[self._socket]))

    def left_running(self) -> list[str]:
        """The tasks of runs that are still there after all requests. They get some time to end."""
        return asyncio.run_coroutine_threadsafe(self._wait_for_tasks(), self._loop).result(2 * LIMIT_S)

    async def _wait_for_tasks(self) -> list[str]:
        """Wait for all tasks except the server's and this one, also for those that start meanwhile."""
        deadline = self._loop.time() + LIMIT_S
        while tasks := [task for task in asyncio.all_tasks() if not self._is_server_task(task)]:
            left = deadline - self._loop.time()
            if left <= 0:
                return [repr(task) for task in tasks]
            await asyncio.wait(tasks, timeout=left)
        return []

    def _is_server_task(self, task: asyncio.Task[Any]) -> bool:
        return task is asyncio.current_task() or getattr(task.get_coro(), "__qualname__", "") in _SERVER_TASKS
