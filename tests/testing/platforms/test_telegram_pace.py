"""The pace of the simulated Telegram: per chat, per group, overall, for edits and drafts, and what a 429 says."""

from __future__ import annotations

from typing import Any

import pytest
from telegram_world import NOW, call, new_world

from tailrace.testing.platforms.telegram import GROUP, PRIVATE
from tailrace.testing.platforms.telegram.rules import ApiRefusal
from tailrace.testing.platforms.telegram.world import TelegramUser, TelegramWorld


def retry_after(world: TelegramWorld, method: str, now: float, **fields: Any) -> object:
    with pytest.raises(ApiRefusal) as refused:
        call(world, method, now=now, **fields)
    assert (refused.value.rule, refused.value.status) == ("too_many_requests", 429)
    assert refused.value.description == f"Too Many Requests: retry after {refused.value.parameters['retry_after']}"
    return refused.value.parameters["retry_after"]


def test_a_chat_takes_one_message_each_second_and_edits_count() -> None:
    world = new_world(paced=True)
    sent = call(world, "sendMessage", chat_id=PRIVATE, text="one")
    assert retry_after(world, "sendMessage", NOW + 0.5, chat_id=PRIVATE, text="two") == 1
    edit = {"chat_id": PRIVATE, "message_id": sent["message_id"], "text": "new"}
    assert retry_after(world, "editMessageText", NOW + 1.4, **edit) == 1, "the chat is blocked for a whole second"
    assert call(world, "editMessageText", now=NOW + 1.5, **edit)
    assert retry_after(world, "editMessageText", NOW + 2.0, **edit) == 1


def test_a_call_may_come_a_little_too_early() -> None:
    world = new_world(paced=True)
    call(world, "sendMessage", chat_id=PRIVATE, text="one")
    call(world, "sendMessage", chat_id=PRIVATE, text="two", now=NOW + 0.95)


def test_a_refused_text_costs_no_pace() -> None:
    world = new_world(paced=True)
    with pytest.raises(ApiRefusal, match="can't parse entities"):
        call(world, "sendMessage", chat_id=PRIVATE, text="1.5", parse_mode="MarkdownV2")
    call(world, "sendMessage", chat_id=PRIVATE, text="1.5")


def test_a_group_takes_twenty_messages_each_minute() -> None:
    world = new_world(paced=True)
    for second in range(20):
        call(world, "sendMessage", chat_id=GROUP, text="hello", now=NOW + second)
    assert retry_after(world, "sendMessage", NOW + 20, chat_id=GROUP, text="hello") == 40
    assert retry_after(world, "sendMessage", NOW + 59, chat_id=GROUP, text="hello") == 1
    call(world, "sendMessage", chat_id=GROUP, text="hello", now=NOW + 60)


def test_all_chats_together_take_thirty_messages_each_second() -> None:
    world = new_world(paced=True)
    for number in range(31):
        world.add_chat(5000 + number, "private", "Person", TelegramUser(5000 + number, "Person"))
    for number in range(30):
        call(world, "sendMessage", chat_id=5000 + number, text="hello", now=NOW + number / 100)
    assert retry_after(world, "sendMessage", NOW + 0.5, chat_id=5030, text="hello") == 1
    call(world, "sendMessage", chat_id=5030, text="hello", now=NOW + 1.5)


def test_drafts_and_typing_have_a_pace_of_their_own() -> None:
    world = new_world(paced=True)
    call(world, "sendMessage", chat_id=PRIVATE, text="one")
    call(world, "sendChatAction", chat_id=PRIVATE, action="typing")
    for number in range(4):
        call(world, "sendMessageDraft", chat_id=PRIVATE, draft_id=1, text=f"draft {number}")
    assert retry_after(world, "sendMessageDraft", NOW, chat_id=PRIVATE, draft_id=1, text="more") == 1
