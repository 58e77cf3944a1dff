"""Finds out whether a rate limit is for one chat or for the whole account, if the platform does not say."""

from __future__ import annotations

_SAME_LIMIT_S = 1.0  # two chats that are limited within this time: the limit is that of the account


class LimitScope:
    """Remembers the chat of the latest refusal."""

    def __init__(self) -> None:
        self._latest = ("", -_SAME_LIMIT_S)

    def is_everywhere(self, chat: str, now: float) -> bool:
        """Whether all chats must wait, after a call to `chat` was refused at the time `now`."""
        (earlier_chat, at), self._latest = self._latest, (chat, now)
        return earlier_chat not in ("", chat) and now - at < _SAME_LIMIT_S
