"""Other faults of a process that sends: the rows 10, 42, 47, 50, 52 and 53 of the fault matrix."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from kills.judge import judge, read_ledger
from kills.random_kills import kill_at_random
from kills.running_worker import RunningWorker
from kills.script import kill_capabilities, questions_of
from kills.trial import TrialRunner
from kills.worker import IN_USE
from tailrace.deliveries import State
from tailrace.delivery.pace import STALE_S
from tailrace.testing.faults import Delayed, NoAnswer, Rule
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.testing.wire import PlatformReport


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.db"


@pytest.fixture(scope="module")
def keyed() -> Iterator[PlatformProcess]:
    with PlatformProcess(kill_capabilities("keyed:300")) as platform:
        yield platform


@pytest.fixture
def platform(keyed: PlatformProcess) -> PlatformProcess:
    """A platform without messages and faults."""
    keyed.clear()
    keyed.clear_faults()
    return keyed


def answers_in(chat: str, questions: str) -> list[str]:
    return [text for question in questions_of(questions) if question.chat == chat for text in question.texts]


def check(platform: PlatformProcess, ledger: Path, questions: str) -> PlatformReport:
    """Check that people can read each answer once, and that nothing is open."""
    account = platform.account()
    verdict = judge(questions_of(questions), account.messages, read_ledger(ledger), doubt="none")
    assert verdict.violations == []
    return account


def run_to_end(platform: PlatformProcess, ledger: Path, *options: str) -> int:
    with RunningWorker(platform, ledger, *options) as worker:
        return worker.wait()


@pytest.mark.parametrize("kind", ["keyed", "unkeyed+hold"])
def test_row_10_random_kills_under_load(kind: str) -> None:
    with TrialRunner(kind) as runner:
        result = kill_at_random(runner, 12, seed=11)
    assert result.verdict.violations == []
    assert result.verdict.lost == 0
    assert result.kills == 12
    assert result.questions > 60


def test_row_42_fifty_copies_of_an_event_are_one_turn(platform: PlatformProcess, ledger: Path) -> None:
    options = ("--questions", "matrix", "--copies", "50")
    killed = run_to_end(platform, ledger, *options, "--kill-at", "accept.after:60")
    assert killed == -signal.SIGKILL
    assert run_to_end(platform, ledger, *options) == 0
    check(platform, ledger, "matrix")
    assert run_to_end(platform, ledger, *options) == 0
    check(platform, ledger, "matrix")


def test_row_47_a_chat_that_never_answers_does_not_block_others(ledger: Path) -> None:
    with PlatformProcess(kill_capabilities("keyed:300", deadline_s=0.2)) as platform:
        platform.add_faults(Rule(fault=NoAnswer(applied=False), kind="post", chat="parts", times=None))
        with RunningWorker(platform, ledger, "--questions", "matrix") as worker:
            for chat in ("live", "tool", "left"):
                platform.wait(messages=len(answers_in(chat, "matrix")), chat=chat)
            # Its call times out and is repeated; nothing else is sent there meanwhile.
            account = platform.wait(calls=len(calls_to(platform, "post")) + 1, kind="post")
            keys = {call.key for call in account.calls if call.chat == "parts"}
            assert len(keys) == 1
            assert platform.texts("parts") == []
            assert worker.process.poll() is None
            platform.clear_faults()
            assert worker.wait() == 0
        check(platform, ledger, "matrix")


def calls_to(platform: PlatformProcess, kind: str) -> list[str]:
    return [call.key for call in platform.account().calls if call.kind == kind]


def states(ledger: Path) -> list[State]:
    return [row.state for row in read_ledger(ledger).rows]


def test_row_50_sigterm_lets_the_current_send_finish(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Delayed(by_s=0.5))
    with RunningWorker(platform, ledger, "--questions", "chat:here:1") as worker:
        platform.wait(calls=1)
        worker.ask_to_stop()
        assert worker.wait() == 0
    assert states(ledger) == [State.DELIVERED, State.PLANNED]
    assert run_to_end(platform, ledger, "--questions", "chat:here:1") == 0
    assert check(platform, ledger, "chat:here:1").counts["post"] == 3


def test_row_50_sends_without_an_answer_become_ambiguous_after_sigterm(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Rule(fault=NoAnswer(), times=None))
    with RunningWorker(platform, ledger, "--questions", "matrix", "--drain-s", "0.1") as worker:
        platform.wait(calls=4)
        worker.ask_to_stop()
        assert worker.wait() == 0
    assert State.AMBIGUOUS in states(ledger)
    assert State.SENDING not in states(ledger)
    platform.clear_faults()
    assert run_to_end(platform, ledger) == 0
    check(platform, ledger, "matrix")


def test_row_50_a_second_sigterm_ends_the_process_at_once(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Rule(fault=NoAnswer(), times=None))
    with RunningWorker(platform, ledger, "--questions", "matrix", "--drain-s", "600") as worker:
        platform.wait(calls=4)
        worker.ask_to_stop()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == -signal.SIGTERM
    assert State.SENDING in states(ledger)
    platform.clear_faults()
    assert run_to_end(platform, ledger) == 0
    check(platform, ledger, "matrix")


@pytest.mark.parametrize("point", ["intent.after:1", "intent.after:2", "intent.after:3"], ids=["plan", "move", "end"])
def test_row_52_a_sender_that_was_stopped_after_its_intent(platform: PlatformProcess, ledger: Path, point: str) -> None:
    rate = 100.0
    options = ("--questions", "chat:here:1", "--clock-rate", str(rate))
    with RunningWorker(platform, ledger, *options, "--stop-at", point) as worker:
        worker.wait_until_stopped()
        stopped_at = time.monotonic()
        while time.monotonic() - stopped_at <= STALE_S / rate:
            assert run_to_end(platform, ledger, *options) == IN_USE
        worker.process.send_signal(signal.SIGCONT)
        assert worker.wait() == 0
    account = check(platform, ledger, "chat:here:1")
    assert account.counts["post"] == 3
    # The decision from before the stop was made again after it.
    assert max(row.attempt for row in read_ledger(ledger).rows) > 1


@pytest.mark.parametrize("point", ["send.before:1", "send.written:1"])
def test_row_53_a_blocked_loop_is_reported_and_its_send_counts(ledger: Path, point: str) -> None:
    with PlatformProcess(kill_capabilities("keyed:300", deadline_s=0.5)) as platform:
        options = ("--questions", "chat:here:1", "--block-at", point, "--watchdog-s", "0.8")
        with RunningWorker(platform, ledger, *options) as worker:
            assert worker.process.stderr is not None
            assert worker.process.stdin is not None
            assert b"the event loop has not answered for 0.8 s" in worker.process.stderr.readline()
            worker.process.stdin.write(b"\n")
            worker.process.stdin.flush()
            assert worker.wait() == 0
            errors = worker.errors()
        assert "os.read(0, 1)" in errors, "the stack shows where it hung"
        assert "has not answered" not in errors, "once per stall"
        assert check(platform, ledger, "chat:here:1").counts["post"] == 3
        # The deadline was over before the loop could notice, and yet the answer had arrived.
        assert [row.attempt for row in read_ledger(ledger).rows] == [1, 1, 1]
