"""One live turn as its shadow sees it: what it says, when, and what is recorded of it.

It only keeps, within bounds, and nothing here raises into the turn or makes it wait. What is made of it once it is over
is `shadow`'s.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailrace.deliveries import OPEN
from tailrace.events import TextDelta

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
    from typing import Self

    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.operations import Target
    from tailrace.ports import Clock

_NOT_CHOSEN = "it was not to be watched"
_LATE = "the other path did not end in time"
_OVERHEAD = 100  # what an event takes besides its text, in characters
_MOST_VALUES = 10_000


class ShadowTurn:
    """A turn that is watched from `begin` on until it is left; without that it is let alone.

    `given_up` says why nothing can be told of it, where that is so.
    """

    def __init__(self, turn_id: str, target: Target, clock: Clock) -> None:
        self.turn_id = turn_id
        self.target = target
        self.given_up = _NOT_CHOSEN
        self.events: list[tuple[float, Event]] = []
        self.rows: dict[int, Delivery] = {}
        self.began_wall = 0.0
        self.is_running = False
        self._clock = clock
        self._began = 0.0
        self._events_left = 0
        self._characters_left = 0
        self._within_s = 0.0
        self._over: Callable[[ShadowTurn], None] | None = None
        self._has_other = False  # it is another path whose events are kept
        self._is_following = False
        self._patience: asyncio.Timeout | None = None

    def begin(
        self, most_events: int, most_characters: int, *, within_s: float, over: Callable[[ShadowTurn], None]
    ) -> None:
        """Watch it from now on; `over` is told once nothing more is to come."""
        self.given_up = ""
        self.is_running = True
        self._began, self.began_wall = self._clock.monotonic(), self._clock.wall()
        self._events_left, self._characters_left = most_events, most_characters
        self._within_s = within_s
        self._over = over

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """The turn is over, one way or the other."""
        if not self.is_running:
            return
        self.is_running = False
        if kind is not None or any(row.state in OPEN for row in self.rows.values()):
            self.give_up("the turn was not delivered to its end")
        elif self._is_following:
            asyncio.get_running_loop().call_later(self._within_s, self._cut_off)
        self._leave()

    def hears(self, events: AsyncIterable[Event]) -> AsyncIterable[Event]:
        """The same events; each is kept as it passes."""
        return events if self.given_up else _Heard(events, self)

    def feed(self, event: Event) -> None:
        """The turn said this."""
        if not self._has_other:
            self._keep(event)

    def follow(self, other: AsyncIterable[Event]) -> Coroutine[None, None, None]:
        """Let the shadow present these events instead, those of another path to the same agent.

        What is given back is to be run as a task of its own beside the turn, from its beginning: the turn does not wait
        for it. It ends with the events, and is cut off where they do not end soon after the turn has. Raises nothing
        that they do. Where the turn is not watched they are not asked for.
        """
        self._has_other = self._is_following = self.is_running and not self.given_up
        self.events.clear()
        return self._follow(other)

    async def _follow(self, other: AsyncIterable[Event]) -> None:
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._patience = patience
                try:
                    await self._keep_all(other)
                finally:
                    self._patience = None
        except Exception as error:  # noqa: BLE001 -- the other path may be anything
            failed = f"the other path failed: {type(error).__name__}: {error}"
            self.give_up(_LATE if patience.expired() else failed)
        except asyncio.CancelledError:
            self.give_up("the other path was stopped")
            raise
        finally:
            self._is_following = False
            self._leave()
            await _close(other)

    async def _keep_all(self, events: AsyncIterable[Event]) -> None:
        if not self._is_following:
            return
        async for event in events:
            self._keep(event)
            if self.given_up:
                break
            await asyncio.sleep(0)  # a flood of them must not keep the turn from running

    def _cut_off(self) -> None:
        """The turn is over for a while."""
        if self._is_following:
            self.give_up(_LATE)
            self._is_following = False
            self._leave()

    def told(self, delivery: Delivery) -> None:
        """A delivery of the turn was recorded, or has changed."""
        if self.is_running and not self.given_up and delivery.turn_id == self.turn_id:
            self._events_left -= delivery.ordinal not in self.rows
            self.rows[delivery.ordinal] = delivery
            self._check_room()

    def give_up(self, why: str) -> None:
        """Keep nothing more, and nothing of what was kept."""
        self.given_up = self.given_up or why
        self.forget()
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0.0)  # at once

    def forget(self) -> None:
        """Let go of what was kept."""
        self.events.clear()
        self.rows.clear()

    def _keep(self, event: Event) -> None:
        if self.given_up:
            return
        try:
            self._events_left -= 1
            self._characters_left -= _OVERHEAD + _weight(event)
            self.events.append((self._clock.monotonic() - self._began, event))
            self._check_room()
        except Exception as error:  # noqa: BLE001 -- an event may hold anything, and the turn goes on
            self.give_up(repr(error))

    def _check_room(self) -> None:
        if self._events_left < 0 or self._characters_left < 0:
            self.give_up("the turn is longer than its shadow may keep")

    def _leave(self) -> None:
        """Hand it over once the turn and what is followed are both over."""
        if not self.is_running and not self._is_following and self._over is not None:
            over, self._over = self._over, None
            over(self)


class _Heard:
    """Events on their way to whoever presents them. No step of its own is waited for."""

    def __init__(self, events: AsyncIterable[Event], watched: ShadowTurn) -> None:
        self._events = aiter(events)
        self._feed = watched.feed

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        self._feed(event)
        return event


def _weight(event: Event) -> int:
    """About how many characters an event holds; it is not looked at further than its bounds."""
    if type(event) is TextDelta:
        return len(event.text)
    weight, seen = 0, 0
    waiting: list[Any] = [getattr(event, name) for name in event.__struct_fields__]
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _MOST_VALUES:
            raise ValueError(f"{type(event).__name__} holds more than {_MOST_VALUES} values")
        if isinstance(value, str | bytes):
            weight += len(value)
        elif isinstance(value, dict):
            waiting += value.values()
            weight += 10 * len(value)
        elif isinstance(value, list | tuple):
            waiting += value
        else:
            weight += 10
    return weight


async def _close(events: AsyncIterable[Event]) -> None:
    """A run that is left before its end is closed, so that it holds nothing any more."""
    close = getattr(events, "aclose", None)
    if close is not None:
        with suppress(Exception):  # it is left behind, and was told of already
            await close()
