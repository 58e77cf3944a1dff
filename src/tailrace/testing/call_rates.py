"""Checks whether callers keep the rates that a platform declares. A call counts for its chat, its group and overall.

This code shares nothing with the rate limiter that it checks. `tailrace.testing.platform` decides what happens to a
call that comes too early.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities, Rate
    from tailrace.operations import Target

# A rounding error of this size is allowed: a caller that waits exactly long enough may seem to come too early.
_ROUNDING_S = 1e-6


class CallRates:
    """Remembers the latest calls of all chats. A call that is less than `slack_s` seconds too early is not reported."""

    def __init__(self, capabilities: Capabilities, *, slack_s: float) -> None:
        self._rates: dict[Literal["chat", "group", "overall"], Rate | None] = {
            "chat": capabilities.per_chat,
            "group": capabilities.per_group,
            "overall": capabilities.overall,
        }
        self._slack_s = slack_s
        self._groups: set[str] = set()
        self._times: dict[tuple[str, str], deque[float]] = {}

    def too_early(self, target: Target, now: float) -> list[tuple[float, bool]]:
        """For each rate that this call breaks: the missing seconds, and whether the rate is for all chats."""
        if target.group:
            self._groups.add(target.chat)
        waits = [
            (times[0] + rate.per_s - now, of == "overall")
            for of, rate, times in self._windows(target.chat)
            if len(times) == rate.calls
        ]
        return [(wait, everywhere) for wait, everywhere in waits if wait > self._slack_s + _ROUNDING_S]

    def count(self, target: Target, now: float) -> None:
        """Count the call."""
        for _of, _rate, times in self._windows(target.chat):
            times.append(now)

    def _windows(self, chat: str) -> list[tuple[str, Rate, deque[float]]]:
        return [
            (of, rate, self._times.setdefault((of, "" if of == "overall" else chat), deque(maxlen=rate.calls)))
            for of, rate in self._rates.items()
            if rate is not None and (of != "group" or chat in self._groups)
        ]
