"""The judge of the trials sees what is wrong: it is shown trials that went well, with something changed afterwards."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import kills
from kills.judge import Claims, Verdict, judge, read_ledger
from kills.matrix import moments, repetition, spread
from kills.script import matrix_questions
from kills.trial import Bench, Trial
from tailrace.deliveries import State, TurnState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.wire import Message

Seen = tuple[list["Message"], Claims]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """What is there after a trial: the messages and the ledger."""
    with Bench("keyed") as bench:
        assert bench.trial().verdict == Verdict()
        return bench.platform.history(), read_ledger(bench.ledger)


def judged(messages: list[Message], claims: Claims) -> Verdict:
    return judge(matrix_questions(), messages, claims, doubt="none")


def test_what_went_well_is_found_so(seen: Seen) -> None:
    assert judged(*seen) == Verdict()


def twice(messages: list[Message]) -> list[Message]:
    return [*messages, replace(messages[0], message_id="m1000")]


def without_the_second(messages: list[Message]) -> list[Message]:
    return [messages[0], *messages[2:]]


def turned_round(messages: list[Message]) -> list[Message]:
    return messages[::-1]


def cut_short(messages: list[Message]) -> list[Message]:
    cut = [replace(message, body=replace(message.body, text=message.text[:5000])) for message in messages]
    assert cut != messages
    return cut


@pytest.mark.parametrize(
    ("change", "duplicates", "lost", "told"),
    [
        (twice, 1, 0, "no delivery accounts for it"),
        (without_the_second, 0, 1, "delivered and not there"),
        (turned_round, 0, 0, "out of order"),
        (cut_short, 0, 0, "not its last word"),
    ],
)
def test_what_people_see_amiss(
    seen: Seen, change: Callable[[list[Message]], list[Message]], duplicates: int, lost: int, told: str
) -> None:
    messages, claims = seen
    verdict = judged(change(messages), claims)
    assert (verdict.duplicates, verdict.lost) == (duplicates, lost)
    assert told in verdict.violations[0]


def test_what_the_ledger_claims_amiss(seen: Seen) -> None:
    messages, claims = seen
    first, *others = claims.rows
    for row, told in (
        (replace(first, state=State.SENDING), "still sending"),
        (replace(first, state=State.UNKNOWN), "is unknown"),
        (replace(first, may_be_double=True), "twice"),
    ):
        verdict = judged(messages, replace(claims, rows=[row, *others]))
        assert told in verdict.violations[0]
    cut_off = {name: replace(turn, state=TurnState.INTERRUPTED) for name, turn in claims.turns.items()}
    assert len(judged(messages, replace(claims, turns=cut_off)).violations) >= len(cut_off)
    assert judged(messages, replace(claims, waiting=1)).violations == ["1 conversations still wait"]


def test_a_duplicate_is_excused_only_where_it_is_marked_and_to_be_expected() -> None:
    with Bench("unkeyed+resend") as bench:
        trial = bench.trial("send.answered:1")
        assert trial.verdict.violations == []
        assert trial.verdict.duplicates > 0
        verdict = judged(bench.platform.history(), read_ledger(bench.ledger))
        assert verdict.violations != []


def test_a_share_is_spread_and_never_empty() -> None:
    assert spread(range(10), 1.0) == list(range(10))
    assert spread(range(10), 0.2) == [2, 7]
    assert spread(range(10), 0.0) == [5]
    assert moments({"accept.before": 3, "send.written": 1}) == [
        *("accept.before:1", "accept.before:2", "accept.before:3"),
        "send.written:1",
    ]
    assert moments({"accept.before": 9}, most=1) == ["accept.before:5"]


def test_the_command_repeats_what_it_was_told_to() -> None:
    chain = ("send.written:2", "recover.marked:1")
    trial = Trial(kind="keyed", chain=chain, verdict=Verdict(), runs=3, kills=2, passed={}, recovering={})
    make, target, setting = shlex.split(repetition(trial))
    assert (make, target) == ("make", "kills")
    command = [sys.executable, "-m", "kills.matrix", *setting.removeprefix("KILLS=").split()]
    result = subprocess.run(command, check=False, env=kills.environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [cell.strip() for cell in result.stdout.splitlines()[-2].split("│")[1:-1]] == [
        *("all", "1", "3", "2"),
        *("0",) * 7,
    ]
