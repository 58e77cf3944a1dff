"""A worker in a process of its own, for tests that do something to it while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self

import kills
from kills.worker import STOPPING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from tailrace.testing.platform_process import PlatformProcess

_EXIT_TIMEOUT_S = 30


class RunningWorker:
    """Started by `with`, and killed at its end if it still runs."""

    def __init__(self, platform: PlatformProcess, ledger: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "kills.worker", "--ledger", str(ledger), *options]
        self._environment = kills.environment(**platform.environment)

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self._command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=_EXIT_TIMEOUT_S)

    def ask_to_stop(self) -> None:
        """Send the first SIGTERM, and wait until the worker has received it."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == STOPPING

    def wait(self) -> int:
        """Wait for its end. Returns the exit code, or the negative number of the signal that ended it."""
        return self.process.wait(_EXIT_TIMEOUT_S)

    def errors(self) -> str:
        """Everything it wrote to its standard error, after its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def wait_until_stopped(self) -> None:
        """Wait until the process is stopped by SIGSTOP."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
