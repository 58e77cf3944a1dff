"""When a schedule runs: intervals such as `5m`, and cron expressions such as `0 8 * * *`.

A cron expression counts by the clock of this machine. When the clock is set forward (summer time), a skipped time runs
an hour later; when it is set back, a time that comes twice runs once.
"""

from __future__ import annotations

import re
from datetime import datetime

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 366 * 86_400


def interval_seconds(text: str) -> int:
    """The number of seconds of an interval such as `5m`. Raises `ValueError`, which says what is expected."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text, re.ASCII)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        raise ValueError('expected a number above 0 with s, m, h or d, such as "30s" or "1d", and at most a year')
    return seconds


def next_cron_time(expression: str, after: float) -> float:
    """The first time after `after` that matches the cron expression. Both are in seconds since 1970.

    Raises `ValueError` if the expression is wrong.
    """
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 -- only a schedule with cron needs it

    if len(expression.split()) != 5:
        raise ValueError('expected five fields (minute hour day month weekday), such as "0 8 * * *"')
    local = datetime.fromtimestamp(after)  # noqa: DTZ006 -- cron counts by the clock of this machine
    try:
        # The expression may give the hour that the clock repeats; those times are not after this one.
        return next(time for found in CronSim(expression, local) if (time := found.timestamp()) > after)
    except CronSimError as error:
        raise ValueError(f'expected a cron expression such as "0 8 * * *": {str(error).lower()}') from error
    except StopIteration as error:
        raise ValueError("expected a cron expression that comes true at some time") from error
