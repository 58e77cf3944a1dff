"""The process `tailrace run` begins and ends in good order: signals, a wrong token, no network."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from async_test import async_test
from gateway_kills.agent import RUNS, words_of
from gateway_kills.judge import WORD, content_of
from gateway_kills.people import Person
from gateway_kills.trial import TESTS
from pseudo_terminal import TAILRACE
from tailrace.deliveries import TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.platforms.telegram import TelegramSimulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PERSON = Person(number=1, channel="simulated", messages=["slow 1x0", "text 1x1"])
_ENDS_WITHIN_S = 30.0


class Run:
    """A gateway in a process. `log` is what it has written."""

    def __init__(self, folder: Path, environment: dict[str, str], channel: str, drain_s: float) -> None:
        self._log = folder / f"log {len(list(folder.glob('log *')))}"
        self.ledger = folder / "ledger.db"
        (folder / "runs").touch()
        command = [TAILRACE, "run", "gateway_kills.agent:answer", "--channel", channel, "--allow", "*"]
        command += ["--ledger", str(self.ledger), "--set", f"gateway.drain_s={drain_s}"]
        environment = {**os.environ, **environment, RUNS: str(folder / "runs"), "PYTHONPATH": str(TESTS)}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, is_reached: Callable[[], bool]) -> None:
        """Look again and again until something is true, as long as the process runs."""
        while not is_reached():
            assert self.process.poll() is None, self.log
            time.sleep(0.02)

    def wait(self) -> int:
        return self.process.wait(_ENDS_WITHIN_S)


@contextmanager
def running(
    folder: Path, environment: dict[str, str], channel: str = "simulated", drain_s: float = 10.0
) -> Iterator[Run]:
    run = Run(folder, environment, channel, drain_s)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


@pytest.fixture
def platform() -> Iterator[PlatformProcess]:
    with PlatformProcess("keyed:300") as started:
        yield started


def words(platform: PlatformProcess) -> list[str]:
    return WORD.findall(" ".join(platform.texts(PERSON.chat)))


def state(run: Run, index: int) -> TurnState:
    return content_of(run.ledger).turns[PERSON.messages[index]].state


def test_sigterm_lets_the_answer_end(platform: PlatformProcess, tmp_path: Path) -> None:
    with running(tmp_path, platform.environment) as run:
        platform.add_inbound(PERSON.message(0))
        run.until(lambda: (tmp_path / "runs").read_text() == "1x0\n")
        run.process.send_signal(signal.SIGTERM)
        run.until(lambda: "stopping: answers that are being written have 10 s to end" in run.log)
        platform.add_inbound(PERSON.message(1))
        assert run.wait() == 0
    assert len(words(platform)) == len(words_of("slow", "1x0"))
    assert state(run, 0) is TurnState.DONE
    with running(tmp_path, platform.environment) as run:
        platform.wait(messages=2)
        run.until(lambda: len(words(platform)) == len(words_of("slow", "1x0")) + len(words_of("text", "1x1")))
    assert (tmp_path / "runs").read_text() == "1x0\n1x1\n", "the message that came during the drain is answered later"


def test_sigterm_ends_within_its_deadline_and_a_second_one_at_once(platform: PlatformProcess, tmp_path: Path) -> None:
    with running(tmp_path, platform.environment, drain_s=0.3) as run:
        platform.add_inbound(PERSON.message(0))
        run.until(lambda: bool((tmp_path / "runs").read_text()))
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
    assert state(run, 0) is TurnState.RUNNING
    with running(tmp_path, platform.environment) as run:
        run.until(lambda: INTERRUPTED in platform.texts(PERSON.chat)[-1:])
        platform.add_inbound(replace(PERSON.message(0), event_id="again", text="slow 1x9"))
        run.until(lambda: "1x9" in (tmp_path / "runs").read_text())
        run.process.send_signal(signal.SIGTERM)
        run.until(lambda: "stopping" in run.log)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 1
        assert run.log.endswith("tailrace: ended at once; the next start continues\n")
    with running(tmp_path, platform.environment) as run:
        run.until(lambda: platform.texts(PERSON.chat).count(INTERRUPTED) == 2)
    assert (tmp_path / "runs").read_text() == "1x0\n1x9\n"


@async_test
async def test_a_wrong_token_ends_the_start_with_one_line(tmp_path: Path) -> None:
    async with TelegramSimulator() as telegram:
        environment = {**telegram.environment, "TELEGRAM_BOT_TOKEN": "1:wrong"}
        with running(tmp_path, environment, "telegram") as run:
            assert await asyncio.to_thread(run.wait) == 1
    (line,) = [line for line in run.log.splitlines() if "starts again" not in line]
    assert "telegram" in line
    assert "1:wrong" not in run.log


def test_without_a_network_the_gateway_says_so_and_tries_again(platform: PlatformProcess, tmp_path: Path) -> None:
    platform.close_port()
    with running(tmp_path, platform.environment) as run:
        run.until(lambda: "the channel simulated is down and starts again in 1 s: " in run.log)
        assert "ready" not in run.log
        platform.open_port()
        run.until(lambda: "ready: simulated\n" in run.log)
        platform.add_inbound(PERSON.message(1))
        run.until(lambda: len(words(platform)) == len(words_of("text", "1x1")))
