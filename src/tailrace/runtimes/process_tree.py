"""Finds, suspends and kills all processes that an agent's command has started, in any process group.

The tools of a command may leave its process group, and after a second fork they are not its descendants any more. So
this module looks for descendants, and for a mark in an environment variable, which children inherit. Both need `/proc`.
A process that drops the variable and is no descendant is not found.
"""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE = "TAILRACE_AGENT"


class ProcessTree:
    """Finds the processes of one command.

    Start the command with `environment`, which contains the `mark` that they inherit.
    """

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)
        # An agent may itself run tailrace. The processes of that inner tailrace then have both marks.
        self.environment = {_VARIABLE: f"{os.environ.get(_VARIABLE, '')}/{self.mark}"}
        self._found: set[int] = set()

    def suspend_all(self, ancestor: int | None) -> None:
        """Suspend all processes, also those that start meanwhile. `ancestor` is the command; None if it has ended."""
        self._found = set()
        while new := set(self._find(ancestor)) - self._found:
            self._found |= new
            self._signal(signal.SIGSTOP)

    def kill_all(self) -> None:
        """Kill the suspended processes."""
        self._signal(signal.SIGKILL)

    def are_gone(self) -> bool:
        """Whether all of the killed processes are gone. Those that became our children as orphans are reaped."""
        for process in self._found:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        """Send a signal to each process that was found. Returns False if all of them are gone."""
        found_any = False
        for process in self._found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
                found_any = True
        return found_any

    def _find(self, ancestor: int | None) -> Iterator[int]:
        yield from () if ancestor is None else _descendants(ancestor)
        variable, mark = f"{_VARIABLE}=".encode(), self.mark.encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # a process of another user, or one that has ended meanwhile
                content = environment.read_bytes()
                if mark in content and any(
                    entry.startswith(variable) and mark in entry for entry in content.split(b"\0")
                ):
                    process = int(environment.parent.name)
                    if process != ancestor:
                        yield process


def _descendants(ancestor: int) -> list[int]:
    """All descendants of a process, in any group."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [ancestor]
    for process in found:
        found += children.get(process, ())
    return found[1:]
