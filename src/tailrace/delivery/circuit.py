"""Whether a platform is worth calling: after failures in a row it is left alone, then tried by one.

Pure: the time is an argument, any clock that never goes back.

    closed     everybody calls; `_MANY` failures in a row open it
    open       nobody calls until a time
    half-open  one calls; an answer closes it, another failure opens it for longer

Any answer of the platform counts as one, also a refusal: what fails is the way to it, not the message.
"""

from __future__ import annotations

_MANY = 5
_FIRST_S = 1.0
_LONGEST_S = 60.0


class Circuit:
    """One platform, seen from here."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_until: float | None = None
        self._probe_until = float("-inf")

    def wait(self, now: float, *, probe_s: float) -> float:
        """The seconds until it is worth asking again; 0: call now. A probe may take `probe_s` to be answered."""
        if (due_in := self.due_in(now)) == 0 and not self.is_closed:
            self._probe_until = now + probe_s
        return due_in

    def due_in(self, now: float) -> float:
        """As `wait`, for somebody who only looks."""
        if self._closed_until is None:
            return 0.0
        return max(0.0, self._closed_until - now, self._probe_until - now)

    @property
    def is_closed(self) -> bool:
        """Whether everybody may call."""
        return self._closed_until is None

    def answered(self) -> None:
        """The platform answered, whatever it said."""
        self._failures = 0
        self._closed_until = None

    def failed(self, now: float, *, jitter: float) -> None:
        """The platform could not be reached, or did not answer; `jitter` is a number from 0 to 1."""
        self._failures += 1
        self._probe_until = float("-inf")
        if self._failures >= _MANY:
            longer = min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures - _MANY, 20))
            self._closed_until = now + longer * (0.5 + jitter / 2)
