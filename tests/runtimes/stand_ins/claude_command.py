"""Stands in for the command `claude`: plays a recording, and notes what it was asked.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from recorded import lines, note, note_run, play, stall


def ask(folder: str, request: dict[str, object]) -> None:
    """Put a request in the middle of a recording, continue when it is answered, and stay until the input has ended."""
    prompt = json.loads(sys.stdin.buffer.readline())
    recorded = lines("claude_cli_tool")
    result = next(at for at, line in enumerate(recorded) if b'"tool_result"' in line)
    sys.stdout.buffer.writelines(recorded[:result])
    sys.stdout.buffer.write(json.dumps({"type": "control_request", "request_id": "r", "request": request}).encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    answer = json.loads(sys.stdin.buffer.readline())
    sys.stdout.buffer.writelines(recorded[result:])
    sys.stdout.buffer.flush()
    note(folder, {"prompt": prompt, "answer": answer, "rest": sys.stdin.buffer.read().decode()})


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
    "asks badly": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": ["?"]}},
    "asks something unknown": {"subtype": "unheard_of"},
}


def main() -> int:
    folder, action, *given = sys.argv[1:]
    if action in ASKED:
        ask(folder, ASKED[action])
        return 0
    note_run(folder, given)
    if action == "dies":
        play("claude_cli_tool", 20)
        os.kill(os.getpid(), 9)
    if action == "stalls":
        stall(folder, "claude_cli_tool", 20, in_own_session=False)
    if action == "forgets" and "--resume" in given:
        play("claude_cli_session_gone")
        return 1
    play("claude_cli_hello" if action == "forgets" else action)
    return 0


if __name__ == "__main__":
    sys.exit(main())
