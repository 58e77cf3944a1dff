"""A circuit breaker: after several failures in a row a platform is left alone, then tried with one call.

Pure: the time is an argument, from any clock that never goes back.

    closed     all calls may go; `_FAILURES_TO_OPEN` failures in a row open it
    open       no call may go until a certain time
    half-open  one call may go; an answer closes the breaker, another failure opens it for longer

Any answer counts as one, also a refusal: what fails is the way to the platform, not the message.
"""

from __future__ import annotations

_FAILURES_TO_OPEN = 5
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class CircuitBreaker:
    """The circuit breaker of one platform."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until: float | None = None
        self._probe_until = float("-inf")

    def wait(self, now: float, *, probe_s: float) -> float:
        """The seconds until asking again; 0: call now. In half-open state that is the one call, given `probe_s`."""
        if (due_in := self.due_in(now)) == 0 and not self.is_closed:
            self._probe_until = now + probe_s
        return due_in

    def due_in(self, now: float) -> float:
        """Like `wait`, without taking the one call."""
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - now, self._probe_until - now)

    @property
    def is_closed(self) -> bool:
        """Whether all calls may go."""
        return self._open_until is None

    def record_answer(self) -> None:
        """The platform answered, whatever the answer was."""
        self._failures = 0
        self._open_until = None

    def record_failure(self, now: float, *, jitter: float) -> None:
        """The platform could not be reached or did not answer. `jitter` is a random number from 0 to 1."""
        self._failures += 1
        self._probe_until = float("-inf")
        if self._failures >= _FAILURES_TO_OPEN:
            pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures - _FAILURES_TO_OPEN, 20))
            self._open_until = now + pause * (0.5 + jitter / 2)
