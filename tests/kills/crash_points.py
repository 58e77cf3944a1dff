"""Named moments of a process at which a test can kill it, stop it, or make it wait.

A test runs a worker once and counts how often it reaches each point; then it kills one worker at each of these times.
Product code has no such points: `kills.crash` puts them around the ledger, the channel and the database connection.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# In the order in which a turn reaches them.
CRASH_POINTS = (
    *("accept.before", "accept.after", "begin.before", "begin.after", "plan.before", "plan.after"),
    *("intent.before", "intent.after", "send.before", "send.written", "send.answered"),
    *("outcome.before", "outcome.after", "turn.before", "turn.after"),
    *("recover.marked", "tx.before_commit", "tx.after_commit"),
)


class CrashPoints:
    """The points of one process. `actions`: what happens the n-th time a point is reached, as in `intent.after:3`.

    `kill` sends SIGKILL to the process and `stop` SIGSTOP. `block` lets the thread wait for a byte of standard input.
    `count_into` gets a line each time a point is reached.
    """

    def __init__(
        self, actions: Mapping[str, Literal["kill", "stop", "block"]], *, count_into: Path | None = None
    ) -> None:
        self._actions = {_checked(moment): action for moment, action in actions.items()}
        self._count_into = count_into
        self._reached: Counter[str] = Counter()
        # The points of a transaction are reached in the thread that writes.
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        assert name in CRASH_POINTS, f"{name} is no crash point"
        with self._lock:
            self._reached[name] += 1
            action = self._actions.get(f"{name}:{self._reached[name]}")
            if self._count_into is not None:
                with self._count_into.open("ab", buffering=0) as file:
                    file.write(f"{name}\n".encode("ascii"))
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        if action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if action == "block":
            os.read(0, 1)


def _checked(moment: str) -> str:
    name, _, number = moment.partition(":")
    if name not in CRASH_POINTS or not number.isdecimal() or int(number) < 1:
        raise ValueError(f"{moment} never happens: name one of {', '.join(CRASH_POINTS)}, a colon and a number")
    return moment
