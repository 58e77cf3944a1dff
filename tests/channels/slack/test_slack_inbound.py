"""What Slack sends, as inbound values: who wrote what and where, and whether it is meant for the bot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tailrace.channels.slack.events import CommandPayload, EventPayload, InteractionPayload
from tailrace.channels.slack.inbound import (
    AppAccount,
    inbound_of_command,
    inbound_of_event,
    inbound_of_press,
    plain_text,
    target_of,
)
from tailrace.inbound import ButtonPress, InboundMessage, InboundNotice
from tailrace.operations import Target

APP = AppAccount(channel="slack", user_id="U0BOT", bot_id="B0BOT", team_id="T1")
TS, ROOT = "1700000000.000100", "1600000000.000200"


def received(app: AppAccount = APP, /, *, around: dict[str, Any] | None = None, **event: Any) -> Any:
    """The inbound value of a message event with these fields."""
    content = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "text": "hello", "ts": TS}
    payload = {"type": "event_callback", "event_id": "Ev1", "team_id": "T1", "event": {**content, **event}}
    encoded = msgspec.json.encode({**payload, **(around or {})})
    return inbound_of_event(msgspec.json.decode(encoded, type=EventPayload), app)


def test_a_message_in_a_channel() -> None:
    message = received()
    assert isinstance(message, InboundMessage)
    assert message.target == Target(channel="slack", chat="C1", thread=TS, group=True), "answers stand in its thread"
    assert (message.text, message.sender.id, message.message_id) == ("hello", "U1", TS)
    assert (message.at, message.order, message.account) == (1700000000.0001, 1700000000000100, "T1/U0BOT")
    assert (message.is_addressed, message.reply_to) == (False, None)


def test_a_direct_message_is_meant_for_the_bot_and_answered_in_its_thread() -> None:
    message = received(channel="D1", channel_type="im")
    assert (message.is_addressed, message.target.group, message.target.thread) == (True, False, TS)


def test_a_reply_belongs_to_its_thread() -> None:
    reply = received(thread_ts=ROOT, parent_user_id="U2")
    assert (reply.target.thread, reply.reply_to, reply.is_addressed) == (ROOT, ROOT, False)
    assert received(thread_ts=ROOT, parent_user_id="U0BOT").is_addressed, "the bot began this thread"


def test_a_mention_comes_as_two_events_and_is_one_message() -> None:
    message = received(text="<@U0BOT> hello")
    mention = received(type="app_mention", channel_type="", text="<@U0BOT> hello", around={"event_id": "Ev2"})
    assert (message.text, message.is_addressed) == ("hello", True)
    assert message == mention, "the ledger knows the second one by its event id"


@pytest.mark.parametrize(
    ("text", "command", "rest"),
    [
        ("<@U0BOT> /stop", "stop", ""),
        ("/new and <https://example.org|more>", "new", "and more (https://example.org)"),
        ("/ slash", "", "/ slash"),
        ("no /stop", "", "no /stop"),
    ],
)
def test_a_word_with_a_slash_is_a_command(text: str, command: str, rest: str) -> None:
    message = received(text=text)
    assert (message.command, message.text) == (command, rest)


@pytest.mark.parametrize(
    ("stored", "typed"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<https://example.org/?a=b&amp;c=d>", "https://example.org/?a=b&c=d"),
        ("<http://example.org|example.org>", "example.org"),
        ("<mailto:a@example.org|a@example.org>", "a@example.org"),
        (
            "<@U7> <@U7|ann> <#C7|team> <!here> <!subteam^S1|@crew> <!date^1^{date}|then>",
            "@U7 @ann #team @here @crew @then",
        ),
        ("a < b > c |", "a < b > c |"),
    ],
)
def test_texts_are_as_the_person_typed_them(stored: str, typed: str) -> None:
    assert plain_text(stored, APP) == typed


@pytest.mark.parametrize(
    "event",
    [
        {"user": "U0BOT"},
        {"bot_id": "B0BOT", "user": None},
        {"subtype": "channel_join"},
        {"subtype": "message_deleted"},
        {"text": " "},
        {"text": None},
        {"ts": ""},
        {"type": "reaction_added", "item": {"type": "message"}, "channel": None},
        {"type": "channel_rename", "channel": {"id": "C1", "name": "x"}},
    ],
)
def test_what_is_ignored(event: dict[str, Any]) -> None:
    assert received(**event) is None


def test_a_file_is_an_attachment() -> None:
    file = {"id": "F1", "name": "../a.txt", "mimetype": "text/plain", "size": 5, "mode": "hosted"}
    message = received(subtype="file_share", text="", files=[file])
    [attachment] = message.attachments
    assert (attachment.id, attachment.name, attachment.mime, attachment.size) == ("F1", "../a.txt", "text/plain", 5)


def test_an_edit_is_the_same_message_with_another_event() -> None:
    before = {"type": "message", "user": "U1", "text": "helo", "ts": TS}
    edit = received(subtype="message_changed", user=None, ts="1700000009.000000", message={**before, "text": "hello"})
    assert (edit.edited, edit.message_id, edit.text, edit.event_id) == (True, TS, "hello", "Ev1")
    assert received(subtype="message_changed", message=before, previous_message=before) is None, "only a link preview"
    own = {**before, "bot_id": "B0BOT", "text": "new"}
    assert received(subtype="message_changed", message=own, previous_message=before) is None


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "channel_left"}, "removed"),
        ({"type": "group_left"}, "removed"),
        ({"type": "member_left_channel", "user": "U0BOT"}, "removed"),
        ({"type": "member_joined_channel", "user": "U0BOT"}, "restored"),
        ({"type": "member_joined_channel", "user": "U1"}, None),
    ],
)
def test_changes_of_the_membership(event: dict[str, Any], kind: str | None) -> None:
    notice = received(**event)
    assert (notice and notice.kind) == kind


def test_a_channel_that_gets_another_id_is_followed() -> None:
    notice = received(type="channel_id_changed", channel="", old_channel_id="C1", new_channel_id="C2")
    assert isinstance(notice, InboundNotice)
    assert (notice.kind, notice.target.chat, notice.moved_to) == ("moved", "C1", "C2")


@pytest.mark.parametrize(
    ("team", "enterprise", "app", "is_taken"),
    [
        ("T1", None, APP, True),
        ("T2", None, APP, False),
        ("T1", "E1", APP, True),
        ("T2", "E1", msgspec.structs.replace(APP, enterprise_id="E1", is_enterprise_install=True), True),
        ("T2", "E2", msgspec.structs.replace(APP, enterprise_id="E1", is_enterprise_install=True), False),
    ],
)
def test_events_of_other_workspaces_are_ignored(
    team: str, enterprise: str | None, app: AppAccount, is_taken: bool
) -> None:
    of_whom = {"team_id": team, "enterprise_id": enterprise}
    assert (received(app, around={**of_whom, "authorizations": [of_whom]}) is not None) is is_taken
    command = CommandPayload(command="/a", channel_id="C1", user_id="U1", team_id=team, enterprise_id=enterprise)
    assert (inbound_of_command(command, app) is not None) is is_taken


def test_a_slash_command() -> None:
    payload = CommandPayload(
        command="/stop",
        channel_id="D1",
        user_id="U1",
        user_name="ann",
        text=" now &lt;",
        team_id="T1",
        trigger_id="9.8",
    )
    command = inbound_of_command(payload, APP)
    assert command is not None
    assert (command.command, command.text, command.target.thread) == ("stop", "now <", None)
    assert (command.sender.name, command.event_id, command.is_addressed) == ("ann", "command 9.8", True)


def pressed(**changed: Any) -> ButtonPress | None:
    action = {"action_id": "tailrace-0", "value": "v", "action_ts": "1700000001.5", "type": "button"}
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "name": "ann", "team_id": "T1"},
        "team": {"id": "T1"},
        "enterprise": None,
        "container": {"message_ts": TS, "channel_id": "C1", "thread_ts": ROOT},
        "actions": [action],
    }
    return inbound_of_press(msgspec.convert({**payload, **changed}, InteractionPayload), APP)


def test_a_press_of_a_button() -> None:
    press = pressed()
    assert press is not None
    assert (press.value, press.message_id, press.sender.name) == ("v", TS, "ann")
    assert press.target == Target(channel="slack", chat="C1", thread=ROOT, group=True)
    assert pressed() == press, "a repeated press has the same event id"
    assert pressed(actions=[{"action_id": "of-another-program", "value": "v"}]) is None
    assert pressed(type="view_submission") is None
    assert pressed(actions=[]) is None
    assert pressed(team={"id": "T2"}) is None


def test_a_source_id_names_a_channel_and_a_thread() -> None:
    assert target_of(f"C1--{TS}", "slack") == Target(channel="slack", chat="C1", thread=TS, group=True)
    assert target_of("D1", "slack") == Target(channel="slack", chat="D1")
