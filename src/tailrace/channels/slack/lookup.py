"""Finds out whether a message was sent: reads the thread or the chat, and looks for the key in the metadata.

Two kinds of messages carry no key: a stream that is open, and a file. If a call for one of them gets no answer, the
message is recognised by what it is: in a conversation only one delivery at a time is uncertain, and it is the latest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.channels.slack.calls import EVENT_TYPE
from tailrace.channels.slack.client import SlackCall
from tailrace.errors import NotSent

if TYPE_CHECKING:
    from collections.abc import Container

    from tailrace.channels.slack.client import SlackClient
    from tailrace.operations import Target

_PAGE = 100
_MOST_PAGES = 20
_CLOCKS_S = 60.0  # how far the clocks of Slack and of this machine may differ
_CLOSE_S = 2.0  # the same for a message without a key, which could be an earlier one


class _Metadata(msgspec.Struct, frozen=True):
    event_type: str = ""
    event_payload: dict[str, Any] = {}


class _FoundMessage(msgspec.Struct, frozen=True):
    ts: str
    user: str = ""
    metadata: _Metadata | None = None
    streaming_state: str | None = None
    files: tuple[dict[str, Any], ...] = ()

    @property
    def is_keyed(self) -> bool:
        return self.metadata is not None and self.metadata.event_type == EVENT_TYPE

    def has(self, key: str) -> bool:
        return self.is_keyed and self.metadata is not None and self.metadata.event_payload.get("key") == key


class _Cursor(msgspec.Struct, frozen=True):
    next_cursor: str = ""


class _Page(msgspec.Struct, frozen=True):
    messages: tuple[_FoundMessage, ...]
    response_metadata: _Cursor = _Cursor()


async def find_message(
    api: SlackClient, target: Target, key: str, *, since: float, user_id: str, known: Container[str]
) -> str | None:
    """The id of the message with this key that was sent at `since` or later; None only if there is none.

    `user_id` is the bot user, and `known` has the ids of streams whose opening was answered.
    """
    fields: dict[str, Any] = {"channel": target.chat, "limit": _PAGE, "include_all_metadata": True}
    fields["oldest"] = f"{max(0.0, since - _CLOCKS_S):.6f}"
    method = "conversations.history"
    if target.thread is not None:
        method, fields["ts"] = "conversations.replies", target.thread
    keyless = None
    for _ in range(_MOST_PAGES):
        page = await api.call(SlackCall(method, fields), _Page, chat=target.chat)
        for message in page.messages:
            if message.user != user_id:
                continue
            if message.has(key):
                return message.ts
            if _may_be(message, since) and message.ts not in known:
                keyless = message.ts
        fields["cursor"] = page.response_metadata.next_cursor
        if not fields["cursor"]:
            return keyless
    raise NotSent("there are too many messages to look through")


class _Root(msgspec.Struct, frozen=True):
    user: str = ""
    team: str = ""


class _Thread(msgspec.Struct, frozen=True):
    messages: tuple[_Root, ...]


async def author_of(api: SlackClient, target: Target) -> tuple[str, str]:
    """The person who began a thread, and the workspace of that person."""
    fields = {"channel": target.chat, "ts": target.thread, "limit": 1}
    thread = await api.call(SlackCall("conversations.replies", fields), _Thread, chat=target.chat)
    root = thread.messages[0] if thread.messages else _Root()
    return root.user, root.team


def _may_be(message: _FoundMessage, since: float) -> bool:
    is_without_key = not message.is_keyed and (message.streaming_state is not None or bool(message.files))
    return is_without_key and float(message.ts) >= since - _CLOSE_S
