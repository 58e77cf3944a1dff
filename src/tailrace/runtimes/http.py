"""Asking an agent that is a server: one HTTP/1.1 request, and its answer as it comes.

Owns the connection and its manners: TLS as the platform trusts it, a bound on headers, an end to waiting for a server
that says nothing, and the difference between an answer that is over and one that was cut. A redirect is followed on the
same server only, since what we send may be secret. What bodies mean is for the runtimes; no state outlives an answer.

Every way in which it fails is an `HttpFault`, which a runtime turns into the end of its turn.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from tailrace.errors import RuntimeFault, UsageError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator, Awaitable

READ_TIMEOUT_S = 600.0
_CONNECT_S = 30.0
_LONGEST_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_MOST_REDIRECTS = 5
_SAFE = "/?%:@!$&'()*+,;=~[]"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r\n")
_NAME, _VALUE = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+"), re.compile(r"[\t -~\x80-\xff]*")

T = TypeVar("T")


class HttpFault(RuntimeFault):
    """A request came to nothing, or its answer was cut; it does not leave the runtimes.

    `code` is one of `unreachable`, `refused` (by its status), `redirected`, `malformed`, `stalled` and `cut_off`.
    """

    def __init__(self, message: str, *, code: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status_code = status_code


class WebAddress(msgspec.Struct, frozen=True):
    """A web address, taken apart; as text it is the server alone, since paths and queries may hold secrets."""

    is_secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> WebAddress:
        """Raises `UsageError` for what is no web address, or one that holds a password."""
        try:
            parts = urlsplit(url)
            port = parts.port
            host = (parts.hostname or "").encode("idna").decode("ascii")
        except ValueError as error:
            raise UsageError(f"the address cannot be read: {error}.") from error
        if parts.scheme not in {"http", "https"} or not host:
            raise UsageError("this is no web address. Write http:// or https://, the server and the path.")
        if parts.username is not None:
            raise UsageError("an address is shown and kept, so no password may stand in it. Give it as a header.")
        is_secure = parts.scheme == "https"
        path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        return cls(is_secure, host, port or (443 if is_secure else 80), path)

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.authority}"

    @property
    def authority(self) -> str:
        """The server and, where it is not the usual one, the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a server; `headers` are added to our own."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def encode(self, address: WebAddress) -> bytes:
        """The request as it is sent; raises `UsageError` for headers that are none."""
        headers = {
            "Host": address.authority,
            "User-Agent": "tailrace",
            "Accept-Encoding": "identity",
            "Connection": "close",
            **({"Content-Length": str(len(self.body))} if self.body or self.method != "GET" else {}),
            **self.headers,
        }
        for name, value in headers.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise UsageError(f"the header {name!r} cannot be sent: a name or a value holds what none may hold.")
        lines = [f"{self.method} {address.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class HttpResponse:
    """What a server answers: its status and headers, whose names are in lower case, and a body to be read once."""

    def __init__(self, status: int, headers: Mapping[str, str], wire: _Wire) -> None:
        self.status = status
        self.headers = headers
        self._wire = wire

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; raises `HttpFault` where it stalls, or ends before it is whole."""
        coding = self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if coding == "chunked":
            while left := await self._wire.chunk_size():
                while left:
                    piece = await self._wire.part_of(left)
                    left -= len(piece)
                    yield piece
                await self._wire.expect(b"\r\n")
            while await self._wire.line() != b"\r\n":
                pass  # trailers
        elif coding:
            raise _malformed()
        elif length:
            if not length.isdecimal() or len(length) > 15:
                raise _malformed()
            left = int(length)
            while left:
                piece = await self._wire.part_of(left)
                left -= len(piece)
                yield piece
        else:
            while piece := await self._wire.some(_CHUNK):
                yield piece

    async def read(self, longest: int) -> bytes:
        """The first bytes of the body, `longest` at most."""
        read = b""
        async with aclosing(self.body()) as pieces:
            async for piece in pieces:
                read += piece
                if len(read) >= longest:
                    break
        return read[:longest]


class _Wire:
    """The answering end of a connection; every wait on it is bounded."""

    def __init__(self, reader: StreamReader, read_timeout_s: float) -> None:
        self._reader = reader
        self._read_timeout_s = read_timeout_s

    async def head(self) -> bytes:
        return await self._wait(self._reader.readuntil(b"\r\n\r\n"))

    async def line(self) -> bytes:
        return await self._wait(self._reader.readuntil(b"\r\n"))

    async def chunk_size(self) -> int:
        size = _CHUNK_SIZE.fullmatch(await self.line())
        if size is None:
            raise _malformed()
        return int(size[1], 16)

    async def expect(self, text: bytes) -> None:
        if await self._wait(self._reader.readexactly(len(text))) != text:
            raise _malformed()

    async def some(self, most: int) -> bytes:
        return await self._wait(self._reader.read(most))

    async def part_of(self, left: int) -> bytes:
        piece = await self.some(min(left, _CHUNK))
        if not piece:
            raise _cut_off()
        return piece

    async def _wait(self, reading: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._read_timeout_s):
                return await reading
        except TimeoutError as error:
            raise HttpFault(f"the agent said nothing for {self._read_timeout_s:g} seconds.", code="stalled") from error
        except asyncio.LimitOverrunError as error:
            raise _malformed() from error
        except (OSError, EOFError) as error:
            raise _cut_off() from error


@asynccontextmanager
async def send_request(
    request: HttpRequest, *, read_timeout_s: float = READ_TIMEOUT_S
) -> AsyncGenerator[HttpResponse, None]:
    """Ask, and have the answer, whatever its status; leaving closes the connection, which cancels what is under way.

    `read_timeout_s` is how long the server may be silent, at any time. Raises `HttpFault`.
    """
    for _ in range(_MOST_REDIRECTS + 1):
        async with _exchange(request, read_timeout_s) as answer:
            onward = _redirection(request, answer)
            if onward is None:
                yield answer
                return
        request = msgspec.structs.replace(request, url=onward)
    raise HttpFault("the server sends us in circles.", code="redirected")


@asynccontextmanager
async def _exchange(request: HttpRequest, read_timeout_s: float) -> AsyncGenerator[HttpResponse, None]:
    address = WebAddress.parse(request.url)
    sent = request.encode(address)
    reader, writer = await _connect(address)
    try:
        # Not drained: a server may refuse a body that it has not read, and that is what we want to hear.
        writer.write(sent)
        wire = _Wire(reader, read_timeout_s)
        status, headers = _parse_head(await wire.head())
        while status < 200:
            status, headers = _parse_head(await wire.head())
        yield HttpResponse(status, headers, wire)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _connect(address: WebAddress) -> tuple[StreamReader, StreamWriter]:
    trust = await asyncio.to_thread(ssl.create_default_context) if address.is_secure else None
    try:
        async with asyncio.timeout(_CONNECT_S):
            return await asyncio.open_connection(address.host, address.port, ssl=trust, limit=_LONGEST_HEAD)
    except OSError as error:
        why = "it does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise HttpFault(f"{address} cannot be reached: {why}.", code="unreachable") from error


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head[:-4].split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise _malformed()
    headers: dict[str, str] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _malformed()
        name, value = header[1].decode("latin-1").lower(), header[2].decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(status[1]), headers


def _redirection(request: HttpRequest, answer: HttpResponse) -> str | None:
    """Where the same request is to be asked instead; None where this is the answer to it."""
    if answer.status not in {307, 308} or "location" not in answer.headers:
        return None
    onward = urljoin(request.url, answer.headers["location"])
    try:
        here, there = WebAddress.parse(request.url), WebAddress.parse(onward)
    except UsageError as error:
        raise _malformed() from error
    if (here.is_secure, here.host, here.port) != (there.is_secure, there.host, there.port):
        raise HttpFault(
            f"{here} sends us on to {there}, which was not asked for. Name that address if it is the agent's.",
            code="redirected",
            status_code=answer.status,
        )
    return onward


def _malformed() -> HttpFault:
    return HttpFault("the server's answer is no HTTP that we can read.", code="malformed")


def _cut_off() -> HttpFault:
    return HttpFault("the connection was lost in the middle of the answer.", code="cut_off")
