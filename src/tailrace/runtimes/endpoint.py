"""An agent that is a web address: asked by POST, and answering with a stream of events whose data is JSON.

Owns what is expected of such an answer, and what its frames hold as plain values. What those mean is for a translator,
and the connection is `http`'s.

JavaScript counts a character outside the basic plane as two, and may cut a text between them. Such halves are put
together again here, so that no text of ours holds one.
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
from tailrace.runtimes.surrogates import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Hashable, Mapping

_EXCERPT, _EXCERPT_READ = 200, 4 * 1024
_EXCERPT_S = 5.0  # what a refusal says is nice to have, and not waited for as an answer is
# Redirects that ask for something else than what was asked; often a page to log in.
_PAGES = {301, 302, 303}
_IN_WORDS = {"application/json", "application/problem+json", "text/plain"}
_encoder = msgspec.json.Encoder()


class Endpoint:
    """Where an agent answers. `headers` go with every request: what it asks for to let us in, for example.

    `read_timeout_s` is how long the agent may say nothing, not even that it is still there.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, read_timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self.address = WebAddress.parse(url)
        self.url = url
        self._headers = dict(headers or {})
        self._read_timeout_s = read_timeout_s
        HttpRequest(url=url, headers=self._headers).encode(self.address)

    async def post(self, question: Any) -> AsyncGenerator[Any, None]:
        """What the agent answers, each frame as the value it holds; closing this cancels the request.

        Raises `HttpFault`.
        """
        request = HttpRequest(
            url=self.url,
            method="POST",
            headers={"Content-Type": "application/json", "Accept": "text/event-stream", **self._headers},
            body=_encoder.encode(question),
        )
        try:
            async with aclosing(read_event_stream(request, read_timeout_s=self._read_timeout_s)) as frames:
                async for frame in frames:
                    yield frame_value(frame.data)
        except HttpFault as fault:
            raise self._named(fault) from fault

    def _named(self, fault: HttpFault) -> HttpFault:
        """The same fault, which says whose it is."""
        said = str(fault) if str(self.address) in str(fault) else f"{self.address}: {fault}"
        return HttpFault(said, code=fault.code, status_code=fault.status_code)


async def read_event_stream(
    request: HttpRequest, *, read_timeout_s: float = READ_TIMEOUT_S
) -> AsyncGenerator[Frame, None]:
    """Ask for a stream of events, and have each as it comes.

    Raises `HttpFault`, also for an answer that is no such stream, and for one that ends in the middle of an event.
    """
    async with send_request(request, read_timeout_s=read_timeout_s) as answer:
        await _expect_stream(WebAddress.parse(request.url), answer)
        decoder = FrameDecoder()
        async with aclosing(answer.body()) as pieces:
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


async def _expect_stream(server: WebAddress, answer: HttpResponse) -> None:
    """Raises `HttpFault` unless the answer is a stream of events."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if answer.status in _PAGES:
        said = (
            f"{server} sends us on to a page (status {answer.status}). Name the address where the agent itself answers."
        )
        raise HttpFault(said, code="redirected", status_code=answer.status)
    if answer.status != 200:
        excerpt = await _excerpt(answer) if kind in _IN_WORDS else ""
        said = f"{server} answers with status {answer.status}{f': {excerpt}' if excerpt else '.'}"
        raise HttpFault(said, code="refused", status_code=answer.status)
    if kind != "text/event-stream":
        said = f"{server} answers with {kind or 'no type'}, where a stream of events (text/event-stream) is expected."
        raise HttpFault(said, code="malformed")
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise HttpFault(f"{server} answers compressed ({coding}), which was not asked for.", code="malformed")


async def _excerpt(answer: HttpResponse) -> str:
    with suppress(HttpFault, TimeoutError):
        async with asyncio.timeout(_EXCERPT_S):
            return " ".join((await answer.read(_EXCERPT_READ)).decode(errors="replace").split())[:_EXCERPT]
    return ""


def frame_value(data: str) -> Any:
    """The JSON value in a frame's data; the data itself where it is none.

    Of an object's `delta` half a character may be left at either end: see `SurrogateJoiner`.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        value = json.loads(data)  # which takes halves of characters, as JavaScript writes them
        if isinstance(value, dict) and isinstance(piece := value.get("delta"), str):
            return {**replace_surrogates(value), "delta": piece}
        return replace_surrogates(value)
    except (ValueError, RecursionError):
        return data


class SurrogateJoiner:
    """Where the pieces of texts meet: half a character at the end of a piece waits for the next of the same text."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, str] = {}

    def join(self, key: Hashable, piece: Any) -> Any:
        """The piece, which begins with what waited for it and ends with a whole character."""
        if not isinstance(piece, str):
            return piece
        piece = self._halves.pop(key, "") + piece
        if "\ud800" <= piece[-1:] <= "\udbff":
            self._halves[key] = piece[-1]
            piece = piece[:-1]
        return piece if piece.isascii() else replace_surrogates(piece)
