"""Starts the programs in `child.py` as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TIMEOUT_S = 60


def _command(name: str, arguments: tuple[object, ...]) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, str(HERE / "child.py"), name, *map(str, arguments)]
    return command, {**os.environ, "PYTHONPATH": str(HERE)}


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    command, environment = _command(name, arguments)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@contextmanager
def running(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start the program and wait for its first line. It ends when its input is closed, or is killed at the end."""
    command, environment = _command(name, arguments)
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()
