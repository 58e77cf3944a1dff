"""Other faults of the real command: the rows 42, 47, 50, 52 and 53 of the fault matrix."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from kills.judge import judge
from kills.start import CommandStarter, Signal, Start
from kills.trial import Kill, TrialRunner
from tailrace.deliveries import State
from tailrace.testing.faults import Delayed, NoAnswer, Rule
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kills.turns import TurnInput

_LOOK_AGAIN_S = 0.01


@pytest.fixture(scope="module")
def keyed() -> Iterator[TrialRunner]:
    with TrialRunner("keyed", deadline_s=0.5) as runner:
        yield runner


@pytest.fixture
def runner(keyed: TrialRunner) -> TrialRunner:
    keyed.clear()
    return keyed


def check(runner: TrialRunner, given: TurnInput) -> None:
    """Check that people can read the whole answer once, and that nothing is open."""
    messages = runner.platform.history(given.chat)
    assert judge(given, runner.kind, messages, runner.content(given)).all == []
    assert runner.platform.texts(given.chat) == given.paragraphs


def states(runner: TrialRunner, given: TurnInput) -> list[State]:
    return [row.state for row in runner.content(given).rows]


def wait(runner: TrialRunner, **reached: Any) -> None:
    """Wait until there are that many messages and calls."""
    assert isinstance(runner.platform, PlatformProcess)
    runner.platform.wait(**reached)


def wait_for_log(runner: TrialRunner, words: str) -> None:
    while words not in runner.log:
        assert not runner.starter.ends_within(_LOOK_AGAIN_S), runner.log


def test_row_42_the_same_input_many_times_is_one_turn(runner: TrialRunner) -> None:
    given = runner.new_turn()
    for at in (1, 2, 2):
        assert runner.kill(Kill("held", at), given)
    for _ in range(10):
        assert runner.run(given) == 0
    check(runner, given)
    assert len(runner.platform.history(given.chat)) == len(given.paragraphs)


def test_row_47_a_chat_that_never_answers_does_not_block_others(runner: TrialRunner) -> None:
    hangs, other = runner.new_turn(), runner.new_turn()
    for given in (hangs, other):
        assert runner.kill(Kill("held", 1, applied=False), given)
    runner.platform.add_faults(Rule(fault=NoAnswer(applied=False), chat=hangs.chat, times=None))
    runner.start(None)
    wait(runner, messages=1, chat=other.chat)
    posts = sum(call.chat == hangs.chat for call in runner.platform.account().calls)
    while sum(call.chat == hangs.chat for call in runner.platform.account().calls) < posts + 2:
        assert not runner.starter.ends_within(_LOOK_AGAIN_S), "its call times out and is repeated"
    runner.platform.clear_faults()
    assert runner.starter.wait() == 0
    check(runner, hangs)
    check(runner, other)


def test_row_50_sigterm_lets_the_current_call_finish(runner: TrialRunner) -> None:
    given = runner.new_turn()
    runner.platform.add_faults(Delayed(by_s=0.3))
    runner.start(given)
    wait(runner, calls=1)
    runner.starter.send(Signal(signal.SIGTERM))
    assert runner.starter.wait() == 1
    assert states(runner, given)[0] is State.DELIVERED
    assert len(runner.platform.texts(given.chat)) == 1
    assert runner.run(given) == 0
    check(runner, given)


def test_row_50_a_second_sigterm_ends_the_process_at_once(runner: TrialRunner) -> None:
    given = runner.new_turn()
    runner.platform.add_faults(Rule(fault=NoAnswer(), times=None))
    runner.start(given)
    wait(runner, calls=1)
    runner.starter.send(Signal(signal.SIGTERM))
    wait_for_log(runner, "stopping")
    runner.starter.send(Signal(signal.SIGTERM))
    assert runner.starter.wait() == 1
    runner.platform.clear_faults()
    assert runner.run(given) == 0
    check(runner, given)


def test_rows_52_and_53_a_stopped_process_keeps_its_ledger_and_its_call(runner: TrialRunner) -> None:
    given = runner.new_turn()
    runner.platform.add_faults(Delayed(by_s=0.2))
    runner.start(given)
    wait(runner, calls=1)
    runner.starter.send(Signal(signal.SIGSTOP))
    with CommandStarter() as other:
        arguments = [*given.arguments, "--ledger", str(runner.ledger)]
        log = str(runner.ledger.parent.parent / "other")
        other.send(Start(argv=arguments, environment=runner.platform.environment, given=given.lines, log=log))
        assert other.wait() == 1, "another process has the ledger"
    assert not runner.starter.ends_within(0.6), "longer than a call may take; the answer arrives meanwhile"
    runner.starter.send(Signal(signal.SIGCONT))
    assert runner.starter.wait() == 0
    check(runner, given)
    assert {row.attempt for row in runner.content(given).rows} == {1}
