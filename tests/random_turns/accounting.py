"""What people saw, compared with what a ledger says of it: the invariants of every delivery, whatever went wrong.

Every text names its part, as `turn|part|what it says`; so does every message that is seen, but for the lines that tell
people of what is missing or cut off, which are only counted. A part that is

    delivered   is seen once; more often only where its row is marked as maybe double
    unknown     is seen once at most, and people are told
    failed      is not seen, and people are told; so with one that is dead, unless nobody waits for it any more

and no row is open, none is unaccounted for, what is seen stands in the order of its rows, and a message that was
changed at the end says what it was to say at last. Which states a kind of platform may end in is told apart: `withheld`
counts what is unknown and not seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, ClassVar

import msgspec

from tailrace.capabilities import Keyed, Unkeyed
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Delivery, Query, State
from tailrace.delivery.decisions import TOO_OLD
from tailrace.operations import CloseStream, Delete, Edit, OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.ports import Ledger
    from tailrace.testing.platform import SimulatedPlatform
    from tailrace.testing.wire import Message


class Account(msgspec.Struct, kw_only=True):
    """What became of some turns; `violations` are what must not be."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("turns", "parts", "crashes", "duplicates", "lost", "withheld", "refused", "marked"),
    )

    turns: int = 0
    parts: int = 0
    crashes: int = 0
    duplicates: int = 0
    lost: int = 0
    withheld: int = 0
    refused: int = 0
    marked: int = 0
    violations: list[str] = []

    def plus(self, other: Account) -> Account:
        """Both together."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in (*self.COLUMNS, "violations")}
        return Account(**sums)


async def account_for(
    ledger: Ledger, platform: SimulatedPlatform, *, crashes: int = 0, clock_jumped: bool = False
) -> Account:
    """What became of everything in the ledger, which nobody is at any more.

    `clock_jumped`: the wall clock was not always right, so that the age of a key could not always be known.
    """
    rows = [row async for row in _all(ledger)]
    account = Account(turns=len({row.turn_id for row in rows}), crashes=crashes)
    may_doubt = Unkeyed | Keyed if clock_jumped else Unkeyed
    can_find_out = not isinstance(platform.capabilities.idempotency, may_doubt)
    account.violations += [f"complaint: {each}" for each in platform.complaints if each.about != "pace"]
    by_chat: dict[str, list[Delivery]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.position):
        by_chat[row.operation.target.chat].append(row)
    for chat, said in by_chat.items():
        seen = [message for message in platform.history(chat) if not message.deleted]
        _Chat(said, seen, account, can_find_out=can_find_out).check()
    return account


async def _all(ledger: Ledger) -> AsyncIterator[Delivery]:
    after: int | None = None
    while page := await ledger.find(Query(), after=after, limit=1000):
        after = page[-1].position
        for row in page:
            yield row


class _Chat:
    """One conversation: its rows in their order, and what is seen there."""

    def __init__(self, rows: list[Delivery], seen: list[Message], account: Account, *, can_find_out: bool) -> None:
        self._rows = rows
        self._seen = seen
        self._account = account
        self._can_find_out = can_find_out
        self._copies = Counter(_part(message.text) for message in self._seen)

    def check(self) -> None:
        """Compare."""
        parts: dict[str, Delivery] = {}
        for row in self._rows:
            if row.state in OPEN:
                self._violation(row, f"is left {row.state}")
            if isinstance(row.operation, Post | PostMedia | OpenStream) and (part := _part(_text(row))):
                self._account.parts += 1
                parts[part] = row
                self._check_copies(row, self._copies[part])
            elif isinstance(row.operation, Edit | CloseStream) and row.state is State.DELIVERED:
                self._check_last_text(row)
        self._check_told()
        self._check_lines()
        for part in self._copies.keys() - parts.keys() - {""}:
            self._account.violations.append(f"{part!r} is seen, and no row says so")
        order = [parts[part].position for part in (_part(message.text) for message in self._seen) if part in parts]
        if order != sorted(order):
            self._account.violations.append(f"{self._rows[0].conversation} is out of order: {order}")

    def _check_copies(self, row: Delivery, copies: int) -> None:
        account = self._account
        account.duplicates += max(0, copies - 1)
        account.marked += row.may_be_double
        if copies > 1 and not row.may_be_double:
            self._violation(row, f"is {row.state} and seen {copies} times")
        if row.state is State.DELIVERED and not copies:
            account.lost += 1
            self._violation(row, "is delivered, and nobody sees it")
        if row.state is State.UNKNOWN:
            account.withheld += not copies
            # A refusal after a doubt leaves the doubt.
            is_sent_again = row.policy.on_unknown == "resend"
            if (self._can_find_out or is_sent_again) and "blocked" not in row.error:
                self._violation(row, "is unknown, where it could be found out or sent again")
        if row.state in {State.FAILED, State.DEAD, State.CANCELLED}:
            account.refused += 1
            if copies:
                self._violation(row, f"is {row.state}, and is seen")

    def _check_last_text(self, row: Delivery) -> None:
        assert isinstance(row.operation, Edit | CloseStream)
        about = row.operation.message_id if isinstance(row.operation, Edit) else row.operation.stream_id
        texts = [message.text for message in self._seen if message.message_id == about]
        if texts != [row.operation.body.text]:
            self._violation(row, f"was to say {row.operation.body.text!r} at last, and there is {texts}")

    def _check_told(self) -> None:
        missing: dict[str, int] = {}
        notices: dict[str, Delivery] = {}
        for row in self._rows:
            if row.ordinal == NOTICE_ORDINAL:
                notices[row.turn_id] = row
            elif row.state in UNDELIVERED and row.error != TOO_OLD and not isinstance(row.operation, Delete):
                missing.setdefault(row.turn_id, row.position)
        for turn_id, place in missing.items():
            notice = notices.get(turn_id)
            if notice is None:
                self._account.violations.append(f"{turn_id} misses something, and nobody is told")
            elif any(place < row.position < notice.position for row in self._rows):
                self._violation(notice, "is not told right behind what is missing")

    def _check_lines(self) -> None:
        rows = [row for row in self._rows if isinstance(row.operation, Post) and not _part(row.operation.body.text)]
        states = Counter(row.state for row in rows)
        again = sum(row.attempt for row in rows if row.may_be_double)
        least, most = states[State.DELIVERED], states[State.DELIVERED] + states[State.UNKNOWN] + again
        if not least <= self._copies[""] <= most:
            self._account.violations.append(f"{self._copies['']} lines are seen, and {least} to {most} were sent")

    def _violation(self, row: Delivery, what: str) -> None:
        self._account.violations.append(f"{row.id} in {row.conversation} {what} ({row.error})")


def _text(row: Delivery) -> str:
    """What a row that makes a message says first."""
    operation = row.operation
    assert isinstance(operation, Post | PostMedia | OpenStream)
    return operation.caption if isinstance(operation, PostMedia) else operation.body.text


def _part(text: str) -> str:
    return text.rpartition("|")[0]
