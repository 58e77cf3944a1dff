"""Rate limits of one channel: per chat, per group, overall, and a queue for the calls that must wait.

Pure: the time is an argument, from any clock that never goes back. A rate allows n calls in any window of s seconds. So
a limit remembers the times of the last n calls. Sends and edits in all threads of a chat share one limit; a group has
one more rate. A chat that had no calls for a long time is forgotten.

A call that is not allowed at once waits as a `PendingCall`. Free capacity goes to the most urgent call:

    final    durable operations; users wait for them
    first    the first message of a turn: the user has seen no answer yet
    edit     interim operations; the next one contains them
    typing   uses no capacity, because platforms count it separately; goes only if no other call is ready

Among calls of equal urgency, the chat with the oldest last call goes first, so that chats take turns under the overall
rate. A chat that was silent for longer counts as if its last call was `_HEAD_START` calls ago; otherwise new chats
could keep a waiting chat out for ever. Within a chat, calls go in the order of their arrival.

Final operations may delay edits for ever, because they contain the same text. They must not delay first messages for
ever, because a user who sees nothing believes that the bot does not work. So a first message that has waited for
`FIRST_MESSAGE_WAIT_S` counts as final.
"""

from __future__ import annotations

import enum
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tailrace.operations import AppendStream, Draft, Edit, OpenStream, Operation, Post, PostMedia, Typing

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities, Rate

FIRST_MESSAGE_WAIT_S = 10.0
_HEAD_START = 100
_SLOW_CALL_S = 0.15
_FORGET_ABOVE = 1024


class Urgency(enum.IntEnum):
    """The priority of a call. Calls with a lower value go first."""

    FINAL = 0
    FIRST = 1
    EDIT = 2
    TYPING = 3


_NEW_MESSAGES = Post | PostMedia | OpenStream
_INTERIM_URGENCY: dict[type, Urgency] = {
    Edit: Urgency.EDIT,
    AppendStream: Urgency.EDIT,
    Draft: Urgency.EDIT,
    Typing: Urgency.TYPING,
}


def urgency_of(operation: Operation, ordinal: int | None = None) -> Urgency:
    """How urgent an operation is.

    A durable operation has an `ordinal`: the first message of a turn is FIRST, all others are FINAL. For an interim one
    the type decides.
    """
    if ordinal is None:
        return _INTERIM_URGENCY[type(operation)]
    return Urgency.FIRST if ordinal == 1 and isinstance(operation, _NEW_MESSAGES) else Urgency.FINAL


class _Limit:
    """Rates that apply together, the times of recent calls, and the time until which no call is allowed."""

    __slots__ = ("calls", "held_until", "rates")

    def __init__(self, rates: tuple[Rate, ...], max_calls: int) -> None:
        self.rates = rates
        self.calls: deque[float] = deque(maxlen=max_calls)
        self.held_until = float("-inf")

    def due(self) -> float:
        """The time from which another call is allowed.

        A rate of n calls in s seconds allows it s seconds after the n-th last.
        """
        due = self.held_until
        for rate in self.rates:
            if len(self.calls) >= rate.calls:
                due = max(due, self.calls[-rate.calls] + rate.per_s)
        return due

    def expected_at(self, ahead: int, now: float) -> float:
        """An estimate of the time at which a call is allowed if `ahead` other calls go before it."""
        return max(now, self.due()) + max((ahead // rate.calls * rate.per_s for rate in self.rates), default=0.0)

    def is_unused(self, now: float) -> bool:
        """Whether all earlier calls and pauses are so old that they do not count any more."""
        return self.held_until <= now and all(
            not self.calls or self.calls[-1] + rate.per_s <= now for rate in self.rates
        )


class PendingCall(msgspec.Struct, eq=False):
    """A call that has waited for the rate limit of a chat since the time `since`."""

    chat: _Chat
    urgency: Urgency
    number: int
    since: float
    is_waiting: bool = True


_Entry: TypeAlias = "tuple[float, int, int, _Chat]"


class _Chat(_Limit):
    """The limit of one chat, its pending calls, and the number of its last call (`served`).

    A chat is ready if its limit allows a call now, else resting. `entry` is its current entry in one of the two heaps,
    for ready and for resting chats. Older entries are stale.
    """

    __slots__ = ("_pending", "entry", "is_ready", "served", "waiting")

    def __init__(self, rates: tuple[Rate, ...], max_calls: int) -> None:
        super().__init__(rates, max_calls)
        self.served = -_HEAD_START
        self.waiting = 0
        self.entry: _Entry | None = None
        self.is_ready = False
        self._pending: list[tuple[Urgency, int, PendingCall]] = []

    def push(self, call: PendingCall) -> None:
        """Queue a call. A call that has become more urgent is queued a second time."""
        heappush(self._pending, (call.urgency, call.number, call))

    def next_call(self) -> PendingCall | None:
        """The next call. Stale entries (the call was removed, or is more urgent now) are dropped at the front."""
        while self._pending:
            urgency, _, call = self._pending[0]
            if call.is_waiting and call.urgency is urgency:
                return call
            heappop(self._pending)
        return None

    def remove(self, call: PendingCall) -> None:
        """Remove a call from the queue of the chat."""
        call.is_waiting = False
        self.waiting -= 1
        if not self.waiting:
            self._pending.clear()


class RateLimiter:
    """The rate limits of one channel and the calls that wait for them.

    First use `try_call`. If it does not allow the call, use `enqueue` and wait until `grant` returns the call; `due`
    says when to call `grant` next.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        overall, self._in_chat = _rates(capabilities.overall), _rates(capabilities.per_chat)
        self._in_group = self._in_chat + _rates(capabilities.per_group)
        self._max_calls = max((rate.calls for rate in self._in_group), default=1)
        self._is_paced = bool(overall or self._in_group)
        self._overall = _Limit(overall, max((rate.calls for rate in overall), default=1))
        self._chats: dict[str, _Chat] = {}
        self._forget_above = _FORGET_ABOVE
        self._numbers = count()
        self._served = 0
        self._waiting = 0
        # Stale entries are dropped when they come to the front. So a key may be more urgent than its chat, never less.
        self._ready: list[_Entry] = []
        self._resting: list[_Entry] = []
        self._ageing: deque[PendingCall] = deque()

    def is_free(self, chat: str, now: float, *, group: bool = False) -> bool:
        """Whether a call to the chat is allowed now, and no queued call must go before it."""
        if not self._is_paced and not self._chats:
            return self._overall.held_until <= now
        if self._overall.due() > now or (self._overall.rates and self._is_contested(now)):
            return False
        known = self._known(chat, group=group)
        return known is None or (not known.waiting and known.due() <= now)

    def count_call(self, chat: str, now: float, *, group: bool = False) -> None:
        """Count a call to the chat that is made now."""
        if self._is_paced:
            self._count_call(self._chat(chat, now, group=group), now)

    def end_call(self, chat: str, began: float, now: float) -> None:
        """Note the end of a call to the chat.

        A slow call then counts from its end: it may have reached the platform late.
        """
        known = self._chats.get(chat)
        if known is not None and known.calls and now - began > _SLOW_CALL_S:
            known.calls[-1] = now

    def try_call(self, chat: str, urgency: Urgency, now: float, *, group: bool = False) -> bool:
        """Count a call and return True, if the rate limits allow it now. Otherwise return False."""
        is_free = self.is_free(chat, now, group=group)
        if is_free and urgency is not Urgency.TYPING:
            self.count_call(chat, now, group=group)
        return is_free

    def expected_at(self, chat: str, now: float) -> float:
        """An estimate of the time at which a new call to the chat is allowed, after all pending ones."""
        known, overall = self._chats.get(chat), self._overall.expected_at(self._waiting, now)
        return overall if known is None else max(overall, known.expected_at(known.waiting, now))

    def enqueue(self, chat: str, urgency: Urgency, now: float, *, group: bool = False) -> PendingCall:
        """Queue a call that the rate limits do not allow yet. `grant` returns it later."""
        limit = self._chat(chat, now, group=group)
        call = PendingCall(limit, urgency, next(self._numbers), now)
        if not limit.waiting:
            limit.served = max(limit.served, self._served - _HEAD_START)
        limit.push(call)
        limit.waiting += 1
        self._waiting += 1
        if urgency is Urgency.FIRST:
            self._ageing.append(call)
        if limit.entry is None or (limit.is_ready and urgency < limit.entry[0]):
            self._schedule(limit, now)
        return call

    def cancel(self, call: PendingCall) -> None:
        """Remove a call from the queue. A call that `grant` has already returned stays counted."""
        if call.is_waiting:
            call.chat.remove(call)
            self._waiting -= 1

    def grant(self, now: float) -> list[PendingCall]:
        """Take the queued calls that are allowed now from the queue, count them, and return them in order."""
        self._age(now)
        while self._resting and self._resting[0][0] <= now:
            entry = heappop(self._resting)
            if entry[-1].entry is entry:
                self._schedule(entry[-1], now)
        calls: list[PendingCall] = []
        while self._ready and self._overall.due() <= now:
            entry = heappop(self._ready)
            chat = entry[-1]
            if chat.entry is not entry:
                continue
            call = chat.next_call()
            if call is not None and chat.due() <= now and (call.urgency, chat.served) == entry[:2]:
                self.cancel(call)
                calls.append(call)
                if call.urgency is not Urgency.TYPING:
                    self._count_call(chat, now)
            self._schedule(chat, now)
        return calls

    def due(self, now: float) -> float | None:
        """The time at which `grant` may return a call if nothing changes before; None if no call waits."""
        if not self._waiting:
            return None
        chat_due = now if self._ready else self._resting[0][0]
        return max(now, chat_due, self._overall.due())

    def pause(self, until: float, *, chat: str | None = None, now: float) -> None:
        """Allow no calls of one chat, or of all, before `until`, because the platform asked to wait."""
        limit = self._overall if chat is None else self._chat(chat, now, group=False)
        limit.held_until = max(limit.held_until, until)

    def _is_contested(self, now: float) -> bool:
        """Whether any chat has a waiting call that its own limit allows now. A new call must not overtake that call."""
        return self._waiting > 0 and (bool(self._ready) or self._resting[0][0] <= now)

    def _count_call(self, chat: _Chat, now: float) -> None:
        self._overall.calls.append(now)
        chat.calls.append(now)
        self._served += 1
        chat.served = self._served

    def _age(self, now: float) -> None:
        """Raise the urgency of first messages that have waited for long: they count as final."""
        while self._ageing and self._ageing[0].since + FIRST_MESSAGE_WAIT_S <= now:
            call = self._ageing.popleft()
            if call.is_waiting:
                call.urgency = Urgency.FINAL
                call.chat.push(call)
                if call.chat.is_ready:
                    self._schedule(call.chat, now)

    def _schedule(self, chat: _Chat, now: float) -> None:
        """Put the chat into the heap of ready chats or of resting chats, as its next call requires."""
        chat.entry, first, due = None, chat.next_call(), chat.due()
        if first is None:
            return
        chat.is_ready = due <= now
        number = next(self._numbers)
        if chat.is_ready:
            chat.entry = (first.urgency, chat.served, number, chat)
            heappush(self._ready, chat.entry)
        else:
            chat.entry = (due, 0, number, chat)
            heappush(self._resting, chat.entry)

    def _known(self, chat: str, *, group: bool) -> _Chat | None:
        known = self._chats.get(chat)
        if known is not None and group:
            known.rates = self._in_group
        return known

    def _chat(self, chat: str, now: float, *, group: bool) -> _Chat:
        known = self._known(chat, group=group)
        if known is None:
            if len(self._chats) >= self._forget_above:
                self._chats = {name: kept for name, kept in self._chats.items() if not self._is_forgotten(kept, now)}
                self._forget_above = max(_FORGET_ABOVE, 2 * len(self._chats))
            known = self._chats[chat] = _Chat(self._in_group if group else self._in_chat, self._max_calls)
        return known

    def _is_forgotten(self, chat: _Chat, now: float) -> bool:
        """Whether the chat can be forgotten: its earlier calls have no effect any more."""
        return chat.entry is None and chat.served <= self._served - _HEAD_START and chat.is_unused(now)


def _rates(rate: Rate | None) -> tuple[Rate, ...]:
    return () if rate is None else (rate,)
