"""What people do in the simulated Telegram: the update that the bot gets, and what everybody sees then."""

from __future__ import annotations

from typing import Any

import pytest
from telegram_world import NOW, OF_ADA, OWN, TOPIC, buttons, call, filled_world, new_world

from tailrace.testing.platforms.page import conversation, page
from tailrace.testing.platforms.telegram import CHANNEL, FORUM, GROUP, PRIVATE, ActionProblem, actions, people
from tailrace.testing.platforms.telegram.history import seen_chat
from tailrace.testing.platforms.telegram.world import TelegramWorld
from tailrace.testing.platforms.visible import SeenChat, as_text

BEN = 1002


def updates(world: TelegramWorld, *actions: actions.Action) -> list[dict[str, Any]]:
    """The updates that these actions make, without their ids."""
    world.updates.clear()
    for action in actions:
        people.act(world, action, NOW)
    return [
        {name: value for name, value in each.shown.items() if name != "update_id"} for each in world.updates.batch(NOW)
    ]


def seen(world: TelegramWorld, chat: int = PRIVATE, at: float = NOW) -> SeenChat:
    return seen_chat(world, world.chats[chat], at)


def test_a_person_writes_and_replies_and_edits() -> None:
    write, reply, edit = updates(
        new_world(),
        actions.WriteMessage(text="/start now"),
        actions.WriteMessage(text="and this", reply_to=1),
        actions.EditMessage(message_id=2, text="and that"),
    )
    message = write["message"]
    assert (message["message_id"], message["text"], message["date"]) == (1, "/start now", int(NOW))
    assert message["chat"] == {"id": PRIVATE, "type": "private", "first_name": "Ada"}
    assert message["from"] == {"id": PRIVATE, "is_bot": False, "first_name": "Ada", "username": "ada"}
    assert list(message["entities"]) == [{"type": "bot_command", "offset": 0, "length": 6}]
    assert reply["message"]["reply_to_message"]["message_id"] == 1
    assert (edit["edited_message"]["text"], edit["edited_message"]["edit_date"]) == ("and that", int(NOW))


def test_a_person_writes_in_a_topic_and_sends_a_file() -> None:
    in_topic, photo = updates(
        new_world(),
        actions.WriteMessage(chat=FORUM, user=BEN, thread=TOPIC, text="hello"),
        actions.SendFile(name="../../etc/x.png", content=b"abc", caption="look", photo=True),
    )
    assert (in_topic["message"]["message_thread_id"], in_topic["message"]["is_topic_message"]) == (TOPIC, True)
    assert in_topic["message"]["from"]["first_name"] == "Ben"
    assert photo["message"]["caption"] == "look"
    assert photo["message"]["photo"][0]["file_size"] == 3


def test_a_pressed_button_can_be_answered_once() -> None:
    world = filled_world()
    (pressed,) = updates(world, actions.PressButton(button="Yes"))
    query = pressed["callback_query"]
    assert (query["data"], query["message"]["message_id"]) == ("data", OWN)
    call(world, "answerCallbackQuery", callback_query_id=query["id"], text="Done")
    assert [notice.text for notice in seen(world).notices] == ["Done"]
    with pytest.raises(Exception, match="query is too old"):
        call(world, "answerCallbackQuery", callback_query_id=query["id"])


def test_reactions_reach_a_bot_that_asked_for_them() -> None:
    react = actions.ShowReactions(message_id=OWN, emoji=("👍",))
    assert updates(filled_world(), react) == []
    world = filled_world()
    world.updates.allowed = ("message_reaction",)
    (update,) = updates(world, react)
    assert update["message_reaction"]["new_reaction"] == [{"type": "emoji", "emoji": "👍"}]
    assert seen(world).messages[0].reactions == ("👍",)


def test_members_join_and_leave_and_the_bot_is_blocked() -> None:
    joined, left, blocked = updates(
        new_world(),
        actions.JoinChat(chat=GROUP, name="Cleo"),
        actions.LeaveChat(chat=GROUP, user=BEN),
        actions.ChangeBotStatus(status="kicked"),
    )
    assert joined["message"]["new_chat_members"][0]["first_name"] == "Cleo"
    assert left["message"]["left_chat_member"]["first_name"] == "Ben"
    changed = blocked["my_chat_member"]
    assert (changed["old_chat_member"]["status"], changed["new_chat_member"]["status"]) == ("member", "kicked")


def test_with_privacy_mode_a_bot_gets_from_a_group_only_what_is_addressed_to_it() -> None:
    world = new_world(privacy_mode=True)
    own = call(world, "sendMessage", chat_id=GROUP, text="hello")["message_id"]
    addressed = ["/stop", "@tail_bot hi", "an answer"]
    texts = [*zip(addressed, (None, None, own), strict=True), ("just us", None), ("among us", own + 1)]
    for text, reply_to in texts:
        people.act(world, actions.WriteMessage(chat=GROUP, text=text, reply_to=reply_to), NOW)
    assert [update.content["text"] for update in world.updates.batch(NOW)] == addressed
    assert call(world, "getMe")["can_read_all_group_messages"] is False
    world.chats[GROUP].bot_status = "administrator"
    people.act(world, actions.WriteMessage(chat=GROUP, text="just us"), NOW)
    assert len(world.updates) == len(addressed) + 1


def test_a_bot_that_left_gets_no_messages() -> None:
    world = new_world()
    world.chats[GROUP].bot_status = "left"
    assert updates(world, actions.WriteMessage(chat=GROUP, text="hello")) == []


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (actions.WriteMessage(chat=9, text="a"), "there is no chat with the id 9"),
        (
            actions.WriteMessage(user=BEN, text="a"),
            "there is no member of the chat 1001 with the id 1002: there are 1001",
        ),
        (actions.WriteMessage(chat=FORUM, thread=9, text="a"), "there is no topic with the id 9: there are 4, 7"),
        (actions.EditMessage(message_id=OWN, text="a"), "Ada did not write the message 1"),
        (actions.PressButton(button="No"), "no message in the chat 1001 has a button with the text 'No'"),
        (actions.StopDraft(), "no draft in the chat 1001 shows a stop button"),
        (actions.AddTopic(chat=GROUP, title="a"), "is no forum"),
        (actions.MigrateGroup(), "is no group"),
    ],
)
def test_what_a_person_cannot_do(action: actions.Action, problem: str) -> None:
    with pytest.raises(ActionProblem, match=problem):
        people.act(filled_world(), action, NOW)


def test_a_draft_is_replaced_and_stopped_and_vanishes() -> None:
    world = new_world()
    draft: dict[str, Any] = {"chat_id": PRIVATE, "draft_id": 5, "can_stop": True}
    call(world, "sendMessageDraft", **draft)
    assert "Thinking…" in as_text(seen(world))
    call(world, "sendMessageDraft", **draft, text="one", now=NOW + 1)
    call(world, "sendMessageDraft", **draft, text="one two", now=NOW + 2)
    assert [shown.text for shown in seen(world, at=NOW + 1).drafts] == ["one"]
    assert [shown.text for shown in seen(world, at=NOW + 31.9).drafts] == ["one two"]
    assert seen(world, at=NOW + 32).drafts == (), "a draft lives 30 seconds"
    people.act(world, actions.StopDraft(draft_id=5), NOW + 3)
    (stopped,) = [update.shown for update in world.updates.batch(NOW)]
    assert stopped["stopped_message_generation"]["draft_id"] == 5
    assert seen(world, at=NOW + 3).drafts == ()


def test_a_kept_draft_stays_until_the_bot_writes() -> None:
    world = new_world()
    call(world, "sendMessageDraft", chat_id=PRIVATE, draft_id=5, text="one", can_stop=True, keep_on_stop=True)
    call(world, "sendChatAction", chat_id=PRIVATE, action="typing")
    people.act(world, actions.StopDraft(), NOW + 1)
    assert (len(seen(world, at=NOW + 2).drafts), seen(world, at=NOW + 2).doing) == (1, ("typing",))
    call(world, "sendMessage", chat_id=PRIVATE, text="one", now=NOW + 3)
    assert (seen(world, at=NOW + 3).drafts, seen(world, at=NOW + 3).doing) == ((), ())


def test_a_draft_without_a_stop_button_can_lock_the_chat() -> None:
    world = new_world(draft_locks_chat=True)
    call(world, "sendMessageDraft", chat_id=PRIVATE, draft_id=1, text="one", can_stop=True)
    write = actions.WriteMessage(text="/stop")
    people.act(world, write, NOW)
    call(world, "sendMessageDraft", chat_id=PRIVATE, draft_id=1, text="one")
    with pytest.raises(ActionProblem, match="cannot write while a draft"):
        people.act(world, write, NOW)
    people.act(world, write, NOW + 30)


def test_typing_ends_after_five_seconds() -> None:
    world = new_world()
    call(world, "sendChatAction", chat_id=FORUM, message_thread_id=1, action="typing")
    assert (seen(world, FORUM, NOW + 4.9).doing, seen(world, FORUM, NOW + 5).doing) == (("typing",), ())


def test_the_history_shows_every_time() -> None:
    world = new_world()
    sent = call(world, "sendMessage", chat_id=PRIVATE, text="first\nline", reply_markup=buttons("a"))
    call(world, "editMessageText", chat_id=PRIVATE, message_id=sent["message_id"], text="second", now=NOW + 10)
    call(world, "sendMessage", chat_id=PRIVATE, text="quiet", disable_notification=True, now=NOW + 20)
    call(world, "deleteMessage", chat_id=PRIVATE, message_id=2, now=NOW + 30)
    assert [message.text for message in seen(world).messages] == ["first\nline"]
    first, quiet = seen(world, at=NOW + 20).messages
    assert (first.text, [edit.text for edit in first.edits], first.buttons) == ("second", ["first\nline"], ())
    assert (first.notified, quiet.notified) == (("first",), ())
    assert (quiet.deleted_at, seen(world, at=NOW + 30).messages[1].deleted_at) == (None, NOW + 30)
    assert as_text(seen(world, at=NOW + 30)).splitlines() == [
        "== Ada (private, 1001)",
        "08:00:00    1 Tail Bot: second",
        "              (edits: 1, notified: first)",
        "08:00:20    2 Tail Bot: deleted at 08:00:30: quiet",
    ]


def test_the_page_escapes_what_people_and_bots_write() -> None:
    bad = "<img src=x onerror=alert(1)>"
    world = filled_world()
    call(world, "sendMessage", chat_id=PRIVATE, text=bad, reply_markup=buttons("a", text=bad))
    people.act(world, actions.SendFile(name=bad, content=b"", caption=bad), NOW)
    people.act(world, actions.ShowReactions(message_id=OF_ADA, emoji=(bad,)), NOW)
    people.act(world, actions.WriteMessage(text=bad), NOW)
    people.act(world, actions.WriteMessage(text="x", reply_to=5), NOW)
    people.act(world, actions.JoinChat(chat=GROUP, name=bad), NOW)
    call(world, "sendMessageDraft", chat_id=PRIVATE, draft_id=1, text=bad)
    world.chats[FORUM].title = bad
    call(world, "setMyCommands", commands=[{"command": "stop", "description": bad}])
    chats = [(FORUM, bad, "supergroup")]
    shown = conversation(seen(world), chats) + conversation(seen(world, GROUP), chats) + page(bad)
    assert "<img" not in shown
    assert shown.count("&lt;img src=x onerror=alert(1)&gt;") >= 10


def test_a_rich_message_is_seen_as_text_and_as_safe_html() -> None:
    world = new_world()
    source = "# A\n\n| a | b |\n|---|--:|\n| 1 | <script>2</script> |\n\n- [x] done\n\n```py\nx<1\n```\n"
    call(world, "sendRichMessage", chat_id=PRIVATE, rich_message={"markdown": source})
    table = '<table><tr><td align="right">&lt;b&gt;</td></tr></table>'
    html = f'<p onclick="a">1<br>2</p>{table}<a href="javascript:a">x</a>'
    call(world, "sendRichMessage", chat_id=PRIVATE, rich_message={"html": html})
    first, second = seen(world).messages
    assert first.text == "A\na | b\n1 | 2\n☑ done\nx<1"
    assert "<table><tr><th>a</th>" in first.html
    assert '<pre><span class="language">py</span><code>x&lt;1\n</code></pre>' in first.html
    assert "script" not in first.html
    assert second.text == "1\n2\n<b>\nx"
    assert second.html == f'<div class="rich"><p>1<br>2</p>{table}x</div>'


def test_people_see_the_commands_of_their_kind_of_chat() -> None:
    world = new_world()
    for scope, name in (("default", "help"), ("all_group_chats", "stop")):
        commands = [{"command": name, "description": f"to {name}"}]
        call(world, "setMyCommands", commands=commands, scope={"type": scope})
    assert seen(world).commands == (("help", "to help"),)
    assert seen(world, GROUP).commands == (("stop", "to stop"),)
    assert seen(world, CHANNEL).commands == ()
