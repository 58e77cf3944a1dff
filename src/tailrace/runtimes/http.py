"""One HTTP/1.1 request to an agent that is a server, and the response as it arrives.

This module owns the connection: TLS with the platform's certificates, a limit on headers, a timeout for a silent
server, and the difference between a complete response and one that was cut. A redirect is followed on the same server
only, because a request may hold secrets. The runtimes read the bodies. No state is kept after a response.

Every failure is an `HttpFault`, and the runtime then ends its turn with that failure.
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
_MAX_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_MAX_REDIRECTS = 5
_SAFE = "/?%:@!$&'()*+,;=~[]"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r\n")
_NAME, _VALUE = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+"), re.compile(r"[\t -~\x80-\xff]*")

T = TypeVar("T")


class HttpFault(RuntimeFault):
    """A request failed, or its response was cut. A runtime turns it into the failure of its turn.

    `code` is `unreachable`, `refused` (the response has an error status), `redirected`, `malformed`, `stalled` or
    `cut_off`.
    """

    def __init__(self, message: str, *, code: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status_code = status_code


class WebAddress(msgspec.Struct, frozen=True):
    """A parsed URL. `str` of it shows only the server, because paths and queries may hold secrets."""

    is_secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> WebAddress:
        """Parse a URL. Raises `UsageError` for text that is no web address, and for an address with a password."""
        try:
            parts = urlsplit(url)
            port = parts.port
            host = (parts.hostname or "").encode("idna").decode("ascii")
        except ValueError as error:
            raise UsageError(f"the address cannot be read: {error}.") from error
        if parts.scheme not in {"http", "https"} or not host:
            raise UsageError("this is no web address. Write http:// or https://, the server and the path.")
        if parts.username is not None:
            raise UsageError(
                "an address is shown and stored, so it may not hold a password. Send the password in a header."
            )
        is_secure = parts.scheme == "https"
        path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        return cls(is_secure, host, port or (443 if is_secure else 80), path)

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.authority}"

    @property
    def authority(self) -> str:
        """The host, and the port if it is not the default one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `headers` are added to the headers that every request has."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def encode(self, address: WebAddress) -> bytes:
        """The bytes of the request. Raises `UsageError` for an invalid header."""
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
                raise UsageError(f"the header {name!r} cannot be sent: it holds a character that is not allowed.")
        lines = [f"{self.method} {address.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class HttpResponse:
    """A response: status, headers with lower-case names, and a body that can be read once."""

    def __init__(self, status: int, headers: Mapping[str, str], reader: _ResponseReader) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives. Raises `HttpFault` if the body stalls or is cut."""
        coding = self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if coding == "chunked":
            while left := await self._reader.chunk_size():
                while left:
                    piece = await self._reader.read_up_to(left)
                    left -= len(piece)
                    yield piece
                await self._reader.expect(b"\r\n")
            while await self._reader.line() != b"\r\n":
                pass  # trailers
        elif coding:
            raise _malformed()
        elif length:
            if not length.isdecimal() or len(length) > 15:
                raise _malformed()
            left = int(length)
            while left:
                piece = await self._reader.read_up_to(left)
                left -= len(piece)
                yield piece
        else:
            while piece := await self._reader.read_some(_CHUNK):
                yield piece

    async def read(self, limit: int) -> bytes:
        """The first bytes of the body, at most `limit`."""
        read = b""
        async with aclosing(self.body()) as pieces:
            async for piece in pieces:
                read += piece
                if len(read) >= limit:
                    break
        return read[:limit]


class _ResponseReader:
    """Reads a response from the connection. Each read has a timeout."""

    def __init__(self, stream: StreamReader, read_timeout_s: float) -> None:
        self._stream = stream
        self._read_timeout_s = read_timeout_s

    async def head(self) -> bytes:
        return await self._wait(self._stream.readuntil(b"\r\n\r\n"))

    async def line(self) -> bytes:
        return await self._wait(self._stream.readuntil(b"\r\n"))

    async def chunk_size(self) -> int:
        size = _CHUNK_SIZE.fullmatch(await self.line())
        if size is None:
            raise _malformed()
        return int(size[1], 16)

    async def expect(self, text: bytes) -> None:
        if await self._wait(self._stream.readexactly(len(text))) != text:
            raise _malformed()

    async def read_some(self, limit: int) -> bytes:
        return await self._wait(self._stream.read(limit))

    async def read_up_to(self, left: int) -> bytes:
        piece = await self.read_some(min(left, _CHUNK))
        if not piece:
            raise _cut_off()
        return piece

    async def _wait(self, read: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._read_timeout_s):
                return await read
        except TimeoutError as error:
            raise HttpFault(f"the agent sent nothing for {self._read_timeout_s:g} seconds.", code="stalled") from error
        except asyncio.LimitOverrunError as error:
            raise _malformed() from error
        except (OSError, EOFError) as error:
            raise _cut_off() from error


@asynccontextmanager
async def send_request(
    request: HttpRequest, *, read_timeout_s: float = READ_TIMEOUT_S
) -> AsyncGenerator[HttpResponse, None]:
    """Send a request and yield its response, whatever its status. Leaving the `async with` block cancels the request.

    `read_timeout_s` limits each wait for more bytes. Raises `HttpFault`.
    """
    for _ in range(_MAX_REDIRECTS + 1):
        async with _exchange(request, read_timeout_s) as response:
            location = _redirect_target(request, response)
            if location is None:
                yield response
                return
        request = msgspec.structs.replace(request, url=location)
    raise HttpFault("the server redirects in circles.", code="redirected")


@asynccontextmanager
async def _exchange(request: HttpRequest, read_timeout_s: float) -> AsyncGenerator[HttpResponse, None]:
    address = WebAddress.parse(request.url)
    encoded = request.encode(address)
    stream, writer = await _connect(address)
    try:
        # Do not wait until the body is sent: a server may refuse the body before reading it, and respond with the
        # reason.
        writer.write(encoded)
        response = _ResponseReader(stream, read_timeout_s)
        status, headers = _parse_head(await response.head())
        while status < 200:
            status, headers = _parse_head(await response.head())
        yield HttpResponse(status, headers, response)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _connect(address: WebAddress) -> tuple[StreamReader, StreamWriter]:
    trust = await asyncio.to_thread(ssl.create_default_context) if address.is_secure else None
    try:
        async with asyncio.timeout(_CONNECT_S):
            return await asyncio.open_connection(address.host, address.port, ssl=trust, limit=_MAX_HEAD)
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


def _redirect_target(request: HttpRequest, response: HttpResponse) -> str | None:
    """The URL to which the server redirects the request. None if the response is not a redirect."""
    if response.status not in {307, 308} or "location" not in response.headers:
        return None
    target = urljoin(request.url, response.headers["location"])
    try:
        here, there = WebAddress.parse(request.url), WebAddress.parse(target)
    except UsageError as error:
        raise _malformed() from error
    if (here.is_secure, here.host, here.port) != (there.is_secure, there.host, there.port):
        raise HttpFault(
            f"{here} redirects to {there}. Name that address if it is the agent's.",
            code="redirected",
            status_code=response.status,
        )
    return target


def _malformed() -> HttpFault:
    return HttpFault("the server's response is not valid HTTP.", code="malformed")


def _cut_off() -> HttpFault:
    return HttpFault("the connection was lost in the middle of the response.", code="cut_off")
