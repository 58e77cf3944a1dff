"""Moments at which a process kills itself, by name: with `CRASH=intent.after:3` it dies at the third of that name.

Two settings of the environment, both off by default:

    CRASH=name[:n]      SIGKILL to itself at the n-th passing of the point (the first unless told)
    CRASH_COUNT=path    one line per passing is added to the file: `read_counts` says how often each was passed

A harness runs once with `CRASH_COUNT`, then once for every passing of every point. Product code has no such points:
`kills.crash` puts them around its ports.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# In the order in which the life of a turn passes them.
_NAMES = (
    *("accept.before", "accept.after", "begin.before", "begin.after", "plan.before", "plan.after"),
    *("intent.before", "intent.after", "send.before", "send.written", "send.answered"),
    *("outcome.before", "outcome.after", "turn.before", "turn.after"),
    *("recover.marked", "tx.before_commit", "tx.after_commit"),
)


def crash_points() -> tuple[str, ...]:
    """The names of all points."""
    return _NAMES


def read_counts(path: Path) -> dict[str, int]:
    """How often each point was passed by the processes that ran with `CRASH_COUNT=path`; those never passed are 0."""
    passed = Counter(path.read_text(encoding="ascii").split()) if path.exists() else Counter[str]()
    return {name: passed[name] for name in _NAMES}


class CrashPoints:
    """The points of one process: dies at one passing of one of them, and writes down all, as it was asked."""

    def __init__(self, *, crash: tuple[str, int] | None = None, count_into: Path | None = None) -> None:
        self._crash = crash
        self._count_into = count_into
        self._passed: Counter[str] = Counter()
        # The points of a transaction are passed in the thread that writes.
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        """This point is passed now; returns unless it was the last."""
        assert name in _NAMES, f"{name} is no crash point"
        with self._lock:
            self._passed[name] += 1
            if self._count_into is not None:
                with self._count_into.open("ab", buffering=0) as file:
                    file.write(f"{name}\n".encode("ascii"))
            if self._crash == (name, self._passed[name]):
                os.kill(os.getpid(), signal.SIGKILL)


def points_of_environment(environment: Mapping[str, str] = os.environ) -> CrashPoints | None:
    """What the environment asks for: the same points for everybody in this process, or None where it asks for none."""
    crash, count = environment.get("CRASH", ""), environment.get("CRASH_COUNT", "")
    return _points(crash, count) if crash or count else None


@cache
def _points(crash: str, count: str) -> CrashPoints:
    return CrashPoints(crash=parse_crash(crash) if crash else None, count_into=Path(count) if count else None)


def parse_crash(text: str) -> tuple[str, int]:
    """A point and the passing at which to die. Raises `UsageError` for anything that would never happen."""
    name, colon, number = text.partition(":")
    if name not in _NAMES:
        raise UsageError(f"CRASH={text}: there is no point {name!r}. There are: {', '.join(_NAMES)}.")
    if not colon:
        return name, 1
    if not (number.isascii() and number.isdigit() and int(number) > 0):
        raise UsageError(
            f"CRASH={text}: after the colon stands at which passing to die, counted from 1, not {number!r}."
        )
    return name, int(number)
