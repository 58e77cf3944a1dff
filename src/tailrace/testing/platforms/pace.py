"""The rates of a platform: how long a call has to wait, and which scopes are blocked after a refusal."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.capabilities import Rate


class CallPace:
    """Counts the calls of a bot against several rates. Each rate has a scope, such as one chat or the whole bot.

    A call may come `slack_s` seconds too early. After a refused call, `block` refuses all calls of its scopes for a
    time.
    """

    def __init__(self, *, slack_s: float) -> None:
        self._slack_s = slack_s
        self._times: dict[str, deque[float]] = {}
        self._blocked_until: dict[str, float] = {}

    def wait(self, rates: Mapping[str, Rate], now: float) -> float:
        """How many seconds a call must wait for all these rates. If that is 0, the call is counted. Does not sleep.

        The keys of `rates` are scopes: one chat, or all chats of the bot.
        """
        wait = max(self._wait(scope, rate, now) for scope, rate in rates.items())
        if wait == 0.0:
            for scope, rate in rates.items():
                self._times.setdefault(scope, deque(maxlen=rate.calls)).append(now)
        return wait

    def block(self, rates: Mapping[str, Rate], now: float, *, for_s: float) -> None:
        """For `for_s` seconds, refuse all calls in those of these scopes that allow no call now.

        A scope that is already blocked stays blocked as long as before.
        """
        for scope, rate in rates.items():
            if self._wait(scope, rate, now) > 0.0 and self._blocked_until.get(scope, 0.0) <= now:
                self._blocked_until[scope] = now + for_s

    def _wait(self, scope: str, rate: Rate, now: float) -> float:
        times = self._times.get(scope)
        full_s = times[0] + rate.per_s - now if times is not None and len(times) == rate.calls else 0.0
        return max(0.0, self._blocked_until.get(scope, now) - now, full_s if full_s > self._slack_s else 0.0)
