"""The processing message for programs that send messages themselves: one message per turn, updated on a timer.

This module decides when the program's adapter is called, which creates and updates the message: one call at a time, at
most one per interval, and only if the text has changed. `tailrace.projector.processing_text` makes the text. A failed
call does not stop the turn: the next call shows all text.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailrace.projector.processing_text import SMALLEST_LIMIT, ProcessingText
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event
    from tailrace.ports import ProcessingMessages

_log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 5.0  # the answer waits while a processing message is stopped
_RETRY_AFTER_S = 1.0
_EMPTY = "…"  # platforms refuse an empty message


class ProcessingMessageAccumulator:
    """The processing message of one turn.

    Call `start` in a running event loop, `handle_event` with every event, and `stop` before the answer is sent.
    `metadata` is passed to the adapter unchanged. `clock` gives seconds that never go back.
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
            raise ValueError(f"interval_ms is {interval_ms}; it must be at least 1")
        if limit < SMALLEST_LIMIT:
            raise ValueError(f"limit is {limit}; it must be at least {SMALLEST_LIMIT} characters")
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
        self._timer: asyncio.Task[None] | None = None

    def handle_event(self, event: Event) -> None:
        """Take an event; the next update shows it. Never raises."""
        try:
            self._text.feed(event, self._clock())
        except Exception:  # noqa: BLE001  # events are not checked here, and a broken one must not end the turn
            _log.exception("the processing message cannot show a %s", type(event).__name__)

    def start(self) -> None:
        """From now on, show the current text once per interval if it has changed. May be called twice."""
        if self._timer is None and not self._stopping.is_set():
            self._text.start(self._clock())
            self._timer = asyncio.create_task(self._tick(), name=f"processing message of {self._source_id}")

    async def stop(self) -> None:
        """Show the last text, without the line that says that work goes on. Then make no more calls.

        Does nothing if `start` was not called. Stops waiting after a few seconds if the adapter does not answer.
        """
        self._stopping.set()
        if self._timer is None:
            return
        await asyncio.wait([self._timer], timeout=_STOP_TIMEOUT_S)
        if self._timer.cancel():
            _log.warning("the processing message of %s was not updated at the end: no answer", self._source_id)

    async def _tick(self) -> None:
        while not await self._is_stopped_within(self._interval_s):
            if self._text.version != self._shown_version:
                await self._show(self._text.render(self._clock()))
        # Retried once, because otherwise the message could say for ever that work goes on.
        if not await self._show(self._text.finished()):
            await asyncio.sleep(_RETRY_AFTER_S)
            await self._show(self._text.finished())

    async def _is_stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _show(self, text: str) -> bool:
        """Show the text; returns False if the adapter raised. An empty text creates no message."""
        version = self._text.version
        if not text and self._message_id is None:
            return True
        text = text or _EMPTY
        if text != self._shown:
            try:
                await self._call(text)
            except Exception as error:  # noqa: BLE001  # code of the adapter, which must not stop the turn
                reason = f"{type(error).__name__}: {redact(str(error))}"
                _log.warning("the processing message of %s could not be shown: %s", self._source_id, reason)
                self._shown = ""  # it is unknown whether the failed call changed the text
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
