"""What the contract suite cannot know: threads, mentions, streams, keys, files, reactions and refusals of Slack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from slack_setup import CHAT, QUICK, TOKEN, channel_to, running, simulator, with_simulator

from tailrace.channels.slack import SlackAppSettings, SlackChannel
from tailrace.channels.slack.errors import SlackFailure, fault_of
from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.inbound import Attachment, InboundMessage
from tailrace.operations import (
    AppendStream,
    Body,
    Button,
    CloseStream,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Target,
    Task,
    Typing,
)
from tailrace.ports import Finding
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.faults import NoAnswer, Rule, TooMany
from tailrace.testing.platforms.slack import DIRECT, SendFileInSlack, SlackSimulator, WriteInSlack

if TYPE_CHECKING:
    from tailrace.testing.platforms.visible import SeenMessage

READ = Task(id="1", title="Read", status="in_progress")


def seen(slack: SlackSimulator, chat: str = CHAT) -> list[SeenMessage]:
    return [each for each in slack.seen(chat).messages if each.is_bot]


async def thread(slack: SlackSimulator, chat: str = CHAT) -> Target:
    root = await slack.act(WriteInSlack(chat=chat, text="go"))
    return Target(channel="slack", chat=chat, thread=root, group=chat != DIRECT)


def post(target: Target, text: str = "hello", **more: Any) -> Post:
    return Post(target=target, body=Body(text=text, **more))


@with_simulator
async def test_the_answer_stands_in_the_thread_of_the_message(slack: SlackSimulator) -> None:
    inbox = RecordingInbox()
    async with running(slack, inbox) as channel:
        roots = [await slack.act(WriteInSlack(chat=chat, text="@bot hi")) for chat in (DIRECT, CHAT)]
        await inbox.wait(2)
        for event in inbox.received[:2]:
            await channel.post(post(event.target), key=event.event_id)
    assert [seen(slack, chat)[0].reply_to for chat in (DIRECT, CHAT)] == roots


@with_simulator
async def test_no_text_mentions_anybody(slack: SlackSimulator) -> None:
    text = "<!channel> <!here> <@U7> <#C7> <!subteam^S1>"
    async with running(slack) as channel:
        target = await thread(slack)
        sent = await channel.post(post(target, text), key="1")
        await channel.post(post(target, text, buttons=(Button(label=text, value="v"),)), key="2")
        await channel.edit(Edit(target=target, message_id=sent.message_id, body=Body(text=text + "!")))
        opened = await channel.open_stream(OpenStream(target=target, body=Body(text=text)), key="3")
        await channel.append_stream(AppendStream(target=target, stream_id=opened.message_id, text=text))
        await channel.post_media(PostMedia(target=target, url="https://example.org/a.png", caption=text), key="4")
        await channel.create_processing_message(f"{CHAT}--{target.thread}", text, None)
    assert slack.mentions(CHAT) == []
    assert text in slack.texts(CHAT)


@with_simulator
async def test_a_stream_shows_text_and_tasks_and_leaves_none_in_progress(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        target = await thread(slack)
        stream = (await channel.open_stream(OpenStream(target=target, body=Body(text="One ")), key="k")).message_id
        await channel.append_stream(AppendStream(target=target, stream_id=stream, text="two", tasks=(READ,)))
        assert seen(slack)[0].tasks == (("Read", "in_progress"),)
        await channel.close_stream(CloseStream(target=target, stream_id=stream, body=Body(text="One two three")))
        assert [(each.text, each.tasks) for each in seen(slack)] == [("One two three", (("Read", "complete"),))]
        assert not any(call.method == "chat.update" for call in slack.calls), "the missing text was appended"
        found = await channel.find(target, "k", 0.0)
        assert found is not None
        assert found.message_id == stream


@with_simulator
async def test_a_stream_of_an_earlier_process_is_closed_with_its_whole_text(slack: SlackSimulator) -> None:
    target = await thread(slack)
    async with running(slack) as channel:
        stream = (await channel.open_stream(OpenStream(target=target, body=Body(text="One")), key="k")).message_id
    async with running(slack) as channel:
        await channel.close_stream(CloseStream(target=target, stream_id=stream, body=Body(text="One two")))
    assert slack.texts(CHAT) == ["One two"]


@with_simulator
async def test_a_stream_whose_opening_got_no_answer_is_found(slack: SlackSimulator) -> None:
    """Also by another process: an open stream carries no key."""
    target = await thread(slack)
    since = slack.clock()
    async with running(slack) as channel:
        slack.add_faults(Rule(fault=NoAnswer(), kind="chat.startStream"))
        opening = asyncio.create_task(channel.open_stream(OpenStream(target=target, body=Body(text="One")), key="k"))
        await slack.wait_until(lambda: slack.calls[-1].method == "chat.startStream")
        opening.cancel()
    async with running(slack) as channel:
        found = await channel.find(target, "k", since)
        assert found is not None
        assert found.message_id == seen(slack)[0].id
        assert await channel.find(target, "k", since + 3600.0) is None, "it is older than the call"


@with_simulator
async def test_a_key_is_found_among_many_messages(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        target = await thread(slack)
        ids = {key: (await channel.post(post(target), key=key)).message_id for key in map(str, range(250))}
        for key in ("0", "120", "249"):
            found = await channel.find(target, key, 0.0)
            assert found is not None
            assert found.message_id == ids[key]
        assert await channel.find(target, "250", 0.0) is None
        assert await channel.find(Target(channel="slack", chat=CHAT), "0", 0.0) is None, "it is in a thread"
        with pytest.raises(ChannelFault):
            await channel.find(Target(channel="slack", chat=CHAT, thread="1.000000"), "0", 0.0)


def names_in(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def file_in(folder: str) -> Path:
    path = Path(folder, "a plan.txt")
    path.write_text("the plan")
    return path


@with_simulator
async def test_files_of_this_machine_are_uploaded_into_the_thread(slack: SlackSimulator) -> None:
    with TemporaryDirectory() as folder:
        path = file_in(folder)
        async with running(slack) as channel:
            target = await thread(slack)
            since = slack.clock()
            receipt = await channel.post_media(PostMedia(target=target, path=str(path), caption="The plan"), key="k")
            assert receipt.message_id
            assert await channel.find(target, "k", since) is not None
            with pytest.raises(SendRefused, match="cannot be read"):
                await channel.post_media(PostMedia(target=target, path=f"{folder}/none"), key="l")
    [message] = seen(slack)
    assert (message.file, message.text, message.reply_to) == ("a plan.txt", "The plan", target.thread)
    assert [file.content for file in slack.world.files.values()] == [b"the plan"]


@with_simulator
async def test_a_file_at_a_url_is_a_picture_or_a_link(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        target = await thread(slack)
        picture = await channel.post_media(PostMedia(target=target, url="https://example.org/a.png"), key="1")
        link = await channel.post_media(PostMedia(target=target, url="https://example.org/a.zip"), key="2")
    assert (picture.degraded, link.degraded) == ("", "sent as a link")


@with_simulator
async def test_the_token_is_never_sent_to_another_server(slack: SlackSimulator) -> None:
    inbox = RecordingInbox()
    async with running(slack, inbox) as channel:
        await slack.act(SendFileInSlack(chat=CHAT, name="a.txt", content=b"content"))
        await inbox.wait(1)
        assert isinstance(inbox.received[0], InboundMessage)
        [attachment] = inbox.received[0].attachments
        with TemporaryDirectory() as folder:
            for url in ("https://evil.example/slack.com", "https://notslack.com/a", "http://files.slack.com/a"):
                with pytest.raises(SendRefused, match="not on a server of Slack"):
                    await channel._api.download(url, Path(folder, "a"), max_bytes=100)
            slack.world.scopes.discard("files:read")
            with pytest.raises(AccessLost, match="the app lacks the scope files:read"):
                await channel.fetch(attachment, Path(folder, "a"), max_bytes=100)
            with pytest.raises(ChannelFault):
                await channel.fetch(Attachment(id="F-none"), Path(folder, "a"), max_bytes=100)
            assert names_in(folder) == []


@with_simulator
async def test_processing_messages_work_before_start(slack: SlackSimulator) -> None:
    channel, target = channel_to(slack), await thread(slack)
    source = f"{CHAT}--{target.thread}"
    message_id = await channel.create_processing_message(source, "⏳ <1>", None)
    await channel.update_processing_message(source, message_id, "⏳ <2> & more", None)
    await channel.stop()
    [message] = seen(slack)
    assert (message.text, message.reply_to) == ("⏳ <2> & more", target.thread)


@with_simulator
async def test_outside_of_threads_there_is_no_status_and_no_stream(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        outside, inside = Target(channel="slack", chat=CHAT), await thread(slack)
        assert channel.capabilities_of(outside).native is None
        assert channel.capabilities_of(inside).native is not None
        await channel.typing(Typing(target=outside))
        assert slack.seen(CHAT).doing == ()
        await channel.typing(Typing(target=inside))
        assert slack.seen(CHAT).doing == ("is typing…",)
        await channel.post(post(inside), key="k")
        assert slack.seen(CHAT).doing == ()


@with_simulator
async def test_a_message_that_was_recorded_gets_a_reaction(slack: SlackSimulator) -> None:
    async with running(slack, reactions=True):
        await slack.act(WriteInSlack(chat=CHAT, text="@bot hi"))
        await slack.act(WriteInSlack(chat=CHAT, text="not for the bot"))
        await slack.wait_until(lambda: any(call.method == "reactions.add" for call in slack.calls))
    assert [each.reactions for each in slack.seen(CHAT).messages] == [("👀",), ()]


@with_simulator
async def test_a_limit_of_a_method_is_for_all_chats_and_that_of_posts_for_one(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        here, there = await thread(slack), await thread(slack, DIRECT)
        edit = Edit(target=here, message_id="1.000000", body=Body(text="x"))
        found = []
        slack.add_faults(Rule(fault=TooMany(7), kind="chat.update|chat.postMessage", times=3))
        for call in (channel.edit(edit), channel.post(post(here), key="1"), channel.post(post(there), key="2")):
            with pytest.raises(NotSent) as raised:
                await call
            assert raised.value.retry_after == 7.0
            found.append(raised.value.everywhere)
    assert found == [True, False, True]


@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (SlackFailure(200, "invalid_auth"), AccessLost, "does not accept the token"),
        (SlackFailure(200, "not_in_channel"), AccessLost, r"/invite @app there \(channel C1\)"),
        (SlackFailure(200, "missing_scope", needed="files:write"), AccessLost, "lacks the scope files:write"),
        (SlackFailure(200, "missing_scope", needed="<b>"), AccessLost, "lacks the scope one"),
        (SlackFailure(200, "ratelimited", "5"), NotSent, "less often"),
        (SlackFailure(429, "", "soon"), NotSent, "less often"),
        (SlackFailure(200, "internal_error"), MaybeSent, "may have been performed"),
        (SlackFailure(503, "anything"), MaybeSent, "status 503"),
        (SlackFailure(200, ""), MaybeSent, "check api_base"),
        (SlackFailure(200, "message_not_found"), SendRefused, "does not exist any more"),
        (SlackFailure(200, "brand_new_code"), SendRefused, "brand_new_code"),
        (SlackFailure(200, "quotes the <text>"), SendRefused, "not a code of Slack"),
    ],
)
def test_what_a_refusal_means(failure: SlackFailure, kind: type[ChannelFault], words: str) -> None:
    with pytest.raises(kind, match=words) as raised:
        raise fault_of(failure, chat="C1")
    is_of_account = failure.error in ("invalid_auth", "missing_scope")
    assert not isinstance(raised.value, AccessLost) or raised.value.everywhere is is_of_account
    assert not isinstance(raised.value, SendRefused) or raised.value.gone is (failure.error == "message_not_found")


def findings(scopes: str, **settings: Any) -> list[Finding]:
    async def play() -> list[Finding]:
        async with simulator(QUICK) as slack:
            slack.world.scopes = set(scopes.split())
            return list(await channel_to(slack, **settings).check())

    return asyncio.run(play())


def test_a_check_names_what_is_missing_and_where_to_switch_it_on() -> None:
    all_needed = "chat:write im:history app_mentions:read channels:history groups:history"
    found = findings(all_needed)
    assert [each.ok for each in found] == [True] * 4
    assert "not switched on: the names of people (users:read), the files of people (files:read)" in found[2].text
    found = findings("im:history app_mentions:read channels:history groups:history")
    [missing] = [each.text for each in found if not each.ok]
    assert missing.startswith("the scope chat:write is missing (to send messages): add it at api.slack.com/apps, OAuth")
    assert findings(all_needed, bot_token="xoxb-another")[0].text.startswith("Slack does not accept the token")
    assert "Socket Mode does not work" in findings(all_needed, app_token="xapp-another")[-1].text
    assert "nothing is received: set app_token" in findings(all_needed, app_token="")[-1].text
    by_http = findings(all_needed, app_token="", signing_secret="secret")[-1]
    assert (by_http.ok, "127.0.0.1:3000/slack/events" in by_http.text) == (True, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bot_token": "xapp-x"}, "bot_token has a wrong form"),
        ({"bot_token": "xoxb-a b"}, "bot_token has a wrong form"),
        ({"app_token": "xoxb-x"}, "app_token has a wrong form"),
        ({"api_base": "slack.com"}, "api_base must be an address"),
        ({"listen": "3000"}, "listen: expected host:port"),
        ({"token": "xoxb-x"}, "has no setting token"),
        ({"reactions": "yes"}, "a setting of the channel slack is wrong"),
    ],
)
def test_a_wrong_setting_is_a_clear_error(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        SlackChannel(**{"bot_token": TOKEN, **settings})
    assert TOKEN not in str(raised.value)


def test_no_representation_shows_a_token() -> None:
    channel = SlackChannel(bot_token=TOKEN, signing_secret=TOKEN)
    assert TOKEN not in repr(channel) + repr(SlackAppSettings(bot_token=TOKEN, app_token=TOKEN.replace("xoxb", "xapp")))
