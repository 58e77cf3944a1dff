"""Stands in for the command `codex`: talks as a recording does, and notes what it was told.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording of `app-server`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent.parent / "recordings"


class Talk:
    """A recorded talk, held again: what was heard then is waited for now, and what was said then is said now."""

    def __init__(self, folder: str, deed: str) -> None:
        self.folder = Path(folder)
        self.deed = deed
        self.ids: list[int] = []

    def play(self, recording: str, lines: int | None = None) -> None:
        for line in recorded(recording)[:lines]:
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
        self.note(message)
        if message.get("method") == "thread/resume" and self.deed == "forgets":
            print(
                json.dumps({"id": message["id"], "error": {"code": -32600, "message": "no rollout found"}}), flush=True
            )
            self.listen()
        elif message.get("method") not in {None, "initialized"}:
            self.ids.append(message["id"])

    def note(self, message: Any) -> None:
        with (self.folder / "asked").open("a", encoding="utf-8") as asked:
            asked.write(json.dumps(message) + "\n")

    def stall(self) -> None:
        """Run a command where no signal to our group reaches it, and end it when there is nobody to talk with."""
        command = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (self.folder / "running").write_text(f"{os.getpid()} {command.pid}", encoding="utf-8")
        self.play("codex_app_interrupt_midtool", 19)
        for line in sys.stdin:
            self.note(json.loads(line))
        command.kill()
        command.wait()


def recorded(recording: str) -> list[Any]:
    lines = (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines()
    return [json.loads(line) for line in lines[1:]]


def execute(folder: str, deed: str, given: list[str]) -> int:
    talk = Talk(folder, deed)
    talk.note({"arguments": given, "prompt": sys.stdin.read()})
    if "resume" in given and deed == "old and forgetful":
        print("Error: thread/resume failed: no rollout found for thread id", file=sys.stderr)
        return 1
    said = (RECORDINGS / "codex_exec_hello.ndjson").read_bytes().splitlines(keepends=True)[1:]
    sys.stdout.buffer.writelines(said)
    return 0


def main() -> int:
    folder, deed, *given = sys.argv[1:]
    if given[0] == "exec":
        return execute(folder, deed, given)
    talk = Talk(folder, deed)
    if deed.startswith("old"):
        print("error: unrecognized subcommand 'app-server'", file=sys.stderr)
        return 2
    if deed == "misconfigured":
        print("Error: approval_policy is not understood", file=sys.stderr)
        return 1
    if deed == "dies":
        talk.play("codex_app_tool", 21)
        os.kill(os.getpid(), 9)
    if deed == "stalls":
        talk.stall()
        return 0
    talk.play("codex_app_tool" if deed == "forgets" else deed)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
