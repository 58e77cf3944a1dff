"""The HTTP side of the simulated Telegram, with the HTTP client of Python: bodies, updates, faults, the page."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web

from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    LoseAccess,
    NoAnswer,
    Refuse,
    ReorderUpdates,
    RepeatUpdates,
    Reset,
    Rule,
    ServerError,
    SlowBody,
    TooMany,
    Unreachable,
)
from tailrace.testing.platforms.telegram import GROUP, PRIVATE, TelegramSettings, TelegramSimulator, WriteMessage

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FREE = TelegramSettings(enforces_pace=False)


def simulated(
    main: Callable[[TelegramSimulator], Awaitable[None]], settings: TelegramSettings = FREE
) -> TelegramSimulator:
    """Run this with a simulator."""

    async def run() -> TelegramSimulator:
        async with TelegramSimulator(settings=settings) as telegram:
            await main(telegram)
        return telegram

    return asyncio.run(run())


def request_blocking(
    port: int, path: str, body: bytes | None, content_type: str, method: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, {"Content-Type": content_type} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


async def request(
    telegram: TelegramSimulator, path: str, body: bytes | None = None, content_type: str = JSON, method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    return await asyncio.to_thread(request_blocking, telegram.port, path, body, content_type, method)


async def call(telegram: TelegramSimulator, name: str, token: str = "", **fields: Any) -> dict[str, Any]:
    """The body of the answer to a call."""
    path = f"/bot{token or telegram.token}/{name}"
    status, _headers, body = await request(telegram, path, json.dumps(fields).encode())
    answer: dict[str, Any] = json.loads(body)
    assert answer.get("error_code", 200) == status
    return answer


async def result(telegram: TelegramSimulator, name: str, **fields: Any) -> Any:
    answer = await call(telegram, name, **fields)
    assert answer["ok"], answer
    return answer["result"]


async def written(telegram: TelegramSimulator, *texts: str) -> None:
    for text in texts:
        await telegram.act(WriteMessage(text=text))


def texts_of(updates: list[dict[str, Any]]) -> list[str]:
    return [update["message"]["text"] for update in updates]


def multipart(fields: dict[str, str], file: tuple[str, str, bytes]) -> bytes:
    name, file_name, content = file
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{file_name}"\r\n\r\n'.encode()
    return b"".join([*parts, head, content, b"\r\n--x--\r\n"])


def test_every_encoding_of_a_body_is_understood() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        path = f"/bot{telegram.token}/sendMessage"
        fields = {"chat_id": str(PRIVATE), "text": "a b", "entities": '[{"type":"bold","offset":0,"length":1}]'}
        bodies = [
            (path, json.dumps({**fields, "entities": json.loads(fields["entities"])}).encode(), JSON),
            (path, json.dumps(fields).encode(), JSON),
            (path, urlencode(fields).encode(), FORM),
            (f"{path}?{urlencode(fields)}", b"", FORM),
            (path, multipart(fields, ("ignored", "a.txt", b"")), "multipart/form-data; boundary=x"),
        ]
        for number, (where, body, content_type) in enumerate(bodies, 1):
            status, _headers, answer = await request(telegram, where, body, content_type)
            message = json.loads(answer)["result"]
            assert (status, message["message_id"], message["entities"][0]["type"]) == (200, number, "bold")
        status, _headers, answer = await request(telegram, path, b"{", JSON)
        assert (status, json.loads(answer)["ok"]) == (400, False)

    simulated(main)


def test_tokens_methods_and_paths_that_are_unknown() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        assert (await call(telegram, "getMe", token="1:wrong"))["error_code"] == 401
        assert (await call(telegram, "getNothing"))["description"] == "Not Found: method not found"
        assert (await request(telegram, f"/file/bot{telegram.token}/documents/x", method="GET"))[0] == 404
        assert (await request(telegram, "/file/bot1:wrong/documents/x", method="GET"))[0] == 401
        assert (await result(telegram, "GETME"))["is_bot"]
        await telegram.revoke_token()
        assert (await call(telegram, "getMe"))["description"] == "Unauthorized"
        await telegram.revoke_token(valid=True)
        assert await result(telegram, "getMe")

    simulated(main)


def test_a_file_is_sent_and_downloaded_and_one_that_is_too_large_refused() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        path, kind = f"/bot{telegram.token}/sendDocument", "multipart/form-data; boundary=x"
        here = {"chat_id": str(PRIVATE)}
        body = multipart({**here, "document": "attach://f"}, ("f", "../a.TXT", b"content"))
        status, _headers, answer = await request(telegram, path, body, kind)
        document = json.loads(answer)["result"]["document"]
        assert (status, document["file_name"], document["file_size"]) == (200, "../a.TXT", 7)
        found = await result(telegram, "getFile", file_id=document["file_id"])
        status, _headers, content = await request(
            telegram, f"/file/bot{telegram.token}/{found['file_path']}", method="GET"
        )
        assert (status, content, found["file_path"].endswith("a.TXT")) == (200, b"content", False)
        too_large = multipart(here, ("document", "a.bin", b"x" * 2000))
        assert (await request(telegram, path, too_large, kind))[0] == 413

    simulated(main, TelegramSettings(upload_bytes=1000, enforces_pace=False))


def test_a_call_above_the_pace_is_refused_in_body_and_header() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        await result(telegram, "sendMessage", chat_id=PRIVATE, text="one")
        fields = json.dumps({"chat_id": PRIVATE, "text": "two"}).encode()
        status, headers, body = await request(telegram, f"/bot{telegram.token}/sendMessage", fields)
        assert (status, headers["Retry-After"]) == (429, "60")
        assert json.loads(body) == {
            "ok": False,
            "error_code": 429,
            "description": "Too Many Requests: retry after 60",
            "parameters": {"retry_after": 60},
        }
        assert [(made.method, made.status, made.rule) for made in telegram.calls] == [
            ("sendMessage", 200, ""),
            ("sendMessage", 429, "too_many_requests"),
        ]

    simulated(main, TelegramSettings(shortest_retry_s=60))


def test_updates_come_again_until_the_offset_confirms_them() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        await written(telegram, "one", "two", "three")
        first = await result(telegram, "getUpdates")
        assert texts_of(first) == ["one", "two", "three"]
        begin = first[0]["update_id"]
        assert [update["update_id"] for update in first] == [begin, begin + 1, begin + 2]
        assert await result(telegram, "getUpdates") == first
        assert texts_of(await result(telegram, "getUpdates", offset=begin + 1, limit=1)) == ["two"]
        assert texts_of(await result(telegram, "getUpdates", offset=-1)) == ["three"]
        assert await result(telegram, "getUpdates", offset=begin + 3) == []

    simulated(main)


def test_a_bot_gets_the_kinds_of_updates_that_it_asked_for() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        await result(telegram, "getUpdates", allowed_updates=["callback_query"])
        await written(telegram, "ignored")
        assert await result(telegram, "getUpdates") == []
        await result(telegram, "getUpdates", allowed_updates=[])
        await written(telegram, "seen")
        assert texts_of(await result(telegram, "getUpdates")) == ["seen"]

    simulated(main)


async def waiting_poll(telegram: TelegramSimulator) -> asyncio.Task[dict[str, Any]]:
    poll = asyncio.create_task(call(telegram, "getUpdates", timeout=30))
    await telegram.wait_until(lambda: telegram.is_polled)
    return poll


def test_a_poll_waits_for_an_update_and_ends_for_a_newer_poll_a_webhook_or_a_revoked_token() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        poll = await waiting_poll(telegram)
        await written(telegram, "one")
        (update,) = (await poll)["result"]
        offset = update["update_id"] + 1
        await result(telegram, "getUpdates", offset=offset)
        older = await waiting_poll(telegram)
        assert await result(telegram, "getUpdates") == []
        assert (await older)["description"].startswith("Conflict: terminated by other getUpdates request")
        older = await waiting_poll(telegram)
        await result(telegram, "setWebhook", url="http://127.0.0.1:9/")
        assert (await older)["description"] == "Conflict: terminated by setWebhook request"
        assert (await call(telegram, "getUpdates"))["description"].startswith("Conflict: can't use getUpdates method")
        await result(telegram, "deleteWebhook")
        older = await waiting_poll(telegram)
        await telegram.revoke_token()
        assert (await older)["error_code"] == 401

    simulated(main)


def test_a_webhook_gets_updates_in_order_until_it_takes_them() -> None:
    taken: list[tuple[str, str]] = []
    answers = iter([500, 429])
    all_taken = asyncio.Event()

    async def receive(received: web.BaseRequest) -> web.Response:
        update = await received.json()
        taken.append((update["message"]["text"], received.headers["X-Telegram-Bot-Api-Secret-Token"]))
        if len(taken) == 6:
            all_taken.set()
        return web.Response(status=next(answers, 200), headers={"Retry-After": "0"})

    async def main(telegram: TelegramSimulator) -> None:
        runner = web.ServerRunner(web.Server(receive))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        await result(telegram, "setWebhook", url=url, secret_token="s-1_A")
        telegram.add_faults(Rule(fault=RepeatUpdates(), kind="webhook", at=2))
        await written(telegram, "one", "two", "three")
        await all_taken.wait()
        status = await result(telegram, "getWebhookInfo")
        while status["pending_update_count"]:  # the last one is confirmed when its answer has arrived
            status = await result(telegram, "getWebhookInfo")
        assert taken == [(text, "s-1_A") for text in ("one", "one", "one", "two", "two", "three")]
        assert (status["url"], "500" in status["last_error_message"] or "429" in status["last_error_message"]) == (
            url,
            True,
        )
        await runner.cleanup()

    simulated(main, TelegramSettings(webhook_retry_first_s=0.001, enforces_pace=False))


def test_addresses_and_secrets_of_webhooks_that_are_refused() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        refused = await call(telegram, "setWebhook", url="http://example.org/hook")
        assert "An HTTPS URL must be provided" in refused["description"]
        assert (await call(telegram, "setWebhook", url="https://localhost/", secret_token="a b"))["error_code"] == 400
        await written(telegram, "dropped")
        await result(telegram, "setWebhook", url="https://localhost:9/", drop_pending_updates=True)
        assert (await result(telegram, "getWebhookInfo"))["pending_update_count"] == 0

    simulated(main)


@pytest.mark.parametrize(
    ("fault", "status", "shown"),
    [
        (Refuse(403, "user is deactivated"), 403, []),
        (LoseAccess(), 403, []),
        (LoseAccess(everywhere=True), 401, []),
        (TooMany(7.0), 429, []),
        (ServerError(502), 502, []),
        (ServerError(500, applied=True), 500, ["hello"]),
        (Unreachable(), None, []),
        (Reset(applied=False), None, []),
        (Reset(), None, ["hello"]),
        (Cut(applied=False), None, []),
        (Cut(), None, ["hello"]),
        (Delayed(0.01), 200, ["hello"]),
        (SlowBody(0.01), 200, ["hello"]),
        (Late(0.01, answered=True), 200, ["hello"]),
    ],
)
def test_faults(fault: Fault, status: int | None, shown: list[str]) -> None:
    async def main(telegram: TelegramSimulator) -> None:
        telegram.add_faults(Rule(fault=fault, kind="sendMessage", chat=str(PRIVATE)))
        assert await result(telegram, "sendMessage", chat_id=GROUP, text="another chat")
        try:
            answer = await call(telegram, "sendMessage", chat_id=PRIVATE, text="hello")
        except (ConnectionError, http.client.HTTPException):
            assert status is None
        else:
            assert answer.get("error_code", 200) == status
        assert telegram.texts() == shown
        assert await result(telegram, "sendMessage", chat_id=PRIVATE, text="again")
        assert telegram.calls[1].fault

    simulated(main)


@pytest.mark.parametrize(("applied", "shown"), [(True, ["hello"]), (False, [])])
def test_an_answer_that_never_comes(applied: bool, shown: list[str]) -> None:
    async def run() -> None:
        async with TelegramSimulator(settings=FREE) as telegram:
            telegram.add_faults(NoAnswer(applied=applied))
            reader, writer = await asyncio.open_connection("127.0.0.1", telegram.port)
            path = f"/bot{telegram.token}/sendMessage?{urlencode({'chat_id': PRIVATE, 'text': 'hello'})}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await telegram.wait_until(lambda: bool(telegram.calls))
            assert (telegram.texts(), telegram.calls[0].status) == (shown, 0)
        assert await reader.read() == b"", "the simulator has ended, and nothing was ever answered"
        writer.close()

    asyncio.run(run())


def test_a_late_call_is_performed_after_its_caller_has_left() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        telegram.add_faults(Rule(fault=Late(0.5), kind="sendMessage"))
        _reader, writer = await asyncio.open_connection("127.0.0.1", telegram.port)
        path = f"/bot{telegram.token}/sendMessage?{urlencode({'chat_id': PRIVATE, 'text': 'hello'})}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while telegram.faults.unspent:
            await result(telegram, "getMe")
        writer.transport.abort()
        await telegram.wait_until(lambda: telegram.texts() == ["hello"])

    simulated(main)


def test_updates_are_repeated_and_reordered() -> None:
    async def main(telegram: TelegramSimulator) -> None:
        await written(telegram, "one", "two")
        telegram.add_faults(
            Rule(fault=ReorderUpdates(), kind="getUpdates"), Rule(fault=RepeatUpdates(), kind="getUpdates")
        )
        updates = await result(telegram, "getUpdates")
        assert texts_of(updates) == ["two", "one"]
        await written(telegram, "three")
        offset = updates[0]["update_id"] + 1
        assert texts_of(await result(telegram, "getUpdates", offset=offset)) == ["one", "two", "three"]
        assert texts_of(await result(telegram, "getUpdates", offset=offset)) == ["three"]

    simulated(main)


def test_people_act_and_look_by_http() -> None:
    async def act(telegram: TelegramSimulator, **action: Any) -> tuple[int, Any]:
        status, _headers, body = await request(telegram, "/simulator/act", json.dumps(action).encode())
        return status, json.loads(body)

    async def look(telegram: TelegramSimulator, path: str) -> str:
        status, _headers, body = await request(telegram, path, method="GET")
        assert status == 200
        return body.decode()

    async def main(telegram: TelegramSimulator) -> None:
        assert await act(telegram, do="write", chat=PRIVATE, text="hello") == (200, {"result": 1})
        assert await act(telegram, do="send_file", name="a.txt", content="YWJj") == (200, {"result": 2})
        assert (await act(telegram, do="write", chat=5, text="hello"))[0] == 400
        assert (await act(telegram, do="fly"))[0] == 400
        assert (await request(telegram, "/simulator/act", b'{"do": "write", "text": "a"}', "text/plain"))[0] == 415
        rule = b'[{"fault": {"fault": "refuse"}, "kind": "editMessageText|sendMessage"}]'
        assert (await request(telegram, "/simulator/faults", rule))[0] == 200
        assert (await request(telegram, "/simulator/faults", b"[{}]"))[0] == 400
        assert (await call(telegram, "sendMessage", chat_id=PRIVATE, text="a"))["error_code"] == 403
        assert (await request(telegram, "/simulator/faults", method="DELETE"))[0] == 200
        (chat,) = json.loads(await look(telegram, f"/simulator/history?chat={PRIVATE}"))
        assert [message["text"] for message in chat["messages"]] == ["hello", ""]
        assert json.loads(await look(telegram, f"/simulator/history?chat={PRIVATE}&at=5"))[0].get("messages") is None
        assert "Ada: hello" in await look(telegram, "/simulator/history.txt")
        (after,) = json.loads(await look(telegram, f"/simulator/history?chat={PRIVATE}&after=1"))
        assert [message["id"] for message in after["messages"]] == [2]
        assert json.loads(await look(telegram, "/simulator/calls"))[0]["fault"] == "refuse"
        assert json.loads(await look(telegram, "/simulator/calls?after=1")) == []
        assert await look(telegram, chat["messages"][1]["file_url"]) == "abc"
        for name, kind in (("a.png", "image/png"), ("a.svg", "application/octet-stream")):
            await act(telegram, do="send_file", name=name, content="YWJj", photo=True)
            url = telegram.seen().messages[-1].file_url
            assert (await request(telegram, url, method="GET"))[1]["Content-Type"] == kind
        for chat_id, text in ((PRIVATE, "hello"), (GROUP, "2 members"), ("", "hello")):
            _, headers, body = await request(telegram, f"/simulator/conversation?chat={chat_id}", method="GET")
            assert (headers["X-Chat"], text in body.decode()) == (str(chat_id or PRIVATE), True)
        page = await look(telegram, "/")
        assert "{{" not in page
        assert "http://" not in page.replace(telegram.url, ""), "the page loads nothing from elsewhere"
        assert "https://" not in page
        await request(telegram, "/simulator/token", b'{"valid": false}')
        assert not telegram.world.token_is_valid

    simulated(main)
