"""A ledger that takes its time, and one that cannot be written now and then: what a disk does on a bad day.

Every change is made at once and in order; only its acknowledgement comes late, and not in order. Where the ledger is
unavailable nothing was changed. That is all the contract of `tailrace.ports.Ledger` promises, and no more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from tailrace.errors import LedgerUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tailrace.ports import Ledger


def unsteady(ledger: Ledger, source: random.Random, *, longest_s: float, unavailable: float = 0.02) -> Ledger:
    """The ledger, whose answers take up to `longest_s`; the chance that it cannot be written is `unavailable`."""
    return cast("Ledger", _Unsteady(ledger, source, longest_s, unavailable))


class _Unsteady:
    """All that the ledger does, unsteadily."""

    def __init__(self, ledger: Ledger, source: random.Random, longest_s: float, unavailable: float) -> None:
        self.epoch = ledger.epoch
        self.save_snapshot = ledger.save_snapshot
        self._ledger = ledger
        self._source = source
        self._longest_s = longest_s
        self._unavailable = unavailable

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._ledger, name)

        async def unsteady_call(*args: Any, **options: Any) -> Any:
            if self._source.random() < self._unavailable:
                raise LedgerUnavailable("it cannot be written just now")
            answer = await call(*args, **options)
            # Mostly little, seldom much.
            await asyncio.sleep(self._source.random() ** 4 * self._longest_s)
            return answer

        return unsteady_call
