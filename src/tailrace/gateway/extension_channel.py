"""The channel of an extension as a `Channel`: the gateway starts it, and the courier sends it what is recorded.

An extension shows text in its own way. It gets whole messages, by `send_to_user` if it has that method, otherwise by
its streaming methods. The platform behind it is not known, so nothing is known about keys, limits or edits.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.errors import ChannelFault, ExtensionFault, MaybeSent
from tailrace.gateway.extension_call import call_extension
from tailrace.operations import Receipt
from tailrace.ports import ChannelProvider

if TYPE_CHECKING:
    from tailrace.operations import Post
    from tailrace.ports import Inbox, StreamingChannelProvider

_START_S = 30.0
_STOP_S = 5.0
_CALL_S = 30.0
_log = logging.getLogger(__name__)


class ExtensionChannel:
    """Sends whole messages to the users of an extension, a plugin of the gateway with a channel of its own.

    The chat of a target is the user's id.
    """

    capabilities = Capabilities(idempotency=Unkeyed(), limit=1_000_000, presentation="final")

    def __init__(self, provider: ChannelProvider | StreamingChannelProvider) -> None:
        self.name = provider.name
        self.provider = provider
        self._closed = asyncio.Event()

    async def start(self, inbox: Inbox) -> None:  # noqa: ARG002 -- its context hands messages in
        """Call `start` of the extension, if it has that method."""
        self._closed.clear()
        await self._call("start", timeout_s=_START_S)

    async def stop(self) -> None:
        """Call `stop` of the extension, if it has that method. Then `wait_closed` returns."""
        self._closed.set()
        await self._call("stop", timeout_s=_STOP_S)

    async def wait_closed(self) -> None:
        """Wait for `stop`."""
        await self._closed.wait()

    async def post(self, post: Post, *, key: str) -> Receipt:
        """Show the message to the user. It may have arrived even if the extension's method failed."""
        user_id, text = post.target.chat, post.body.text
        try:
            if isinstance(self.provider, ChannelProvider):
                await self._call("send_to_user", user_id, text, timeout_s=_CALL_S)
            else:
                await self._call("on_stream_start", user_id, timeout_s=_CALL_S)
                await self._call("on_stream_end", user_id, text, timeout_s=_CALL_S)
        except ExtensionFault as error:
            if isinstance(error.__cause__, ChannelFault):
                raise error.__cause__ from error
            _log.warning("%s", error)
            raise MaybeSent(f"the extension {self.name} failed") from error
        return Receipt(message_id=key)

    async def _call(self, method: str, *arguments: Any, timeout_s: float) -> None:
        if (found := getattr(self.provider, method, None)) is not None:
            await call_extension(self.name, found, *arguments, timeout_s=timeout_s)
