"""The processing message for people who send on their own: one message per turn, brought up to date on a timer.

Owns when the adapter is called: one call at a time, one per interval, never without something new to show.
`tailrace.projector.processing_text` owns the text. A failed call does not harm the turn: the next one shows all.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailrace.projector.processing_text import SMALLEST_LIMIT, ProcessingText

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event
    from tailrace.ports import ProcessingMessages

_log = logging.getLogger(__name__)

_PATIENCE_S = 5.0  # the answer waits while a processing message is stopped
_LAST_TRY_S = 1.0
_NOTHING = "…"  # what a message says of which nothing is left: no platform takes an empty one


class ProcessingMessageAccumulator:
    """The processing message of one turn.

    `start` it in a running event loop, hand it every event, `stop` it before the answer goes out. `metadata` is handed
    to the adapter as it is, `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        adapter: ProcessingMessages,
        source_id: str,
        metadata: Any = None,
        *,
        interval_ms: int = 5000,
        limit: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if interval_ms < 1:
            raise ValueError(f"interval_ms is {interval_ms}; between two updates there is at least 1 millisecond")
        if limit < SMALLEST_LIMIT:
            raise ValueError(f"limit is {limit}; a processing message needs room for {SMALLEST_LIMIT} characters")
        self._adapter = adapter
        self._source_id = source_id
        self._metadata = metadata
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._text = ProcessingText(limit)
        self._message_id: str | None = None
        self._shown = ""
        self._shown_version = self._text.version
        self._stopping = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None

    def handle_event(self, event: Event) -> None:
        """Take in what happened; it is shown with the next update. Raises nothing, whatever it is given."""
        try:
            self._text.feed(event, self._clock())
        except Exception:  # noqa: BLE001  # events made by hand are not checked, and a broken one may not end the turn
            _log.exception("a %s could not be taken into the processing message", type(event).__name__)

    def start(self) -> None:
        """Show what there is every interval from now on. Starting again changes nothing."""
        if self._ticking is None and not self._stopping.is_set():
            self._text.start(self._clock())
            self._ticking = asyncio.create_task(self._tick(), name=f"processing message of {self._source_id}")

    async def stop(self) -> None:
        """Show what is not shown yet, without the line that says it goes on, and make no call any more.

        Without `start` there is nothing to stop. An adapter that does not answer is left alone after a few seconds.
        """
        self._stopping.set()
        if self._ticking is None:
            return
        await asyncio.wait([self._ticking], timeout=_PATIENCE_S)
        if self._ticking.cancel():
            _log.warning("the processing message of %s was left as it was: no answer", self._source_id)

    async def _tick(self) -> None:
        while not await self._stops_within(self._interval_s):
            if self._text.version != self._shown_version:
                await self._show(self._text.render(self._clock()))
        # A message that says for ever that it goes on would be wrong, so its last update gets a second chance.
        if not await self._show(self._text.finished()):
            await asyncio.sleep(_LAST_TRY_S)
            await self._show(self._text.finished())

    async def _stops_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _show(self, text: str) -> bool:
        """Let the message say this; whether it does now. To say nothing none is begun."""
        version = self._text.version
        if not text and self._message_id is None:
            return True
        text = text or _NOTHING
        if text != self._shown:
            try:
                await self._call(text)
            except Exception as error:  # noqa: BLE001  # the adapter's own code, which may not stop the turn
                _log.warning("the processing message of %s could not be shown: %r", self._source_id, error)
                self._shown = ""  # it may have been changed all the same
                return False
        self._shown, self._shown_version = text, version
        return True

    async def _call(self, text: str) -> None:
        if self._message_id is None:
            created = self._adapter.create_processing_message(self._source_id, text, self._metadata)
            self._message_id = await created if inspect.isawaitable(created) else created
            return
        updated = self._adapter.update_processing_message(self._source_id, self._message_id, text, self._metadata)
        if inspect.isawaitable(updated):
            await updated
