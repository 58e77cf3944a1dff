"""Long polling: asks Telegram for updates, and confirms the updates that were recorded.

A request confirms all updates before its offset. So the offset moves only past updates that the receiver has recorded.
Telegram sends all others again, also to another process.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

import msgspec

from tailrace.channels.reconnecting import reconnect_wait_s
from tailrace.channels.telegram.client import MethodCall
from tailrace.channels.telegram.errors import PollingConflict
from tailrace.channels.telegram.updates import KINDS, update_id_of
from tailrace.errors import ChannelFault, LedgerUnavailable, MaybeSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.channels.reconnecting import reconnect_wait_s
from tailrace.channels.telegram.client import TelegramClient

_log = logging.getLogger(__name__)

SPARE_S = 10.0
"""How much later than promised an answer may come."""


async def poll(
    api: TelegramClient,
    receive: Callable[[msgspec.Raw], Awaitable[None]],
    *,
    timeout_s: int,
    on_answer: Callable[[], None] = lambda: None,
    jitter: Callable[[], float] = random.random,
) -> None:
    """Give every update to `receive`, in order. Ends only by an error: a `PollingConflict`, or an error of `receive`.

    `on_answer` is called each time that Telegram has answered a request, also if there were no updates. After
    `LedgerUnavailable` or any other failed request it waits, with a growing pause, and asks again.
    """
    offset, failures = 0, 0
    while True:
        fields = {"timeout": timeout_s, "allowed_updates": KINDS} | ({"offset": offset} if offset else {})
        try:
            call = MethodCall("getUpdates", fields)
            found = await api.call(call, list[msgspec.Raw], deadline_s=timeout_s + SPARE_S)
            on_answer()
            numbered = _in_order(found)
            if not numbered:
                # All earlier updates are confirmed now. After a week without updates their ids start anywhere, and an
                # old offset could confirm an update that was never read.
                offset = 0
                if found:  # asked at once, the server would give the same answer again
                    raise MaybeSent("no update has an id: check api_base")
            for update_id, update in numbered:
                await receive(update)
                offset = max(offset, update_id + 1)
        except PollingConflict:
            raise
        except (ChannelFault, LedgerUnavailable) as error:
            failures += 1
            wait_s = reconnect_wait_s(error, failures, jitter())
            _log.warning("no messages are received, and tried again in %.1f s: %s", wait_s, error)
            await asyncio.sleep(wait_s)
        else:
            if failures:
                _log.info("messages are received again")
            failures = 0


def _in_order(found: list[msgspec.Raw]) -> list[tuple[int, msgspec.Raw]]:
    """Sort the updates by their ids. An update without an id is left out, because it cannot be confirmed."""
    numbered = [(update_id, update) for update in found if (update_id := update_id_of(update)) is not None]
    return sorted(numbered, key=lambda pair: pair[0])
