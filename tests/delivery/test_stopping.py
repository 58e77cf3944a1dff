"""The first signal asks, the second ends; what stood before stands again."""

from __future__ import annotations

import asyncio
import os
import signal

from tailrace.delivery.stopping import stops_on_signals


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
