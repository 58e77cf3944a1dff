"""Nobody outlives us: what ends an agent's command when we are gone before we could.

A process that is killed, or falls over, ends nobody behind it. Most commands notice that their input is closed; a
server, and one that is thinking, do not, and go on for hours. So each has somebody beside it who does nothing but hold
the other end of a pipe of ours. It closes with us, however we end, and then the command is asked, told and killed as we
would have done it.

Owns that watcher. How a command is ended while we live is `process`'s.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.runtimes.process_tree import ProcessTree

# The shell is the smallest program that is everywhere. What it writes to nobody reads.
_WATCH = """\
read -r _
for signal in INT TERM KILL; do kill -s "$signal" -- "-$1" || break; sleep "$2"; done
for process in /proc/[0-9]*; do grep -qs -e "$3" "$process/environ" && kill -s KILL "${process#/proc/}"; done
"""


class ParentWatch:
    """Held for a process group, and for its kin elsewhere, as long as we live.

    Where nobody can be started to watch, there is none.
    """

    def __init__(self, group: int, kin: ProcessTree, *, grace_s: float) -> None:
        self._watcher: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._watcher = subprocess.Popen(  # noqa: S603  # a script of ours, two numbers and a name
                ("/bin/sh", "-c", _WATCH, "tailrace-lifeline", str(group), f"{grace_s:g}", kin.name),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that no Ctrl-C for us ends it
            )

    def let_go(self) -> None:
        """The group is gone, or about to be: nobody need be watched. Twice is harmless."""
        if self._watcher is None:
            return
        self._watcher.kill()  # before its pipe is closed, which it would take for our end
        self._watcher.wait()
        assert self._watcher.stdin is not None, "the watcher is started with a pipe"
        self._watcher.stdin.close()
        self._watcher = None
