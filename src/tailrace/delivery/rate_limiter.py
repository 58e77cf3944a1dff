"""When which call may go out: one budget for each chat, sends and edits together, one for the channel, and a queue.

Pure: the time is an argument, any clock that never goes back. A budget remembers its last calls, as many as its rates
allow: in no stretch of that length are there more, wherever it begins. The budget is the chat's, whatever the thread,
and a group is held to one rate more. A chat that was long silent is forgotten.

Whoever cannot call at once takes a `Ticket`. A place that comes free goes to the most urgent who wait:

    final    what stays, and people wait for
    first    the first message of a turn: somebody was not answered at all yet
    edit     what is shown in between; the next one says it as well
    typing   takes no place, because platforms count it apart, and goes when nobody else would go

Among equals the chat goes first that was served the longest ago, so that chats take turns under the overall rate; one
that was silent for longer than `_HEAD_START` places counts as served then, or ever new chats would keep out one that
waits. Within a chat who came first goes first.

Finals may keep edits waiting for ever, which is as it should be: a final says what they would. First messages they may
not: somebody who sees nothing takes the bot for dead, and a final that comes a place later is only late. So a first
message that waited for `PATIENCE_S` counts as a final.
"""

from __future__ import annotations

import enum
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from tailrace.operations import AppendStream, Draft, Edit, OpenStream, Operation, Post, PostMedia, Typing

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities, Rate

PATIENCE_S = 10.0
_HEAD_START = 100
_FEW_CHATS = 1024


class Urgency(enum.IntEnum):
    """Who goes before whom: the lower goes first."""

    FINAL = 0
    FIRST = 1
    EDIT = 2
    TYPING = 3


_BEGINS = Post | PostMedia | OpenStream
_IN_BETWEEN: dict[type, Urgency] = {
    Edit: Urgency.EDIT,
    AppendStream: Urgency.EDIT,
    Draft: Urgency.EDIT,
    Typing: Urgency.TYPING,
}


def urgency_of(operation: Operation, ordinal: int | None = None) -> Urgency:
    """How urgent it is: by its number in its turn where it stays, by what it is where it is shown in between."""
    if ordinal is None:
        return _IN_BETWEEN[type(operation)]
    return Urgency.FIRST if ordinal == 1 and isinstance(operation, _BEGINS) else Urgency.FINAL


class _Budget:
    """Rates that hold together, the calls that count against them still, and how long all calls are held."""

    __slots__ = ("calls", "held_until", "rates")

    def __init__(self, rates: tuple[Rate, ...], most: int) -> None:
        self.rates = rates
        self.calls: deque[float] = deque(maxlen=most)
        self.held_until = float("-inf")

    def due(self) -> float:
        """When a call may go: for each rate, once the call that is so many ago is out of its window."""
        due = self.held_until
        for rate in self.rates:
            if len(self.calls) >= rate.calls:
                due = max(due, self.calls[-rate.calls] + rate.per_s)
        return due

    def expected(self, ahead: int, now: float) -> float:
        """About when a call may go, behind so many others."""
        return max(now, self.due()) + max((ahead // rate.calls * rate.per_s for rate in self.rates), default=0.0)

    def is_whole(self, now: float) -> bool:
        """Whether nothing that was is of any account any more."""
        return self.held_until <= now and all(
            not self.calls or self.calls[-1] + rate.per_s <= now for rate in self.rates
        )


class Ticket:
    """Somebody who waits for a place, and where."""

    __slots__ = ("asked_at", "chat", "is_waiting", "number", "urgency")

    def __init__(self, chat: _Chat, urgency: Urgency, number: int, asked_at: float) -> None:
        self.chat = chat
        self.urgency = urgency
        self.number = number
        self.asked_at = asked_at
        self.is_waiting = True


_Entry: TypeAlias = "tuple[float, int, int, _Chat]"


class _Chat(_Budget):
    """A chat's budget, who waits for it, and when it was served, as the number of that place.

    `entry` is its one entry that counts, among those that are ready or those that rest until they are due.
    """

    __slots__ = ("_line", "entry", "is_ready", "served", "waiting")

    def __init__(self, rates: tuple[Rate, ...], most: int) -> None:
        super().__init__(rates, most)
        self.served = -_HEAD_START
        self.waiting = 0
        self.entry: _Entry | None = None
        self.is_ready = False
        self._line: list[tuple[Urgency, int, Ticket]] = []

    def join(self, ticket: Ticket) -> None:
        """Put somebody in line; again, where one has become more urgent."""
        heappush(self._line, (ticket.urgency, ticket.number, ticket))

    def first(self) -> Ticket | None:
        """Who goes next. Those who left, or have moved up, are dropped from the line as they come to its head."""
        while self._line:
            urgency, _, ticket = self._line[0]
            if ticket.is_waiting and ticket.urgency is urgency:
                return ticket
            heappop(self._line)
        return None

    def leave(self, ticket: Ticket) -> None:
        """Somebody waits no longer."""
        ticket.is_waiting = False
        self.waiting -= 1
        if not self.waiting:
            self._line.clear()


class RateLimiter:
    """The budgets of one channel, and who waits for them.

    Who can call at once does so by `take`; everybody else comes by `request`, and is among those that `grant` lets go,
    at the latest when asked at the time that `due` tells.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        overall, self._in_chat = _rates(capabilities.overall), _rates(capabilities.per_chat)
        self._in_group = self._in_chat + _rates(capabilities.per_group)
        self._most = max((rate.calls for rate in self._in_group), default=1)
        self._is_paced = bool(overall or self._in_group)
        self._overall = _Budget(overall, max((rate.calls for rate in overall), default=1))
        self._chats: dict[str, _Chat] = {}
        self._many = _FEW_CHATS
        self._numbers = count()
        self._served = 0
        self._waiting = 0
        # Entries that do not count any more are dropped as they come to the head; a key may be too urgent, never less.
        self._ready: list[_Entry] = []
        self._resting: list[_Entry] = []
        self._ageing: deque[Ticket] = deque()

    def is_free(self, chat: str, now: float, *, group: bool = False) -> bool:
        """Whether a call to the chat may go at once, and takes nobody's place."""
        if not self._is_paced and not self._chats:
            return self._overall.held_until <= now
        if self._overall.due() > now or (self._overall.rates and self._is_contested(now)):
            return False
        known = self._known(chat, group=group)
        return known is None or (not known.waiting and known.due() <= now)

    def spend(self, chat: str, now: float, *, group: bool = False) -> None:
        """A call to the chat goes now, because it is free."""
        if self._is_paced:
            self._spend(self._chat(chat, now, group=group), now)

    def take(self, chat: str, urgency: Urgency, now: float, *, group: bool = False) -> bool:
        """Call at once, if the chat is free; the place is spent."""
        is_free = self.is_free(chat, now, group=group)
        if is_free and urgency is not Urgency.TYPING:
            self.spend(chat, now, group=group)
        return is_free

    def expected(self, chat: str, now: float) -> float:
        """About when somebody who came now would call the chat, behind all who wait."""
        known, overall = self._chats.get(chat), self._overall.expected(self._waiting, now)
        return overall if known is None else max(overall, known.expected(known.waiting, now))

    def request(self, chat: str, urgency: Urgency, now: float, *, group: bool = False) -> Ticket:
        """Wait for a place."""
        place = self._chat(chat, now, group=group)
        ticket = Ticket(place, urgency, next(self._numbers), now)
        if not place.waiting:
            place.served = max(place.served, self._served - _HEAD_START)
        place.join(ticket)
        place.waiting += 1
        self._waiting += 1
        if urgency is Urgency.FIRST:
            self._ageing.append(ticket)
        if place.entry is None or (place.is_ready and urgency < place.entry[0]):
            self._line_up(place, now)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Wait no longer. Harmless where the place was granted, and that is spent."""
        if ticket.is_waiting:
            ticket.chat.leave(ticket)
            self._waiting -= 1

    def grant(self, now: float) -> list[Ticket]:
        """Those who may call now, in this order; their places are spent."""
        self._age(now)
        while self._resting and self._resting[0][0] <= now:
            entry = heappop(self._resting)
            if entry[-1].entry is entry:
                self._line_up(entry[-1], now)
        granted: list[Ticket] = []
        while self._ready and self._overall.due() <= now:
            entry = heappop(self._ready)
            chat = entry[-1]
            if chat.entry is not entry:
                continue
            ticket = chat.first()
            if ticket is not None and chat.due() <= now and (ticket.urgency, chat.served) == entry[:2]:
                self.withdraw(ticket)
                granted.append(ticket)
                if ticket.urgency is not Urgency.TYPING:
                    self._spend(chat, now)
            self._line_up(chat, now)
        return granted

    def due(self, now: float) -> float | None:
        """When `grant` may let somebody go, if nothing changes before; None where nobody waits."""
        if not self._waiting:
            return None
        chat_due = now if self._ready else self._resting[0][0]
        return max(now, chat_due, self._overall.due())

    def pause(self, until: float, *, chat: str | None = None, now: float) -> None:
        """The platform asked to wait: for one chat, or for all."""
        budget = self._overall if chat is None else self._chat(chat, now, group=False)
        budget.held_until = max(budget.held_until, until)

    def _is_contested(self, now: float) -> bool:
        """Whether somebody of any chat waits for the channel's next place."""
        return self._waiting > 0 and (bool(self._ready) or self._resting[0][0] <= now)

    def _spend(self, chat: _Chat, now: float) -> None:
        self._overall.calls.append(now)
        chat.calls.append(now)
        self._served += 1
        chat.served = self._served

    def _age(self, now: float) -> None:
        """Let first messages that have waited for long count as finals."""
        while self._ageing and self._ageing[0].asked_at + PATIENCE_S <= now:
            ticket = self._ageing.popleft()
            if ticket.is_waiting:
                ticket.urgency = Urgency.FINAL
                ticket.chat.join(ticket)
                if ticket.chat.is_ready:
                    self._line_up(ticket.chat, now)

    def _line_up(self, chat: _Chat, now: float) -> None:
        """Put the chat among those that are ready, or among those that rest, by who goes next in it."""
        chat.entry, first, due = None, chat.first(), chat.due()
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
            if len(self._chats) >= self._many:
                self._chats = {name: kept for name, kept in self._chats.items() if not self._is_forgotten(kept, now)}
                self._many = max(_FEW_CHATS, 2 * len(self._chats))
            known = self._chats[chat] = _Chat(self._in_group if group else self._in_chat, self._most)
        return known

    def _is_forgotten(self, chat: _Chat, now: float) -> bool:
        """Whether a chat that nobody knows would be treated alike."""
        return chat.entry is None and chat.served <= self._served - _HEAD_START and chat.is_whole(now)


def _rates(rate: Rate | None) -> tuple[Rate, ...]:
    return () if rate is None else (rate,)
