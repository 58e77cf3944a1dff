"""Other processes that the tests start, talk to and kill; their programs are in `children/`."""

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
PATIENCE_S = 60


def _command(name: str, arguments: tuple[object, ...]) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, str(HERE / "children" / f"{name}.py"), *map(str, arguments)]
    return command, {**os.environ, "PYTHONPATH": str(HERE)}


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The program from its beginning to its end."""
    command, environment = _command(name, arguments)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@contextmanager
def running(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has said its first line; it ends at the end of its input, or is killed."""
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
