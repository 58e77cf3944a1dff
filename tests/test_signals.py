"""The first signal asks, the second ends the process; afterwards the handlers from before are back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from tailrace.signals import stops_on_signals


def test_the_first_signal_asks_and_the_second_would_end_the_process() -> None:
    async def main() -> None:
        with stops_on_signals((signal.SIGUSR1, signal.SIGUSR2)) as asked:
            assert not asked.is_set()
            os.kill(os.getpid(), signal.SIGUSR2)
            await asked.wait()
            assert signal.getsignal(signal.SIGUSR1) is signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL

    def nothing(_number: int, _frame: object) -> None:
        """Stands there before."""

    before = signal.signal(signal.SIGUSR1, nothing)
    try:
        asyncio.run(main())
        assert signal.getsignal(signal.SIGUSR1) is nothing
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    async def main() -> None:
        with stops_on_signals((signal.SIGUSR1, signal.SIGUSR2)) as asked:
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGUSR2)
            await asked.wait()
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN

    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGUSR1, before)


HANGS = """
import asyncio, time
from tailrace.signals import stops_on_signals

async def main():
    with stops_on_signals(exit_after_s=0.05, last_words="the end") as asked:
        print("ready", flush=True)
        await asked.wait()
        time.sleep(60)

asyncio.run(main())
"""


def test_a_process_that_does_not_stop_in_time_is_ended_with_its_last_words() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert (process.wait(timeout=30), process.stderr.read()) == (1, b"tailrace: the end\n")
