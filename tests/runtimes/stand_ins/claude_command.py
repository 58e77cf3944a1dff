"""Stands in for the command `claude`: says what a recording holds, and notes what it was asked.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RECORDINGS = Path(__file__).parent.parent / "recordings"


def play(recording: str, lines: int | None = None) -> None:
    said = (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines(keepends=True)[1:]
    sys.stdout.buffer.writelines(said[:lines])
    sys.stdout.buffer.flush()


def main() -> int:
    folder, deed, *given = sys.argv[1:]
    with Path(folder, "asked").open("a", encoding="utf-8") as asked:
        heard = sys.stdin.buffer.read().decode()
        asked.write(json.dumps({"arguments": given, "prompt": heard, "mood": os.environ.get("MOOD")}) + "\n")
    if deed == "refuses":
        print("error: unknown option '--verbose'", file=sys.stderr)
        return 1
    if deed == "dies":
        play("claude_cli_tool", 20)
        os.kill(os.getpid(), 9)
    if deed == "stalls":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(folder, "running").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
        play("claude_cli_tool", 20)
        time.sleep(600)
    if deed == "forgets" and "--resume" in given:
        play("claude_cli_session_gone")
        return 1
    play("claude_cli_hello" if deed == "forgets" else deed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
