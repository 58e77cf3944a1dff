"""What each refusal of Telegram means."""

from __future__ import annotations

import pytest

from tailrace.channels.telegram.errors import (
    ApiFailure,
    ChatMoved,
    FailureParameters,
    NotModified,
    PictureRefused,
    PollingConflict,
    fault_of,
)
from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused
from tailrace.testing.platforms.telegram.rules import RULES

# The fault of each refusal that the simulator makes, by the name of its rule. All others are refused for good.
OTHERS: dict[str, type[ChannelFault]] = {
    "token_unknown": AccessLost,
    "file_path_unknown": AccessLost,  # for a call; a download has its own rule
    "chat_migrated": ChatMoved,
    "bot_blocked": AccessLost,
    "bot_kicked": AccessLost,
    "bot_not_member": AccessLost,
    "no_rights_in_channel": AccessLost,
    "not_modified": NotModified,
    "edit_unknown": SendRefused,
    "delete_unknown": SendRefused,
    "react_unknown": SendRefused,
    "photo_invalid": PictureRefused,
    "other_poller": PollingConflict,
    "webhook_is_set": PollingConflict,
    "webhook_replaced_poll": PollingConflict,
    "too_many_requests": NotSent,
}
GONE = {"edit_unknown", "delete_unknown", "react_unknown"}


def fault(status: int, description: str = "", **parameters: int) -> ChannelFault:
    return fault_of(ApiFailure(status, description, FailureParameters(**parameters)), chat="12")


@pytest.mark.parametrize("rule", RULES)
def test_every_refusal_of_the_simulator_is_one_fault(rule: str) -> None:
    parameters = {"chat_migrated": {"migrate_to_chat_id": -1007}, "too_many_requests": {"retry_after": 7}}
    made = fault(RULES[rule].status, RULES[rule].description, **parameters.get(rule, {}))
    assert type(made) is OTHERS.get(rule, SendRefused)
    assert getattr(made, "gone", False) == (rule in GONE)


@pytest.mark.parametrize(
    ("status", "description", "expected"),
    [
        (403, "Forbidden: user is deactivated", SendRefused),
        (403, "Forbidden: bot can't initiate conversation with a user", SendRefused),
        (403, "Forbidden: bot can't send messages to bots", SendRefused),
        (403, "Forbidden: something new", AccessLost),
        (400, "Bad Request: not enough rights to send text messages to the chat", AccessLost),
        (400, "Bad Request: have no rights to send a message", AccessLost),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN", AccessLost),
        (400, "Bad Request: CHAT_SEND_PHOTOS_FORBIDDEN", AccessLost),
        (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", PictureRefused),
        (400, "Bad Request: failed to get HTTP URL content", SendRefused),
        (400, "Bad Request: something new", SendRefused),
        (404, "Not Found", AccessLost),
        (500, "Internal Server Error", MaybeSent),
        (502, "Bad Gateway", MaybeSent),
        (200, "", MaybeSent),
        (429, "", NotSent),
    ],
)
def test_refusals_that_only_telegram_makes(status: int, description: str, expected: type[ChannelFault]) -> None:
    assert type(fault(status, description)) is expected


def test_a_wait_is_that_of_telegram() -> None:
    made = fault(429, "Too Many Requests: retry after 35", retry_after=35)
    assert isinstance(made, NotSent)
    assert made.retry_after == 35.0


def test_a_lost_token_is_lost_everywhere_and_a_lost_chat_is_not() -> None:
    revoked, kicked = fault(401, "Unauthorized"), fault(403, "Forbidden: bot was kicked from the group chat")
    assert isinstance(revoked, AccessLost)
    assert revoked.everywhere
    assert isinstance(kicked, AccessLost)
    assert not kicked.everywhere
    assert str(kicked) == "the bot is not in the chat any more: add it again (chat 12)"


def test_an_unknown_refusal_is_shown_without_what_it_quotes() -> None:
    made = fault(400, "Bad Request: button URL 'my private text' is\nodd")
    assert str(made) == "Telegram refused the call (chat 12): Bad Request: button URL … is odd"
    assert len(str(fault(400, "x" * 5000))) < 200
