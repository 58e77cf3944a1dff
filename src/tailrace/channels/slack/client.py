"""Calls the Web API: each call has a deadline and is not repeated. A failed call raises a `ChannelFault`.

The calls are made by slack-sdk. Its retries are off, because the sender repeats calls, and it logs nothing, because its
log contains messages. Importing it takes 3 MB of memory and 20 ms more than aiohttp alone.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from tailrace.channels.http_session import HTTP_ERRORS, HttpSession
from tailrace.channels.slack.errors import SlackFailure, fault_of
from tailrace.errors import MaybeSent, NotSent, SendRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import BinaryIO

    import aiohttp

    from tailrace.channels.slack.settings import SlackAppSettings

T = TypeVar("T")

# These methods take no JSON (https://docs.slack.dev/apis/web-api).
_TAKES_FORM = frozenset(
    {
        "apps.connections.open",
        "auth.test",
        "conversations.history",
        "conversations.replies",
        "files.completeUploadExternal",
        "files.getUploadURLExternal",
        "files.info",
        "users.info",
    }
)
_SILENT = logging.getLogger("tailrace.channels.slack.sdk")
_SILENT.setLevel(logging.CRITICAL + 1)


class SlackCall(NamedTuple):
    """A call of the Web API: the name of the method and its fields."""

    method: str
    fields: Mapping[str, Any]


class SlackClient:
    """Calls the Web API with one token. After `close`, calls are refused until `open`."""

    def __init__(self, settings: SlackAppSettings, *, token: str = "") -> None:
        self._token = token or settings.bot_token
        self._base = settings.api_base
        self.http = HttpSession("Slack")

    def open(self) -> None:
        """Allow calls again after `close`."""
        self.http.open()

    async def close(self) -> None:
        """End all calls and connections."""
        await self.http.close()

    async def call(self, call: SlackCall, kind: type[T], *, chat: str = "") -> T:
        """Call a method and return its answer, decoded as `kind`. An error names the chat `chat`."""
        answer, _ = await self.call_with_headers(call, kind, chat=chat)
        return answer

    async def call_with_headers(self, call: SlackCall, kind: type[T], *, chat: str = "") -> tuple[T, Mapping[str, str]]:
        """As `call`, with the headers of the answer too."""
        sdk = AsyncWebClient(
            token=self._token, base_url=self._base, session=self.http.session, retry_handlers=[], logger=_SILENT
        )
        sdk.proxy = None  # as the other channels: no proxy from the environment
        sent: dict[str, Any] = {"json": dict(call.fields)}
        if call.method in _TAKES_FORM:
            sent = {"data": {name: _form_value(value) for name, value in call.fields.items()}}
        try:
            response = await sdk.api_call(call.method, **sent)
            return msgspec.convert(response.data, kind, strict=False), response.headers
        except SlackApiError as error:
            raise fault_of(_failure(error), chat=chat) from None
        except HTTP_ERRORS as error:
            raise self.http.fault(error) from None
        except UnicodeEncodeError:
            raise SendRefused("the text contains characters that no encoding accepts") from None
        except NotSent:
            raise
        except Exception:  # noqa: BLE001 -- the SDK raises various errors for an answer that is not one of Slack
            raise MaybeSent("the answer is not one of Slack: check api_base") from None

    async def upload(self, url: str, file: BinaryIO) -> None:
        """Upload a file to the URL that Slack has given. The file is not visible until it is shared."""
        try:
            async with self.http.session.post(URL(url, encoded=True), data=file) as response:
                await response.read()
        except HTTP_ERRORS as error:
            raise NotSent(f"the file was not uploaded: {self.http.fault(error)}") from None
        if response.status != 200:
            raise NotSent(f"the file was not uploaded: status {response.status}")

    async def download(self, url: str, path: Path, *, max_bytes: int) -> None:
        """Download a file of a message. Raises `SendRefused` for a URL of another server: it would get the token."""
        parsed, base = URL(url), URL(self._base)
        is_slack = parsed.scheme == "https" and f".{parsed.host}".endswith(".slack.com")
        if not is_slack and parsed.origin() != base.origin():
            raise SendRefused("the file is not on a server of Slack")
        headers = {"Authorization": f"Bearer {self._token}"}
        await self.http.download(parsed, path, max_bytes=max_bytes, check=_check_download, headers=headers)


def _form_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _failure(error: SlackApiError) -> SlackFailure:
    """What an error of the SDK says. Its response is that of aiohttp if the answer was no JSON."""
    response: Any = error.response
    data = getattr(response, "data", None)
    found = data if isinstance(data, dict) else {}
    status: Any = getattr(response, "status_code", None) or getattr(response, "status", 0)
    return SlackFailure(
        status=int(status),
        error=str(found.get("error") or ""),
        retry_after=str(response.headers.get("Retry-After", "")),
        needed=str(found.get("needed") or ""),
    )


def _check_download(response: aiohttp.ClientResponse) -> None:
    if response.status == 404:
        raise SendRefused("the file is not there any more")
    if response.status != 200:
        raise NotSent(f"the file cannot be loaded now: status {response.status}")
    if response.history or response.content_type == "text/html":
        # Slack leads a caller who may not load a file to the page to sign in.
        raise SendRefused("Slack does not give the file out: the app needs the scope files:read")
