"""When schedules run: intervals, and cron expressions by the clock of the machine."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tailrace.config.timing import interval_seconds, next_cron_time

if TYPE_CHECKING:
    from collections.abc import Iterator

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def _clock_of_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86_400), ("366d", 31_622_400), ("09m", 540)]
)
def test_an_interval_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert interval_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "0s", "-1m", "1.5h", "5 m", "1w", "5M", "m", "367d", "1h30m", "٣m", "9" * 99]
)
def test_any_other_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number above 0 with s, m, h or d"):
        interval_seconds(text)


@pytest.mark.usefixtures("_clock_of_berlin")
@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 8 * * *", "2026-06-01 07:59:59", "2026-06-01 08:00"),
        ("0 8 * * *", "2026-06-01 08:00", "2026-06-02 08:00"),
        ("*/15 9-17 * * 1-5", "2026-06-05 17:45", "2026-06-08 09:00"),  # from Friday to Monday
        ("0 0 L * *", "2028-02-01 00:00", "2028-02-29 00:00"),
        ("30 2 * * *", "2026-03-28 12:00", "2026-03-29 03:30"),  # the clock skips 2:30 that night
    ],
)
def test_a_cron_expression_counts_by_the_local_clock(expression: str, after: str, expected: str) -> None:
    assert next_cron_time(expression, moment(after)) == moment(expected)


@pytest.mark.usefixtures("_clock_of_berlin")
def test_a_time_that_comes_twice_runs_once() -> None:
    first = next_cron_time("30 2 * * *", moment("2026-10-24 12:00"))
    assert first == moment("2026-10-25 02:30")
    assert next_cron_time("30 2 * * *", first) == moment("2026-10-26 02:30")
    in_the_second_hour = first + 3600 - 60
    assert next_cron_time("30 2 * * *", in_the_second_hour) == moment("2026-10-26 02:30")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "expected five fields"),
        ("0 8 * *", "expected five fields"),
        ("0 0 8 * * *", "expected five fields"),
        ("@daily", "expected five fields"),
        ("60 8 * * *", "expected a cron expression such as .*: bad minute"),
        ("0 8 * * MONDAY", "bad day-of-week"),
        ("0 0 30 2 *", "bad day-of-month"),
    ],
)
def test_a_wrong_cron_expression_says_what_is_wrong(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next_cron_time(expression, 0)
