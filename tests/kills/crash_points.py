"""Named moments of the real command at which it kills itself. The command does not know them.

A profile function sees calls and returns of a few functions in all threads:

    commit.before    all changes of a transaction are made, and it is not committed
    commit.after     it is committed, and no caller knows it yet
    send.before      the intent is recorded, and no byte was sent
    send.answered    the answer was read, and nothing is recorded of it

That a request has left is seen by the platform: there `kills.trial` kills from outside.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from tailrace.channels.slack import channel as slack
from tailrace.channels.telegram.channel import TelegramChannel
from tailrace.ledger.writer import Writer
from tailrace.testing import simulated

if TYPE_CHECKING:
    from types import CodeType, FrameType

_POINTS: dict[str, tuple[tuple[CodeType, ...], str]] = {
    "commit.before": ((Writer._apply_all.__code__,), "return"),
    "commit.after": ((Writer._answer.__code__,), "call"),
    "send.before": (
        (
            simulated.SimulatedChannel._connect.__code__,
            slack.SlackChannel.post.__code__,
            TelegramChannel.post.__code__,
        ),
        "call",
    ),
    "send.answered": (
        (simulated._receipt.__code__, slack._receipt.__code__, TelegramChannel._receipt.__code__),
        "call",
    ),
}
POINTS = tuple(_POINTS)


def kill_at(moment: str) -> None:
    """Kill this process when it reaches a point the n-th time, as in `commit.after:3`. Does nothing for ""."""
    if not moment:
        return
    name, _, number = moment.partition(":")
    codes, wanted = _POINTS[name]
    reached: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ARG001 -- the signature of Python
        # A coroutine that goes on is called again: its first instruction is behind it then.
        is_begin = frame.f_lineno == frame.f_code.co_firstlineno
        if frame.f_code in codes and event == wanted and (wanted == "return" or is_begin):
            reached[name] += 1
            if reached[name] == int(number):
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(profile)
    sys.setprofile(profile)
