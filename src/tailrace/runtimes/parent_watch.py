"""Stops an agent's command if this process is killed and so cannot stop the command itself.

Most commands end when their input is closed. But a server, or an agent that waits for its model, continues for hours.
So a watcher process reads from a pipe of this process. The pipe closes when this process ends, also when it is killed.
Then the watcher sends the command the same signals that this process would have sent.

This module owns that watcher. `process` stops a command while this process runs.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.runtimes.process_tree import ProcessTree

# A shell script, because every system has a shell. Its output is discarded.
_WATCH = """\
read -r _
for signal in INT TERM KILL; do kill -s "$signal" -- "-$1" || break; sleep "$2"; done
for process in /proc/[0-9]*; do grep -qs -e "$3" "$process/environ" && kill -s KILL "${process#/proc/}"; done
"""


class ParentWatch:
    """Kills a process group, and all processes that its command has started, if this process ends before `close`.

    If the watcher process cannot be started, nothing is watched, and no error is raised.
    """

    def __init__(self, group: int, tree: ProcessTree, *, grace_s: float) -> None:
        self._watcher: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._watcher = subprocess.Popen(  # noqa: S603  # our own script, two numbers and a mark
                ("/bin/sh", "-c", _WATCH, "tailrace-parent-watch", str(group), f"{grace_s:g}", tree.mark),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not end the watcher
            )

    def close(self) -> None:
        """End the watcher, because the command has ended or this process stops it. May be called twice."""
        if self._watcher is None:
            return
        self._watcher.kill()  # before its pipe closes, because it would read that as the end of this process
        self._watcher.wait()
        assert self._watcher.stdin is not None, "the watcher is started with a pipe"
        self._watcher.stdin.close()
        self._watcher = None
