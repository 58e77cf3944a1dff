"""What is shown in between and not written down: the latest edit of each message, text for open streams, typing.

Losing any of it loses nothing: the delivery that follows says all of it. So the moment something durable is due,
what waits here is dropped; it must never be shown after, or in the way of, what is meant to stay.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.delivery.performing import outcome_of, perform_interim
from tailrace.operations import AppendStream, Edit, Interim, NotNow

if TYPE_CHECKING:
    from tailrace.delivery.outlet import Outlet

_DEADLINE_S = 5.0


class InterimSlot:
    """What one conversation is to be shown in between, oldest first; a later edit takes the place of an earlier one."""

    def __init__(self) -> None:
        self._pending: dict[tuple[type, str], Interim] = {}
        self._hushed = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._pending)

    def put(self, operation: Interim) -> None:
        """Show this as soon as there is time for it."""
        match operation:
            case Edit():
                self._pending[Edit, operation.message_id] = operation
            case AppendStream():
                key = (AppendStream, operation.stream_id)
                if isinstance(before := self._pending.get(key), AppendStream):
                    text = before.text + operation.text
                    operation = AppendStream(target=operation.target, stream_id=operation.stream_id, text=text)
                self._pending[key] = operation
            case _:
                self._pending[type(operation), ""] = operation

    def hush(self) -> None:
        """Something durable is due: drop everything."""
        self._pending.clear()
        self._hushed.set()

    async def show(self, outlets: dict[str, Outlet]) -> None:
        """Show the oldest one when its chat is free; returns early, with nothing shown, where it is hushed."""
        self._hushed.clear()
        key, operation = next(iter(self._pending.items()))
        outlet = outlets.get(operation.target.channel)
        chat = operation.target.conversation
        if outlet is None or not outlet.is_answering:
            self._pending.clear()
            return
        if (wait := outlet.due_in(chat)) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._hushed.wait()
            return
        # Taken only now: what was put meanwhile is what is shown.
        operation = self._pending.pop(key)
        outlet.spend(chat)
        try:
            async with asyncio.timeout(min(outlet.deadline_s, _DEADLINE_S)):
                await perform_interim(outlet.channel, operation)
        except Exception as error:  # noqa: BLE001 -- the channel's own code; what it could not show is shown by the final
            outcome = outcome_of(error)
            if isinstance(outcome, NotNow):
                outlet.learn(chat, outcome)
