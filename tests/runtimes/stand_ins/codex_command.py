"""Stands in for the command `codex`: plays a recorded dialogue, and notes what it was sent.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording of `app-server`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from recorded import lines, note, note_run, play, start_tool


class Dialogue:
    """Plays a recorded dialogue: waits for each message that was received then, and sends what was sent then."""

    def __init__(self, folder: str, action: str) -> None:
        self.folder = folder
        self.action = action
        self.ids: list[int] = []

    def play(self, recording: str, count: int | None = None) -> None:
        for line in map(json.loads, lines(recording)[:count]):
            if line["dir"] == "out":
                self.listen()
            else:
                self.say(line["ev"])

    def say(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            message = {**message, "id": self.ids[message["id"] - 1]}
        print(json.dumps(message), flush=True)

    def listen(self) -> None:
        message = json.loads(sys.stdin.readline())
        note(self.folder, message)
        if message.get("method") == "thread/resume" and self.action == "forgets":
            print(
                json.dumps({"id": message["id"], "error": {"code": -32600, "message": "no rollout found"}}), flush=True
            )
            self.listen()
        elif message.get("method") not in {None, "initialized"}:
            self.ids.append(message["id"])

    def stall(self) -> None:
        """Run a tool that no signal to our group reaches, and end it when our input ends."""
        command = start_tool(self.folder)
        self.play("codex_app_interrupt_midtool", 19)
        for line in sys.stdin:
            note(self.folder, json.loads(line))
        command.kill()
        command.wait()


def execute(folder: str, action: str, given: list[str]) -> int:
    note_run(folder, given)
    if "resume" in given and action == "old and forgetful":
        print("Error: thread/resume failed: no rollout found for thread id", file=sys.stderr)
        return 1
    play("codex_exec_hello")
    return 0


def main() -> int:
    folder, action, *given = sys.argv[1:]
    if given[0] == "exec":
        return execute(folder, action, given)
    dialogue = Dialogue(folder, action)
    if action.startswith("old"):
        print("error: unrecognized subcommand 'app-server'", file=sys.stderr)
        return 2
    if action == "misconfigured":
        print("Error: approval_policy is not understood", file=sys.stderr)
        return 1
    if action == "dies":
        dialogue.play("codex_app_tool", 21)
        os.kill(os.getpid(), 9)
    if action == "stalls":
        dialogue.stall()
        return 0
    dialogue.play("codex_app_tool" if action == "forgets" else action)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
