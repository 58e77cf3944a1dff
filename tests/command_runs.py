"""Runs of `tailrace deliver`, `tailrace deliveries` and others, with a real ledger and a real platform process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from pseudo_terminal import TAILRACE, default_sigint
from tailrace.capabilities import Capabilities, Idempotency, Keyed, Unkeyed
from tailrace.cli import main
from tailrace.markdown import split
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMEOUT_S = 60
LIMIT = 120
PARAGRAPHS = [f"Paragraph {number}. " + "The river turns the wheel. " * 3 for number in range(1, 5)]
ANSWER = "\n\n".join(PARAGRAPHS)
PARTS = [part.text for part in split(ANSWER, LIMIT)]
KEYED, UNKEYED = Keyed(window_s=300.0), Unkeyed()


def platform_with(idempotency: Idempotency) -> PlatformProcess:
    """A platform on which the answer takes four messages."""
    return PlatformProcess(Capabilities(idempotency=idempotency, limit=LIMIT))


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def text(delta: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": delta}


COMPLETED = {"type": "turn_completed"}
INPUT = lines(*(text(piece) for piece in (ANSWER[:50], ANSWER[50:51], ANSWER[51:])), COMPLETED)


class Done:
    """The result of a command."""

    def __init__(self, exit_code: int, out: str, err: str) -> None:
        self.exit_code = exit_code
        self.out = out
        self.err = err

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class CommandFolder:
    """A folder with a ledger, and the commands that are run on it."""

    def __init__(self, folder: Path, platform: PlatformProcess | None = None) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.db"
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder), **(platform.environment if platform else {})}

    def run(self, *arguments: str, given: bytes = b"") -> Done:
        """Run a command in this process, which takes a tenth of the time of a process of its own."""
        return run_here(*arguments, "--ledger", str(self.ledger), given=given, env=self.env)

    def run_on_default_ledger(self, *arguments: str, given: bytes = b"") -> Done:
        return run_here(*arguments, given=given, env=self.env)

    def start(self, *arguments: str, output: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """Start a command in a process of its own."""
        pipe = subprocess.PIPE
        command = [TAILRACE, *arguments, "--ledger", str(self.ledger)]
        with default_sigint():
            return subprocess.Popen(command, stdin=pipe, stdout=output, stderr=pipe, env=self.env, cwd=self.folder)

    def start_deliver(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start("deliver", "--channel", "simulated", "--to", "room", *arguments)

    def deliver(self, *arguments: str, given: bytes = INPUT) -> Done:
        return self.run("deliver", "--channel", "simulated", "--to", "room", *arguments, given=given)

    def deliveries(self, *arguments: str) -> Done:
        return self.run("deliveries", *arguments)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What is listed, oldest first."""
        return self.deliveries("list", "--json", *arguments).objects[::-1]

    def states(self, *arguments: str) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self.rows(*arguments)}


def run_here(*arguments: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> Done:
    """Run a command in this process, with this standard input and environment."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin, os.environ.copy()
    exit_code: Any = None
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.buffer.write(given)
        stdin.seek(0)
        sys.argv, sys.stdin = [TAILRACE, *arguments], stdin
        os.environ.update(env or {})
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as left:
            exit_code = left.code
        finally:
            sys.argv, sys.stdin, environment = before
            os.environ.clear()
            os.environ.update(environment)
    return Done(exit_code or 0, out.getvalue(), err.getvalue())


def finish(process: subprocess.Popen[bytes], given: bytes | None = None) -> Done:
    """Write the input of a process, if it still takes any, and wait until it ends."""
    out, err = process.communicate(given, timeout=TIMEOUT_S)
    return Done(process.returncode, (out or b"").decode(), err.decode())


def write_input(process: subprocess.Popen[bytes], given: bytes) -> None:
    """Write some of the input of a process; more may follow."""
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.flush()


def read_until(process: subprocess.Popen[bytes], words: str) -> str:
    """Read standard error until a line with these words. Returns that line."""
    assert process.stderr is not None
    lines_read: list[str] = []
    for line in process.stderr:
        lines_read.append(line.decode().rstrip("\n"))
        if words in lines_read[-1]:
            return lines_read[-1]
    raise AssertionError(f"{words!r} never came, only {lines_read}")
