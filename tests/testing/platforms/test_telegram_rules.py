"""Each rule of the simulated Telegram: a call that it refuses, and beside it one that it lets pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from telegram_world import (
    CLOSED_TOPIC,
    GONE,
    NOW,
    OF_ADA,
    OWN,
    PNG,
    TOPIC,
    WITH_FILE,
    buttons,
    call,
    filled_world,
    new_world,
)

from tailrace.testing.platforms.api_server import Upload
from tailrace.testing.platforms.telegram import CHANNEL, FORUM, GROUP, PRIVATE, actions, people, unverified_settings
from tailrace.testing.platforms.telegram.rules import RULES, ApiRefusal, TelegramSettings
from tailrace.testing.platforms.telegram.world import TelegramWorld

# These need the server: test_telegram_server.py
SERVED = {
    *("token_unknown", "method_unknown", "file_path_unknown", "other_poller", "webhook_is_set", "webhook_not_https"),
    *("webhook_replaced_poll", "secret_wrong"),
}


def nothing(_world: TelegramWorld) -> None:
    """Prepare nothing."""


def bot_is(status: str, chat: int) -> Callable[[TelegramWorld], None]:
    def prepare(world: TelegramWorld) -> None:
        world.chats[chat].bot_status = status

    return prepare


def pressed(world: TelegramWorld) -> None:
    query = actions.PressButton(button="Yes")
    people.act(world, query, NOW)
    chat = world.chats[PRIVATE]
    chat.queries["press"] = chat.queries.pop(next(iter(chat.queries)))


def migrated(world: TelegramWorld) -> None:
    people.act(world, actions.MigrateGroup(chat=GROUP), NOW)


def large_files(world: TelegramWorld) -> None:
    world.files["large"] = world.store("large.bin", b"x" * 20_000_001)
    world.files["large-photo"] = world.store("large.png", PNG + b"x" * 10_000_000, is_photo=True)
    world.files["fine"] = world.store("fine.bin", b"x" * 20_000_000)
    world.files["fine-photo"] = world.store("fine.png", PNG, is_photo=True)
    world.files["no-photo"] = world.store("no.png", b"text", is_photo=True)


class Case(NamedTuple):
    """The fields of a call: those that are refused instead of those that are accepted."""

    rule: str
    method: str
    refused: dict[str, Any]
    accepted: dict[str, Any]
    common: dict[str, Any]
    prepare: Callable[[TelegramWorld], None] = nothing


HERE: dict[str, Any] = {"chat_id": PRIVATE}
SAY: dict[str, Any] = {"chat_id": PRIVATE, "text": "hello"}
EMOJI, ROW = "😀", "| a " * 20
BOLD = {"type": "bold", "offset": 0, "length": 2}

CASES = [
    Case("field_wrong", "sendMessage", {"chat_id": 1.5}, HERE, {"text": "hello"}),
    Case("field_wrong", "sendMessage", {"entities": "[{"}, {"entities": "[]"}, SAY),
    Case("chat_unknown", "sendMessage", {"chat_id": 9}, {"chat_id": str(PRIVATE)}, {"text": "hello"}),
    Case("chat_migrated", "sendMessage", {"chat_id": GROUP}, {"chat_id": FORUM}, {"text": "hello"}, migrated),
    Case("bot_blocked", "sendMessage", HERE, {"chat_id": GROUP}, {"text": "hello"}, bot_is("kicked", PRIVATE)),
    Case("bot_kicked", "sendMessage", {"chat_id": GROUP}, HERE, {"text": "hello"}, bot_is("kicked", GROUP)),
    Case("bot_not_member", "sendMessage", {"chat_id": GROUP}, HERE, {"text": "hello"}, bot_is("left", GROUP)),
    Case("no_rights_in_channel", "sendMessage", {"chat_id": CHANNEL}, HERE, {"text": "hi"}, bot_is("member", CHANNEL)),
    Case(
        "thread_unknown",
        "sendMessage",
        {"message_thread_id": 1},
        {"message_thread_id": TOPIC},
        {"chat_id": FORUM, "text": "hello"},
    ),
    Case("thread_unknown", "sendMessage", {"message_thread_id": TOPIC}, {}, SAY),
    Case(
        "topic_closed",
        "sendMessage",
        {"message_thread_id": CLOSED_TOPIC},
        {"message_thread_id": TOPIC},
        {"chat_id": FORUM, "text": "hello"},
    ),
    Case("not_a_forum", "createForumTopic", {"chat_id": GROUP}, {"chat_id": FORUM}, {"name": "new"}),
    Case(
        "reply_unknown",
        "sendMessage",
        {"reply_parameters": {"message_id": GONE}},
        {"reply_parameters": {"message_id": GONE, "allow_sending_without_reply": True}},
        SAY,
    ),
    Case("text_empty", "sendMessage", {"text": ""}, {"text": "a"}, HERE),
    Case(
        "text_empty", "sendRichMessage", {"rich_message": {"markdown": " "}}, {"rich_message": {"markdown": "a"}}, HERE
    ),
    Case("text_blank", "sendMessage", {"text": " \n\u200b"}, {"text": " \na"}, HERE),
    # The limit counts code points of the text that is left: 4096 emoji are 8192 UTF-16 code units.
    Case("text_too_long", "sendMessage", {"text": EMOJI * 4097}, {"text": EMOJI * 4096 + " \n"}, HERE),
    Case(
        "text_too_long",
        "editMessageText",
        {"text": "a" * 4097},
        {"text": "<b>" + "a" * 4096 + "</b>", "parse_mode": "HTML"},
        {**HERE, "message_id": OWN},
    ),
    Case("text_too_long", "sendMessageDraft", {"text": "a" * 4097}, {"text": "a" * 4096}, {**HERE, "draft_id": 1}),
    Case("text_not_utf8", "sendMessage", {"text": "\ud83d"}, {"text": EMOJI}, HERE),
    Case(
        "raw_text_too_long",
        "sendMessage",
        {"text": "<b></b>" * 4681 + "ab"},
        {"text": "<b></b>" * 4681 + "a"},
        {**HERE, "parse_mode": "HTML"},
    ),
    Case(
        "caption_too_long",
        "sendDocument",
        {"caption": EMOJI * 1025},
        {"caption": EMOJI * 1024},
        {**HERE, "document": "file-2"},
    ),
    Case(
        "markup_invalid", "sendMessage", {"parse_mode": "MarkdownV2"}, {"parse_mode": "HTML"}, {**HERE, "text": "1.5"}
    ),
    Case("parse_mode_unknown", "sendMessage", {"parse_mode": "XML"}, {"parse_mode": "markdownv2"}, SAY),
    Case("entity_type_unknown", "sendMessage", {"entities": [{**BOLD, "type": "loud"}]}, {"entities": [BOLD]}, SAY),
    Case("entity_begins_late", "sendMessage", {"entities": [{**BOLD, "offset": 6}]}, {"entities": [BOLD]}, SAY),
    # Five letters and an emoji are seven UTF-16 code units.
    Case(
        "entity_ends_late",
        "sendMessage",
        {"entities": [{**BOLD, "length": 8}]},
        {"entities": [{**BOLD, "length": 7}]},
        {**HERE, "text": f"hello{EMOJI}"},
    ),
    Case(
        "entity_cuts_character",
        "sendMessage",
        {"entities": [{**BOLD, "length": 1}]},
        {"entities": [BOLD]},
        {**HERE, "text": EMOJI},
    ),
    Case(
        "not_modified",
        "editMessageText",
        {"reply_markup": buttons("data")},
        {},
        {**HERE, "message_id": OWN, "text": "own"},
    ),
    Case(
        "not_modified",
        "editMessageReplyMarkup",
        {"reply_markup": buttons("data")},
        {"reply_markup": buttons("other")},
        {**HERE, "message_id": OWN},
    ),
    Case("edit_unknown", "editMessageText", {"message_id": GONE}, {"message_id": OWN}, {**HERE, "text": "new"}),
    Case("edit_not_own", "editMessageText", {"message_id": OF_ADA}, {"message_id": OWN}, {**HERE, "text": "new"}),
    Case("no_text_to_edit", "editMessageText", {"message_id": WITH_FILE}, {"message_id": OWN}, {**HERE, "text": "new"}),
    Case(
        "no_caption_to_edit",
        "editMessageCaption",
        {"message_id": OWN},
        {"message_id": WITH_FILE},
        {**HERE, "caption": "new"},
    ),
    Case("delete_unknown", "deleteMessage", {"message_id": GONE}, {"message_id": OF_ADA}, HERE),
    Case("draft_not_private", "sendMessageDraft", {"chat_id": GROUP}, HERE, {"draft_id": 1, "text": "a"}),
    Case("draft_id_zero", "sendMessageDraft", {"draft_id": 0}, {"draft_id": 1}, {**HERE, "text": "a"}),
    Case(
        "rich_content_wrong",
        "sendRichMessage",
        {"rich_message": {"markdown": "a", "html": "a"}},
        {"rich_message": {"blocks": [{"type": "paragraph", "text": "a"}]}},
        HERE,
    ),
    *(
        Case("rich_too_large", "sendRichMessage", {"rich_message": large}, {"rich_message": fitting}, HERE)
        for large, fitting in (
            ({"markdown": "a" * 32_769}, {"markdown": EMOJI * 32_768}),
            ({"markdown": "a\n\n" * 501}, {"markdown": "a\n\n" * 500}),
            ({"markdown": "> " * 16 + "a"}, {"markdown": "> " * 15 + "a"}),
            ({"markdown": f"{ROW}| a |\n{'|---' * 21}|"}, {"markdown": f"{ROW}|\n{'|---' * 20}|"}),
            ({"html": "<p>a</p>" * 501}, {"html": "<p>a</p>" * 500}),
            ({"html": "a" * 32_769}, {"html": f"<p>{'&lt;' * 32_768}</p>"}),
            ({"html": f"<tr>{'<td>a</td>' * 21}</tr>"}, {"html": f"<tr>{'<td>a</td>' * 20}</tr>" * 2}),
            (
                {"blocks": [{"type": "divider", "text": "a"}] * 501},
                {"blocks": [{"type": "divider", "text": "a"}] * 500},
            ),
            ({"html": "a", "media": [{}] * 51}, {"html": "a", "media": [{}] * 50}),
        )
    ),
    *(
        Case("rich_markup_wrong", "sendRichMessage", {"rich_message": {"html": wrong}}, {"rich_message": right}, HERE)
        for wrong, right in (
            ("<script>a</script>", {"html": "<details><summary>a</summary>b</details>"}),
            ("<p>a", {"html": "<p>a<br></p>"}),
            ("<p><b>a</p></b>", {"html": "<p><b>a</b></p>"}),
            ("a &copy; b", {"html": "a &mdash; &#169; b"}),
            ("<T>", {"markdown": "a <T> &copy; b"}),
        )
    ),
    Case(
        "thinking_outside_draft",
        "sendRichMessage",
        {"rich_message": {"html": "<tg-thinking>a</tg-thinking>"}},
        {"rich_message": {"html": "<p>a</p>"}},
        HERE,
    ),
    # 64 bytes are 16 emoji.
    Case(
        "callback_bytes",
        "sendMessage",
        {"reply_markup": buttons(EMOJI * 16 + "a")},
        {"reply_markup": buttons(EMOJI * 16)},
        SAY,
    ),
    Case("callback_bytes", "sendMessage", {"reply_markup": buttons("")}, {"reply_markup": buttons("a")}, SAY),
    Case(
        "query_unknown", "answerCallbackQuery", {"callback_query_id": "9"}, {"callback_query_id": "press"}, {}, pressed
    ),
    Case(
        "query_unknown",
        "answerCallbackQuery",
        {"now": NOW + 61},
        {"now": NOW + 60},
        {"callback_query_id": "press"},
        pressed,
    ),
    Case(
        "answer_too_long",
        "answerCallbackQuery",
        {"text": "a" * 201},
        {"text": "a" * 200},
        {"callback_query_id": "press"},
        pressed,
    ),
    Case("react_unknown", "setMessageReaction", {"message_id": GONE}, {"message_id": OF_ADA}, HERE),
    Case(
        "reaction_unknown",
        "setMessageReaction",
        {"reaction": [{"type": "emoji", "emoji": "🦀"}]},
        {"reaction": [{"type": "emoji", "emoji": "👀"}]},
        {**HERE, "message_id": OF_ADA},
    ),
    Case(
        "reactions_too_many",
        "setMessageReaction",
        {"reaction": [{"emoji": "👀"}, {"emoji": "🔥"}]},
        {"reaction": []},
        {**HERE, "message_id": OF_ADA},
    ),
    Case(
        "commands_wrong",
        "setMyCommands",
        {"commands": [{"command": "Stop!", "description": "stop"}]},
        {"commands": [{"command": "stop", "description": "stop"}]},
        {},
    ),
    Case("action_unknown", "sendChatAction", {"action": "sing"}, {"action": "typing"}, HERE),
    Case("action_in_channel", "sendChatAction", {"chat_id": CHANNEL}, HERE, {"action": "typing"}),
    Case("file_missing", "sendDocument", {}, {"document": "file-2"}, HERE),
    Case("file_id_unknown", "sendDocument", {"document": "http://127.0.0.1/a"}, {"document": "file-2"}, HERE),
    Case("file_id_unknown", "getFile", {"file_id": "file-99"}, {"file_id": "file-2"}, {}),
    Case("photo_too_big", "sendPhoto", {"photo": "large-photo"}, {"photo": "fine-photo"}, HERE, large_files),
    Case("photo_invalid", "sendPhoto", {"photo": "no-photo"}, {"photo": "fine-photo"}, HERE, large_files),
    Case("download_too_big", "getFile", {"file_id": "large"}, {"file_id": "fine"}, {}, large_files),
    Case(
        "body_too_large",
        "sendDocument",
        {"uploads": {"document": Upload("a", b"x" * 50_000_001)}},
        {"uploads": {"document": Upload("a", b"x" * 1000)}},
        HERE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}-{number}" for number, case in enumerate(CASES)])
def test_a_rule_refuses_one_call_and_lets_another_pass(case: Case) -> None:
    world = filled_world()
    case.prepare(world)
    with pytest.raises(ApiRefusal) as refused:
        call(world, case.method, **{**case.common, **case.refused})
    assert refused.value.rule == case.rule
    assert refused.value.status == RULES[case.rule].status
    call(world, case.method, **{**case.common, **case.accepted})


def test_every_rule_has_a_test() -> None:
    paced = {"too_many_requests"}  # test_telegram_pace.py
    aged = {"delete_forbidden"}  # below
    assert {case.rule for case in CASES} | SERVED | paced | aged == RULES.keys()


def test_every_rule_names_its_fact_and_how_sure_it_is() -> None:
    assert [name for name, rule in RULES.items() if not rule.fact or set(rule.confidence) - set("VMTKU+")] == []
    assert [name for name, rule in RULES.items() if rule.worded not in set("VMTKU")] == []


def test_numbers_that_no_source_states_are_marked() -> None:
    assert "chat_slack_s" in unverified_settings()
    assert "text_limit" not in unverified_settings()
    assert TelegramSettings(chat_slack_s=0.0).chat_slack_s == 0.0


def test_a_migrated_group_names_its_new_id() -> None:
    world = filled_world()
    migrated(world)
    with pytest.raises(ApiRefusal) as refused:
        call(world, "sendMessage", chat_id=GROUP, text="hello")
    new_id = refused.value.parameters["migrate_to_chat_id"]
    assert call(world, "sendMessage", chat_id=new_id, text="hello")["chat"]["type"] == "supergroup"


def test_a_message_can_be_deleted_for_two_days_and_only_with_the_right() -> None:
    world = filled_world()
    two_days = 48 * 3600
    with pytest.raises(ApiRefusal, match="can't be deleted"):
        call(world, "deleteMessage", chat_id=PRIVATE, message_id=OWN, now=NOW + two_days + 1)
    assert call(world, "deleteMessage", chat_id=PRIVATE, message_id=OWN, now=NOW + two_days)
    of_ada = people.act(world, actions.WriteMessage(chat=GROUP, text="of Ada"), NOW)
    with pytest.raises(ApiRefusal, match="can't be deleted"):
        call(world, "deleteMessage", chat_id=GROUP, message_id=of_ada)
    world.chats[GROUP].bot_status = "administrator"
    assert call(world, "deleteMessage", chat_id=GROUP, message_id=of_ada)


def test_the_platform_ignores_unknown_fields_and_entities_beyond_the_hundredth() -> None:
    entities = [{"type": "bold", "offset": index, "length": 1} for index in range(120)]
    sent = call(new_world(), "SENDmessage", chat_id=PRIVATE, text="a" * 120, entities=entities, color="red")
    assert len(sent["entities"]) == 100
