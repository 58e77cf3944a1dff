"""How long a receiver waits before it connects again."""

from __future__ import annotations

from tailrace.errors import AccessLost, NotSent

_FIRST_S, _LONGEST_S = 0.5, 30.0
_ACCESS_S = 60.0


def reconnect_wait_s(error: Exception, failures: int, jitter: float) -> float:
    """The seconds to wait after the latest of so many failures in a row. `jitter` is a random number from 0 to 1."""
    if isinstance(error, AccessLost):
        wait_s = _ACCESS_S
    elif isinstance(error, NotSent) and error.retry_after:
        wait_s = error.retry_after
    else:
        wait_s = min(_LONGEST_S, _FIRST_S * 2.0 ** min(failures - 1, 10))
    return wait_s * (0.75 + jitter / 2)
