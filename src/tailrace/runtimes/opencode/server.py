"""A server of opencode's own for one turn: how it is found, and what it is asked over HTTP.

Owns the addresses and what stands in the requests. What its events mean is the translator's. The server listens on this
machine alone, and to whoever knows the password, which is made for it.
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

COMMAND = ("serve", "--hostname", "127.0.0.1", "--port", "0")
PASSWORD = "OPENCODE_SERVER_PASSWORD"  # noqa: S105  # the name of a variable
_ADDRESS = re.compile(rb"listening on (http://\S+)")
_LONGEST_ANSWER = 1024 * 1024
_READ_TIMEOUT_S = 60.0
# Without a word the agent takes a denial for the end of its turn.
_GO_ON = "This is not allowed here. Go on without it."


class _Session(msgspec.Struct):
    id: str


def address_in(line: bytes) -> str:
    """The address that a server says it listens on; empty where the line says something else."""
    found = _ADDRESS.search(line)
    return "" if found is None else found[1].decode(errors="replace").rstrip("/")


class OpencodeServer:
    """A server that listens at `url`. Every method raises `HttpFault` where the server cannot be asked."""

    def __init__(self, url: str, password: str) -> None:
        self._url = url
        word = base64.b64encode(f"opencode:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {word}"}

    async def events(self) -> AsyncGenerator[Any, None]:
        """What happens, from now on; the first event tells that the server has begun to tell."""
        request = HttpRequest(url=f"{self._url}/event", headers=self._headers)
        async with aclosing(read_event_stream(request, read_timeout_s=_READ_TIMEOUT_S)) as frames:
            async for frame in frames:
                yield frame_value(frame.data)

    async def open_session(self, session_id: str) -> str:
        """The session of that id, if there is one, else a new one; its id."""
        if session_id:
            status, _ = await self._ask("GET", f"/session/{quote(session_id, safe='')}")
            if status == 200:
                return session_id
        status, body = await self._ask("POST", "/session", {})
        try:
            return msgspec.json.decode(body, type=_Session).id
        except msgspec.MsgspecError as error:
            raise RuntimeFault(f"opencode opens no session: it answers with status {status}.") from error

    async def prompt(self, session_id: str, text: str) -> None:
        """Say something in a session; what comes of it is told by the events."""
        parts = [{"type": "text", "text": text.encode(errors="replace").decode()}]
        status, body = await self._ask("POST", f"/session/{session_id}/prompt_async", {"parts": parts})
        if status >= 400:
            raise RuntimeFault(f"opencode takes no prompt: {body.decode(errors='replace')[:500]}")

    async def abort(self, session_id: str) -> None:
        """Stop what a session is at, and the commands that it runs."""
        await self._ask("POST", f"/session/{session_id}/abort")

    async def permit(self, request_id: str, reply: str) -> None:
        """HttpResponse what a tool wants to be allowed, with `once`, `always` or `reject`."""
        message = {"message": _GO_ON} if reply == "reject" else {}
        await self._ask("POST", f"/permission/{request_id}/reply", {"reply": reply, **message})

    async def reject_question(self, request_id: str) -> None:
        """Tell the agent that nobody answers its question."""
        await self._ask("POST", f"/question/{request_id}/reject")

    async def _ask(self, method: str, path: str, question: Any = None) -> tuple[int, bytes]:
        body = b"" if question is None else msgspec.json.encode(question)
        headers = {"Content-Type": "application/json", **self._headers}
        request = HttpRequest(url=f"{self._url}{path}", method=method, headers=headers, body=body)
        async with send_request(request, read_timeout_s=_READ_TIMEOUT_S) as answer:
            return answer.status, await answer.read(_LONGEST_ANSWER)
