"""Starts workers fast: a process that has imported everything forks one for each.

    python -m kills.start

It reads one `Start` per line of its standard input, runs that worker, and answers with a line that contains the exit
code. It ends when its input ends. A worker that hangs is ended by an alarm. Trials use it by `Workers`.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Self

import msgspec

import kills
from kills import worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_MAX_LIFE_S = 30
KILLED = -int(signal.SIGKILL)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A worker to run: its arguments, more environment variables, and when to kill it, if at all."""

    argv: list[str]
    environment: dict[str, str]
    kill_after_s: float | None = None


class Workers:
    """The process that starts workers. Used by `with`."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "kills.start"]
        self._process = subprocess.Popen(
            command, env=kills.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._process.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "the process was started with pipes"
            pipe.close()
        self._process.wait(_MAX_LIFE_S)

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, kill_after_s: float | None = None) -> int:
        """Run a worker to its end. Returns its exit code, or the negative number of the signal that ended it."""
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None, "the process was started with pipes"
        assert pipes[1] is not None, "the process was started with pipes"
        start = Start(argv=list(argv), environment=dict(environment), kill_after_s=kill_after_s)
        pipes[0].write(msgspec.json.encode(start) + b"\n")
        pipes[0].flush()
        return int(pipes[1].readline())


def _run_forked(start: Start) -> int:
    signal.alarm(_MAX_LIFE_S)
    os.environ.update(start.environment)
    try:
        return worker.main(start.argv)
    except BaseException:  # noqa: BLE001  whatever it is ends this process, not the one it is a copy of
        traceback.print_exc()
        return 1


def _run(start: Start) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _run_forked(start)
        finally:
            os._exit(code)
    if start.kill_after_s is not None:
        alive = os.pidfd_open(pid)
        ended, _, _ = select.select([alive], [], [], start.kill_after_s)
        os.close(alive)
        if not ended:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    starts = msgspec.json.Decoder(Start)
    gc.freeze()  # no worker collects the garbage of the imports again
    with os.fdopen(os.dup(0), "rb") as lines:
        for line in lines:
            os.write(1, f"{_run(starts.decode(line))}\n".encode("ascii"))


if __name__ == "__main__":
    main()
