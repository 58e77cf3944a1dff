"""Stands in for the command `gemini`: plays a recording, and notes what it was asked.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording.
"""

from __future__ import annotations

import os
import sys

from recorded import note_run, play, stall


def main() -> int:
    folder, action, *given = sys.argv[1:]
    if action == "old" and "--acp" in given:
        print("Unknown argument: acp", file=sys.stderr)
        return 1
    note_run(folder, given)
    if action == "dies":
        play("gemini_cli_tool", 4)
        os.kill(os.getpid(), 9)
    if action == "stalls":
        stall(folder, "gemini_cli_tool", 5)
    if action == "forgets" and "--resume" in given:
        print('Error resuming session: Invalid session identifier "x".', file=sys.stderr)
        return 42
    play("gemini_cli_tool" if action in {"forgets", "old"} else action)
    return 0


if __name__ == "__main__":
    sys.exit(main())
