"""The simulated Slack, as slack-sdk sees it: the SDK is unmodified, with its sockets, uploads and retries."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.models.blocks import Block
from slack_sdk.models.messages.chunk import MarkdownTextChunk, TaskUpdateChunk
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from tailrace.testing.faults import Rule, TooMany
from tailrace.testing.platforms.slack import (
    CHANNEL,
    DIRECT,
    ActionProblem,
    ChangeBotMembership,
    EditInSlack,
    PressInSlack,
    RunSlashCommand,
    SendFileInSlack,
    SlackSettings,
    SlackSimulator,
    WriteInSlack,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

FREE = SlackSettings(enforces_pace=False)
QUICK = SlackSettings(enforces_pace=False, ack_s=0.2, retries_s=(0.0, 0.1, 0.1))
Blocks = list[dict[str, Any] | Block]
MARK = {"event_type": "mark", "event_payload": {"key": "k1"}}
BUTTON = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "Yes"}, "value": "y"}


def playing(
    settings: SlackSettings = FREE,
) -> Callable[[Callable[[SlackSimulator, AsyncWebClient], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Make a test that plays with a simulator and a client of the SDK."""

    def decorated(play: Callable[[SlackSimulator, AsyncWebClient], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def test() -> None:
            async def run() -> None:
                async with asyncio.timeout(60), SlackSimulator(settings=settings) as slack:
                    await play(slack, AsyncWebClient(token=slack.token, base_url=slack.api_base))

            asyncio.run(run())

        test.__name__ = play.__name__
        return test

    return decorated


class App:
    """An app with a socket. It does not acknowledge the first requests, as many as `ignored` says."""

    def __init__(self, ignored: int = 0) -> None:
        self.requests: list[SocketModeRequest] = []
        self._ignored = ignored
        self._changed = asyncio.Condition()

    async def take(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if len(self.requests) > self._ignored:
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    async def wait(self, requests: int) -> None:
        """Wait until this many requests have come."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= requests)

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = [request.payload["event"] for request in self.requests if request.type == "events_api"]
        return [event for event in found if event["type"] == kind]


@asynccontextmanager
async def connected(slack: SlackSimulator, client: AsyncWebClient, app: App) -> AsyncIterator[SocketModeClient]:
    socket = SocketModeClient(app_token=slack.app_token, web_client=client)
    socket.socket_mode_request_listeners.append(app.take)
    await socket.connect()  # type: ignore[no-untyped-call]  # the SDK is typed only in part
    await slack.wait_until(lambda: slack.connections == 1)
    try:
        yield socket
    finally:
        await socket.close()  # type: ignore[no-untyped-call]  # the SDK is typed only in part


async def error_of(call: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(SlackApiError) as raised:
        await call
    return str(raised.value.response["error"])


@playing()
async def test_a_conversation_over_a_socket(slack: SlackSimulator, client: AsyncWebClient) -> None:
    app = App()
    async with connected(slack, client, app):
        ts = await slack.act(WriteInSlack(chat=CHANNEL, text="@bot <hi> & https://example.org/?a=b"))
        await app.wait(2)
        [message], [mention] = app.events("message"), app.events("app_mention")
        assert message["text"] == "<@U0SIMBOT> &lt;hi&gt; &amp; <https://example.org/?a=b>"
        assert (message["ts"], message["channel_type"], mention["text"]) == (ts, "channel", message["text"])
        sent = await client.chat_postMessage(channel=CHANNEL, thread_ts=ts, markdown_text="**Hello** &lt;you&gt;")
        await client.chat_update(channel=CHANNEL, ts=sent["ts"], markdown_text="**Hello**")
        assert slack.texts(CHANNEL) == ["**Hello**"]
        [seen] = [each for each in slack.seen(CHANNEL).messages if each.is_bot]
        assert (seen.reply_to, [version.text for version in seen.edits]) == (ts, ["**Hello** <you>"])
        await app.wait(4)
        assert {event.get("subtype") for event in app.events("message")} == {None, "message_changed"}


@playing(QUICK)
async def test_an_event_is_sent_again_until_it_is_acknowledged(slack: SlackSimulator, client: AsyncWebClient) -> None:
    app = App(ignored=2)
    async with connected(slack, client, app):
        await slack.act(WriteInSlack(text="hello"))
        await app.wait(3)
    assert len({request.payload["event_id"] for request in app.requests}) == 1
    assert len({request.envelope_id for request in app.requests}) == 3
    assert [request.retry_attempt for request in app.requests] == [0, 1, 2]
    assert app.requests[1].retry_reason == "timeout"


@playing()
async def test_the_sdk_follows_to_a_new_connection(slack: SlackSimulator, client: AsyncWebClient) -> None:
    app = App()
    async with connected(slack, client, app):
        before = sum(call.method == "apps.connections.open" for call in slack.calls)
        await slack.disconnect("refresh_requested")
        await slack.wait_until(lambda: sum(call.method == "apps.connections.open" for call in slack.calls) > before)
        await slack.wait_until(lambda: slack.connections >= 1)
        await slack.act(WriteInSlack(text="still there?"))
        await app.wait(1)


@playing()
async def test_a_stream_with_tasks(slack: SlackSimulator, client: AsyncWebClient) -> None:
    root = await slack.act(WriteInSlack(text="go"))
    started = await client.chat_startStream(channel=DIRECT, thread_ts=root, markdown_text="One ")
    ts = started["ts"]
    task = TaskUpdateChunk(id="1", title="Read", status="in_progress")
    await client.chat_appendStream(channel=DIRECT, ts=ts, chunks=[MarkdownTextChunk(text="two"), task])
    assert await error_of(client.chat_update(channel=DIRECT, ts=ts, text="no")) == "streaming_state_conflict"
    assert slack.seen().messages[-1].tasks == (("Read", "in_progress"),)
    done = TaskUpdateChunk(id="1", title="Read it", status="complete")
    await client.chat_stopStream(channel=DIRECT, ts=ts, chunks=[done], metadata=MARK)
    assert slack.texts() == ["One two"]
    assert slack.seen().messages[-1].tasks == (("Read it", "complete"),)
    again = client.chat_appendStream(channel=DIRECT, ts=ts, markdown_text="x")
    assert await error_of(again) == "message_not_in_streaming_state"
    found = await client.conversations_replies(channel=DIRECT, ts=root, include_all_metadata=True)
    assert found["messages"][-1]["metadata"] == MARK
    assert found["messages"][-1]["streaming_state"] == "completed"


@playing(SlackSettings(enforces_pace=False, stream_lifetime_s=0.0))
async def test_a_stream_ends_by_itself(slack: SlackSimulator, client: AsyncWebClient) -> None:
    root = await slack.act(WriteInSlack(text="go"))
    started = await client.chat_startStream(channel=DIRECT, thread_ts=root, markdown_text="One ")
    appended = client.chat_appendStream(channel=DIRECT, ts=started["ts"], markdown_text="two")
    assert await error_of(appended) == "message_not_in_streaming_state"
    await client.chat_update(channel=DIRECT, ts=started["ts"], markdown_text="One two")
    assert slack.texts() == ["One two"]


@playing()
async def test_files_both_ways(slack: SlackSimulator, client: AsyncWebClient) -> None:
    root = await slack.act(SendFileInSlack(name="a.txt", content=b"of a person", text="look"))
    await client.files_upload_v2(
        channel=DIRECT, thread_ts=root, filename="b.txt", content="of the bot", initial_comment="here"
    )
    [sent] = [message for message in slack.seen().messages if message.is_bot]
    assert (sent.file, sent.text, sent.reply_to) == ("b.txt", "here", root)
    [file] = [file for file in slack.world.files.values() if file.name == "a.txt"]
    found = await client.files_info(file=file.file_id)
    assert found["file"]["size"] == len(b"of a person")


@playing()
async def test_buttons_and_slash_commands(slack: SlackSimulator, client: AsyncWebClient) -> None:
    app = App()
    async with connected(slack, client, app):
        blocks: Blocks = [{"type": "markdown", "text": "Sure?"}, {"type": "actions", "elements": [BUTTON]}]
        sent = await client.chat_postMessage(channel=CHANNEL, text="Sure?", blocks=blocks)
        await slack.act(PressInSlack(chat=CHANNEL, button="Yes"))
        await slack.act(RunSlashCommand(command="/stop", text="now"))
        await app.wait(3)
        [press] = [request.payload for request in app.requests if request.type == "interactive"]
        assert (press["container"]["message_ts"], press["actions"][0]["value"]) == (sent["ts"], "y")
        [command] = [request.payload for request in app.requests if request.type == "slash_commands"]
        assert (command["command"], command["text"], command["user_name"]) == ("/stop", "now", "Ada")
        await client.chat_postEphemeral(channel=CHANNEL, user="U0ADA", text="Taken")
        assert [notice.text for notice in slack.seen(CHANNEL).notices] == ["Taken"]


@playing(SlackSettings(enforces_pace=False, update_text_limit=10, markdown_limit=20, block_limit=1, section_limit=5))
async def test_what_slack_refuses(slack: SlackSimulator, client: AsyncWebClient) -> None:
    root = await slack.act(WriteInSlack(chat=CHANNEL, text="go"))
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "too long"}}

    def posted(**fields: Any) -> Coroutine[Any, Any, Any]:
        return client.api_call("chat.postMessage", json={"channel": CHANNEL, **fields})

    def started(**fields: Any) -> Coroutine[Any, Any, Any]:
        return client.api_call("chat.startStream", json={"channel": CHANNEL, "markdown_text": "a", **fields})

    expected = [
        (posted(), "no_text"),
        (posted(markdown_text="x" * 21), "msg_too_long"),
        (posted(markdown_text="x", text="y"), "markdown_text_conflict"),
        (posted(text="x", metadata={"event_type": 5}), "invalid_metadata_format"),
        (posted(text="x", blocks=[section]), "invalid_blocks"),
        (posted(text="x", blocks=[{"type": "divider"}] * 2), "msg_blocks_too_many"),
        (posted(text="x", thread_ts="1.000000"), "thread_not_found"),
        (posted(text="x", channel="C0NONE"), "channel_not_found"),
        (started(), "invalid_arguments"),
        (started(thread_ts=root), "missing_recipient_user_id"),
        (started(thread_ts=root, recipient_user_id="U0ADA"), "missing_recipient_team_id"),
        (client.api_call("chat.update", json={"channel": CHANNEL, "ts": root, "text": "x"}), "cant_update_message"),
        (client.api_call("chat.update", json={"channel": CHANNEL, "ts": root, "text": "x" * 11}), "msg_too_long"),
        (client.api_call("chat.delete", json={"channel": CHANNEL, "ts": root}), "cant_delete_message"),
        (client.api_call("chat.delete", json={"channel": CHANNEL, "ts": "1.000000"}), "message_not_found"),
        (client.api_call("no.method", json={}), "unknown_method"),
        (AsyncWebClient(token="xoxb-other", base_url=slack.api_base).auth_test(), "invalid_auth"),
        (AsyncWebClient(base_url=slack.api_base).auth_test(), "not_authed"),
        (client.apps_connections_open(app_token=slack.token), "not_allowed_token_type"),
    ]
    for number, (call, error) in enumerate(expected):
        assert await error_of(call) == error, f"call {number}"
    await slack.act(ChangeBotMembership(chat=CHANNEL, is_member=False))
    assert await error_of(posted(text="x")) == "not_in_channel"
    slack.world.scopes.discard("chat:write")
    assert await error_of(posted(text="x")) == "missing_scope"
    await slack.revoke_token()
    assert await error_of(client.auth_test()) == "token_revoked"
    with pytest.raises(ActionProblem, match="did not write"):
        await slack.act(EditInSlack(chat=CHANNEL, user="U0BEN", message_id=root, text="x"))


@playing(SlackSettings())
async def test_a_call_that_comes_too_early_gets_the_time_to_wait(slack: SlackSimulator, client: AsyncWebClient) -> None:
    await client.chat_postMessage(channel=DIRECT, text="one")
    with pytest.raises(SlackApiError) as raised:
        await client.chat_postMessage(channel=DIRECT, text="two")
    assert (raised.value.response.status_code, raised.value.response["error"]) == (429, "ratelimited")
    assert raised.value.response.headers["Retry-After"] == "1"
    client.retry_handlers.append(AsyncRateLimitErrorRetryHandler(max_retry_count=2))
    slack.add_faults(Rule(fault=TooMany(0.1), kind="chat.postMessage"))
    await client.chat_postMessage(channel=CHANNEL, text="three")
    assert slack.texts(CHANNEL) == ["three"]
