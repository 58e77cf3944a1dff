"""Starts the real command fast: a process that has imported everything forks one for each run.

    python -m kills.start

It reads a `Start` as a line of its standard input and forks. The child calls `tailrace.cli.main` with its own
arguments, environment, standard input and output, and signals. A `Signal` is sent to the child. When the child has
ended, the answer is a line with the exit code, or the negative number of the signal. `CommandStarter` is the caller's
side.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

import msgspec

from kills import crash_points
from tailrace import cli
from tailrace.channels.slack import channel as slack
from tailrace.channels.telegram import channel as telegram
from tailrace.cli import commands, deliver, deliveries
from tailrace.cli.deliveries import resuming
from tailrace.testing import simulated

if TYPE_CHECKING:
    from types import TracebackType

PRELOADED = commands, deliver, deliveries, resuming, simulated, slack, telegram
KILLED = -int(signal.SIGKILL)
_MAX_LIFE_S = 60


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A command to run. `given` is its standard input, each line with the seconds before it; `log` gets its output.

    `kill_at` names a crash point and how often it is reached before, such as `commit.after:3`.
    """

    argv: list[str]
    environment: dict[str, str]
    given: list[tuple[float, str]]
    log: str
    kill_at: str = ""


class Signal(msgspec.Struct, frozen=True, tag=True):
    """A signal for the command that runs."""

    number: int


_REQUESTS: msgspec.json.Decoder[Start | Signal] = msgspec.json.Decoder(Start | Signal)


class CommandStarter:
    """Runs one command at a time. Used by `with`."""

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
        command = [sys.executable, "-m", "kills.start"]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "the process was started with pipes"
            pipe.close()
        self._process.wait(_MAX_LIFE_S)

    def send(self, request: Start | Signal) -> None:
        """Run a command, or send it a signal. Nothing happens if it has ended."""
        assert self._process.stdin is not None, "the process was started with pipes"
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()

    def ends_within(self, seconds: float) -> bool:
        """Whether the command ends in that time."""
        assert self._process.stdout is not None, "the process was started with pipes"
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def wait(self) -> int:
        """The exit code of the command, or the negative number of the signal that ended it."""
        assert self._process.stdout is not None, "the process was started with pipes"
        return int(self._process.stdout.readline())

    def kill(self) -> int:
        """Kill the command. Returns as `wait`."""
        self.send(Signal(signal.SIGKILL))
        return self.wait()


def _run_child(start: Start, stdin: int) -> NoReturn:
    """Become the command."""
    signal.alarm(_MAX_LIFE_S)  # a command that hangs is ended
    log = os.open(start.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for copy, of in ((0, stdin), (1, log), (2, log)):
        os.dup2(of, copy)
    os.closerange(3, 256)
    os.environ.update(start.environment)
    sys.argv = ["tailrace", *start.argv]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 -- of this process
    crash_points.kill_at(start.kill_at)
    code = 1
    try:
        cli.main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Child:
    """The command that runs."""

    def __init__(self, start: Start) -> None:
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._writing)
            _run_child(start, reading)
        os.close(reading)
        self.handle = os.pidfd_open(self.pid)
        self._given = start.given
        self._next_at = time.monotonic()

    def feed(self) -> float | None:
        """Write the lines that are due. Returns the seconds until the next one."""
        while self._given:
            pause_s, line = self._given[0]
            if (wait := self._next_at + pause_s - time.monotonic()) > 0:
                return wait
            self._next_at = time.monotonic()
            self._given = self._given[1:]
            try:
                os.write(self._writing, line.encode() + b"\n")
            except BrokenPipeError:
                self._given = []
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
        return None

    def collect(self) -> int:
        """The exit code, after its end."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.handle)
        if self._writing >= 0:
            os.close(self._writing)
        return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Run the commands that are asked for."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    gc.freeze()  # no command collects the garbage of the imports again
    buffered = b""
    child: _Child | None = None
    while True:
        wait = child.feed() if child is not None else None
        ready, _, _ = select.select([0] if child is None else [0, child.handle], [], [], wait)
        if child is not None and child.handle in ready:
            os.write(1, f"{child.collect()}\n".encode("ascii"))
            child = None
        if 0 in ready:
            if not (read := os.read(0, 1 << 20)):
                return
            *lines, buffered = (buffered + read).split(b"\n")
            for request in map(_REQUESTS.decode, lines):
                if isinstance(request, Start):
                    child = _Child(request)
                elif child is not None:
                    os.kill(child.pid, request.number)


if __name__ == "__main__":
    main()
