"""Stores what the shadow must know of one live turn: its events with their times, and its deliveries.

The amount is limited. This module never raises an exception into the turn and never makes the turn wait.
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

_NOT_WATCHED = "it was not to be watched"
_LATE = "the other path did not end in time"
_EVENT_OVERHEAD = 100  # the memory of an event besides its text, in characters
_MAX_VALUES = 10_000


class ShadowTurn:
    """A live turn for a comparison: its events and deliveries are stored from `begin` until the `with` block ends.

    If `begin` is never called, nothing is stored. `given_up` is the reason why the turn cannot be compared, or "".
    """

    def __init__(self, turn_id: str, target: Target, clock: Clock) -> None:
        self.turn_id = turn_id
        self.target = target
        self.given_up = _NOT_WATCHED
        self.events: list[tuple[float, Event]] = []
        self.deliveries: dict[int, Delivery] = {}
        self.began_at = 0.0  # in wall clock time
        self._is_running = False
        self._clock = clock
        self._began_monotonic = 0.0
        self._items_left = 0
        self._characters_left = 0
        self._timeout_s = 0.0
        self._on_finished: Callable[[ShadowTurn], None] | None = None
        self._has_other_path = False
        self._is_following = False
        self._follow_timeout: asyncio.Timeout | None = None

    def begin(
        self, max_events: int, max_characters: int, *, timeout_s: float, on_finished: Callable[[ShadowTurn], None]
    ) -> None:
        """Store the turn from now on. `on_finished` is called when the turn and the events of `follow` have ended.

        Events of `follow` may come for `timeout_s` after the turn.
        """
        self.given_up = ""
        self._is_running = True
        self._began_monotonic, self.began_at = self._clock.monotonic(), self._clock.wall()
        self._items_left, self._characters_left = max_events, max_characters
        self._timeout_s = timeout_s
        self._on_finished = on_finished

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._is_running:
            return
        self._is_running = False
        if kind is not None or any(delivery.state in OPEN for delivery in self.deliveries.values()):
            self.give_up("the turn was not delivered to its end")
        elif self._is_following:
            asyncio.get_running_loop().call_later(self._timeout_s, self._end_following)
        self._finish()

    def observe(self, events: AsyncIterable[Event]) -> AsyncIterable[Event]:
        """Yield these events unchanged, and store each of them."""
        return events if self.given_up else _ObservedEvents(events, self)

    def feed(self, event: Event) -> None:
        """Store an event of the turn, unless the shadow presents other events (see `follow`)."""
        if not self._has_other_path:
            self._keep(event)

    def follow(self, other: AsyncIterable[Event]) -> Coroutine[None, None, None]:
        """Store the events of another runtime for the same prompt, instead of the turn's own events.

        Run the coroutine as a task from the beginning of the turn; the turn does not wait for it. The task ends when
        the events end, and is stopped if they continue for too long after the turn. Exceptions of the other runtime are
        not raised: the comparison is given up. If the turn is not stored, the events are not read.
        """
        self._has_other_path = self._is_following = self._is_running and not self.given_up
        self.events.clear()
        return self._follow(other)

    async def _follow(self, other: AsyncIterable[Event]) -> None:
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                self._follow_timeout = timeout
                try:
                    await self._keep_all(other)
                finally:
                    self._follow_timeout = None
        except Exception as error:  # noqa: BLE001 -- the other path may raise anything
            failed = f"the other path failed: {type(error).__name__}: {error}"
            self.give_up(_LATE if timeout.expired() else failed)
        except asyncio.CancelledError:
            self.give_up("the other path was stopped")
            raise
        finally:
            self._is_following = False
            self._finish()
            await _close(other)

    async def _keep_all(self, events: AsyncIterable[Event]) -> None:
        if not self._is_following:
            return
        async for event in events:
            self._keep(event)
            if self.given_up:
                break
            await asyncio.sleep(0)  # so that a flood of events does not keep the turn from running

    def _end_following(self) -> None:
        if self._is_following:
            self.give_up(_LATE)
            self._is_following = False
            self._finish()

    def record(self, delivery: Delivery) -> None:
        """Store a delivery of the turn that is new or has changed."""
        if self._is_running and not self.given_up and delivery.turn_id == self.turn_id:
            self._items_left -= delivery.ordinal not in self.deliveries
            self.deliveries[delivery.ordinal] = delivery
            self._check_limits()

    def give_up(self, why: str) -> None:
        """Do not compare this turn: drop everything that was stored, and store nothing more. `why` is the reason."""
        self.given_up = self.given_up or why
        self.forget()
        if self._follow_timeout is not None and not self._follow_timeout.expired():
            self._follow_timeout.reschedule(0.0)  # it expires at once

    def forget(self) -> None:
        """Drop everything that was stored."""
        self.events.clear()
        self.deliveries.clear()

    def _keep(self, event: Event) -> None:
        if self.given_up:
            return
        try:
            self._items_left -= 1
            self._characters_left -= _EVENT_OVERHEAD + _size(event)
            self.events.append((self._clock.monotonic() - self._began_monotonic, event))
            self._check_limits()
        except Exception as error:  # noqa: BLE001 -- an event may hold anything, and the turn must go on
            self.give_up(repr(error))

    def _check_limits(self) -> None:
        if self._items_left < 0 or self._characters_left < 0:
            self.give_up("the turn is longer than its shadow may keep")

    def _finish(self) -> None:
        """Call `on_finished` once the turn and the events of `follow` have both ended."""
        if not self._is_running and not self._is_following and self._on_finished is not None:
            on_finished, self._on_finished = self._on_finished, None
            on_finished(self)


class _ObservedEvents:
    """The events of a turn, unchanged; each is also stored. Only waiting for the next event takes time."""

    def __init__(self, events: AsyncIterable[Event], turn: ShadowTurn) -> None:
        self._events = aiter(events)
        self._feed = turn.feed

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        self._feed(event)
        return event


def _size(event: Event) -> int:
    """About how many characters an event holds. Raises `ValueError` if it holds too many values to count."""
    if type(event) is TextDelta:
        return len(event.text)
    size, seen = 0, 0
    waiting: list[Any] = [getattr(event, name) for name in event.__struct_fields__]
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _MAX_VALUES:
            raise ValueError(f"{type(event).__name__} holds more than {_MAX_VALUES} values")
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, dict):
            waiting += value.values()
            size += 10 * len(value)
        elif isinstance(value, list | tuple):
            waiting += value
        else:
            size += 10
    return size


async def _close(events: AsyncIterable[Event]) -> None:
    """Close a stream that was not read to its end."""
    close = getattr(events, "aclose", None)
    if close is not None:
        with suppress(Exception):  # the reason for leaving it is already reported
            await close()
