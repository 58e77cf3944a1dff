"""Updates in the form of the Bot API, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tailrace.channels.telegram.inbound import BotAccount, inbound_of
from tailrace.channels.telegram.updates import BotUpdate, decode_update, update_id_of
from tailrace.inbound import Attachment, ButtonPress, Inbound, InboundMessage, InboundNotice, Sender
from tailrace.operations import Target

BOT = BotAccount(channel="telegram", id="700", username="tail_bot")
UPDATES: dict[str, msgspec.Raw] = msgspec.json.decode(
    Path(__file__).with_name("updates.json").read_bytes(), type=dict[str, msgspec.Raw]
)
PRIVATE = Target(channel="telegram", chat="5551")
GROUP = Target(channel="telegram", chat="-1001234", group=True)
TOPIC = msgspec.structs.replace(GROUP, thread="77")
IGNORED = {"own message", "service message", "promoted", "game button", "unknown kind", "repeated post of a channel"}
# Only for the platform: in a group they are not meant for the bot.
NOT_ADDRESSED = {
    *("group chatter", "mention of another", "command for another bot", "command for any bot", "forum topic"),
    "anonymous administrator",
}


def received(name: str) -> Inbound | None:
    return inbound_of(decode_update(UPDATES[name]), BOT)


def message(name: str) -> InboundMessage:
    inbound = received(name)
    assert isinstance(inbound, InboundMessage)
    return inbound


@pytest.mark.parametrize("name", UPDATES)
def test_updates_are_recorded_as_they_are_sent(name: str) -> None:
    inbound = received(name)
    assert (inbound is None) == (name in IGNORED)
    if inbound is None:
        return
    assert msgspec.json.decode(msgspec.json.encode(inbound), type=Inbound) == inbound
    update_id = update_id_of(UPDATES[name])
    assert (inbound.channel, inbound.account) == ("telegram", "700")
    assert inbound.order == (None if name == "migrated" else update_id)
    if isinstance(inbound, InboundMessage):
        assert inbound.event_id == str(update_id)
        assert inbound.is_addressed == (name not in NOT_ADDRESSED)


def test_a_private_message() -> None:
    assert received("private text") == InboundMessage(
        channel="telegram",
        account="700",
        event_id="527163001",
        order=527163001,
        target=PRIVATE,
        at=1790000000.0,
        text="What is new?",
        sender=Sender(id="5551", name="Ann Lee"),
        message_id="41",
    )


@pytest.mark.parametrize(
    ("name", "command", "text"),
    [
        ("command with arguments", "new", "about 😀 tests"),
        ("command for this bot", "status", ""),
        ("command for any bot", "status", ""),
        ("command for another bot", "", "/status@other_bot now"),
    ],
)
def test_commands(name: str, command: str, text: str) -> None:
    assert (message(name).command, message(name).text) == (command, text)


def test_a_topic_is_a_thread_and_a_chain_of_replies_is_none() -> None:
    assert message("forum topic").target == TOPIC
    assert message("forum topic").reply_to is None
    assert message("reply to the bot").target == GROUP
    assert message("reply to the bot").reply_to == "900"


def test_an_edit_names_the_message_that_it_replaces() -> None:
    edited = message("edited")
    assert (edited.edited, edited.message_id, edited.text) == (True, "41", "What is new today?")
    assert edited.event_id != message("private text").event_id
    assert edited.at == 1790000010.0


def test_files_keep_their_names() -> None:
    assert message("photo").attachments == (Attachment(id="large", mime="image/jpeg", size=98765),)
    assert message("photo").text == "look"
    assert message("document").attachments == (
        Attachment(id="doc", name="../../etc/passwd", mime="text/plain", size=31),
    )
    assert message("voice").attachments == (Attachment(id="voice", mime="audio/ogg", size=9000),)
    assert [file.id for file in message("animation").attachments] == ["gif"]
    assert (message("sticker").text, message("sticker").attachments) == ("👍", ())


def test_an_anonymous_administrator_is_the_group() -> None:
    assert message("anonymous administrator").sender == Sender(id="-1001234", name="Team")


def test_a_press() -> None:
    pressed = received("button")
    assert isinstance(pressed, ButtonPress)
    assert pressed.event_id == "4382bfdwdsb323b2d9"  # an answer to the press needs it
    assert (pressed.value, pressed.message_id, pressed.target) == ("a:1", "920", TOPIC)
    assert pressed.sender == Sender(id="5552", name="Ben")
    old = received("button of an old message")
    assert isinstance(old, ButtonPress)
    assert (old.target, old.message_id) == (PRIVATE, "5")


@pytest.mark.parametrize(
    ("name", "kind", "chat"),
    [
        ("blocked", "removed", "5551"),
        ("unblocked", "restored", "5551"),
        ("silenced", "removed", "-1001234"),
        ("migrated", "moved", "-4321"),
    ],
)
def test_changes_of_a_chat(name: str, kind: str, chat: str) -> None:
    notice = received(name)
    assert isinstance(notice, InboundNotice)
    assert (notice.kind, notice.target.chat, notice.moved_to) == (kind, chat, "-1004321" if kind == "moved" else "")


def test_the_stop_button_is_the_command() -> None:
    stopped = message("draft stopped")
    assert (stopped.command, stopped.text, stopped.sender.id) == ("stop", "", "5551")
    assert stopped.target == msgspec.structs.replace(PRIVATE, thread="12")


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"[]",
        b"null",
        b'{"update_id": 1',
        b'{"update_id": 1, "message": {"text": 5}}',
        b'{"update_id": 1, "message": {"message_id": 2, "chat": {"id": "x", "type": "private"}}}',
        b'{"update_id": 1, "callback_query": {"id": 5}}',
        b'{"update_id": 1, "message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_malformed_updates_are_clear_errors(malformed: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        decode_update(malformed)


@pytest.mark.parametrize("name", UPDATES)
def test_every_cut_of_an_update_is_refused(name: str) -> None:
    whole = bytes(UPDATES[name])
    for end in range(len(whole)):
        with pytest.raises(msgspec.DecodeError):
            decode_update(whole[:end])


def test_a_mention_behind_the_end_of_the_text_is_none() -> None:
    update: dict[str, Any] = msgspec.json.decode(UPDATES["group mention"])
    update["message"]["entities"][0] |= {"offset": 500, "length": -3}
    inbound = inbound_of(msgspec.convert(update, BotUpdate), BOT)
    assert isinstance(inbound, InboundMessage)
    assert not inbound.is_addressed
