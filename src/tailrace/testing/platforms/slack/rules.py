"""What the simulated Slack enforces: its numbers, and the refusals with the sources that state them.

`fact` is such a source. SL-REF is the reference of the methods (docs.slack.dev, scraped in August 2026), SL-RATE its
page on rate limits, SL-EVT on the Events API, SL-SDK the source of slack-sdk 3.46. A number alone is a section of the
project's notes on chat platforms. `confidence` is V (read in a primary source or measured), M (measured by others), T
(stated by others), K (commonly known) or U (unverified). The words of a refusal are its error code.
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


class SlackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of the platform.

    The comment at each names the source; a number is a section as in `PlatformRule.fact`.
    """

    markdown_limit: int = 12_000  # 1: `markdown_text` of one call, and all markdown blocks of a message together
    update_text_limit: int = 4_000  # 1: chat.update.text
    section_limit: int = 3_000  # 1
    header_limit: int = 150  # 1
    block_limit: int = 50  # 1
    task_field_limit: int = 256  # 1: details and output of a task, title of a plan
    stream_lifetime_s: float = 306.0  # 4: measured from the start; text that is appended does not extend it
    streams_need_thread: bool = True  # 4
    status_s: float = 120.0  # 5
    tier_2: Rate = Rate(calls=20, per_s=60.0)  # 6
    tier_3: Rate = Rate(calls=50, per_s=60.0)
    tier_4: Rate = Rate(calls=100, per_s=60.0)
    posts_per_chat: Rate = Rate(calls=1, per_s=1.0)  # 6
    enforces_pace: bool = True
    ack_s: float = 3.0  # 8: an event must be acknowledged within this time
    retries_s: tuple[float, ...] = (0.0, 60.0, 300.0)  # 8: how long after a failure an event is sent again
    can_edit_s: float | None = None  # 3: a workspace may forbid to edit old messages (`edit_window_closed`)

    post_text_limit: UnverifiedInt = 40_000  # 1: reports differ for texts above 4,000
    button_value_limit: UnverifiedInt = 2_000  # SL-SDK ButtonElement
    chat_slack_s: UnverifiedFloat = 0.1  # how much too early a call may come
    shortest_retry_s: UnverifiedInt = 1  # the least `Retry-After`
    posts_per_workspace: Annotated[Rate, UNVERIFIED] = Rate(calls=300, per_s=60.0)  # 6 says only that there is one
    tier_1: Annotated[Rate, UNVERIFIED] = Rate(calls=5, per_s=60.0)  # 6: "1+" in a minute; bursts are allowed
    statuses: Annotated[Rate, UNVERIFIED] = Rate(calls=600, per_s=60.0)  # 4: a special tier
    connection_s: UnverifiedFloat = 3600.0  # how long a socket stays open before Slack asks for a new one
    most_connections: UnverifiedInt = 10
    page_size: UnverifiedInt = 100  # messages in one answer to conversations.replies and history
    update_keeps_tasks: UnverifiedBool = False  # whether the tasks of a stream survive chat.update
    upload_bytes: UnverifiedInt = 1_000_000_000


def unverified_settings() -> list[str]:
    """The names of the settings whose values are guesses, because no source states them."""
    return unverified_fields(SlackSettings)


class SlackRefusal(Exception):
    """The platform refuses a call. `rule` is a key of `RULES`; `more` are further fields of the answer."""

    def __init__(self, rule: str, *, retry_after: int | None = None, **more: object) -> None:
        self.rule = rule
        self.status = RULES[rule].status
        self.error = RULES[rule].description
        self.retry_after = retry_after
        self.more = more
        super().__init__(self.error)


_R = PlatformRule
RULES: dict[str, PlatformRule] = {
    # Tokens, scopes, methods and fields
    "not_authed": _R(200, "not_authed", "SL-REF errors of every method", "V"),
    "invalid_auth": _R(200, "invalid_auth", "SL-REF errors of every method", "V"),
    "token_revoked": _R(200, "token_revoked", "SL-REF errors of every method", "V"),
    "wrong_token_type": _R(200, "not_allowed_token_type", "SL-REF apps.connections.open", "V"),
    "missing_scope": _R(200, "missing_scope", "SL-REF errors of every method", "V"),
    "unknown_method": _R(200, "unknown_method", "SL-REF", "K"),
    "invalid_arguments": _R(200, "invalid_arguments", "SL-REF errors of every method", "V"),
    "invalid_json": _R(200, "invalid_json", "SL-REF errors of every method", "V"),
    "body_too_large": _R(200, "request_too_large", "SL-REF", "U", "U"),
    # Chats and threads
    "channel_not_found": _R(200, "channel_not_found", "SL-REF chat.postMessage", "V"),
    "not_in_channel": _R(200, "not_in_channel", "SL-REF chat.postMessage", "V"),
    "is_archived": _R(200, "is_archived", "SL-REF chat.postMessage", "V"),
    "thread_not_found": _R(200, "thread_not_found", "SL-REF conversations.replies", "V"),
    "user_not_found": _R(200, "user_not_found", "SL-REF users.info", "V"),
    "user_not_in_channel": _R(200, "user_not_in_channel", "SL-REF chat.postEphemeral", "V"),
    # Texts and blocks
    "no_text": _R(200, "no_text", "SL-REF chat.postMessage", "V"),
    "msg_too_long": _R(200, "msg_too_long", "1: chat.update.text, markdown_text", "V"),
    "msg_blocks_too_long": _R(200, "msg_blocks_too_long", "1: markdown block", "T"),
    "msg_blocks_too_many": _R(200, "msg_blocks_too_many", "1: 50 blocks", "V"),
    "invalid_blocks": _R(200, "invalid_blocks", "1: section text, header", "V"),
    "markdown_text_conflict": _R(200, "markdown_text_conflict", "1: exclusive with text and blocks", "V"),
    "invalid_metadata": _R(200, "invalid_metadata_format", "SL-REF chat.postMessage", "V"),
    # Edits and deletions
    "message_not_found": _R(200, "message_not_found", "SL-REF chat.update", "V"),
    "cant_update_message": _R(200, "cant_update_message", "SL-REF chat.update", "V"),
    "edit_window_closed": _R(200, "edit_window_closed", "3", "V"),
    "cant_delete_message": _R(200, "cant_delete_message", "SL-REF chat.delete", "V"),
    # Streams
    "stream_without_thread": _R(200, "invalid_arguments", "4: thread_ts of startStream", "V", "U"),
    "missing_recipient_user_id": _R(200, "missing_recipient_user_id", "4: outside of direct messages", "V"),
    "missing_recipient_team_id": _R(200, "missing_recipient_team_id", "4: outside of direct messages", "V"),
    "not_streaming": _R(200, "message_not_in_streaming_state", "4: about 5 minutes", "V"),
    "streaming": _R(200, "streaming_state_conflict", "3: chat.update while streaming", "V"),
    "not_own_stream": _R(200, "message_not_owned_by_app", "SL-REF chat.appendStream", "V"),
    "task_too_long": _R(200, "invalid_chunks", "1: task_update", "T", "U"),
    "invalid_chunks": _R(200, "invalid_chunks", "SL-REF chat.appendStream", "V", "U"),
    # Reactions and files
    "invalid_name": _R(200, "invalid_name", "SL-REF reactions.add", "V"),
    "already_reacted": _R(200, "already_reacted", "SL-REF reactions.add", "V"),
    "no_reaction": _R(200, "no_reaction", "SL-REF reactions.remove", "V"),
    "file_not_found": _R(200, "file_not_found", "SL-REF files.info", "V"),
    # Pace and sockets
    "ratelimited": _R(429, "ratelimited", "6, SL-RATE", "V"),
    "too_many_sockets": _R(200, "too_many_websockets", "SL-REF apps.connections.open", "K"),
    "socket_mode_off": _R(200, "socket_mode_not_enabled", "SL-REF apps.connections.open", "K", "U"),
}
