"""The channel of an extension as a `Channel`: so the courier can send it what is recorded.

An extension shows text in its own way. It gets whole messages, by `send_to_user` if it has that method, otherwise by
its streaming methods. The platform behind it is not known, so nothing is known about keys, limits or edits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.errors import MaybeSent
from tailrace.operations import Receipt
from tailrace.ports import ChannelProvider

if TYPE_CHECKING:
    from tailrace.operations import Post
    from tailrace.ports import Inbox, StreamingChannelProvider


class ExtensionChannel:
    """Sends whole messages to the users of an extension; the chat of a target is the user's id."""

    capabilities = Capabilities(idempotency=Unkeyed(), limit=1_000_000, presentation="final")

    def __init__(self, provider: ChannelProvider | StreamingChannelProvider) -> None:
        self.name = provider.name
        self.provider = provider
        self._closed = asyncio.Event()

    async def start(self, inbox: Inbox) -> None:
        """Nothing to connect: the extension itself was started before."""

    async def stop(self) -> None:
        """Let `wait_closed` return."""
        self._closed.set()

    async def wait_closed(self) -> None:
        """Wait for `stop`."""
        await self._closed.wait()

    async def post(self, post: Post, *, key: str) -> Receipt:
        """Show the message to the user. It may have arrived even if the extension's method failed."""
        provider, user_id, text = self.provider, post.target.chat, post.body.text
        try:
            if isinstance(provider, ChannelProvider):
                await provider.send_to_user(user_id, text)
            else:
                await provider.on_stream_start(user_id)
                await provider.on_stream_end(user_id, text)
        except Exception as error:
            raise MaybeSent(f"the extension {self.name!r} failed: {type(error).__name__}") from error
        return Receipt(message_id=key)
