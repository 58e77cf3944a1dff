"""What the stand-ins of commands share: playing recordings, notes of what they were asked, a tool that never ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent.parent / "recordings"


def lines(recording: str) -> list[bytes]:
    """The lines of a recording, without its header."""
    return (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines(keepends=True)[1:]


def play(recording: str, count: int | None = None) -> None:
    """Write the lines of a recording, or the first ones, to standard output."""
    sys.stdout.buffer.writelines(lines(recording)[:count])
    sys.stdout.buffer.flush()


def note(folder: str, value: Any) -> None:
    """Append what the runtime asked to the notes, which the test reads."""
    with Path(folder, "asked").open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(value) + "\n")


def note_run(folder: str, given: list[str]) -> None:
    """Note the arguments and the prompt of a run that reads its prompt from standard input."""
    prompt = sys.stdin.buffer.read().decode()
    note(folder, {"arguments": given, "prompt": prompt, "mood": os.environ.get("MOOD")})


def start_tool(folder: str, *, in_own_session: bool = True) -> subprocess.Popen[bytes]:
    """Start a tool that never ends, and write down its process id and ours."""
    tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=in_own_session)
    Path(folder, "running").write_text(f"{os.getpid()} {tool.pid}", encoding="utf-8")
    return tool


def stall(folder: str, recording: str, count: int, *, in_own_session: bool = True) -> None:
    """Play the start of a recording while a tool runs, then do nothing. SIGINT ends us and leaves the tool."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    start_tool(folder, in_own_session=in_own_session)
    play(recording, count)
    time.sleep(600)
