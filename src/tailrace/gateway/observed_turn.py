"""Observes a turn of the gateway while it is presented: measures it, logs its end, and gives it to the shadow."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tailrace.events import TextDelta, TurnCancelled, TurnCompleted, TurnFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    from tailrace.deliveries import Turn
    from tailrace.events import Event
    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.metrics import Metrics
    from tailrace.gateway.presenters import Presenter

_log = logging.getLogger(__name__)

_ENDS = {TurnCompleted: "done", TurnFailed: "failed", TurnCancelled: "cancelled"}


class ObservedPresenter:
    """Presents the turn as `presenter` does, and observes it. `turn` is the accepted turn."""

    def __init__(self, presenter: Presenter, turn: Turn, context: GatewayContext) -> None:
        self._presenter = presenter
        self._turn = turn
        self._context = context

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:
        """Show the events. Returns what `presenter` returns."""
        clock, metrics, channel = self._context.clock, self._context.metrics, self._turn.target.channel
        metrics.add_time("tailrace_queue_seconds", channel, seconds=clock.wall() - self._turn.updated_at)
        observed = _ObservedEvents(events, metrics, channel, clock.monotonic)
        try:
            with self._context.shadows.watch(turn_id, self._turn.target) as watched:
                return await self._presenter.present(turn_id, watched.observe(observed))
        finally:
            seconds = clock.monotonic() - observed.began
            metrics.add_time("tailrace_turn_seconds", channel, seconds=seconds)
            metrics.count("tailrace_turns_total", channel, observed.end)
            _log.info("the turn has ended: %s, after %.1f s", observed.end, seconds)


class _ObservedEvents:
    """The events of a turn, unchanged. `end` is how the turn ended, as far as its events say."""

    def __init__(
        self, events: AsyncIterable[Event], metrics: Metrics, channel: str, monotonic: Callable[[], float]
    ) -> None:
        self.began = monotonic()
        self.end = "interrupted"
        self._events = aiter(events)
        self._metrics = metrics
        self._channel = channel
        self._monotonic = monotonic
        self._has_text = False

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        kind = type(event)
        if kind is TextDelta and not self._has_text:
            self._has_text = True
            seconds = self._monotonic() - self.began
            self._metrics.add_time("tailrace_first_text_seconds", self._channel, seconds=seconds)
        elif (end := _ENDS.get(kind)) is not None:
            self.end = end
        return event
