"""Runs an agent's command: starts it in its own process group, reads it line by line, and ends all of its processes.

This module handles the problems of commands: very long lines, endless silence, a flood on stderr, ignored signals, and
children that live longer than the command and hold its output open. The translator of a runtime owns the meaning of the
lines.

The command leads a process group, and signals go to the whole group: if only a launcher were killed, the agent that it
launched would continue. Agents often run their tools outside the group, and end the tools only if they are asked to
stop. Processes that an agent leaves running are killed too, if the platform shows them (`process_tree`). If this
process is killed, `ParentWatch` stops the command. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AgentNotFound
from tailrace.runtimes.parent_watch import ParentWatch
from tailrace.runtimes.process_tree import ProcessTree

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from typing import Self

MAX_LINE_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
_STDERR_TAIL_BYTES = 8 * 1024
# Programs written in Rust print this after their error. People do not need it.
_BACKTRACE = "\nStack backtrace:"
# A killed process ends at once, but the system lists it until its new parent reaps it. Some parents never do that.
_GONE_POLL_S = 0.01
_GONE_TIMEOUT_S = 0.25


class ProcessTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """The timeouts for a command.

    `silence_timeout_s` is the longest wait for output, unless the command may be silent. `exit_timeout_s` is the
    longest wait for its exit after it has closed its output: some commands save their state first. `drain_timeout_s` is
    the longest wait for the rest of its output after its exit: a process outside its group may hold the output open.
    """

    silence_timeout_s: float = 600.0
    exit_timeout_s: float = 3.0
    drain_timeout_s: float = 0.5


class _Pipes(SubprocessStreamProtocol):
    """The pipes of a process. `exited` is done when the process exits, even if its children still hold the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_READ_BYTES, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        """Called when the process itself has exited. Its children may still run."""
        self.exited.set_result(None)
        super().process_exited()


class AgentProcess:
    """A running command. Entering the `async with` block starts it; leaving stops it and its process group.

    `env` is added to our environment. `missing` says how to install a command that is not found. `may_be_silent`
    returns whether a silence has a reason: a tool runs, or a person is asked. `grace_s` is the time between SIGINT,
    SIGTERM and SIGKILL; 0 kills at once, for an agent whose tools continue if it is asked to stop.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        missing: str = "",
        timeouts: ProcessTimeouts = ProcessTimeouts(),  # noqa: B008  # frozen
        grace_s: float = 5.0,
    ) -> None:
        self.command = tuple(command)
        self.may_be_silent: Callable[[], bool] = lambda: False
        self.failure = ""  # the reason if its output is not read any more
        self._timeouts = timeouts
        self._grace_s = grace_s
        self._tree = ProcessTree()
        self._env = {**os.environ, **(env or {}), **self._tree.environment}
        self._cwd = cwd
        self._missing = missing
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._group_is_gone = False

    async def __aenter__(self) -> Self:
        """Start the command. Raises `AgentNotFound` if it cannot be started."""
        loop = asyncio.get_running_loop()
        try:
            self._transport, self._pipes = await loop.subprocess_exec(
                lambda: _Pipes(loop),
                *self.command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AgentNotFound(self._start_error(error)) from error
        self.pid = self._transport.get_pid()
        self._watch = ParentWatch(self.pid, self._tree, grace_s=self._grace_s)
        # At the exit, check whether the group is empty: the system may then give its number to another group.
        self._pipes.exited.add_done_callback(lambda _: self._signal(0))
        self._drain = asyncio.create_task(self._drain_stderr())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _start_error(self, error: OSError | ValueError) -> str:
        name = self.command[0]
        if self._cwd is not None and not Path(self._cwd).is_dir():
            return f"{name} cannot be started in {self._cwd}: there is no such directory."
        if isinstance(error, FileNotFoundError):
            return f"there is no command {name!r}. {self._missing}".rstrip()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"{name} cannot be started: {why}. {self._missing}".rstrip()

    # Reading

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield each line of the output that is not blank, without its line end, until the output ends.

        The last line may have no line end. A line over `MAX_LINE_BYTES` or too long a silence also ends the iteration;
        then `failure` and `exit_error` say so.
        """
        pieces: list[bytes] = []
        size = 0
        while not self.failure and (chunk := await self._read()):
            *complete, rest = chunk.split(b"\n")
            for line in complete:
                whole = b"".join([*pieces, line]).rstrip(b"\r")
                pieces, size = [], 0
                if whole.strip():
                    yield whole
            pieces.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                self.failure = f"{self.command[0]} wrote a line of more than {MAX_LINE_BYTES >> 20} MiB."
                return
        if (whole := b"".join(pieces)).strip():
            yield whole

    async def _read(self) -> bytes:
        """Read the next piece of the output; empty at the end of the output."""
        assert self._pipes.stdout is not None, "the process is started with pipes"
        reading = asyncio.create_task(self._pipes.stdout.read(_READ_BYTES))
        either: set[asyncio.Future[Any]] = {reading, self._pipes.exited}
        try:
            timeout_s = self._timeouts.silence_timeout_s
            while not (await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED))[0]:
                if not self.may_be_silent():
                    self.failure = f"{self.command[0]} was silent for {timeout_s:g} seconds and was stopped."
                    return b""
            await asyncio.wait({reading}, timeout=self._timeouts.drain_timeout_s)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def _drain_stderr(self) -> None:
        assert self._pipes.stderr is not None, "the process is started with pipes"
        while chunk := await self._pipes.stderr.read(_READ_BYTES):
            self._stderr.append(chunk)
            self._stderr_size += len(chunk)
            while self._stderr_size - len(self._stderr[0]) >= _STDERR_TAIL_BYTES:
                self._stderr_size -= len(self._stderr.popleft())

    @property
    def stderr_tail(self) -> str:
        """The end of the stderr output, for an error message."""
        return b"".join(self._stderr)[-_STDERR_TAIL_BYTES:].decode(errors="replace").strip()

    # Writing

    async def write(self, line: bytes) -> None:
        """Write a line to the input of the process. If the process has closed its input, nothing is raised.

        If the process reads nothing for `silence_timeout_s`, `failure` says so, and its output is not read any more.
        """
        assert self._pipes.stdin is not None, "the process is started with pipes"
        timeout_s = self._timeouts.silence_timeout_s
        with suppress(ConnectionError):
            self._pipes.stdin.write(line + b"\n")
            try:
                async with asyncio.timeout(timeout_s):
                    await self._pipes.stdin.drain()
            except TimeoutError:
                self.failure = f"{self.command[0]} read none of its input for {timeout_s:g} seconds and was stopped."

    def close_input(self) -> None:
        """Close the input of the process. May be called twice."""
        assert self._pipes.stdin is not None, "the process is started with pipes"
        self._pipes.stdin.close()

    # The end

    async def wait(self) -> int:
        """Wait for the exit and for stderr. Returns the exit code, or minus the number of the signal that ended it."""
        await asyncio.wait({self._pipes.exited})
        await asyncio.wait({self._drain}, timeout=self._timeouts.drain_timeout_s)
        code = self._transport.get_returncode()
        assert code is not None, "a process that has exited has a code"
        return code

    async def exit_error(self) -> str:
        """How the process failed and what it last wrote to stderr, as an error message; empty if it did not fail.

        Call this when the output has ended. It waits for the exit, but at most `exit_timeout_s`.
        """
        if self.failure:
            return self.failure
        try:
            async with asyncio.timeout(self._timeouts.exit_timeout_s):
                code = await self.wait()
        except TimeoutError:
            return f"{self.command[0]} closed its output but did not exit, and was stopped."
        if code == 0:
            return ""
        ending = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        stderr = self.stderr_tail.partition(_BACKTRACE)[0].strip()
        return f"{self.command[0]} {ending}" + (f": {stderr}" if stderr else "")

    async def stop(self) -> None:
        """Stop the process and its group: SIGINT, then SIGTERM, then SIGKILL. May be called twice."""
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                if self._pipes.exited.done() or not self._grace_s:
                    break
                self._signal(number)
                await asyncio.wait({self._pipes.exited}, timeout=self._grace_s)
        finally:
            # Kill even if this call is cancelled, so that no process is left.
            self._kill()
            self._watch.close()
            self._drain.cancel()
        await self._wait_until_gone()
        self._transport.close()

    def _kill(self) -> None:
        is_running = not self._pipes.exited.done()
        # Suspend first: a suspended process cannot start others while the remaining ones are looked up.
        self._signal(signal.SIGSTOP)
        self._tree.suspend_all(self.pid if is_running else None)
        self._signal(signal.SIGKILL)
        self._tree.kill_all()

    async def _wait_until_gone(self) -> None:
        """Wait for a short time until all processes of the command are gone that the platform can show."""
        await asyncio.wait({self._pipes.exited})
        with suppress(TimeoutError):
            async with asyncio.timeout(_GONE_TIMEOUT_S):
                while self._signal(0) or not self._tree.are_gone():
                    self._reap()
                    await asyncio.sleep(_GONE_POLL_S)

    def _reap(self) -> None:
        """Collect the exit status of orphans that became our children, as in the first process of a container."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG) != (0, 0):
                pass

    def _signal(self, number: int) -> bool:
        """Send a signal to the process group. Returns False if the group is empty.

        An empty group gets no signal, because its number may already belong to another group.
        """
        if not self._group_is_gone:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                self._group_is_gone = True
        return not self._group_is_gone
