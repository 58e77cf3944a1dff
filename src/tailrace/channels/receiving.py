"""What the receivers of all channels have: an inbox, background tasks, proofs of life, and an end of the connection."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tailrace.errors import LedgerUnavailable, TailraceError
from tailrace.inbound import InboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.channels.webhook import WebhookServer
    from tailrace.inbound import Inbound
    from tailrace.ports import Inbox

_log = logging.getLogger(__name__)


class Receiver:
    """Gives what people do to the inbox. The connection ends with `stop`, or with an error of the inbox.

    `alive_at` and `proof_every_s` are those of `tailrace.ports.ProvesLife`. After the inbox has recorded a message that
    is meant for the bot, `on_recorded` is called with it in the background.
    """

    def __init__(
        self, *, proof_every_s: float, on_recorded: Callable[[InboundMessage], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        self.alive_at = float("-inf")
        self.proof_every_s = proof_every_s
        self._on_recorded = on_recorded
        self._inbox: Inbox | None = None
        self._webhook: WebhookServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        self._failure: Exception | None = None

    def reopen(self) -> None:
        """Prepare for another start: `wait_closed` forgets the end and the error of the earlier connection."""
        self._closed.clear()
        self._failure = None

    async def stop(self) -> None:
        """Stop at once. The platform sends the events that were not recorded again after the next start."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._webhook is not None:
            await self._webhook.close()
        self._webhook = self._inbox = None
        self._closed.set()

    async def wait_closed(self) -> None:
        """Wait for `stop`. If an error ended the connection before, raise that error."""
        await self._closed.wait()
        if self._failure is not None:
            raise self._failure

    async def _record(self, inbound: Inbound) -> None:
        """Give an event to the inbox. Raises what `Inbox.receive` raises."""
        if self._inbox is None:
            raise LedgerUnavailable("the channel is stopped")
        await self._inbox.receive(inbound)
        if self._on_recorded is not None and isinstance(inbound, InboundMessage) and inbound.is_addressed:
            self._in_background(self._on_recorded(inbound))

    def _note_life(self) -> None:
        self.alive_at = asyncio.get_running_loop().time()

    def _in_background(
        self, work: Coroutine[Any, Any, None], *, on_error: Callable[[Exception], None] | None = None
    ) -> None:
        """Run `work` in a task that `stop` cancels.

        An error of it goes to `on_error`; without `on_error`, it is only logged.
        """

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                (on_error or _log_error)(error)

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(end)

    def _fail(self, error: Exception) -> None:
        """End the connection with an error, so that `wait_closed` raises it."""
        self._failure = self._failure or error
        self._closed.set()


def _log_error(error: Exception) -> None:
    _log.warning("%s", error if isinstance(error, TailraceError) else type(error).__name__)
