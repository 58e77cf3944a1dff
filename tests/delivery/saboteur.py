"""Cancels tasks at their n-th await, whatever they are: so that it can be done at every one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


class Saboteur:
    """Cancels tasks of one name when, all together, they wait for the n-th time, for each of the `moments`.

    `waits` is how often they did.
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

    def strikes(self) -> bool:
        self.waits += 1
        return self.waits in self._moments

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, context: Any = None) -> asyncio.Task[Any]:
        if work.__qualname__ == self._name:
            work = _awaited(_Sabotaged(work, self))
        return asyncio.Task(work, loop=loop, context=context)


async def _awaited(work: _Sabotaged) -> Any:
    return await work


class _Sabotaged:
    """A coroutine that is cancelled when it waits and the saboteur strikes, as a task does it."""

    def __init__(self, work: Coroutine[Any, Any, Any], saboteur: Saboteur) -> None:
        self._work = work
        self._saboteur = saboteur

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waited_for = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            if self._saboteur.strikes():
                if isinstance(waited_for, asyncio.Future):
                    waited_for._asyncio_future_blocking = False
                    waited_for.cancel()
                error = asyncio.CancelledError()
                continue
            try:
                yield waited_for
            except BaseException as raised:  # noqa: BLE001  whatever it is, it is for the work
                error = raised
