"""Stands in for the command `gemini`: says what a recording holds, and notes what it was asked.

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
    if deed == "old" and "--acp" in given:
        print("Unknown argument: acp", file=sys.stderr)
        return 1
    with Path(folder, "asked").open("a", encoding="utf-8") as asked:
        heard = sys.stdin.buffer.read().decode()
        asked.write(json.dumps({"arguments": given, "prompt": heard, "mood": os.environ.get("MOOD")}) + "\n")
    if deed == "refuses":
        print("Please set an Auth method", file=sys.stderr)
        return 41
    if deed == "dies":
        play("gemini_cli_tool", 4)
        os.kill(os.getpid(), 9)
    if deed == "stalls":
        # As gemini does: it ends when it is asked to, and leaves the command that it runs.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(command, start_new_session=True)
        Path(folder, "running").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
        play("gemini_cli_tool", 5)
        time.sleep(600)
    if deed == "forgets" and "--resume" in given:
        print('Error resuming session: Invalid session identifier "x".', file=sys.stderr)
        return 42
    play("gemini_cli_tool" if deed in {"forgets", "old"} else deed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
