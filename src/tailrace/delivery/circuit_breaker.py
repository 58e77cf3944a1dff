"""A circuit breaker: after several failures in a row it allows no calls for a while, and then one call as a test.

Pure: the time is an argument, from any clock that never goes back.

    closed     all calls are allowed; `_FAILURES_TO_OPEN` failures in a row open the breaker
    open       no call is allowed until a certain time
    half-open  one call is allowed; an answer closes the breaker, another failure opens it for longer

A refusal also counts as an answer: a failure means that the platform could not be reached or did not answer.
"""

from __future__ import annotations

_FAILURES_TO_OPEN = 5
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class CircuitBreaker:
    """Stops the calls to one platform after several failures in a row. Later it allows one call as a test."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until: float | None = None
        self._probe_until = float("-inf")

    def wait(self, now: float, *, probe_s: float) -> float:
        """The seconds until a call is allowed; 0 means: call now.

        If the breaker is half-open, a result of 0 allows only this caller's call: no other call is allowed for
        `probe_s` seconds, or until the outcome of this one is recorded.
        """
        if (due_in := self.due_in(now)) == 0 and not self.is_closed:
            self._probe_until = now + probe_s
        return due_in

    def due_in(self, now: float) -> float:
        """The seconds until `wait` would allow a call.

        Unlike `wait`, does not use up the test call of a half-open breaker.
        """
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - now, self._probe_until - now)

    @property
    def is_closed(self) -> bool:
        """Whether all calls are allowed."""
        return self._open_until is None

    def record_answer(self) -> None:
        """Record that the platform answered; a refusal is an answer too."""
        self._failures = 0
        self._open_until = None

    def record_failure(self, now: float, *, jitter: float) -> None:
        """Record that the platform could not be reached or did not answer. `jitter` is a random number from 0 to 1."""
        self._failures += 1
        self._probe_until = float("-inf")
        if self._failures >= _FAILURES_TO_OPEN:
            pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures - _FAILURES_TO_OPEN, 20))
            self._open_until = now + pause * (0.5 + jitter / 2)
