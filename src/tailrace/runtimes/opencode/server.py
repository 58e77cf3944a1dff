"""The server of opencode for one turn: its address, and the requests to it over HTTP.

This module owns the paths and the bodies of the requests; the translator reads the events. The server listens on this
machine only and requires a password that is generated for it.
"""

from __future__ import annotations

import base64
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tailrace.errors import RuntimeFault
from tailrace.runtimes.endpoint import frame_value, read_event_stream
from tailrace.runtimes.http import HttpRequest, send_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SERVE_COMMAND = ("serve", "--hostname", "127.0.0.1", "--port", "0")
PASSWORD_VARIABLE = "OPENCODE_SERVER_PASSWORD"  # noqa: S105  # the name of a variable
_ADDRESS = re.compile(rb"listening on (http://\S+)")
_MAX_RESPONSE_BYTES = 1024 * 1024
_READ_TIMEOUT_S = 60.0
# A denial without a message would end the agent's turn.
_DENIAL = "This is not allowed here. Continue without it."


class _OpencodeSession(msgspec.Struct):
    id: str


def parse_address(line: bytes) -> str:
    """The address in a line of the server's output; empty if the line has none."""
    found = _ADDRESS.search(line)
    return "" if found is None else found[1].decode(errors="replace").rstrip("/")


class OpencodeServer:
    """A server of opencode that listens at `url`. Every method raises `HttpFault` if it does not respond."""

    def __init__(self, url: str, password: str) -> None:
        self._url = url
        credentials = base64.b64encode(f"opencode:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credentials}"}

    async def events(self) -> AsyncGenerator[Any, None]:
        """The events from now on; the first one says that the stream has started."""
        request = HttpRequest(url=f"{self._url}/event", headers=self._headers)
        async with aclosing(read_event_stream(request, read_timeout_s=_READ_TIMEOUT_S)) as frames:
            async for frame in frames:
                yield frame_value(frame.data)

    async def open_session(self, session_id: str) -> str:
        """Return `session_id` if that session still exists. Otherwise create a session and return its id."""
        if session_id:
            status, _ = await self._request("GET", f"/session/{quote(session_id, safe='')}")
            if status == 200:
                return session_id
        status, body = await self._request("POST", "/session", {})
        try:
            return msgspec.json.decode(body, type=_OpencodeSession).id
        except msgspec.MsgspecError as error:
            raise RuntimeFault(f"opencode opened no session: its server responded with status {status}.") from error

    async def prompt(self, session_id: str, text: str) -> None:
        """Send the prompt. The answer comes in the events."""
        parts = [{"type": "text", "text": text.encode(errors="replace").decode()}]
        status, body = await self._request("POST", f"/session/{session_id}/prompt_async", {"parts": parts})
        if status >= 400:
            raise RuntimeFault(f"opencode refused the prompt: {body.decode(errors='replace')[:500]}")

    async def abort(self, session_id: str) -> None:
        """Stop the session and the commands that it runs."""
        await self._request("POST", f"/session/{session_id}/abort")

    async def reply_permission(self, request_id: str, reply: str) -> None:
        """Answer a request for permission with `once`, `always` or `reject`."""
        message = {"message": _DENIAL} if reply == "reject" else {}
        await self._request("POST", f"/permission/{request_id}/reply", {"reply": reply, **message})

    async def reject_question(self, request_id: str) -> None:
        """Tell the agent that its question gets no answer."""
        await self._request("POST", f"/question/{request_id}/reject")

    async def _request(self, method: str, path: str, value: Any = None) -> tuple[int, bytes]:
        body = b"" if value is None else msgspec.json.encode(value)
        headers = {"Content-Type": "application/json", **self._headers}
        request = HttpRequest(url=f"{self._url}{path}", method=method, headers=headers, body=body)
        async with send_request(request, read_timeout_s=_READ_TIMEOUT_S) as answer:
            return answer.status, await answer.read(_MAX_RESPONSE_BYTES)
