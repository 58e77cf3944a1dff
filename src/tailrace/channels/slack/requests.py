"""The requests of Slack to the channel by HTTP: each is signed over its raw body, and not older than five minutes."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from tailrace.channels.slack.events import EventPayload
from tailrace.channels.webhook import RefusedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

PATH = "/slack/events"
"""The path of the request URL, for events, buttons and slash commands."""
_MAX_AGE_S = 300
_MAX_FIELDS = 100


class SignedRequests:
    """Checks the requests. `receive` gets the kind and the JSON of each, and may raise as `Inbox.receive` does.

    `clock` gives the seconds since 1970.
    """

    def __init__(
        self, receive: Callable[[str, bytes], Awaitable[None]], *, secret: str, clock: Callable[[], float]
    ) -> None:
        self._receive = receive
        self._secret = secret.encode()
        self._clock = clock

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raise `RefusedRequest` if the request has no signature, or was signed too long ago."""
        at = headers.get("X-Slack-Request-Timestamp", "")
        if not (at.isascii() and at.isdecimal() and len(at) < 16) or abs(self._clock() - int(at)) > _MAX_AGE_S:
            raise RefusedRequest(401)
        if not headers.get("X-Slack-Signature", "").startswith("v0="):
            raise RefusedRequest(401)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> str:
        """Record what a request says. Returns the challenge if Slack asks for a proof of the address."""
        signed = b"v0:" + headers["X-Slack-Request-Timestamp"].encode() + b":" + body
        expected = "v0=" + hmac.new(self._secret, signed, hashlib.sha256).hexdigest()
        given = headers["X-Slack-Signature"].encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, expected.encode()):
            raise RefusedRequest(401)
        if headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
            await self._receive(*_form(body))
            return ""
        try:
            payload = msgspec.json.decode(body, type=EventPayload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise RefusedRequest(400) from None
        if payload.type == "url_verification":
            return payload.challenge
        await self._receive("events_api", body)
        return ""


def _form(body: bytes) -> tuple[str, bytes]:
    """The kind and the JSON of a press of a button or of a slash command, which come as a form."""
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise RefusedRequest(400) from None
    if "payload" in fields:
        return "interactive", fields["payload"].encode()
    return "slash_commands", msgspec.json.encode(fields)
