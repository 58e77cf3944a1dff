"""HTTP to the Bot API: one call per method, with a deadline and without retries. A failed call raises a `ChannelFault`.

This module uses aiohttp without the SDK aiogram. Importing aiogram takes 130 MB of memory and more than two seconds of
CPU time, and we would have to switch off everything in it that we could use: its retries, its dispatcher, its errors.
The tests check each call against the methods of aiogram.

Every URL contains the token. So no exception of aiohttp leaves this module: some of them contain the URL.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, TypeVar

import aiohttp
import msgspec
from yarl import URL

from tailrace.capabilities import TELEGRAM
from tailrace.channels.telegram.errors import ApiFailure, FailureParameters, fault_of
from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused
from tailrace.redaction import REDACTED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tailrace.channels.telegram.settings import BotSettings

T = TypeVar("T")

# A call ends here before the sender's own deadline, so that the fault says whether there was a connection.
DEADLINE_S = TELEGRAM.deadline_s - 2.0
_CONNECT_S = 10.0
_DOWNLOAD_S = 600.0
_CONNECTIONS = 100  # Telegram takes 30 messages in a second; the rest is for uploads and slow answers
_CHUNK = 64 * 1024
_REDACTED = REDACTED.encode()


class FileUpload(NamedTuple):
    """A file to upload with a call, and the name of its field. aiohttp reads the file in pieces, and closes it."""

    field: str
    file: BinaryIO
    name: str


class _Answer(msgspec.Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    parameters: FailureParameters = FailureParameters()


class MethodCall(NamedTuple):
    """A call of the Bot API: the name of the method and its fields."""

    method: str
    fields: Mapping[str, object]


class TelegramClient:
    """Calls the Bot API with one token. After `close`, calls are refused until `open`."""

    def __init__(self, settings: BotSettings) -> None:
        base = settings.api_base.rstrip("/")
        self._token = settings.token.encode()
        self._methods = f"{base}/bot{settings.token}/"
        self._files = f"{base}/file/bot{settings.token}/"
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

    async def call(
        self,
        call: MethodCall,
        kind: type[T],
        *,
        chat: str = "",
        deadline_s: float = DEADLINE_S,
        upload: FileUpload | None = None,
    ) -> T:
        """Call a method of the Bot API and return its result, decoded as `kind`. An error names the chat `chat`."""
        timeout = aiohttp.ClientTimeout(total=deadline_s, connect=min(_CONNECT_S, deadline_s))
        body = _encoded(call.fields) if upload is None else _form(call.fields, upload)
        headers = {"Content-Type": "application/json"} if upload is None else {}
        try:
            url = URL(self._methods + call.method, encoded=True)
            async with self._open_session().post(url, data=body, headers=headers, timeout=timeout) as response:
                status, answered = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _raise_fault(error)
        return _result(status, answered.replace(self._token, _REDACTED), kind, chat)

    async def download(self, file_path: str, path: Path, *, max_bytes: int) -> None:
        """Download a file into a new file at `path`. `file_path` is the path that the method `getFile` returned."""
        url = URL(self._files, encoded=True) / file_path.lstrip("/")
        file = await asyncio.to_thread(path.open, "xb")
        is_whole = False
        try:
            with file:
                await self._download(url, file, max_bytes)
            is_whole = True
        except (aiohttp.ClientError, TimeoutError):
            raise NotSent("the connection to Telegram was lost while a file was loaded") from None
        finally:
            if not is_whole:
                os.unlink(path)  # noqa: PTH108 -- at once, also if this was cancelled

    async def _download(self, url: URL, file: BinaryIO, max_bytes: int) -> None:
        timeout = aiohttp.ClientTimeout(total=_DOWNLOAD_S, connect=_CONNECT_S, sock_read=DEADLINE_S)
        async with self._open_session().get(url, timeout=timeout) as response:
            if response.status != 200:
                raise _download_fault(response.status)
            async for chunk in response.content.iter_chunked(_CHUNK):
                if file.tell() + len(chunk) > max_bytes:
                    raise SendRefused(f"the file has more than {max_bytes} bytes")
                file.write(chunk)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise NotSent("the channel is stopped")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def _encoded(fields: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        raise SendRefused("the text contains characters that no encoding accepts") from None


def _form(fields: Mapping[str, object], upload: FileUpload) -> aiohttp.FormData:
    form = aiohttp.FormData(quote_fields=False)  # Telegram shows a quoted name as it is
    for name, value in fields.items():
        form.add_field(name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
    form.add_field(upload.field, upload.file, filename=upload.name, content_type="application/octet-stream")
    return form


def _result(status: int, answered: bytes, kind: type[T], chat: str) -> T:
    try:
        answer = msgspec.json.decode(answered, type=_Answer)
        if answer.ok and status == 200:
            return msgspec.json.decode(answer.result, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # A proxy before the Bot API answers with a page of its own; its status still says enough.
        answer = _Answer(ok=False)
    raise fault_of(ApiFailure(status, answer.description, answer.parameters), chat=chat)


def _raise_fault(error: Exception) -> NoReturn:
    """Raise the `ChannelFault` for a call without an answer: `NotSent` or `MaybeSent`, depending on the error."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            raise NotSent("no secure connection to Telegram: its certificate is not valid here") from None
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            raise NotSent("no connection to Telegram: check the network and api_base") from None
        case TimeoutError():
            raise MaybeSent("Telegram did not answer in time") from None
        case _:
            raise MaybeSent("the connection to Telegram was lost before it answered") from None


def _download_fault(status: int) -> ChannelFault:
    # Files have no answers with words. A path is valid for an hour, and 404 may mean the path or the token.
    if status == 404:
        return SendRefused("the file is not there any more")
    fault = fault_of(ApiFailure(status))
    return NotSent(str(fault)) if isinstance(fault, MaybeSent | AccessLost) else fault
