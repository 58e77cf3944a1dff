"""All that an agent's command starts, wherever it has gone: found, held still, and ended.

A command's tools leave its process group, and those that are begun twice over leave its family as well. They are known
by their descent and by a word in their environment, which is handed on to whoever is started; both as far as the
platform shows them (`/proc`). Whoever drops the word and leaves the family is not found.
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

_WORD = "TAILRACE_AGENT"


class ProcessTree:
    """Those of one command, which all have its `name` in their environment; `environment` is for the command."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        # An agent may run us in turn: those are of both.
        self.environment = {_WORD: f"{os.environ.get(_WORD, '')}/{self.name}"}
        self._found: set[int] = set()

    def hold(self, ancestor: int | None) -> None:
        """Stop them all, those that one begins before it is stopped as well; `ancestor` is the command, if it runs."""
        self._found = set()
        while new := set(self._look(ancestor)) - self._found:
            self._found |= new
            self._signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End those that were stopped."""
        self._signal(signal.SIGKILL)

    def are_gone(self) -> bool:
        """Whether none of those is left; the orphans among them that fell to us are buried."""
        for process in self._found:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        """Signal each; whether anybody was there."""
        is_there = False
        for process in self._found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
                is_there = True
        return is_there

    def _look(self, ancestor: int | None) -> Iterator[int]:
        yield from () if ancestor is None else _descendants(ancestor)
        word, name = f"{_WORD}=".encode(), self.name.encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # it is another user's, or has ended since it was listed
                held = environment.read_bytes()
                if name in held and any(entry.startswith(word) and name in entry for entry in held.split(b"\0")):
                    process = int(environment.parent.name)
                    if process != ancestor:
                        yield process


def _descendants(ancestor: int) -> list[int]:
    """All processes that descend from one, whichever group they are in."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [ancestor]
    for process in found:
        found += children.get(process, ())
    return found[1:]
