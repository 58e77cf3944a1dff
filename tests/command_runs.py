"""`tailrace deliver` and `tailrace deliveries` as processes, with a real ledger and a real platform process."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from pseudo_terminal import TAILRACE, default_sigint
from tailrace.capabilities import Capabilities, Idempotency, Keyed, Unkeyed
from tailrace.markdown import split
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PATIENCE_S = 60
LIMIT = 120
PARAGRAPHS = [f"Paragraph {number}. " + "The river turns the wheel. " * 3 for number in range(1, 5)]
ANSWER = "\n\n".join(PARAGRAPHS)
PARTS = [part.text for part in split(ANSWER, LIMIT)]
KEYED, UNKEYED = Keyed(window_s=300.0), Unkeyed()


def platform(idempotency: Idempotency) -> PlatformProcess:
    """A platform on which the answer takes four messages."""
    return PlatformProcess(Capabilities(idempotency=idempotency, limit=LIMIT))


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def said(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


COMPLETED = {"type": "turn_completed"}
INPUT = lines(*(said(piece) for piece in (ANSWER[:50], ANSWER[50:51], ANSWER[51:])), COMPLETED)


class Done:
    """What a command left behind."""

    def __init__(self, exit_code: int, out: bytes, err: bytes) -> None:
        self.exit_code = exit_code
        self.out = out.decode()
        self.err = err.decode()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class House:
    """A directory with a ledger, and the commands that are run on it."""

    def __init__(self, folder: Path, at: PlatformProcess | None = None) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.db"
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder), **(at.environment if at else {})}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._begin(*arguments, "--ledger", str(self.ledger))

    def run(self, *arguments: str, given: bytes = b"") -> Done:
        return ended(self.start(*arguments), given)

    def bare(self, *arguments: str, given: bytes = b"") -> Done:
        """Without a ledger's name: the one of the user, whose data lies in the directory."""
        return ended(self._begin(*arguments), given)

    def _begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        command = [TAILRACE, *arguments]
        with default_sigint():
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=self.env, cwd=self.folder)

    def start_deliver(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start("deliver", "--channel", "simulated", "--to", "room", *arguments)

    def deliver(self, *arguments: str, given: bytes = INPUT) -> Done:
        return ended(self.start_deliver(*arguments), given)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What is listed, oldest first."""
        return self.run("deliveries", "list", "--json", *arguments).objects[::-1]

    def states(self, *arguments: str) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self.rows(*arguments)}


def ended(process: subprocess.Popen[bytes], given: bytes | None = None) -> Done:
    """Give a process its input, if it still takes some, and see it end."""
    out, err = process.communicate(given, timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def give(process: subprocess.Popen[bytes], given: bytes) -> None:
    """Some of its input; more may come."""
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.flush()


def hears(process: subprocess.Popen[bytes], words: str) -> list[str]:
    """Read what a process complains of until these words come."""
    assert process.stderr is not None
    heard: list[str] = []
    for line in _decoded(process.stderr):
        heard.append(line)
        if words in line:
            return heard
    raise AssertionError(f"never heard {words!r} among {heard}")


def _decoded(stream: Iterable[bytes]) -> Iterable[str]:
    return (line.decode().rstrip("\n") for line in stream)
