"""A server on this machine that gives scripted answers and records the requests."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import trustme

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

# Signs certificates for the name `localhost`; its key is public.
AUTHORITY = trustme.CA()

Answer: TypeAlias = "Sequence[bytes | Stall] | Callable[[Asked], Sequence[bytes | Stall]]"


class Stall:
    """In place of more bytes: send nothing until the client has closed the connection."""


STALL = Stall()


@dataclass
class Asked:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Loopback:
    """The server: its URL and the requests. `gone` is set when a client closes the connection during a `STALL`."""

    answers: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            self.asked.append(await _request(reader))
            answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
            for piece in answer(self.asked[-1]) if callable(answer) else answer:
                if isinstance(piece, Stall):
                    await reader.read()
                    self.gone.set()
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def _request(reader: StreamReader) -> Asked:
    line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    named = dict(header.split(": ", 1) for header in headers)
    return Asked(line, named, await reader.readexactly(int(named.get("Content-Length", "0"))))


@asynccontextmanager
async def loopback(*answers: Answer, secure: bool = False) -> AsyncIterator[Loopback]:
    """Give these answers one after the other, and repeat the last one. Each is sent in pieces, then it closes."""
    served = Loopback(list(answers))
    context = None
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("localhost").configure_cert(context)
    server = await asyncio.start_server(served.answer, "localhost" if secure else "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    served.url = f"https://localhost:{port}/agent" if secure else f"http://127.0.0.1:{port}/agent"
    async with server:
        yield served


def head(status: int = 200, *headers: str, kind: str = "text/event-stream") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", *headers, "", ""]).encode()


def frames(values: Iterable[Any]) -> list[bytes]:
    """Each value as a frame. Text is not encoded."""
    return [
        b"data: " + (value.encode() if isinstance(value, str) else msgspec.json.encode(value)) + b"\n\n"
        for value in values
    ]


def streamed(values: Iterable[Any]) -> list[bytes]:
    """A complete response in chunked coding."""
    chunks = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames(values)]
    return [head(200, "Transfer-Encoding: chunked"), *chunks, b"0\r\n\r\n"]
