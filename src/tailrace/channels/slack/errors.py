"""Converts a refusal of Slack to a `ChannelFault`, by its error code.

The messages of the faults are our own, because people see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused


class StreamEnded(SendRefused):
    """The stream takes no more text: it has expired, or somebody has stopped it."""


class NotChanged(SendRefused):
    """The reaction is there already, or not there any more."""


class SlackFailure(msgspec.Struct, frozen=True):
    """The answer to a call that failed. `status` is the HTTP status, `needed` a scope that is missing."""

    status: int
    error: str = ""
    retry_after: str = ""
    needed: str = ""


_gone = partial(SendRefused, gone=True)
_revoked = partial(AccessLost, everywhere=True)
_WRONG_CREDENTIAL = (
    "Slack does not accept the token: it was revoked or is wrong. Copy the valid one from api.slack.com/apps, "
    "OAuth & Permissions (bot_token) or Basic Information (app_token), and set it"
)

# Chats that people can open again are `AccessLost`: the messages wait there until they are too old.
_TABLE: dict[str, tuple[Callable[[str], ChannelFault], str]] = {
    "invalid_auth": (_revoked, _WRONG_CREDENTIAL),
    "not_authed": (_revoked, _WRONG_CREDENTIAL),
    "token_revoked": (_revoked, _WRONG_CREDENTIAL),
    "token_expired": (_revoked, _WRONG_CREDENTIAL),
    "account_inactive": (_revoked, "the app was removed from the workspace: install it again at api.slack.com/apps"),
    "not_allowed_token_type": (
        _revoked,
        "Slack does not accept this kind of token here: bot_token begins with xoxb-, app_token with xapp-",
    ),
    "socket_mode_not_enabled": (
        _revoked,
        "Socket Mode is off: switch it on at api.slack.com/apps, Socket Mode",
    ),
    "team_access_not_granted": (_revoked, "the app has no access to this workspace: an administrator must grant it"),
    "not_in_channel": (AccessLost, "the app is not in the channel: write /invite @app there"),
    "channel_not_found": (AccessLost, "there is no such channel, or the app was never invited to it"),
    "is_archived": (AccessLost, "the channel is archived"),
    "restricted_action": (AccessLost, "the workspace does not allow the app to write in this channel"),
    "messages_tab_disabled": (
        AccessLost,
        "people cannot write to the app: switch the Messages Tab on at api.slack.com/apps, App Home",
    ),
    "thread_not_found": (SendRefused, "the message that began the thread does not exist any more"),
    "message_not_found": (_gone, "the message does not exist any more"),
    "cant_update_message": (SendRefused, "this message cannot be edited: it is not of this app"),
    "edit_window_closed": (SendRefused, "this message cannot be edited: the workspace forbids it after a time"),
    "cant_delete_message": (SendRefused, "this message cannot be deleted: it is not of this app"),
    "msg_too_long": (SendRefused, "the text is too long"),
    "msg_blocks_too_long": (SendRefused, "the text is too long"),
    "no_text": (SendRefused, "the text has no visible character"),
    "invalid_blocks": (SendRefused, "Slack does not accept the blocks of the message"),
    "message_not_in_streaming_state": (StreamEnded, "the stream has ended"),
    "stopped_by_user": (StreamEnded, "a person has stopped the stream"),
    "missing_recipient_user_id": (SendRefused, "it is not known for whom the stream is"),
    "missing_recipient_team_id": (SendRefused, "it is not known for whom the stream is"),
    "already_reacted": (NotChanged, "the reaction is there already"),
    "no_reaction": (NotChanged, "the reaction is not there"),
    "invalid_name": (SendRefused, "Slack has no such reaction"),
    "file_not_found": (SendRefused, "the file is not there any more"),
    "internal_error": (MaybeSent, "Slack failed, and the call may have been performed"),
    "fatal_error": (MaybeSent, "Slack failed, and the call may have been performed"),
    "request_timeout": (MaybeSent, "Slack did not get the whole call in time"),
    "service_unavailable": (MaybeSent, "Slack is not available, and the call may have been performed"),
}
_CODE = re.compile(r"[a-z_]{1,60}")
_SCOPE = re.compile(r"[a-z_:.,]{1,120}")


def fault_of(failure: SlackFailure, *, chat: str = "") -> ChannelFault:
    """The `ChannelFault` for the answer to a call that failed. Its message names the chat `chat`."""
    of_chat = f" (channel {chat})" if chat else ""
    if failure.status == 429 or failure.error in ("ratelimited", "rate_limited"):
        return NotSent("Slack asks the app to send less often", retry_after=_seconds(failure.retry_after))
    if failure.error == "missing_scope":
        needed = failure.needed if _SCOPE.fullmatch(failure.needed) else "one"
        return AccessLost(
            f"the app lacks the scope {needed}: add it at api.slack.com/apps, OAuth & Permissions, and install the app "
            "again",
            everywhere=True,
        )
    if failure.status >= 500:
        return MaybeSent(f"Slack failed with status {failure.status}, and the call may have been performed")
    if failure.error in _TABLE:
        make, meaning = _TABLE[failure.error]
        return make(meaning if make is _revoked else f"{meaning}{of_chat}")
    if not failure.error:
        return MaybeSent(f"the answer with status {failure.status} is not one of Slack: check api_base")
    return SendRefused(f"Slack refused the call{of_chat}: {_shown(failure.error)}")


def _shown(error: str) -> str:
    return error if _CODE.fullmatch(error) else "its reason is not a code of Slack"


def _seconds(retry_after: str) -> float | None:
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < float("inf") else None
