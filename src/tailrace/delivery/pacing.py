"""When the next call may go out: one budget for each chat, sends and edits together, and one for the whole channel.

Pure: the time is an argument, any clock that never goes back. A budget is kept as one number, the moment at which
it will be whole again (the generic cell rate algorithm), so that a chat that was long silent costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities, Rate

_FEW_CHATS = 1024


class _Budget:
    """One rate and the moment from which all its calls are there again."""

    __slots__ = ("_interval", "_slack", "held_until", "whole_at")

    def __init__(self, rate: Rate | None) -> None:
        self._interval = rate.per_s / rate.calls if rate else 0.0
        self._slack = self._interval * (rate.calls - 1) if rate else 0.0
        self.whole_at = float("-inf")
        self.held_until = float("-inf")

    def due(self) -> float:
        """When the next call may go."""
        return self.whole_at - self._slack

    def spend(self, at: float) -> None:
        """A call goes at that time."""
        self.whole_at = max(self.whole_at, at) + self._interval

    def pause(self, until: float) -> None:
        """No call before that time, not even one that was reserved."""
        self.held_until = max(self.held_until, until)
        self.whole_at = max(self.whole_at, until + self._slack)


class Pace:
    """The budgets of one channel. Whoever reserves first goes first: chats that wait take turns."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._rate = capabilities.per_chat
        self._overall = _Budget(capabilities.overall)
        self._chats: dict[str, _Budget] = {}
        self._many = _FEW_CHATS

    def due(self, chat: str, now: float) -> float:
        """When a call to the chat may go; nothing is spent."""
        budget = self._chats.get(chat)
        return max(now, self._overall.due(), budget.due() if budget is not None else now)

    def reserve(self, chat: str, now: float) -> float:
        """When a call to the chat may go, unless it is held then; it is spent, and the next one comes after it."""
        at = self.due(chat, now)
        self._overall.spend(at)
        if self._rate is not None:
            self._budget(chat, now).spend(at)
        return at

    def is_held(self, chat: str, now: float) -> bool:
        """Whether a call that was reserved must not go after all: the platform asked to wait meanwhile."""
        budget = self._chats.get(chat)
        return now < max(self._overall.held_until, budget.held_until if budget is not None else now)

    def pause(self, until: float, *, chat: str | None = None, now: float) -> None:
        """The platform asked to wait: for one chat, or for all."""
        if chat is None:
            self._overall.pause(until)
        else:
            self._budget(chat, now).pause(until)

    def _budget(self, chat: str, now: float) -> _Budget:
        budget = self._chats.get(chat)
        if budget is None:
            if len(self._chats) >= self._many:
                self._chats = {name: kept for name, kept in self._chats.items() if kept.whole_at > now}
                self._many = max(_FEW_CHATS, 2 * len(self._chats))
            budget = self._chats[chat] = _Budget(self._rate)
        return budget
