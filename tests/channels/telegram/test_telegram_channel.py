"""The channel against the simulated Telegram: what the contract suite does not cover."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from telegram_setup import HERE, PERSON, PNG, TOKEN, running, simulator, steal_updates, with_simulator

from tailrace.channels.telegram import BotSettings, TelegramChannel
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.errors import AccessLost, ChannelFault, LedgerClosed, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.inbound import Attachment, Inbound, InboundMessage, InboundNotice
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Delete, Draft, Edit, Post, PostMedia, Target, Typing
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.faults import NoAnswer, ReorderUpdates, RepeatUpdates, Reset, Rule, ServerError, SlowBody, TooMany
from tailrace.testing.platforms.telegram import (
    CHANNEL,
    FORUM,
    GROUP,
    ChangeBotStatus,
    MigrateGroup,
    SendFile,
    StopDraft,
    TelegramSimulator,
    WriteMessage,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable


def at(chat: int, thread: int | None = None) -> Target:
    return Target(channel="telegram", chat=str(chat), thread=None if thread is None else str(thread), group=chat < 0)


def post(text: str, target: Target = HERE) -> Post:
    return Post(target=target, body=Body(text=text))


async def fault_of(call: Awaitable[object]) -> ChannelFault:
    with pytest.raises(ChannelFault) as raised:
        await call
    return raised.value


def files_in(folder: Path) -> dict[str, int]:
    """The sizes of the files."""
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def methods(telegram: TelegramSimulator) -> list[str]:
    return [call.method for call in telegram.calls if call.method not in ("getUpdates", "getMe")]


@with_simulator
async def test_a_topic_a_group_and_a_channel(telegram: TelegramSimulator) -> None:
    async with running(telegram) as channel:
        for target in (at(FORUM, 7), at(GROUP), at(CHANNEL)):
            assert channel.capabilities_of(target).native is None
            await channel.post(post("hello", target), key="k")
        assert channel.capabilities_of(at(CHANNEL)).typing_s is None
        assert channel.capabilities_of(at(GROUP)).typing_s == 5.0
        with pytest.raises(SendRefused, match="no such topic"):
            await channel.post(post("hello", at(FORUM, 99)), key="k")
    assert [message.topic for message in telegram.seen(FORUM).messages] == ["Questions"]


@with_simulator
async def test_a_reply_to_a_message_that_is_gone_is_sent(telegram: TelegramSimulator) -> None:
    asked = await telegram.act(WriteMessage(text="well?"))
    async with running(telegram) as channel:
        for reply_to in (str(asked), "999999"):
            await channel.post(Post(target=HERE, body=Body(text="yes"), reply_to=reply_to), key="k")
    assert [message.reply_to for message in telegram.seen(PERSON.id).messages] == [None, asked, None]


@with_simulator
async def test_a_draft_is_stopped_by_its_button(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    async with running(telegram, inbox) as channel:
        await channel.draft(Draft(target=HERE, draft_id=5, body=Body(text="I wri")))
        [draft] = telegram.seen(PERSON.id).drafts
        assert (draft.text, draft.can_stop) == ("I wri", True)
        await telegram.act(StopDraft())
        await inbox.wait(1)
        assert [shown.text for shown in telegram.seen(PERSON.id).drafts] == ["I wri"]
    [stopped] = inbox.received
    assert isinstance(stopped, InboundMessage)
    assert (stopped.command, stopped.target) == ("stop", HERE)


@with_simulator
async def test_a_group_that_moved_is_followed(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    async with running(telegram, inbox) as channel:
        await telegram.act(MigrateGroup(chat=GROUP))
        await inbox.wait(1)
        await channel.post(post("here", at(GROUP)), key="k")
    [moved] = {notice.event_id: notice for notice in inbox.received}.values()
    assert isinstance(moved, InboundNotice)
    assert (moved.kind, moved.target.chat) == ("moved", str(GROUP))
    assert telegram.texts(int(moved.moved_to)) == ["here"]


@with_simulator
async def test_a_refused_call_finds_where_the_group_moved(telegram: TelegramSimulator) -> None:
    await telegram.act(MigrateGroup(chat=GROUP))
    telegram.world.updates.clear()  # the update was received by an earlier process
    inbox = RecordingInbox()
    async with running(telegram, inbox) as channel:
        fault = await fault_of(channel.post(post("here", at(GROUP)), key="k"))
        assert isinstance(fault, NotSent)
        assert fault.retry_after == 0.0
        await inbox.wait(1)
        await channel.post(post("here", at(GROUP)), key="k")
    [moved] = inbox.received
    assert isinstance(moved, InboundNotice)
    assert telegram.texts(int(moved.moved_to)) == ["here"]


@with_simulator
async def test_a_limit_of_two_chats_at_once_is_that_of_the_bot(telegram: TelegramSimulator) -> None:
    async with running(telegram) as channel:
        telegram.add_faults(Rule(fault=TooMany(40), times=3))
        faults = [await fault_of(channel.post(post("x", at(chat)), key="k")) for chat in (PERSON.id, PERSON.id, GROUP)]
    assert [(fault.retry_after, fault.everywhere) for fault in faults if isinstance(fault, NotSent)] == [
        (40.0, False),
        (40.0, False),
        (40.0, True),
    ]


@with_simulator
async def test_a_blocked_bot_may_be_unblocked(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    async with running(telegram, inbox) as channel:
        await telegram.act(ChangeBotStatus(status="kicked"))
        blocked = await fault_of(channel.post(post("one"), key="k"))
        assert isinstance(blocked, AccessLost)
        assert not blocked.everywhere
        await channel.post(post("others", at(GROUP)), key="k")
        await telegram.act(ChangeBotStatus(status="member"))
        await channel.post(post("two"), key="k")
        await inbox.wait(2)
    assert [notice.kind for notice in inbox.received if isinstance(notice, InboundNotice)] == ["removed", "restored"]
    assert telegram.texts(PERSON.id) == ["two"]


@with_simulator
async def test_a_token_that_is_valid_again_works_again(telegram: TelegramSimulator) -> None:
    async with running(telegram) as channel:
        telegram.world.token_is_valid = False
        fault = await fault_of(channel.post(post("one"), key="k"))
        assert isinstance(fault, AccessLost)
        assert fault.everywhere
        telegram.world.token_is_valid = True
        await channel.post(post("two"), key="k")
    assert telegram.texts(PERSON.id) == ["two"]


@with_simulator
async def test_it_does_not_start_without_a_valid_token(telegram: TelegramSimulator) -> None:
    telegram.world.token_is_valid = False
    channel = TelegramChannel(token=TOKEN, api_base=telegram.url)
    with pytest.raises(AccessLost, match="BotFather"):
        await channel.start(RecordingInbox())
    telegram.world.token_is_valid = True
    await channel.start(RecordingInbox())
    await channel.post(post("works"), key="k")
    await channel.stop()


def test_no_network_is_surely_not_sent() -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
            channel = TelegramChannel(token=TOKEN, api_base=f"http://127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(NotSent, match="no connection to Telegram"):
                await channel.start(RecordingInbox())
            with pytest.raises(NotSent, match="stopped"):
                await channel.post(post("x"), key="k")

    asyncio.run(run())


@with_simulator
async def test_another_poller_is_named(telegram: TelegramSimulator) -> None:
    async with running(telegram) as channel:
        await steal_updates(telegram)
        with pytest.raises(AccessLost, match="another program gets the messages of this bot"):
            await channel.wait_closed()
        await channel.post(post("sending still works"), key="k")


@with_simulator
async def test_a_webhook_of_another_program_is_named(telegram: TelegramSimulator) -> None:
    webhook: dict[str, Any] = {"public_url": "http://127.0.0.1:9/hook", "listen": "127.0.0.1:0"}
    async with running(telegram, mode="webhook", **webhook):
        pass
    async with running(telegram) as channel:
        with pytest.raises(AccessLost, match="a webhook is set"):
            await channel.wait_closed()
        [problem] = [finding.text for finding in await channel.check() if not finding.ok]
        assert problem.startswith("a webhook to 127.0.0.1 is set, so nothing can be polled")


@with_simulator
async def test_an_inbox_that_fails_for_good_ends_the_connection(telegram: TelegramSimulator) -> None:
    class ClosedInbox:
        async def receive(self, inbound: Inbound) -> None:
            raise LedgerClosed(f"the ledger is closed, and {inbound.event_id} was not recorded")

    async with running(telegram, ClosedInbox()) as channel:
        await telegram.act(WriteMessage(text="hi"))
        with pytest.raises(LedgerClosed):
            await channel.wait_closed()


def test_a_malformed_update_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with_simulator(skip_malformed_update)()
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "is malformed and skipped" in warning
    assert "PRIVATE" not in warning


async def skip_malformed_update(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    telegram.world.updates.add("message", {"message_id": "wrong", "text": "PRIVATE"}, telegram.clock())
    await telegram.act(WriteMessage(text="next"))
    async with running(telegram, inbox):
        await inbox.wait(1)
    assert [event.text for event in inbox.received if isinstance(event, InboundMessage)] == ["next"]


@with_simulator
async def test_repeated_and_reordered_updates(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    async with running(telegram, inbox):
        await telegram.act(WriteMessage(text="one"))
        await inbox.wait(1)
        telegram.add_faults(*(Rule(fault=fault, kind="getUpdates") for fault in (RepeatUpdates(), ReorderUpdates())))
        for text in ("two", "three", "four"):
            await telegram.act(WriteMessage(text=text))
        # A repeated event keeps its id, by which the ledger knows it.
        while len({event.event_id for event in inbox.received}) < 4:
            await inbox.wait(len(inbox.received) + 1)
    texts = {event.event_id: event.text for event in inbox.received if isinstance(event, InboundMessage)}
    assert [texts[event_id] for event_id in sorted(texts)] == ["one", "two", "three", "four"]


@with_simulator
async def test_a_stop_does_not_wait_for_the_poll(telegram: TelegramSimulator) -> None:
    async with running(telegram, polling_timeout=600):
        await telegram.act(WriteMessage(text="hi"))
    # The simulator ends a test that takes half a minute, and the poll would take ten.


@with_simulator
async def test_reactions_show_what_was_recorded(telegram: TelegramSimulator) -> None:
    inbox = RecordingInbox()
    async with running(telegram, inbox, reactions=True):
        asked = await telegram.act(WriteMessage(text="hi"))
        await telegram.wait_until(lambda: bool(telegram.seen(PERSON.id).messages[0].reactions))
        await telegram.act(WriteMessage(chat=GROUP, text="not for the bot"))
        await inbox.wait(2)
    assert [message.reactions for message in telegram.seen(PERSON.id).messages if message.id == asked] == [("👀",)]
    assert methods(telegram) == ["setMessageReaction"]


@with_simulator
async def test_processing_messages_before_the_start(telegram: TelegramSimulator) -> None:
    channel = TelegramChannel(token=TOKEN, api_base=telegram.url)
    created = {
        source: await channel.create_processing_message(source, "⏳ Processing...", None)
        for source in (str(PERSON.id), f"{FORUM}--4")
    }
    for source, message_id in created.items():
        for _ in range(2):
            await channel.update_processing_message(source, message_id, "🔧 read: a.py", None)
    await channel.stop()
    assert telegram.texts(PERSON.id) == telegram.texts(FORUM) == ["🔧 read: a.py"]
    assert telegram.seen(FORUM).messages[-1].topic == "Releases"


@with_simulator
async def test_calls_are_never_repeated(telegram: TelegramSimulator) -> None:
    async with running(telegram) as channel:
        sent = await channel.post(post("one"), key="k")
        edit = Edit(target=HERE, message_id=sent.message_id, body=Body(text="two"))
        delete = Delete(target=HERE, message_id=sent.message_id)
        for call in (
            lambda: channel.edit(edit),
            lambda: channel.typing(Typing(target=HERE)),
            lambda: channel.delete(delete),
        ):
            before = len(methods(telegram))
            telegram.add_faults(Reset(), ServerError(502))
            for _ in range(2):
                assert isinstance(await fault_of(call()), MaybeSent)
            assert len(methods(telegram)) == before + 2


def test_files_of_this_machine(tmp_path: Path) -> None:
    async def run() -> None:
        picture, report = tmp_path / "mill.png", tmp_path / 'a "report"\r\n.txt'
        picture.write_bytes(PNG)
        report.write_bytes(b"x" * 300_000)
        async with simulator() as telegram, running(telegram) as channel:
            for path in (picture, report):
                await channel.post_media(PostMedia(target=HERE, path=str(path), caption=path.stem[:4]), key="k")
            seen = telegram.seen(PERSON.id).messages
            assert [message.text for message in seen] == ["mill", 'a "r']
            assert methods(telegram) == ["sendPhoto", "sendDocument"]
            stored = {file.name: file.content for file in telegram.world.files.values()}
            assert stored == {"mill.png": PNG, 'a "report"__.txt': b"x" * 300_000}
            for missing in (tmp_path / "none", tmp_path):
                with pytest.raises(SendRefused, match="cannot be read"):
                    await channel.post_media(PostMedia(target=HERE, path=str(missing)), key="k")
            with (tmp_path / "huge").open("wb") as huge:
                huge.truncate(50_000_001)
            with pytest.raises(SendRefused, match="50000000"):
                await channel.post_media(PostMedia(target=HERE, path=str(tmp_path / "huge")), key="k")

    asyncio.run(run())


def test_a_picture_that_is_no_photo_is_sent_as_a_file(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "odd.png").write_bytes(b"no picture at all")
        media = PostMedia(target=HERE, path=str(tmp_path / "odd.png"))
        async with simulator() as telegram, running(telegram) as channel:
            fault = await fault_of(channel.post_media(media, key="odd"))
            assert isinstance(fault, NotSent)  # so that the sender waits for the pace, and asks again
            receipt = await channel.post_media(media, key="odd")
            assert receipt.degraded == "sent as a file"
            assert methods(telegram) == ["sendPhoto", "sendDocument"]

    asyncio.run(run())


def test_files_of_people_are_loaded_to_the_given_path(tmp_path: Path) -> None:
    async def run() -> None:
        inbox = RecordingInbox()
        async with simulator() as telegram, running(telegram, inbox) as channel:
            await telegram.act(SendFile(name="../up.bin", content=bytes(300_000)))
            await inbox.wait(1)
            [message] = inbox.received
            assert isinstance(message, InboundMessage)
            [attachment] = message.attachments
            unsized = Attachment(id=attachment.id)
            with pytest.raises(SendRefused, match="more than"):
                await channel.fetch(unsized, tmp_path / "file", max_bytes=299_999)
            telegram.add_faults(Rule(fault=Reset(), kind="download", times=2))  # aiohttp repeats a GET once
            with pytest.raises(NotSent):
                await channel.fetch(unsized, tmp_path / "file", max_bytes=300_000)
            with pytest.raises(SendRefused):
                await channel.fetch(Attachment(id="unknown"), tmp_path / "file", max_bytes=1)
            assert files_in(tmp_path) == {}
            await channel.fetch(unsized, tmp_path / "file", max_bytes=300_000)
            assert files_in(tmp_path) == {"file": 300_000}
            with pytest.raises(FileExistsError):
                await channel.fetch(unsized, tmp_path / "file", max_bytes=300_000)
            assert files_in(tmp_path) == {"file": 300_000}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"token": "secret-that-is-no-token"}, "the token has a wrong form"),
        ({"token": 5}, "Expected `str`"),
        ({"api_base": "api.telegram.org"}, "api_base must be an address"),
        ({"polling_timeout": 0}, "polling_timeout"),
        ({"mode": "pulling"}, "mode"),
        ({"mode": "webhook"}, "needs public_url"),
        ({"mode": "webhook", "public_url": "https://example.org/", "listen": "8080"}, "listen: expected host:port"),
        ({"secret": "no spaces"}, "1 to 256 characters"),
        ({"tokens": "x"}, "has no setting tokens"),
    ],
)
def test_a_wrong_setting_is_a_clear_error(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as raised:
        TelegramChannel(**{"token": TOKEN, **settings})
    assert "secret-that-is-no-token" not in str(raised.value)


@with_simulator
async def test_a_webhook_that_works(telegram: TelegramSimulator) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inbox = RecordingInbox(failures=1)
    webhook: dict[str, Any] = {"public_url": f"http://127.0.0.1:{port}/hook", "listen": f"127.0.0.1:{port}"}
    async with running(telegram, inbox, mode="webhook", **webhook) as channel:
        telegram.world.updates.add("message", {"message_id": "malformed"}, telegram.clock())
        telegram.world.updates.add("telepathy", {"text": "of an unknown kind"}, telegram.clock())
        await telegram.act(WriteMessage(text="one"))
        await inbox.wait(1, attempts=2)
        telegram.add_faults(Rule(fault=RepeatUpdates(), kind="webhook"))
        await telegram.act(WriteMessage(text="two"))
        await inbox.wait(3)
        await channel.post(post("three"), key="k")
    messages = [event for event in inbox.received if isinstance(event, InboundMessage)]
    ledger = MemoryLedger()
    assert [message.text for message in messages if (await ledger.accept(message)).is_new] == ["one", "two"]
    assert telegram.texts(PERSON.id) == ["three"]


def test_a_call_without_an_answer_ends_at_its_deadline() -> None:
    async def run() -> None:
        async with simulator() as telegram:
            client = TelegramClient(BotSettings(token=TOKEN, api_base=telegram.url))
            telegram.add_faults(NoAnswer(), SlowBody(60.0))
            for _ in range(2):
                with pytest.raises(MaybeSent, match="did not answer in time"):
                    await client.call(MethodCall("getMe", {}), dict[str, Any], deadline_s=0.5)
            assert (await client.call(MethodCall("getMe", {}), dict[str, Any]))["is_bot"]
            await client.close()

    asyncio.run(run())


def test_every_setting_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "channels" / "telegram.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in BotSettings.__struct_fields__ if f"| `{name}` |" not in text] == []
