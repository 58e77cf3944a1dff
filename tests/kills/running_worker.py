"""A worker as a process of its own, for tests that do something to it while it runs."""

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

PATIENCE_S = 30


class RunningWorker:
    """Started by `with`; if it still runs when that is left, it is killed."""

    def __init__(self, platform: PlatformProcess, ledger: Path, *options: str, **environment: str) -> None:
        self._command = [sys.executable, "-m", "kills.worker", "--ledger", str(ledger), *options]
        self._environment = kills.environment(**platform.environment, **environment)

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self._command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)

    def ask_to_stop(self) -> None:
        """SIGTERM, for the first time: returns once the worker has heard it."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == STOPPING

    def ended(self) -> int:
        """How it ended."""
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """All it wrote to its standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def wait_until_stopped(self) -> None:
        """Returns once the process was stopped, as by SIGSTOP."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
