"""The HTTP connections of a channel: opened when they are needed, with deadlines and without retries.

A failure becomes the `ChannelFault` that says what is known. No exception of aiohttp leaves the channel, because some
of them contain the URL, and a URL may contain the token.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import aiohttp

from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from yarl import URL

CALL_DEADLINE_S = 28.0
"""A call ends here, before the sender's own deadline, so that the fault says whether there was a connection."""
HTTP_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""What aiohttp raises if a call gets no answer: see `HttpSession.fault`."""
_CONNECT_S = 10.0
_DOWNLOAD_S = 600.0
_CONNECTIONS = 100  # a platform takes some 30 messages in a second; the rest is for uploads and slow answers
_CHUNK = 64 * 1024


class HttpSession:
    """The connections to one platform, whose name is in the errors. After `close`, calls are refused until `open`."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    def open(self) -> None:
        """Allow calls again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """End all calls and connections."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session for a call. Raises `NotSent` after `close`."""
        if self._is_closed:
            raise NotSent("the channel is stopped")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=call_timeout(CALL_DEADLINE_S),
            )
        return self._session

    def fault(self, error: Exception) -> ChannelFault:
        """The fault for a call without an answer: `NotSent` or `MaybeSent`, depending on the error."""
        match error:
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                return NotSent(f"no secure connection to {self._platform}: its certificate is not valid here")
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return NotSent(f"no connection to {self._platform}: check the network and api_base")
            case TimeoutError():
                return MaybeSent(f"{self._platform} did not answer in time")
            case _:
                return MaybeSent(f"the connection to {self._platform} was lost before it answered")

    async def download(
        self,
        url: URL,
        path: Path,
        *,
        max_bytes: int,
        check: Callable[[aiohttp.ClientResponse], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Download into a new file at `path`, which is removed after a failure.

        `check` raises an error if the answer is no file.
        """
        file = await asyncio.to_thread(path.open, "xb")
        is_whole = False
        timeout = aiohttp.ClientTimeout(total=_DOWNLOAD_S, connect=_CONNECT_S, sock_read=CALL_DEADLINE_S)
        try:
            with file:
                async with self.session.get(url, timeout=timeout, headers=headers) as response:
                    check(response)
                    async for chunk in response.content.iter_chunked(_CHUNK):
                        if file.tell() + len(chunk) > max_bytes:
                            raise SendRefused(f"the file has more than {max_bytes} bytes")
                        file.write(chunk)
            is_whole = True
        except (aiohttp.ClientError, TimeoutError):
            raise NotSent(f"the connection to {self._platform} was lost while a file was loaded") from None
        finally:
            if not is_whole:
                os.unlink(path)  # noqa: PTH108 -- at once, also if this was cancelled


def call_timeout(deadline_s: float) -> aiohttp.ClientTimeout:
    """The timeout of a call that must end after `deadline_s`."""
    return aiohttp.ClientTimeout(total=deadline_s, connect=min(_CONNECT_S, deadline_s))
