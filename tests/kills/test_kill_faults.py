"""What else can happen to a process that sends: the rows 10, 42, 47, 50, 52 and 53 of the fault matrix."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from kills.judge import judge, read_ledger
from kills.random_kills import kill_at_random
from kills.running_worker import RunningWorker
from kills.script import kill_capabilities, questions_of
from kills.trial import Bench
from kills.worker import IN_USE
from tailrace.deliveries import State
from tailrace.delivery.paced_channel import STALE_S
from tailrace.testing.faults import Delayed, NoAnswer, Rule
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.testing.wire import Account


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.db"


@pytest.fixture(scope="module")
def keyed() -> Iterator[PlatformProcess]:
    with PlatformProcess(kill_capabilities("keyed:300")) as platform:
        yield platform


@pytest.fixture
def platform(keyed: PlatformProcess) -> PlatformProcess:
    """A platform on which nothing has happened."""
    keyed.clear()
    keyed.clear_faults()
    return keyed


def promised(chat: str, questions: str) -> list[str]:
    return [text for question in questions_of(questions) if question.chat == chat for text in question.texts]


def examine(platform: PlatformProcess, ledger: Path, questions: str) -> Account:
    """See that people can read what they were to read, each thing once, and that nothing is open."""
    account = platform.account()
    verdict = judge(questions_of(questions), account.messages, read_ledger(ledger), doubt="none")
    assert verdict.violations == []
    return account


def run_to_end(platform: PlatformProcess, ledger: Path, *options: str, **environment: str) -> int:
    with RunningWorker(platform, ledger, *options, **environment) as worker:
        return worker.ended()


@pytest.mark.parametrize("kind", ["keyed", "unkeyed+hold"])
def test_row_10_killed_at_random_under_load_and_nothing_grows(kind: str) -> None:
    with Bench(kind) as bench:
        course = kill_at_random(bench, 12, seed=11)
    assert course.verdict.violations == []
    assert course.verdict.lost == 0
    assert course.kills == 12
    assert course.questions > 60


def test_row_42_an_event_that_comes_fifty_times_at_once_is_one_turn(platform: PlatformProcess, ledger: Path) -> None:
    options = ("--questions", "matrix", "--copies", "50")
    killed = run_to_end(platform, ledger, *options, CRASH="accept.after:60")
    assert killed == -signal.SIGKILL
    assert run_to_end(platform, ledger, *options) == 0
    examine(platform, ledger, "matrix")
    assert run_to_end(platform, ledger, *options) == 0
    examine(platform, ledger, "matrix")


def test_row_47_a_chat_that_never_answers_keeps_nobody_else(ledger: Path) -> None:
    with PlatformProcess(kill_capabilities("keyed:300", deadline_s=0.2)) as platform:
        platform.add_faults(Rule(fault=NoAnswer(applied=False), kind="post", chat="parts", times=None))
        with RunningWorker(platform, ledger, "--questions", "matrix") as worker:
            for chat in ("live", "tool", "left"):
                platform.wait(messages=len(promised(chat, "matrix")), chat=chat)
            # Its call is given up and made again, for as long as it takes; nothing else is sent there meanwhile.
            account = platform.wait(calls=len(calls_to(platform, "post")) + 1, kind="post")
            keys = {call.key for call in account.calls if call.chat == "parts"}
            assert len(keys) == 1
            assert platform.texts("parts") == []
            assert worker.process.poll() is None
            platform.clear_faults()
            assert worker.ended() == 0
        examine(platform, ledger, "matrix")


def calls_to(platform: PlatformProcess, kind: str) -> list[str]:
    return [call.key for call in platform.account().calls if call.kind == kind]


def states(ledger: Path) -> list[State]:
    return [row.state for row in read_ledger(ledger).rows]


def test_row_50_what_is_being_sent_is_finished(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Delayed(by_s=0.5))
    with RunningWorker(platform, ledger, "--questions", "chat:here:1") as worker:
        platform.wait(calls=1)
        worker.ask_to_stop()
        assert worker.ended() == 0
    assert states(ledger) == [State.DELIVERED, State.PLANNED]
    assert run_to_end(platform, ledger, "--questions", "chat:here:1") == 0
    assert examine(platform, ledger, "chat:here:1").counts["post"] == 3


def test_row_50_what_is_not_answered_in_time_is_marked(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Rule(fault=NoAnswer(), times=None))
    with RunningWorker(platform, ledger, "--questions", "matrix", "--drain-s", "0.1") as worker:
        platform.wait(calls=4)
        worker.ask_to_stop()
        assert worker.ended() == 0
    assert State.AMBIGUOUS in states(ledger)
    assert State.SENDING not in states(ledger)
    platform.clear_faults()
    assert run_to_end(platform, ledger) == 0
    examine(platform, ledger, "matrix")


def test_row_50_asked_again_it_ends_at_once_and_the_next_one_goes_on(platform: PlatformProcess, ledger: Path) -> None:
    platform.add_faults(Rule(fault=NoAnswer(), times=None))
    with RunningWorker(platform, ledger, "--questions", "matrix", "--drain-s", "600") as worker:
        platform.wait(calls=4)
        worker.ask_to_stop()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == -signal.SIGTERM
    assert State.SENDING in states(ledger)
    platform.clear_faults()
    assert run_to_end(platform, ledger) == 0
    examine(platform, ledger, "matrix")


@pytest.mark.parametrize("point", ["intent.after:1", "intent.after:2", "intent.after:3"], ids=["plan", "move", "end"])
def test_row_52_a_sender_that_stood_still_after_its_intent(platform: PlatformProcess, ledger: Path, point: str) -> None:
    rate = 100.0
    options = ("--questions", "chat:here:1", "--clock-rate", str(rate))
    with RunningWorker(platform, ledger, *options, "--stop-at", point) as worker:
        worker.wait_until_stopped()
        stopped_at = time.monotonic()
        while time.monotonic() - stopped_at <= STALE_S / rate:
            assert run_to_end(platform, ledger, *options) == IN_USE
        worker.process.send_signal(signal.SIGCONT)
        assert worker.ended() == 0
    account = examine(platform, ledger, "chat:here:1")
    assert account.counts["post"] == 3
    # What was decided before the stop was decided again after it.
    assert max(row.attempt for row in read_ledger(ledger).rows) > 1


@pytest.mark.parametrize("point", ["send.before:1", "send.written:1"])
def test_row_53_a_blocked_loop_is_told_of_and_its_send_counts(ledger: Path, point: str) -> None:
    with PlatformProcess(kill_capabilities("keyed:300", deadline_s=0.5)) as platform:
        options = ("--questions", "chat:here:1", "--block-at", point, "--watchdog-s", "0.8")
        with RunningWorker(platform, ledger, *options) as worker:
            assert worker.process.stderr is not None
            assert worker.process.stdin is not None
            assert b"the event loop has not answered for 0.8 s" in worker.process.stderr.readline()
            worker.process.stdin.write(b"\n")
            worker.process.stdin.flush()
            assert worker.ended() == 0
            told = worker.said()
        assert "os.read(0, 1)" in told, "the stack says where it hung"
        assert "has not answered" not in told, "once per stall"
        assert examine(platform, ledger, "chat:here:1").counts["post"] == 3
        # The deadline was over before anybody could look; what came of the send was there all the same.
        assert [row.attempt for row in read_ledger(ledger).rows] == [1, 1, 1]
