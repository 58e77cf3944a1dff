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
from typing import Any

RECORDINGS = Path(__file__).parent.parent / "recordings"


def play(recording: str, lines: int | None = None) -> None:
    said = (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines(keepends=True)[1:]
    sys.stdout.buffer.writelines(said[:lines])
    sys.stdout.buffer.flush()


def ask(folder: str, request: dict[str, object]) -> None:
    """Put a request in the middle of a recording, go on when it is answered, and stay until the input has ended."""
    prompt = json.loads(sys.stdin.buffer.readline())
    said = (RECORDINGS / "claude_cli_tool.ndjson").read_bytes().splitlines(keepends=True)[1:]
    result = next(at for at, line in enumerate(said) if b'"tool_result"' in line)
    sys.stdout.buffer.writelines(said[:result])
    sys.stdout.buffer.write(json.dumps({"type": "control_request", "request_id": "r", "request": request}).encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    answer = json.loads(sys.stdin.buffer.readline())
    sys.stdout.buffer.writelines(said[result:])
    sys.stdout.buffer.flush()
    rest = sys.stdin.buffer.read().decode()
    with Path(folder, "asked").open("a", encoding="utf-8") as asked:
        asked.write(json.dumps({"prompt": prompt, "answer": answer, "rest": rest}) + "\n")


TOUCH = {
    "subtype": "can_use_tool",
    "tool_name": "Bash",
    "input": {"command": "touch made.txt"},
    "permission_suggestions": [
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "touch made.txt"}],
            "behavior": "allow",
            "destination": "localSettings",
        },
    ],
}
QUESTIONS = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "multiSelect": False,
            "options": [{"label": "Red", "description": "like a rose"}, {"label": "Blue", "description": ""}],
        },
        {"question": "Which size?", "header": "Size", "options": [{"label": "Small"}, {"label": "Large"}]},
    ]
}
ASKED: dict[str, Any] = {
    "asks": TOUCH,
    "asks a question": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": QUESTIONS},
    "asks a riddle": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": ["?"]}},
    "asks in tongues": {"subtype": "unheard_of"},
}


def main() -> int:
    folder, deed, *given = sys.argv[1:]
    if deed in ASKED:
        ask(folder, ASKED[deed])
        return 0
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
