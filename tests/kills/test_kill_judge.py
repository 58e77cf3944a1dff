"""The judge of the kill trials finds what is wrong: a trial that went well is shown to it with a change."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import kills
from kills.judge import LedgerContent, Verdict, judge, read_ledger
from kills.matrix import command_of, moments, spread
from kills.script import matrix_questions
from kills.trial import Trial, TrialRunner
from tailrace.deliveries import State, TurnState

if TYPE_CHECKING:
    from tailrace.testing.wire import PlatformMessage

Seen = tuple[list["PlatformMessage"], LedgerContent]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """The messages and the ledger after a trial without a kill."""
    with TrialRunner("keyed") as runner:
        assert runner.trial().verdict == Verdict()
        return runner.platform.history(), read_ledger(runner.ledger)


def judged(messages: list[PlatformMessage], content: LedgerContent) -> Verdict:
    return judge(matrix_questions(), messages, content, doubt="none")


def test_wrong_messages_are_found(seen: Seen) -> None:
    messages, content = seen
    assert judged(messages, content) == Verdict()
    cut = [replace(message, body=replace(message.body, text=message.text[:5000])) for message in messages]
    for changed, duplicates, lost, violation in (
        ([*messages, replace(messages[0], message_id="m1000")], 1, 0, "has no delivery"),
        ([messages[0], *messages[2:]], 0, 1, "is delivered and has no message"),
        (messages[::-1], 0, 0, "out of order"),
        (cut, 0, 0, "not its last text"),
    ):
        verdict = judged(changed, content)
        assert (verdict.duplicates, verdict.lost) == (duplicates, lost)
        assert violation in verdict.violations[0]


def test_a_wrong_ledger_is_found(seen: Seen) -> None:
    messages, content = seen
    first, *others = content.rows
    for row, violation in (
        (replace(first, state=State.SENDING), "still sending"),
        (replace(first, state=State.UNKNOWN), "is unknown"),
        (replace(first, may_be_double=True), "twice"),
    ):
        assert violation in judged(messages, replace(content, rows=[row, *others])).violations[0]
    interrupted = {name: replace(turn, state=TurnState.INTERRUPTED) for name, turn in content.turns.items()}
    assert len(judged(messages, replace(content, turns=interrupted)).violations) >= len(interrupted)
    still_open = judged(messages, replace(content, open_conversations=1))
    assert still_open.violations == ["1 conversations have open deliveries"]


def test_a_duplicate_is_excused_only_if_it_is_marked() -> None:
    with TrialRunner("unkeyed+resend") as runner:
        trial = runner.trial("send.answered:1")
        assert trial.verdict.violations == []
        assert trial.verdict.duplicates > 0
        assert judged(runner.platform.history(), read_ledger(runner.ledger)).violations != []


def test_a_share_is_spread_and_never_empty() -> None:
    assert spread(range(10), 1.0) == list(range(10))
    assert spread(range(10), 0.2) == [2, 7]
    assert spread(range(10), 0.0) == [5]
    assert moments({"accept.before": 2, "send.written": 1}) == ["accept.before:1", "accept.before:2", "send.written:1"]
    assert moments({"accept.before": 9}, limit=1) == ["accept.before:5"]


def test_the_printed_command_repeats_a_trial() -> None:
    chain = ("send.written:2", "recover.marked:1")
    trial = Trial(kind="keyed", chain=chain, verdict=Verdict(), runs=3, kills=2, reached={}, reached_in_recovery={})
    make, target, setting = shlex.split(command_of(trial))
    assert (make, target) == ("make", "kills")
    command = [sys.executable, "-m", "kills.matrix", *setting.removeprefix("KILLS=").split()]
    result = subprocess.run(command, check=False, env=kills.environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].split() == ["all", "1", "3", "2", *("0",) * 7]
