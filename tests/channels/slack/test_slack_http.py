"""Events by HTTP: signed requests are taken, and all others are refused."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
import pytest
from slack_setup import CHAT, QUICK, running, simulator

from tailrace.channels.slack.requests import PATH
from tailrace.channels.webhook import MAX_BODY
from tailrace.inbound import ButtonPress, InboundMessage
from tailrace.operations import Body, Button, Post, Target
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.platforms.slack import (
    DEFAULT_SIGNING_SECRET,
    PressInSlack,
    RunSlashCommand,
    SlackSimulator,
    WriteInSlack,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.channels.slack import SlackChannel

HTTP: dict[str, Any] = {"app_token": "", "signing_secret": DEFAULT_SIGNING_SECRET, "listen": "127.0.0.1:0"}
EVENT = {
    "type": "message",
    "channel": CHAT,
    "channel_type": "channel",
    "user": "U7",
    "text": "hi",
    "ts": "1700000000.000100",
}
PAYLOAD = {"type": "event_callback", "event_id": "Ev1", "team_id": "T0SIMULATED", "event": EVENT}
BODY = json.dumps(PAYLOAD).encode()


@asynccontextmanager
async def listening(inbox: RecordingInbox) -> AsyncIterator[tuple[SlackSimulator, SlackChannel, str]]:
    """A channel that receives by HTTP, and the address to which Slack sends."""
    async with asyncio.timeout(30), simulator(QUICK) as slack:
        slack.world.socket_mode = False
        async with running(slack, inbox, **HTTP) as channel:
            yield slack, channel, f"http://127.0.0.1:{channel._receiver.port}{PATH}"


async def status_of(url: str, body: bytes, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(url, data=io.BytesIO(body), headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 413  # the connection was closed while the body was still being sent


def statuses(*requests: tuple[bytes, dict[str, str]], inbox: RecordingInbox | None = None) -> list[int]:
    """The status of each request; each is signed now, and then gets its headers too. An empty one is left out."""

    async def run() -> list[int]:
        async with listening(inbox or RecordingInbox()) as (slack, _, url):
            found = []
            for body, headers in requests:
                sent = {"Content-Type": "application/json", **slack.signed(body), **headers}
                found.append(await status_of(url, body, {name: value for name, value in sent.items() if value}))
            return found

    return asyncio.run(run())


def test_a_conversation_by_http() -> None:
    async def run() -> None:
        inbox = RecordingInbox()
        async with listening(inbox) as (slack, channel, url):
            await slack.set_request_url(url)
            await slack.act(WriteInSlack(chat=CHAT, text="@bot hello"))
            await inbox.wait(1)
            assert isinstance(inbox.received[0], InboundMessage)
            target = inbox.received[0].target
            body = Body(text="Sure?", buttons=(Button(label="Yes", value="y"),))
            await channel.post(Post(target=target, body=body), key="k")
            await slack.act(PressInSlack(chat=CHAT, button="Yes"))
            await slack.act(RunSlashCommand(chat=CHAT, command="/stop"))
            await inbox.wait(4)  # the mention is two events
            commands = [each.command for each in inbox.received if isinstance(each, InboundMessage)]
            assert sorted(commands) == ["", "", "stop"]
            assert sum(isinstance(each, ButtonPress) for each in inbox.received) == 1
            assert slack.seen(CHAT).notices == (), "everything was acknowledged"

    asyncio.run(run())


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Slack-Signature": ""},
        {"X-Slack-Signature": "v0=" + "0" * 64},
        {"X-Slack-Signature": "v1=x"},
        {"X-Slack-Request-Timestamp": ""},
        {"X-Slack-Request-Timestamp": "soon"},
        {"X-Slack-Request-Timestamp": "9" * 40},
        {"X-Slack-Request-Timestamp": str(int(time.time()) - 20)},
    ],
)
def test_a_forged_request_is_refused(headers: dict[str, str]) -> None:
    inbox = RecordingInbox()
    assert statuses((BODY, headers), inbox=inbox) == [401]
    assert inbox.received == []


@pytest.mark.parametrize(("age_s", "status"), [(290, 200), (301, 401), (-301, 401)])
def test_a_request_that_was_signed_too_long_ago_is_refused(age_s: float, status: int) -> None:
    async def run() -> int:
        async with listening(RecordingInbox()) as (slack, _, url):
            slack._web_api.events._clock = lambda: time.time() - age_s
            headers = {"Content-Type": "application/json", **slack.signed(BODY)}
            return await status_of(url, BODY, headers)

    assert asyncio.run(run()) == status


def test_a_repeated_request_has_the_same_event_id() -> None:
    inbox = RecordingInbox()
    again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert statuses((BODY, {}), (BODY, again), inbox=inbox) == [200, 200]
    assert len({event.event_id for event in inbox.received}) == 1


def test_an_event_that_was_not_recorded_gets_503_and_comes_again() -> None:
    inbox = RecordingInbox(failures=1)
    assert statuses((BODY, {}), (BODY, {}), inbox=inbox) == [503, 200]
    assert len(inbox.received) == 1


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (BODY[:-3], {}, 400),
        (b"", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"type": "x", "event": ' * 20_000, {}, 400),
        (b'{"type": 5}', {}, 400),
        (zlib.compress(BODY), {"Content-Encoding": "deflate"}, 415),
        (b" " * (MAX_BODY + 1), {}, 413),
        (b"&".join(b"a%d=b" % number for number in range(200)), FORM, 400),
        (b"payload=\xff", FORM, 400),
        (urlencode({"payload": '{"type": "block_actions", "actions": 5}'}).encode(), FORM, 200),
        (urlencode({"payload": "[" * 5000}).encode(), FORM, 200),
        (b"command=/x", FORM, 200),
        (json.dumps({**PAYLOAD, "event": {**EVENT, "ts": "x" * 99, "channel": {"a": 1}}}).encode(), {}, 200),
    ],
)
def test_bad_input_is_refused_or_skipped(body: bytes, headers: dict[str, str], status: int) -> None:
    """Malformed content with a valid signature is skipped with 200: Slack would send it again otherwise."""
    inbox = RecordingInbox()
    assert statuses((body, headers), (BODY, {}), inbox=inbox) == [status, 200]
    assert [event.event_id for event in inbox.received][-1] == f"{CHAT} {EVENT['ts']}"


def test_the_target_of_a_strange_event_is_only_text() -> None:
    inbox = RecordingInbox()
    strange = {**EVENT, "channel": "../../etc", "user": "a/b\u202e"}
    assert statuses((json.dumps({**PAYLOAD, "event": strange}).encode(), {}), inbox=inbox) == [200]
    assert inbox.received[0].target == Target(channel="slack", chat="../../etc", thread=str(EVENT["ts"]), group=True)
