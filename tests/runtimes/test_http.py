"""The HTTP client against a server on this machine: bodies, failures, redirects, certificates, addresses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import pytest
from loopback import AUTHORITY, STALL, Answer, Loopback, head, loopback, streamed

from tailrace.errors import UsageError
from tailrace.runtimes.endpoint import Endpoint, read_event_stream
from tailrace.runtimes.http import HttpFault, HttpRequest, WebAddress, send_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

T = TypeVar("T")
CHUNKED = "Transfer-Encoding: chunked"
IN_JSON = head(401, "Content-Length: 27", kind="application/json")


def served(use: Callable[[Loopback], Awaitable[T]], *answers: Answer, secure: bool = False) -> T:
    """The result of `use` with a server that gives these answers."""

    async def run() -> T:
        async with loopback(*answers, secure=secure) as server:
            return await use(server)

    return asyncio.run(run())


async def whole(server: Loopback) -> bytes:
    async with send_request(HttpRequest(url=server.url), read_timeout_s=5) as answer:
        return b"".join([piece async for piece in answer.body()])


async def fault_of(server: Loopback, *, read_timeout_s: float = 5) -> tuple[str, int | None, str]:
    """The code, status and text of the fault of reading its event stream."""
    with pytest.raises(HttpFault) as caught:
        async for _ in read_event_stream(HttpRequest(url=server.url), read_timeout_s=read_timeout_s):
            pass
    return caught.value.code, caught.value.status_code, str(caught.value).replace(server.url[:-6], "SERVER")


@pytest.mark.parametrize(
    "answer",
    [
        [head(), b"hel", b"lo"],
        [head(200, "Content-Length: 5"), b"hel", b"lo, and what is not part of it"],
        [head(200, CHUNKED), b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"],
        [head(200, CHUNKED), b"00003 \r", b"\nhe", b"l\r\n", b"2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", head(), b"hello"],
        [b"HTTP/1.0 200\r\nX:\r\nX: two \r\n\r\nhello"],
    ],
)
def test_a_body_is_read_in_every_coding(answer: Answer) -> None:
    assert served(whole, answer) == b"hello"


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [b"HTTP/1.1 200 OK\r\nX: y"],
        [head(200, "Content-Length: 6"), b"hello"],
        [head(200, CHUNKED), b"5\r\nhello\r\n"],
        [head(200, CHUNKED), b"6\r\nhello"],
        [head(200, CHUNKED), b"5\r\nhello\r\n0\r\n"],
    ],
)
def test_a_response_that_is_cut_is_cut_off(answer: Answer) -> None:
    assert served(fault_of, answer) == ("cut_off", None, "the connection was lost in the middle of the response.")


@pytest.mark.parametrize(
    "answer",
    [
        [b"SSH-2.0-OpenSSH\r\n\r\n"],
        [b"HTTP/2 200\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"],
        [head(200, "Transfer-Encoding: gzip, chunked")],
        [head(200, "Content-Length: -1")],
        [head(200, "Content-Length: 5", "Content-Length: 6"), b"hello"],
        [head(200, CHUNKED), b"0x5\r\nhello\r\n"],
        [head(200, CHUNKED), b"5\r\nhello!!"],
        [head(200, CHUNKED), b"5" * 200_000],
    ],
)
def test_a_response_that_is_not_http_is_malformed(answer: Answer) -> None:
    assert served(fault_of, answer) == ("malformed", None, "the server's response is not valid HTTP.")


def test_a_silent_server_is_stalled_after_the_timeout() -> None:
    async def request(server: Loopback) -> tuple[str, int | None, str]:
        fault = await fault_of(server, read_timeout_s=0.05)
        await server.gone.wait()  # the connection is closed, too
        return fault

    answers: list[Answer] = [[STALL], [head(), STALL], [head(200, CHUNKED), b"5\r\nda", STALL]]
    for answer in answers:
        assert served(request, answer) == ("stalled", None, "the agent sent nothing for 0.05 seconds.")


def test_comments_are_no_frames() -> None:
    async def request(server: Loopback) -> object:
        return [frame.data async for frame in read_event_stream(HttpRequest(url=server.url))]

    assert served(request, [head(), b": keep-alive\n\n", b"data: x\n\n", b": keep-alive\n\n"]) == ["x"]


def test_a_stream_that_ends_inside_a_frame_is_cut_off() -> None:
    fault = ("cut_off", None, "the stream ended in the middle of an event.")
    assert served(fault_of, [head(), b"data: x\n\ndata: y\n"]) == fault


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([IN_JSON, b'{"detail":\n "no token, no"}'], ': {"detail": "no token, no"}'),
        ([head(500, kind="text/plain; charset=utf-8"), b"x" * 9000], ": " + "x" * 200),
        ([head(503, kind="text/html"), b"<!doctype html>"], "."),
        ([head(429, "Content-Length: 9", kind="text/plain"), b"slow"], "."),
        ([head(404, "Content-Length: 0", kind="text/plain")], "."),
        ([head(204)], "."),
    ],
    ids=["401", "500", "503", "429", "404", "204"],
)
def test_a_refusal_has_its_status_and_an_excerpt(answer: Answer, message: str, request: pytest.FixtureRequest) -> None:
    status = int(request.node.callspec.id)
    assert served(fault_of, answer) == ("refused", status, f"SERVER answers with status {status}{message}")


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_to_a_page_is_a_fault(status: int) -> None:
    message = f"SERVER redirects to a page (status {status}). Name the address where the agent itself answers."
    assert served(fault_of, [head(status, "Location: /login")]) == ("redirected", status, message)


def test_a_compressed_response_is_malformed() -> None:
    message = "SERVER answers compressed (gzip), which was not asked for."
    assert served(fault_of, [head(200, "Content-Encoding: gzip"), b"\x1f\x8b"]) == ("malformed", None, message)
    assert served(fault_of, [head(200, "Content-Encoding: identity"), b"data: x\n"])[0] == "cut_off"


def test_a_page_is_no_event_stream() -> None:
    message = "SERVER answers with text/html, but an event stream (text/event-stream) is expected."
    assert served(fault_of, [head(kind="text/html"), b"<html>"]) == ("malformed", None, message)


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_repeats_the_request(status: int) -> None:
    async def request(server: Loopback) -> object:
        values = [value async for value in Endpoint(server.url, headers={"Authorization": "s"}).post({"q": 1})]
        return values, [(asked.line, asked.json, asked.headers["Authorization"]) for asked in server.asked]

    first = ("POST /agent HTTP/1.1", {"q": 1}, "s")
    second = ("POST /agent/?a=b HTTP/1.1", {"q": 1}, "s")
    assert served(request, [head(status, "Location: /agent/?a=b")], streamed([{"a": 1}])) == (
        [{"a": 1}],
        [first, second],
    )


@pytest.mark.parametrize(
    ("location", "code", "message"),
    [
        ("http://elsewhere.example/x?token=1", "redirected", "SERVER redirects to http://elsewhere.example."),
        ("https://127.0.0.1/agent", "redirected", "SERVER redirects to https://127.0.0.1."),
        ("ftp://127.0.0.1/agent", "malformed", "the server's response is not valid HTTP."),
        ("/round", "redirected", "the server redirects in circles."),
    ],
)
def test_a_redirect_to_another_server_or_in_circles_is_a_fault(location: str, code: str, message: str) -> None:
    async def request(server: Loopback) -> object:
        found, _, words = await fault_of(server)
        return found, words.startswith(message), len(server.asked)

    count = 6 if location == "/round" else 1
    assert served(request, [head(307, f"Location: {location}")]) == (code, True, count)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def closed() -> str:
        async with loopback([]) as server:
            url = server.url
        with pytest.raises(HttpFault) as caught:
            await whole(Loopback([], url=url))
        return f"{caught.value.code}: {caught.value}"

    assert asyncio.run(closed()).startswith("unreachable: http://127.0.0.1:")


def test_a_certificate_of_an_unknown_authority_is_refused() -> None:
    async def request(server: Loopback) -> object:
        code, _, message = await fault_of(server)
        return code, "certificate verify failed" in message, server.asked

    assert served(request, streamed([]), secure=True) == ("unreachable", True, [])


def test_a_certificate_of_a_known_authority_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    async def request(server: Loopback) -> object:
        return [value async for value in Endpoint(server.url).post({})]

    assert served(request, streamed([{"a": "é"}, "[DONE]"]), secure=True) == [{"a": "é"}, "[DONE]"]


def test_the_request_has_its_path_and_headers() -> None:
    async def request(server: Loopback) -> tuple[str, dict[str, str], str]:
        url = server.url.replace("/agent", "/ü b?q=ä&r=%20#part")
        async with send_request(HttpRequest(url=url, headers={"X-Key": "k"}), read_timeout_s=5) as answer:
            assert answer.status == 200
            assert await answer.read(3) == b"hel"
        return server.asked[0].line, server.asked[0].headers, server.url[7:-6]

    line, headers, place = served(request, [head(), b"hello"])
    assert line == "GET /%C3%BC%20b?q=%C3%A4&r=%20 HTTP/1.1"
    assert headers == {
        "Host": place,
        "User-Agent": "tailrace",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "X-Key": "k",
    }


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://a.example", WebAddress(True, "a.example", 443, "/")),
        ("http://A.example:8000/x", WebAddress(False, "a.example", 8000, "/x")),
        ("http://[::1]:80/", WebAddress(False, "::1", 80, "/")),
        ("https://bücher.example/", WebAddress(True, "xn--bcher-kva.example", 443, "/")),
    ],
)
def test_an_address_is_parsed(url: str, address: WebAddress) -> None:
    assert WebAddress.parse(url) == address


def test_an_address_is_shown_without_its_path_and_query() -> None:
    shown = [
        str(WebAddress.parse(url))
        for url in ("https://a.example/p?token=1", "http://[::1]:81/p", "http://a.example:80")
    ]
    assert shown == ["https://a.example", "http://[::1]:81", "http://a.example"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000/agent", "no web address"),
        ("ftp://a.example", "no web address"),
        ("https:///path", "no web address"),
        ("", "no web address"),
        ("http://a.example:many/", "cannot be read"),
        ("http://[::1/", "cannot be read"),
        ("http://a..example/", "cannot be read"),
        ("https://me:secret@a.example/", "may not hold a password"),
    ],
)
def test_an_invalid_address_is_refused_before_anything_is_sent(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Endpoint(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("header", [("X-Key", "a\r\nHost: b"), ("X Key", "a"), ("", "a"), ("X-Key", "☃")])
def test_an_invalid_header_is_refused_before_anything_is_sent(header: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        Endpoint("https://a.example", headers=dict([header]))
