"""What the simulated Telegram enforces: its numbers, and the refusals with the sources that state them.

`fact` is such a source. TG-API is the text of the Bot API 10.3, TG-RICH its section on rich messages, TG-BAS the source
of the Bot API server, TG-TD that of TDLib, PTB the constants of python-telegram-bot. A number alone is a section of the
project's notes on chat platforms, with the row in that section. `confidence` is V (read in a primary source or
measured), M (measured by others), T (stated by others), K (commonly known) or U (unverified). It says how sure the rule
is; `worded` says the same of its exact words.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tailrace.capabilities import Rate
from tailrace.testing.platforms.platform_rules import (
    UNVERIFIED,
    PlatformRule,
    UnverifiedBool,
    UnverifiedFloat,
    UnverifiedInt,
    unverified_fields,
)


class TelegramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of the platform.

    The comment at each names the source; a number is a section as in `PlatformRule.fact`.
    """

    text_limit: int = 4096  # 1: code points after the entities are parsed
    raw_text_limit: int = 32_768  # 1: bytes of UTF-8, with the markup
    caption_limit: int = 1024  # 1: code points
    rich_text_limit: int = 32_768  # 1: characters
    rich_block_limit: int = 500  # 1: also nested ones, list items and rows of tables
    rich_depth_limit: int = 16  # 1
    rich_column_limit: int = 20  # 1
    rich_media_limit: int = 50  # 1
    entity_limit: int = 100  # PTB MessageLimit: further entities are ignored
    callback_bytes: int = 64  # 1
    callback_answer_limit: int = 200  # TG-API answerCallbackQuery.text
    draft_lifetime_s: float = 30.0  # 4
    draft_locks_chat: bool = False  # 0: Android clients let nobody write while a draft without a stop button is shown
    typing_s: float = 5.0  # 5
    per_chat: Rate = Rate(calls=1, per_s=1.0)  # 6
    per_group: Rate = Rate(calls=20, per_s=60.0)  # 6
    overall: Rate = Rate(calls=30, per_s=1.0)  # 6
    enforces_pace: bool = True
    privacy_mode: bool = False  # core.telegram.org/bots/features: in groups only what is addressed to the bot arrives
    deletable_s: float = 48 * 3600.0  # TG-API deleteMessage
    updates_kept_s: float = 24 * 3600.0  # TG-API getUpdates
    update_ids_restart_s: float = 7 * 24 * 3600.0  # 8: after a week without updates the next id is random
    photo_bytes: int = 10_000_000  # TG-API sendPhoto.photo
    upload_bytes: int = 50_000_000  # TG-API sendDocument.document
    download_bytes: int = 20_000_000  # TG-API getFile
    webhook_retry_longest_s: float = 60.0  # 8: the longest step lies between 60 and 120 s
    webhook_retry_after_s: float = 3600.0  # 8: the longest `Retry-After` that is honoured
    webhook_gives_up_s: float = 23 * 3600.0  # 8

    chat_slack_s: UnverifiedFloat = 0.1  # how much too early a call may come
    shortest_retry_s: UnverifiedInt = 1  # the least `retry_after`
    drafts_per_chat: Annotated[Rate, UNVERIFIED] = Rate(calls=4, per_s=1.0)  # 4 says only that 429 occurs
    actions_per_chat: Annotated[Rate, UNVERIFIED] = Rate(calls=5, per_s=1.0)
    callback_answer_s: UnverifiedFloat = 60.0  # how long a pressed button can be answered
    webhook_retry_first_s: UnverifiedFloat = 1.0
    webhook_timeout_s: UnverifiedFloat = 60.0
    notification_limit: UnverifiedInt = 120  # characters of the first line in a notification
    edits_notify: UnverifiedBool = False  # 3


def unverified_settings() -> list[str]:
    """The names of the settings whose values are guesses, because no source states them."""
    return unverified_fields(TelegramSettings)


class ApiRefusal(Exception):
    """The platform refuses a call. `rule` is a key of `RULES`; `parameters` are sent to the bot with the refusal."""

    def __init__(self, rule: str, *, parameters: dict[str, object] | None = None, **details: object) -> None:
        self.rule = rule
        self.status = RULES[rule].status
        self.description = RULES[rule].description.format(**details)
        self.parameters = parameters or {}
        super().__init__(self.description)


_NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a"
    " current content and reply markup of the message"
)
_OTHER_POLLER = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_IS_SET = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)
_OLD_QUERY = "Bad Request: query is too old and response timeout expired or query ID is invalid"

_R = PlatformRule
RULES: dict[str, PlatformRule] = {
    # Tokens, methods and fields
    "token_unknown": _R(401, "Unauthorized", "TG-BAS ClientManager", "V", "K"),
    "method_unknown": _R(404, "Not Found: method not found", "TG-BAS Client", "K", "K"),
    "field_wrong": _R(400, "Bad Request: {detail}", "TG-API types of the fields", "V", "U"),
    "file_path_unknown": _R(404, "Not Found", "TG-API getFile", "K", "K"),
    "body_too_large": _R(413, "Request Entity Too Large", "TG-API sendDocument.document", "V", "K"),
    # Chats
    "chat_unknown": _R(400, "Bad Request: chat not found", "TG-BAS Client", "T", "T"),
    "chat_migrated": _R(
        400, "Bad Request: group chat was upgraded to a supergroup chat", "TG-API ResponseParameters", "V", "K"
    ),
    "bot_blocked": _R(403, "Forbidden: bot was blocked by the user", "TG-BAS fail_query_with_error", "V"),
    "bot_kicked": _R(403, "Forbidden: bot was kicked from the {kind} chat", "TG-BAS Client", "K", "K"),
    "bot_not_member": _R(403, "Forbidden: bot is not a member of the {kind} chat", "TG-BAS Client", "K", "K"),
    "no_rights_in_channel": _R(
        400, "Bad Request: need administrator rights in the channel chat", "TG-BAS Client", "K", "K"
    ),
    "thread_unknown": _R(400, "Bad Request: message thread not found", "8: message_thread_id", "V", "T"),
    "topic_closed": _R(400, "Bad Request: TOPIC_CLOSED", "8: message_thread_id", "K", "K"),
    "reply_unknown": _R(400, "Bad Request: message to be replied not found", "8: reply_parameters", "V", "T"),
    "not_a_forum": _R(400, "Bad Request: the chat is not a forum", "8: forum topics", "K", "K"),
    # Texts
    "text_empty": _R(400, "Bad Request: message text is empty", "1: sendMessage.text, at least 1", "V", "T"),
    "text_blank": _R(400, "Bad Request: text must be non-empty", "1: sendMessage.text, at least 1", "V", "T"),
    "text_too_long": _R(400, "Bad Request: message is too long", "1: sendMessage.text", "V+M"),
    "text_not_utf8": _R(400, "Bad Request: strings must be encoded in UTF-8", "1: bytes UTF-8", "K", "K"),
    "raw_text_too_long": _R(400, "Bad Request: text is too long", "1: raw `text` before parsing", "V"),
    "caption_too_long": _R(400, "Bad Request: message caption is too long", "1: captions", "V"),
    "markup_invalid": _R(400, "Bad Request: can't parse entities: {detail}", "2: parse_mode", "V"),
    "parse_mode_unknown": _R(400, "Bad Request: unsupported parse_mode", "2: parse_mode", "K", "T"),
    "entity_type_unknown": _R(
        400, "Bad Request: can't parse MessageEntity: Unsupported type specified", "2: entities array", "V", "M"
    ),
    "entity_begins_late": _R(
        400,
        "Bad Request: entity begins after the end of the text at UTF-16 offset {offset}",
        "2: entities array",
        "V",
        "M",
    ),
    "entity_ends_late": _R(
        400,
        "Bad Request: entity beginning at UTF-16 offset {offset} ends after the end of the text at UTF-16 offset {end}",
        "1: MessageEntity, UTF-16 code units",
        "V",
        "M",
    ),
    "entity_cuts_character": _R(
        400,
        "Bad Request: entity {edge} in a middle of a UTF-16 symbol",
        "1: MessageEntity, UTF-16 code units",
        "V",
        "T",
    ),
    # Edits and deletions
    "not_modified": _R(400, _NOT_MODIFIED, "3: not modified", "V"),
    "edit_unknown": _R(400, "Bad Request: message to edit not found", "3: editMessageText", "V", "K"),
    "edit_not_own": _R(400, "Bad Request: message can't be edited", "3: the bot's own messages", "V", "K"),
    "no_text_to_edit": _R(400, "Bad Request: there is no text in the message to edit", "3: editMessageText", "K", "K"),
    "no_caption_to_edit": _R(400, "Bad Request: there is no caption in the message to edit", "TG-BAS Client", "K", "K"),
    "delete_unknown": _R(400, "Bad Request: message to delete not found", "TG-API deleteMessage", "V", "K"),
    "delete_forbidden": _R(400, "Bad Request: message can't be deleted", "TG-API deleteMessage", "V"),
    # Drafts and rich messages
    "draft_not_private": _R(400, "Bad Request: PEER_ID_INVALID", "4: sendMessageDraft, private chats only", "V", "U"),
    "draft_id_zero": _R(400, "Bad Request: RANDOM_ID_INVALID", "4: sendMessageDraft.draft_id", "V", "U"),
    "rich_content_wrong": _R(
        400, "Bad Request: exactly one of html, markdown and blocks must be used", "4: sendRichMessage", "V", "U"
    ),
    "rich_markup_wrong": _R(
        400, "Bad Request: can't parse rich message: {detail}", "TG-RICH: only the tags mentioned", "V", "U"
    ),
    "rich_too_large": _R(400, "Bad Request: rich message has too many {of}", "1: rich message", "V", "U"),
    "thinking_outside_draft": _R(
        400, "Bad Request: tg-thinking is allowed only in drafts", "4: sendRichMessageDraft", "V", "U"
    ),
    # Buttons, reactions and commands
    "callback_bytes": _R(400, "Bad Request: BUTTON_DATA_INVALID", "1: callback_data", "V", "K"),
    "query_unknown": _R(400, _OLD_QUERY, "TG-BAS fail_query_with_error", "V"),
    "answer_too_long": _R(400, "Bad Request: MESSAGE_TOO_LONG", "TG-API answerCallbackQuery.text", "V", "K"),
    "react_unknown": _R(400, "Bad Request: message to react not found", "TG-API setMessageReaction", "V", "K"),
    "reaction_unknown": _R(400, "Bad Request: REACTION_INVALID", "TG-API ReactionTypeEmoji.emoji", "V", "K"),
    "reactions_too_many": _R(400, "Bad Request: REACTIONS_TOO_MANY", "TG-API setMessageReaction", "V", "U"),
    "commands_wrong": _R(400, "Bad Request: BOT_COMMAND_INVALID", "TG-API BotCommand", "V", "K"),
    "action_unknown": _R(400, "Bad Request: wrong parameter action in request", "TG-API sendChatAction", "V", "K"),
    "action_in_channel": _R(400, "Bad Request: chat actions aren't supported here", "5: not in channels", "V", "U"),
    # Files
    "file_missing": _R(400, "Bad Request: there is no {kind} in the request", "TG-BAS Client", "K", "K"),
    "file_id_unknown": _R(400, "Bad Request: wrong file identifier/HTTP URL specified", "TG-BAS Client", "K", "K"),
    "photo_too_big": _R(400, "Bad Request: file is too big for a photo", "TG-API sendPhoto.photo", "V", "U"),
    "photo_invalid": _R(400, "Bad Request: IMAGE_PROCESS_FAILED", "TG-API sendPhoto.photo", "K", "K"),
    "download_too_big": _R(400, "Bad Request: file is too big", "TG-API getFile", "V", "K"),
    # Updates
    "other_poller": _R(409, _OTHER_POLLER, "TG-BAS abort_long_poll", "M", "M"),
    "webhook_is_set": _R(409, _WEBHOOK_IS_SET, "TG-API getUpdates", "V", "T"),
    "webhook_replaced_poll": _R(409, "Conflict: terminated by setWebhook request", "TG-BAS abort_long_poll", "T", "T"),
    "webhook_not_https": _R(
        400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook", "TG-API setWebhook.url", "V", "K"
    ),
    "secret_wrong": _R(
        400, "Bad Request: secret token contains unallowed characters", "8: X-Telegram-Bot-Api-Secret-Token", "V", "K"
    ),
    # Pace
    "too_many_requests": _R(429, "Too Many Requests: retry after {retry_after}", "6: limits, and 3 for edits", "V"),
}
