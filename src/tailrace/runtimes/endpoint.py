"""An agent at a web address: it gets a POST, and responds with server-sent events that contain JSON.

This module owns which responses are accepted, and reads the JSON in the events. The translators own the meaning of the
JSON; `http` owns the connection.

A JavaScript program stores some characters, such as emoji, as two halves (surrogates), and may cut a text between them.
`SurrogateJoiner` joins them again, so that no event contains half a character.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import RuntimeFault
from tailrace.runtimes.http import READ_TIMEOUT_S, HttpFault, HttpRequest, HttpResponse, WebAddress, send_request
from tailrace.runtimes.sse import Frame, FrameDecoder
from tailrace.surrogates import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

_EXCERPT, _EXCERPT_READ = 200, 4 * 1024
_EXCERPT_TIMEOUT_S = 5.0  # the text of a refusal is useful, but not worth a long wait
# These redirects ask for another resource with GET; often it is a page to log in.
_PAGES = {301, 302, 303}
_TEXT_TYPES = {"application/json", "application/problem+json", "text/plain"}
_encoder = msgspec.json.Encoder()


class Endpoint:
    """The web address of an agent. `headers` are sent with every request, for example an access token.

    `read_timeout_s` is how long the agent may send nothing, not even a comment that keeps the connection alive.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, read_timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self.address = WebAddress.parse(url)
        self.url = url
        self._headers = dict(headers or {})
        self._read_timeout_s = read_timeout_s
        HttpRequest(url=url, headers=self._headers).encode(self.address)  # raises for an invalid header

    async def post(self, body: Any) -> AsyncGenerator[Any, None]:
        """Send `body` as JSON, and yield the value of each server-sent event of the response.

        Closing this iterator cancels the request. Raises `HttpFault`.
        """
        request = HttpRequest(
            url=self.url,
            method="POST",
            headers={"Content-Type": "application/json", "Accept": "text/event-stream", **self._headers},
            body=_encoder.encode(body),
        )
        try:
            async with aclosing(read_event_stream(request, read_timeout_s=self._read_timeout_s)) as frames:
                async for frame in frames:
                    yield frame_value(frame.data)
        except HttpFault as fault:
            raise self._with_server(fault) from fault

    def _with_server(self, fault: HttpFault) -> HttpFault:
        """The same error, with the server's name in its text."""
        text = str(fault) if str(self.address) in str(fault) else f"{self.address}: {fault}"
        return HttpFault(text, code=fault.code, status_code=fault.status_code)


async def read_event_stream(
    request: HttpRequest, *, read_timeout_s: float = READ_TIMEOUT_S
) -> AsyncGenerator[Frame, None]:
    """Send a request and yield the server-sent events of the response as they arrive.

    Raises `HttpFault`, also if the response is no event stream or ends in the middle of an event.
    """
    async with send_request(request, read_timeout_s=read_timeout_s) as response:
        await _require_event_stream(WebAddress.parse(request.url), response)
        decoder = FrameDecoder()
        async with aclosing(response.body()) as pieces:
            async for piece in pieces:
                try:
                    for frame in decoder.feed(piece):
                        yield frame
                except RuntimeFault as fault:
                    raise HttpFault(str(fault), code="malformed") from fault
        try:
            decoder.close()
        except RuntimeFault as fault:
            raise HttpFault(str(fault), code="cut_off") from fault


async def _require_event_stream(server: WebAddress, response: HttpResponse) -> None:
    """Raises `HttpFault` unless the response is a stream of server-sent events."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status in _PAGES:
        text = (
            f"{server} redirects to a page (status {response.status}). Name the address where the agent itself answers."
        )
        raise HttpFault(text, code="redirected", status_code=response.status)
    if response.status != 200:
        excerpt = await _excerpt(response) if kind in _TEXT_TYPES else ""
        text = f"{server} answers with status {response.status}{f': {excerpt}' if excerpt else '.'}"
        raise HttpFault(text, code="refused", status_code=response.status)
    if kind != "text/event-stream":
        text = f"{server} answers with {kind or 'no type'}, but an event stream (text/event-stream) is expected."
        raise HttpFault(text, code="malformed")
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise HttpFault(f"{server} answers compressed ({coding}), which was not asked for.", code="malformed")


async def _excerpt(response: HttpResponse) -> str:
    with suppress(HttpFault, TimeoutError):
        async with asyncio.timeout(_EXCERPT_TIMEOUT_S):
            return " ".join((await response.read(_EXCERPT_READ)).decode(errors="replace").split())[:_EXCERPT]
    return ""


def frame_value(data: str) -> Any:
    """The JSON value of a server-sent event's data, or the data itself if it is not JSON.

    The `delta` of an object may still begin or end with half a character: see `SurrogateJoiner`.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        value = json.loads(data)  # this decoder accepts lone surrogates, which JavaScript writes
        if isinstance(value, dict) and isinstance(piece := value.get("delta"), str):
            return {**replace_surrogates(value), "delta": piece}
        return replace_surrogates(value)
    except (ValueError, RecursionError):
        return data
