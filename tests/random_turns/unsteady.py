"""A ledger that answers late, is unavailable now and then, and waits while its process is paused.

Every change is made in the order of the calls; only its acknowledgement comes late, and not in order. Where the ledger
is unavailable nothing was changed. That is all that the contract of `tailrace.ports.Ledger` promises.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from tailrace.errors import LedgerUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tailrace.ledger_port import Ledger


def unsteady(ledger: Ledger, source: random.Random, *, longest_s: float, unavailable: float = 0.02) -> Ledger:
    """The ledger as an `UnsteadyLedger`."""
    return cast("Ledger", UnsteadyLedger(ledger, source, longest_s, unavailable))


class UnsteadyLedger:
    """All methods of a ledger, with answers that take up to `longest_s`.

    `unavailable` is the chance that a call is refused; `is_out` refuses all. While `running` is not set, calls and
    answers wait.
    """

    def __init__(
        self,
        ledger: Ledger,
        source: random.Random,
        longest_s: float,
        unavailable: float,
        running: asyncio.Event | None = None,
    ) -> None:
        self.save_snapshot, self.release = ledger.save_snapshot, ledger.release
        self.is_out = False
        self.on_acquire: Callable[[str], None] = lambda _conversation: None
        self._ledger = ledger
        self._source = source
        self._longest_s = longest_s
        self._unavailable = unavailable
        self._running = running or asyncio.Event()
        if running is None:
            self._running.set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def unsteady_call(*args: Any, **options: Any) -> Any:
            if not self._running.is_set():
                # A change that was submitted is made, also if its caller is cancelled.
                answer = await asyncio.shield(asyncio.create_task(self._call_later(name, args, options)))
            elif self.is_out or self._source.random() < self._unavailable:
                raise LedgerUnavailable("it cannot be written just now")
            else:
                answer = await self._call(name, args, options)
            # Mostly little, seldom much.
            await asyncio.sleep(self._source.random() ** 4 * self._longest_s)
            await self._running.wait()
            return answer

        return unsteady_call

    async def _call_later(self, name: str, args: Any, options: Any) -> Any:
        await self._running.wait()
        return await self._call(name, args, options)

    async def _call(self, name: str, args: Any, options: Any) -> Any:
        answer = await getattr(self._ledger, name)(*args, **options)
        if name == "acquire":
            self.on_acquire(args[0])
        return answer
