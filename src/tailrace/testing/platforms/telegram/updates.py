"""The queue of updates of a bot: which ids they get, which kinds the bot wants, and when they are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tailrace.testing.platforms.telegram.rules import TelegramSettings

# Without `allowed_updates` a bot gets every kind but these (TG-API getUpdates.allowed_updates).
_ONLY_ON_REQUEST = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


class QueuedUpdate(msgspec.Struct, frozen=True):
    """An update for the bot, and the time when it happened.

    `kind` is the name of the field that says what happened, such as `message`; `content` is the value of that field.
    """

    update_id: int
    kind: str
    content: dict[str, Any]
    at: float

    @property
    def shown(self) -> dict[str, Any]:
        """The update as the JSON object that the bot gets."""
        return {"update_id": self.update_id, self.kind: self.content}


class UpdateQueue:
    """The updates that the bot has not confirmed, in order."""

    def __init__(self, settings: TelegramSettings, source: random.Random) -> None:
        self._settings = settings
        self._source = source
        self._waiting: list[QueuedUpdate] = []
        self._taken: list[QueuedUpdate] = []
        self._next_id = source.randrange(100_000_000, 900_000_000)
        self._latest_at: float | None = None
        self.allowed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, kind: str, content: dict[str, Any], now: float) -> None:
        """Add an update, unless the bot has asked for other kinds only."""
        if (kind not in self.allowed) if self.allowed else kind in _ONLY_ON_REQUEST:
            return
        if self._latest_at is not None and now - self._latest_at >= self._settings.update_ids_restart_s:
            self._next_id = self._source.randrange(100_000_000, 900_000_000)
        self._latest_at = now
        self._waiting.append(QueuedUpdate(self._next_id, kind, content, now))
        self._next_id += 1

    def confirm(self, offset: int) -> None:
        """Forget the updates whose ids are lower than `offset`.

        A negative offset keeps only so many of the latest updates.
        """
        if offset < 0:
            offset = self._waiting[offset].update_id if len(self._waiting) >= -offset else 0
        forgotten = [update for update in self._waiting if update.update_id < offset]
        if forgotten:
            self._taken = forgotten
            self._waiting = [update for update in self._waiting if update.update_id >= offset]

    def clear(self) -> None:
        """Forget all updates."""
        self._waiting.clear()

    def batch(
        self, now: float, *, limit: int = 100, repeats: bool = False, reverses: bool = False
    ) -> Sequence[QueuedUpdate]:
        """The oldest unconfirmed updates, at most `limit`. They stay in the queue until they are confirmed.

        `repeats` adds before them the updates that were confirmed last; `reverses` reverses the order.
        """
        while self._waiting and now - self._waiting[0].at > self._settings.updates_kept_s:
            del self._waiting[0]
        found = (self._taken if repeats else []) + self._waiting[: min(max(limit, 1), 100)]
        return found[::-1] if reverses else found
