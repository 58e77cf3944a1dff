"""Converts a refusal of Telegram to a `ChannelFault`, by its HTTP status and by a table of words.

Telegram has no codes for most refusals, only descriptions, so the table searches them for words. The words are those of
the Bot API server (telegram-bot-api, Client.cpp) and of its library (tdlib). The messages of the faults are our own,
because people see them, and a description of Telegram can quote the text of a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused


class NotModified(SendRefused):
    """The message has this text already, so there was nothing to edit."""


class PictureRefused(SendRefused):
    """The file cannot be shown as a photo. It may still be sent as a file."""


class ChatMoved(NotSent):
    """The group became a supergroup, which has another chat id: `moved_to`."""

    def __init__(self, moved_to: str) -> None:
        super().__init__("the group became a supergroup, which has another id", retry_after=0.0)
        self.moved_to = moved_to


class PollingConflict(AccessLost):
    """Telegram gives the updates of this bot to another program or to a webhook, so this process cannot get them."""

    def __init__(self, message: str) -> None:
        super().__init__(message, everywhere=True)


class FailureParameters(msgspec.Struct, frozen=True):
    """The additional fields of some refusals: how long to wait, or the new id of a group that became a supergroup."""

    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class ApiFailure(msgspec.Struct, frozen=True):
    """The answer to a call that failed. `status` is the HTTP status."""

    status: int
    description: str = ""
    parameters: FailureParameters = FailureParameters()


_gone = partial(SendRefused, gone=True)

# The first row whose words are in the description counts. Chats that people can open again are `AccessLost`: a person
# may unblock the bot, and an administrator may add it again. The messages wait there until they are too old.
_TABLE: tuple[tuple[str, Callable[[str], ChannelFault], str], ...] = (
    (r"message is not modified", NotModified, "the message has this text already"),
    (r"to (edit|delete|react) not found|message_id_invalid", _gone, "the message does not exist any more"),
    (r"message can't be edited", SendRefused, "this message cannot be edited"),
    (r"message can't be deleted", SendRefused, "this message cannot be deleted: it is too old, or not the bot's"),
    (r"blocked by the user", AccessLost, "the person has blocked the bot"),
    (r"bot was kicked|is not a member", AccessLost, "the bot is not in the chat any more: add it again"),
    (
        r"enough rights|no rights|administrator rights|restricted|_forbidden",
        AccessLost,
        "the bot may not write in the chat: give it the right to send messages",
    ),
    (r"user is deactivated", SendRefused, "the account of the person was deleted"),
    (r"can't initiate conversation", SendRefused, "the person must press Start in a chat with the bot first"),
    (r"messages to (the )?bot", SendRefused, "a bot cannot write to a bot"),
    (
        r"chat not found|peer_id_invalid|chat_id is empty|chat_id_invalid|chat was deactivated",
        SendRefused,
        "there is no such chat, or the bot was never in it",
    ),
    (r"thread not found|topic_deleted", SendRefused, "there is no such topic in the chat"),
    (r"topic_closed", SendRefused, "the topic is closed"),
    (r"(message|text|caption) is too long", SendRefused, "the text is too long"),
    (r"text is empty|must be non-empty", SendRefused, "the text has no visible character"),
    (r"can't parse|entity|entities", SendRefused, "Telegram does not accept the styles of the text"),
    (r"button_data_invalid|keyboard button", SendRefused, "Telegram does not accept the buttons"),
    (r"bot_command", SendRefused, "Telegram does not accept the commands: a name has only a-z, 0-9 and _"),
    (r"reaction_invalid|reaction is not", SendRefused, "Telegram has no such reaction in this chat"),
    (r"query is too old", SendRefused, "the press of the button is too long ago"),
    (r"file is too big", SendRefused, "the file is too big for Telegram"),
    (r"image_process_failed|photo_(invalid|ext_|content)", PictureRefused, "Telegram does not accept the picture"),
    (r"http url|web page content|webpage_|file identifier", SendRefused, "Telegram cannot load the file"),
)
_WRONG_CREDENTIAL = (
    "Telegram does not accept the token: it was revoked or is wrong. Get the valid one from @BotFather and set it"
)
_OTHER_POLLER = (
    "another program gets the messages of this bot: stop it, or give each of the two a bot of its own from @BotFather"
)
_WEBHOOK_IS_SET = (
    'a webhook is set for this bot, so its messages cannot be polled: set mode = "webhook", or remove the webhook with'
    " the method deleteWebhook of Telegram"
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|«[^»]*»")
_MAX_DESCRIPTION = 120


def fault_of(failure: ApiFailure, *, chat: str = "") -> ChannelFault:
    """The `ChannelFault` for the answer to a call that failed. Its message names the chat `chat`."""
    moved_to, description = failure.parameters.migrate_to_chat_id, failure.description.lower()
    if moved_to is not None:
        return ChatMoved(str(moved_to))
    if failure.status >= 500 or failure.status < 400:
        return MaybeSent(f"Telegram failed with status {failure.status}, and the call may have been performed")
    if (of_status := _fault_of_status(failure, description)) is not None:
        return of_status
    for words, make, meaning in _TABLE:
        if re.search(words, description):
            return make(f"{meaning}{_of(chat)}")
    unknown = AccessLost if failure.status == 403 else SendRefused
    return unknown(f"Telegram refused the call{_of(chat)}: {_shown(failure)}")


def _fault_of_status(failure: ApiFailure, description: str) -> ChannelFault | None:
    """The fault for an HTTP status that has only one meaning; None if the description must decide."""
    fault: ChannelFault | None = None
    match failure.status:
        case 429:
            fault = NotSent("Telegram asks the bot to send less often", retry_after=failure.parameters.retry_after)
        case 401:
            fault = AccessLost(_WRONG_CREDENTIAL, everywhere=True)
        case 404 if "method" in description:
            fault = SendRefused("the server of the Bot API is too old for this call: update it")
        case 404:
            fault = AccessLost(f"{_WRONG_CREDENTIAL}; or api_base is not the address of a Bot API", everywhere=True)
        case 409:
            fault = PollingConflict(_WEBHOOK_IS_SET if "webhook" in description else _OTHER_POLLER)
        case 413:
            fault = SendRefused("the file is too big for Telegram")
    return fault


def _of(chat: str) -> str:
    return f" (chat {chat})" if chat else ""


def _shown(failure: ApiFailure) -> str:
    """Telegram's description on one line, with "…" in place of quoted texts, which may be private."""
    described = " ".join(_QUOTED.sub("…", failure.description).split())
    return described[:_MAX_DESCRIPTION] or f"status {failure.status}"
