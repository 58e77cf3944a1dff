"""HTTP to the Bot API: one call per method, with a deadline and without retries. A failed call raises a `ChannelFault`.

This module uses aiohttp without the SDK aiogram. Importing aiogram takes 130 MB of memory and more than two seconds of
CPU time, and we would have to switch off everything in it that we could use: its retries, its dispatcher, its errors.
The tests check each call against the methods of aiogram.

Every URL contains the token. So no exception of aiohttp leaves this module: some of them contain the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from tailrace.channels.http_session import CALL_DEADLINE_S, HTTP_ERRORS, HttpSession, call_timeout
from tailrace.channels.telegram.errors import ApiFailure, FailureParameters, fault_of
from tailrace.errors import AccessLost, MaybeSent, NotSent, SendRefused
from tailrace.redaction import REDACTED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tailrace.channels.telegram.settings import BotSettings

T = TypeVar("T")

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
        self._http = HttpSession("Telegram")

    def open(self) -> None:
        """Allow calls again after `close`."""
        self._http.open()

    async def close(self) -> None:
        """End all calls and connections."""
        await self._http.close()

    async def call(
        self,
        call: MethodCall,
        kind: type[T],
        *,
        chat: str = "",
        deadline_s: float = CALL_DEADLINE_S,
        upload: FileUpload | None = None,
    ) -> T:
        """Call a method of the Bot API and return its result, decoded as `kind`. An error names the chat `chat`."""
        timeout = call_timeout(deadline_s)
        body = _encoded(call.fields) if upload is None else _form(call.fields, upload)
        headers = {"Content-Type": "application/json"} if upload is None else {}
        try:
            url = URL(self._methods + call.method, encoded=True)
            async with self._http.session.post(url, data=body, headers=headers, timeout=timeout) as response:
                status, answered = response.status, await response.read()
        except HTTP_ERRORS as error:
            raise self._http.fault(error) from None
        return _result(status, answered.replace(self._token, _REDACTED), kind, chat)

    async def download(self, file_path: str, path: Path, *, max_bytes: int) -> None:
        """Download a file into a new file at `path`. `file_path` is the path that the method `getFile` returned."""
        url = URL(self._files, encoded=True) / file_path.lstrip("/")
        await self._http.download(url, path, max_bytes=max_bytes, check=_check_download)


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


def _check_download(response: aiohttp.ClientResponse) -> None:
    # Files have no answers with words. A path is valid for an hour, and 404 may mean the path or the token.
    if response.status == 404:
        raise SendRefused("the file is not there any more")
    if response.status != 200:
        fault = fault_of(ApiFailure(response.status))
        raise NotSent(str(fault)) if isinstance(fault, MaybeSent | AccessLost) else fault
