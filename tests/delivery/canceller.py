"""Cancels tasks at their n-th await, so that a test can try every await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


class Canceller:
    """Cancels tasks of one name at those awaits, counted over all of them, that are in `moments`.

    `waits` counts their awaits.
    """

    def __init__(self, name: str, *moments: int) -> None:
        self.waits = 0
        self._name = name
        self._moments = set(moments)

    def __enter__(self) -> Self:
        asyncio.get_running_loop().set_task_factory(self._task)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().set_task_factory(None)

    def cancels_now(self) -> bool:
        self.waits += 1
        return self.waits in self._moments

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, context: Any = None) -> asyncio.Task[Any]:
        if work.__qualname__ == self._name:
            work = _awaited(_Cancelled(work, self))
        return asyncio.Task(work, loop=loop, context=context)


async def _awaited(work: _Cancelled) -> Any:
    return await work


class _Cancelled:
    """A coroutine that is cancelled at an await like a task is."""

    def __init__(self, work: Coroutine[Any, Any, Any], canceller: Canceller) -> None:
        self._work = work
        self._canceller = canceller

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waited_for = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            if self._canceller.cancels_now():
                if isinstance(waited_for, asyncio.Future):
                    waited_for._asyncio_future_blocking = False
                    waited_for.cancel()
                error = asyncio.CancelledError()
                continue
            try:
                yield waited_for
            except BaseException as raised:  # noqa: BLE001  whatever it is, it is for the work
                error = raised
