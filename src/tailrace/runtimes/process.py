"""The one way an agent's command is run: started apart, read line by line, and gone when it is left.

Owns what every command gets wrong in its own way: lines longer than any reader expects, silence without end, a flood
on stderr that nobody reads, a signal that is ignored, children that outlive their parent and hold its output open. What
the lines say is for a runtime's translator.

A command is the leader of a process group of its own, and the group is what is signalled: a launcher that dies alone
leaves the agent it launched. Agents often run their tools outside of it, and end them by themselves when they are asked
to stop; what they leave, however the agent ends, is ended with it, as far as the platform shows them (`kin`). If we are
killed ourselves, a `ParentWatch` does the same. POSIX only.
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

from tailrace.errors import AgentNotFound
from tailrace.runtimes.parent_watch import ParentWatch
from tailrace.runtimes.process_tree import ProcessTree

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

LONGEST_LINE = 64 * 1024 * 1024
SILENCE_TIMEOUT_S = 600.0
_CHUNK = 64 * 1024
_STDERR_KEPT = 8 * 1024
# What programs written in Rust add to their last words; it is of no use to whoever reads them.
_BACKTRACE = "\nStack backtrace:"
# Once the command has exited, its output ends at once; only somebody outside the group can still hold it open.
_FAREWELL_S = 0.5
# One that has closed its output is about to exit; some put things in order first.
_EXIT_S = 3.0
# What is killed is gone in a moment, but still counts until its new parent has buried it, which some never do.
_LOOK_EVERY_S = 0.01
_LOOK_FOR_S = 0.25


class _Wires(SubprocessStreamProtocol):
    """The pipes of a process; `exited` is done when it exits, whoever holds its pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        """The process itself has exited; its children may not have."""
        self.exited.set_result(None)
        super().process_exited()


class AgentProcess:
    """A running command; entering starts it, leaving stops it and all of its process group.

    `env` is added to our own environment. `missing` is said where there is no such command: how to install it.
    `grace_s` is how long each polite signal is given before the next, harsher one; 0 is for an agent that would leave
    its tools behind if it were asked: it is killed at once, and they with it. `silence_timeout_s` is how long it may
    say nothing before it is given up; `is_excused` says that it has a reason, as a tool at work or a person who is
    asked.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        missing: str = "",
        grace_s: float = 5.0,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
    ) -> None:
        self.command = tuple(command)
        self.is_excused: Callable[[], bool] = lambda: False
        self.fault = ""  # why it was not read to its end
        self._silence_timeout_s = silence_timeout_s
        self._kin = ProcessTree()
        self._env = {**os.environ, **(env or {}), **self._kin.environment}
        self._cwd = cwd
        self._missing = missing
        self._grace_s = grace_s
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._group_is_gone = False

    async def __aenter__(self) -> Self:
        """Start it. Raises `AgentNotFound` where it cannot be started."""
        loop = asyncio.get_running_loop()
        try:
            self._transport, self._wires = await loop.subprocess_exec(
                lambda: _Wires(loop),
                *self.command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AgentNotFound(self._why_not_started(error)) from error
        self.pid = self._transport.get_pid()
        self._lifeline = ParentWatch(self.pid, self._kin, grace_s=self._grace_s)
        # An empty group is known as soon as it can be: its number is free from then on.
        self._wires.exited.add_done_callback(lambda _: self._signal(0))
        self._drain = asyncio.create_task(self._drain_stderr())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _why_not_started(self, error: OSError | ValueError) -> str:
        name = self.command[0]
        if self._cwd is not None and not Path(self._cwd).is_dir():
            return f"{name} cannot be started in {self._cwd}: there is no such directory."
        if isinstance(error, FileNotFoundError):
            return f"there is no command {name!r}. {self._missing}".rstrip()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"{name} cannot be started: {why}. {self._missing}".rstrip()

    # Reading

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Each line of its output without its end, blank ones left out, until the output ends.

        The last line may lack its end. A line longer than `LONGEST_LINE`, and too long a silence, end it as well, which
        `fault` and `last_words` tell.
        """
        pieces: list[bytes] = []
        size = 0
        while not self.fault and (chunk := await self._read()):
            *complete, rest = chunk.split(b"\n")
            for line in complete:
                whole = b"".join([*pieces, line]).rstrip(b"\r")
                pieces, size = [], 0
                if whole.strip():
                    yield whole
            pieces.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                self.fault = f"{self.command[0]} wrote a line of more than {LONGEST_LINE >> 20} MiB."
                return
        if (whole := b"".join(pieces)).strip():
            yield whole

    async def _read(self) -> bytes:
        """What comes next on its output; nothing once it is over."""
        assert self._wires.stdout is not None, "the process is started with pipes"
        reading = asyncio.create_task(self._wires.stdout.read(_CHUNK))
        either: set[asyncio.Future[Any]] = {reading, self._wires.exited}
        try:
            while not (
                await asyncio.wait(either, timeout=self._silence_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            )[0]:
                if not self.is_excused():
                    self.fault = (
                        f"{self.command[0]} has said nothing for {self._silence_timeout_s:g} seconds and was stopped."
                    )
                    return b""
            await asyncio.wait({reading}, timeout=_FAREWELL_S)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def _drain_stderr(self) -> None:
        assert self._wires.stderr is not None, "the process is started with pipes"
        while chunk := await self._wires.stderr.read(_CHUNK):
            self._stderr.append(chunk)
            self._stderr_size += len(chunk)
            while self._stderr_size - len(self._stderr[0]) >= _STDERR_KEPT:
                self._stderr_size -= len(self._stderr.popleft())

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to stderr, for an error message."""
        return b"".join(self._stderr)[-_STDERR_KEPT:].decode(errors="replace").strip()

    # Writing

    async def write(self, line: bytes) -> None:
        """Give it a line; its end is added. A process that reads no more is no error here: its output tells why.

        One that lives and reads nothing, as long as it may say nothing, is given up, which `fault` tells.
        """
        assert self._wires.stdin is not None, "the process is started with pipes"
        with suppress(ConnectionError):
            self._wires.stdin.write(line + b"\n")
            try:
                async with asyncio.timeout(self._silence_timeout_s):
                    await self._wires.stdin.drain()
            except TimeoutError:
                self.fault = (
                    f"{self.command[0]} has read nothing for {self._silence_timeout_s:g} seconds and was stopped."
                )

    def close_input(self) -> None:
        """There is nothing more to say to it. Calling it twice is harmless."""
        assert self._wires.stdin is not None, "the process is started with pipes"
        self._wires.stdin.close()

    # The end

    async def wait(self) -> int:
        """How it exited: its own code, or the negative of the signal that ended it. All of its stderr is read then."""
        await asyncio.wait({self._wires.exited})
        await asyncio.wait({self._drain}, timeout=_FAREWELL_S)
        code = self._transport.get_returncode()
        assert code is not None, "a process that has exited has a code"
        return code

    async def last_words(self) -> str:
        """How it ended, where it did not end well, with the last that it wrote to stderr; for an error message.

        To be asked when its output has ended: one that then lives on has nothing more to say and is not waited for.
        """
        if self.fault:
            return self.fault
        try:
            async with asyncio.timeout(_EXIT_S):
                code = await self.wait()
        except TimeoutError:
            return f"{self.command[0]} has closed its output but not ended, and was stopped."
        if code == 0:
            return ""
        how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        words = self.stderr_tail.partition(_BACKTRACE)[0].strip()
        return f"{self.command[0]} {how}" + (f": {words}" if words else "")

    async def stop(self) -> None:
        """End it and everybody in its group: asked as by Ctrl-C, then told, then killed. Twice is harmless."""
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                if self._wires.exited.done() or not self._grace_s:
                    break
                self._signal(number)
                await asyncio.wait({self._wires.exited}, timeout=self._grace_s)
        finally:
            # Also for a stop that is itself cancelled: nobody is left, however one leaves.
            self._kill()
            self._lifeline.let_go()
            self._drain.cancel()
        await self._see_them_gone()
        self._transport.close()

    def _kill(self) -> None:
        runs = not self._wires.exited.done()
        # Whoever is stopped begins nobody else while the others are looked for.
        self._signal(signal.SIGSTOP)
        self._kin.hold(self.pid if runs else None)
        self._signal(signal.SIGKILL)
        self._kin.kill()

    async def _see_them_gone(self) -> None:
        """Wait until nobody is left, as far as that can be seen."""
        await asyncio.wait({self._wires.exited})
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_FOR_S):
                while self._signal(0) or not self._kin.are_gone():
                    self._bury()
                    await asyncio.sleep(_LOOK_EVERY_S)

    def _bury(self) -> None:
        """Take leave of orphans that fell to us, as they do to the first process of a container."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG) != (0, 0):
                pass

    def _signal(self, number: int) -> bool:
        """Signal the group; whether anybody was there. Once it is empty its number may become somebody else's."""
        if not self._group_is_gone:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                self._group_is_gone = True
        return not self._group_is_gone
