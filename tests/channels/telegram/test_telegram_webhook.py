"""The webhook by raw HTTP: who is refused, and when."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tailrace.channels.telegram.webhook import WebhookRequests
from tailrace.channels.webhook import MAX_BODY, WebhookServer
from tailrace.errors import LedgerUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

SECRET = "the-secret_of-the-webhook"
UPDATE = b'{"update_id": 5, "message": {}}'


class Recorder:
    """Keeps the bodies of updates. It fails with the errors first."""

    def __init__(self, *errors: Exception) -> None:
        self.bodies: list[bytes] = []
        self.failures: list[Exception] = []
        self._errors = list(errors)

    async def receive(self, body: bytes) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.bodies.append(body)


@asynccontextmanager
async def listening(recorder: Recorder) -> AsyncIterator[int]:
    requests = WebhookRequests(recorder.receive, secret=SECRET)
    server = WebhookServer(requests, path="/hook", on_failure=recorder.failures.append)
    await server.listen("127.0.0.1", 0)
    try:
        yield server.port
    finally:
        await server.close()


async def send(port: int, head: str, body: Iterable[bytes] = ()) -> bytes:
    """The answer to a request, whether or not all of it could be sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{head}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        for piece in body:
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass  # the server has answered and closed
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def request(body: bytes = UPDATE, *, secret: str | None = SECRET, headers: str = "", path: str = "/hook") -> str:
    given = "" if secret is None else f"\r\nX-Telegram-Bot-Api-Secret-Token: {secret}"
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}{given}{headers}"


def status(answer: bytes) -> int:
    """The status; 413 if the connection was closed while the body was still being sent."""
    return int(answer.split()[1]) if answer else 413


async def post(recorder: Recorder, body: bytes = UPDATE, head: str = "") -> int:
    async with listening(recorder) as port, asyncio.timeout(20):
        return status(await send(port, head or request(body), [body]))


def test_an_update_is_taken() -> None:
    recorder = Recorder()
    assert asyncio.run(post(recorder)) == 200
    assert recorder.bodies == [UPDATE]


@pytest.mark.parametrize("secret", [None, "", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper(), "\u00e9"])
def test_without_the_secret_nothing_is_taken(secret: str | None) -> None:
    recorder = Recorder()
    assert asyncio.run(post(recorder, head=request(secret=secret))) == 401
    assert recorder.bodies == []


def test_the_secret_is_compared_before_the_body_is_read() -> None:
    async def run() -> int:
        recorder = Recorder()
        async with listening(recorder) as port, asyncio.timeout(20):
            head = f"POST /hook HTTP/1.1\r\nContent-Length: {10**12}\r\nX-Telegram-Bot-Api-Secret-Token: wrong"
            return status(await send(port, head, [b"{"]))  # the rest of the body never comes

    assert asyncio.run(run()) == 401


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_100_mb_is_refused_before_it_is_read(*, is_chunked: bool) -> None:
    sent = 0

    def pieces() -> Iterable[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            piece = b" " * 1_000_000
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece

    async def run() -> bytes:
        recorder = Recorder()
        async with listening(recorder) as port, asyncio.timeout(20):
            length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 100000000"
            head = f"POST /hook HTTP/1.1\r\n{length}\r\nX-Telegram-Bot-Api-Secret-Token: {SECRET}"
            answer = await send(port, head, pieces())
            assert recorder.bodies == []
            return answer

    assert status(asyncio.run(run())) == 413
    assert sent < 100


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_compressed_body_is_refused(encoding: str) -> None:
    bomb = zlib.compress(bytes(10_000_000))
    recorder = Recorder()
    head = request(bomb, headers=f"\r\nContent-Encoding: {encoding}")
    assert asyncio.run(post(recorder, bomb, head)) == 415
    assert recorder.bodies == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff",
        UPDATE[:-1],
        b"[]",
        b'{"update_id": "5"}',
        b'{"update_id": 5, "message": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"update_id": 5, "a":' * 20_000 + b"1" + b"}" * 20_000,
    ],
)
def test_what_is_no_update_is_refused(body: bytes) -> None:
    recorder = Recorder()
    assert asyncio.run(post(recorder, body)) == 400
    assert recorder.bodies == []


def test_the_largest_body_is_taken() -> None:
    recorder = Recorder()
    whole = UPDATE + b" " * (MAX_BODY - len(UPDATE))
    assert asyncio.run(post(recorder, whole)) == 200
    assert asyncio.run(post(recorder, whole + b" ")) == 413


@pytest.mark.parametrize(("method", "path", "expected"), [("GET", "/hook", 405), ("POST", "/", 404)])
def test_other_requests(method: str, path: str, expected: int) -> None:
    head = request(path=path).replace("POST", method, 1)
    assert asyncio.run(post(Recorder(), head=head)) == expected


def test_an_update_that_was_not_recorded_is_sent_again() -> None:
    async def run() -> list[int]:
        async with listening(recorder) as port:
            return [status(await send(port, request(), [UPDATE])) for _ in range(2)]

    recorder = Recorder(LedgerUnavailable("the disk is full"))
    assert asyncio.run(run()) == [503, 200]
    assert recorder.failures == []


def test_an_inbox_that_fails_is_reported() -> None:
    recorder = Recorder(ValueError("a mistake"))
    assert asyncio.run(post(recorder)) == 503
    assert [type(error) for error in recorder.failures] == [ValueError]


def test_a_taken_address_is_a_clear_error() -> None:
    async def run() -> None:
        async with listening(Recorder()) as port:
            requests = WebhookRequests(Recorder().receive, secret=SECRET)
            second = WebhookServer(requests, path="/", on_failure=lambda _: None)
            with pytest.raises(UsageError, match=f"nothing can listen at 127.0.0.1:{port}"):
                await second.listen("127.0.0.1", port)

    asyncio.run(run())
