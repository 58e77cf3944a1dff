"""When the next call may go out: one budget for each chat, sends and edits together, and one for the whole channel.

Pure: the time is an argument, any clock that never goes back. A budget remembers its last calls, as many as the rate
allows: in no stretch of that length are there more, wherever it begins. A chat that was long silent is forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities, Rate

_FEW_CHATS = 1024


class _Budget:
    """One rate, the calls that count against it still, and how long all calls are held."""

    __slots__ = ("_calls", "_per_s", "held_until")

    def __init__(self, rate: Rate | None) -> None:
        self._per_s = rate.per_s if rate else 0.0
        self._calls: deque[float] = deque(maxlen=rate.calls if rate else 1)
        self.held_until = float("-inf")

    def due(self) -> float:
        """When the next call may go: when so many ago one drops out of the window, and not before the last one."""
        calls = self._calls
        if not calls:
            return self.held_until
        first = calls[0] + self._per_s if len(calls) == calls.maxlen else calls[-1]
        return max(first, calls[-1], self.held_until)

    def spend(self, at: float) -> None:
        """A call goes at that time."""
        self._calls.append(at)

    def hold(self, until: float) -> None:
        """No call before that time, not even one that was reserved."""
        self.held_until = max(self.held_until, until)

    def is_whole(self, now: float) -> bool:
        """Whether nothing that was is of any account any more."""
        return self.held_until <= now and (not self._calls or self._calls[-1] + self._per_s <= now)


class Pace:
    """The budgets of one channel.

    A chat has one caller at a time, who waits until it is due and then reserves a place among the calls of all chats:
    whoever reserves first goes first, so that chats that wait take turns, and one that must wait keeps nobody else.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        self._rate = capabilities.per_chat
        self._overall = _Budget(capabilities.overall)
        self._has_overall = capabilities.overall is not None
        self._chats: dict[str, _Budget] = {}
        self._many = _FEW_CHATS

    def due(self, chat: str, now: float) -> float:
        """When a call to the chat may go, if nobody reserves before; nothing is spent."""
        return max(self.chat_due(chat, now), self._overall.due())

    def chat_due(self, chat: str, now: float) -> float:
        """When the chat's own budget allows a call; nothing is spent."""
        budget = self._chats.get(chat)
        return max(now, budget.due()) if budget is not None else now

    def reserve(self, now: float) -> float:
        """When one more call of the channel may go, unless it is held then; that place is taken."""
        at = max(now, self._overall.due())
        if self._has_overall:
            self._overall.spend(at)
        return at

    def spend(self, chat: str, now: float) -> None:
        """A call to the chat goes now."""
        if self._rate is not None:
            self._budget(chat, now).spend(now)

    def is_held(self, chat: str, now: float) -> bool:
        """Whether a call that was reserved must not go after all: the platform asked to wait meanwhile."""
        budget = self._chats.get(chat)
        return now < max(self._overall.held_until, budget.held_until if budget is not None else now)

    def pause(self, until: float, *, chat: str | None = None, now: float) -> None:
        """The platform asked to wait: for one chat, or for all."""
        if chat is None:
            self._overall.hold(until)
        else:
            self._budget(chat, now).hold(until)

    def _budget(self, chat: str, now: float) -> _Budget:
        budget = self._chats.get(chat)
        if budget is None:
            if len(self._chats) >= self._many:
                self._chats = {name: kept for name, kept in self._chats.items() if not kept.is_whole(now)}
                self._many = max(_FEW_CHATS, 2 * len(self._chats))
            budget = self._chats[chat] = _Budget(self._rate)
        return budget
