"""Two accounts of the same turn held against each other: what one said that the other did not, said otherwise or cut
elsewhere; and what arrived otherwise, took other calls or came at another time.

Pure. An account is the messages that stand in the end, in order, with what is known of each; how it came to be is left
to whoever made it (`accounting`). Every difference has one kind. What a comparison keeps does not grow with the turn:
how many there are of each kind, and where the first of each parts.
"""

from __future__ import annotations

import enum
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

TOLERANCE_S = 1.0
"""Two messages that come no further apart than this came at the same time."""

_SHORT = 120
_NAME = 40


class Kind(enum.StrEnum):
    """How two accounts stand to each other: of what people read, then of how it came there."""

    IDENTICAL = "identical"
    WHITESPACE = "whitespace"
    CUT_MOVED = "cut moved"
    TEXT_DIFFERS = "text differs"
    LOST = "lost"
    EXTRA = "extra"
    ORDER = "order"
    RECEIPT = "receipt"
    CALLS = "calls"
    TIMING = "timing"


GRAVE = frozenset({Kind.TEXT_DIFFERS, Kind.LOST, Kind.EXTRA, Kind.ORDER})
"""What nobody wants of a change: people would read something else."""
_READ = GRAVE | {Kind.WHITESPACE, Kind.CUT_MOVED}


class Arrival(enum.StrEnum):
    """What is known of a message in the end."""

    DELIVERED = "delivered"
    DEGRADED = "degraded"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    UNDELIVERED = "left out"


class Manner(enum.StrEnum):
    """How a message came to say what it says in the end."""

    WHOLE = "posted whole"
    IN_PLACE = "finished in place"
    ANEW = "posted anew"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it was to stand in the end. Times are in seconds from the turn's beginning.

    `at` is when it was first there, `done` when it said all it says. `why` is what was given up, or what went wrong.
    """

    text: str
    at: float = 0.0
    done: float = 0.0
    media: str = ""
    arrival: Arrival = Arrival.DELIVERED
    manner: Manner = Manner.WHOLE
    why: str = ""


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls of each sort a turn took, without typing.

    `messages` are new ones, which notify people; `changes` are edits that stay, ends of streams and deletions;
    `passing` is what was only shown in between, None where nobody counted it.
    """

    messages: int = 0
    changes: int = 0
    passing: int | None = None

    def __str__(self) -> str:
        passing = "" if self.passing is None else f" and {self.passing} in between"
        return f"{self.messages} new, {self.changes} changed{passing}"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What one way made of a turn."""

    said: tuple[Said, ...] = ()
    calls: Calls = Calls()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How one turn differs, by kind: how many there are, and where the first of each parts.

    Seconds are by how much they come later than we do, less than 0 where they come earlier: `first_s` until anything
    is there, `later_s` until everything is, `apart_s` of the message that moved most.
    """

    counts: dict[Kind, int]
    examples: dict[Kind, str]
    first_s: float = 0.0
    later_s: float = 0.0
    apart_s: float = 0.0

    @property
    def is_same(self) -> bool:
        """Whether people read the same."""
        return not self.counts.keys() & _READ

    @property
    def is_alike(self) -> bool:
        """Whether it also came there in the same way and at the same time."""
        return self.counts.keys() <= {Kind.IDENTICAL}

    @property
    def is_grave(self) -> bool:
        """Whether people would miss something, or read what they should not."""
        return bool(self.counts.keys() & GRAVE)

    def __str__(self) -> str:
        said = ", ".join(f"{self.counts[kind]} {kind}" for kind in Kind if self.counts.get(kind)) or "nothing said"
        first = f", first there {self.first_s:+.1f} s" if abs(self.first_s) >= 0.05 else ""
        later = f", done {self.later_s:+.1f} s" if abs(self.later_s) >= 0.05 else ""
        return said + first + later


def compare(ours: Account, theirs: Account, *, tolerance_s: float = TOLERANCE_S) -> Comparison:
    """How what they made of the turn differs from what we did."""
    return _Examination(ours, theirs, tolerance_s).result()


class _Examination:
    """Two accounts while they are compared."""

    def __init__(self, ours: Account, theirs: Account, tolerance_s: float) -> None:
        self._ours = ours
        self._theirs = theirs
        self._tolerance_s = tolerance_s
        self._counts: Counter[Kind] = Counter()
        self._examples: dict[Kind, str] = {}
        self._pairs: list[tuple[Said, Said]] = []
        self._apart_s = 0.0

    def result(self) -> Comparison:
        self._compare_messages()
        for mine, yours in self._pairs:
            self._compare_receipts(mine, yours)
            if mine.arrival is yours.arrival is Arrival.DELIVERED:
                self._compare_times(mine, yours)
        self._compare_calls()
        first_s = later_s = 0.0
        ours, theirs = self._ours.said, self._theirs.said
        if ours and theirs:
            first_s = min(said.at for said in theirs) - min(said.at for said in ours)
            later_s = max(said.done for said in theirs) - max(said.done for said in ours)
            if not self._counts[Kind.TIMING] and max(abs(first_s), abs(later_s)) > self._tolerance_s:
                self._find(Kind.TIMING, f"first there {first_s:+.1f} s, done {later_s:+.1f} s")
        counts = {kind: count for kind in Kind if (count := self._counts[kind])}
        return Comparison(
            counts=counts, examples=self._examples, first_s=first_s, later_s=later_s, apart_s=self._apart_s
        )

    def _find(self, kind: Kind, example: str) -> None:
        self._counts[kind] += 1
        self._examples.setdefault(kind, example)

    def _compare_messages(self) -> None:
        ours, theirs = self._ours.said, self._theirs.said
        lost: list[Said] = []
        extra: list[Said] = []
        matcher = SequenceMatcher(None, list(map(_name, ours)), list(map(_name, theirs)), autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            mine, yours = ours[a:b], theirs[c:d]
            if tag == "equal":
                self._counts[Kind.IDENTICAL] += b - a
            elif not yours:
                # What was withdrawn before it was sent, and that they do not say either, is no loss.
                lost += [said for said in mine if said.arrival is not Arrival.UNDELIVERED]
            elif not mine:
                extra += yours
            else:
                self._find(_kind(mine, yours), _apart(_joined(mine), _joined(yours)))
            if len(mine) == len(yours):
                self._pairs += zip(mine, yours, strict=True)
        self._compare_places(lost, extra)

    def _compare_places(self, lost: list[Said], extra: list[Said]) -> None:
        """A message that is lost in one place and extra in another is there, and stands elsewhere."""
        moved = Counter(map(_name, lost)) & Counter(map(_name, extra))
        found = Counter(moved)
        for said in lost:
            is_moved = found[_name(said)] > 0
            found[_name(said)] -= is_moved
            self._find(Kind.ORDER if is_moved else Kind.LOST, _short(said))
        for said in extra:
            if moved[_name(said)] > 0:
                moved[_name(said)] -= 1
            else:
                self._find(Kind.EXTRA, _short(said))

    def _compare_receipts(self, mine: Said, yours: Said) -> None:
        if (mine.arrival, mine.manner) != (yours.arrival, yours.manner):
            self._find(Kind.RECEIPT, f"{_short(mine)}: {_receipt(mine)} against {_receipt(yours)}")

    def _compare_times(self, mine: Said, yours: Said) -> None:
        apart = max(yours.at - mine.at, yours.done - mine.done, key=abs)
        self._apart_s = max(self._apart_s, apart, key=abs)
        if abs(apart) > self._tolerance_s:
            there = f"there at {mine.at:.1f} s against {yours.at:.1f} s"
            self._find(Kind.TIMING, f"{_short(mine)}: {there}, done at {mine.done:.1f} s against {yours.done:.1f} s")

    def _compare_calls(self) -> None:
        ours, theirs = self._ours.calls, self._theirs.calls
        if ours.passing is None or theirs.passing is None:
            ours, theirs = (msgspec.structs.replace(calls, passing=None) for calls in (ours, theirs))
        if ours != theirs:
            self._find(Kind.CALLS, f"{ours} against {theirs}")


def _kind(ours: tuple[Said, ...], theirs: tuple[Said, ...]) -> Kind:
    if "".join(_joined(ours).split()) != "".join(_joined(theirs).split()):
        return Kind.TEXT_DIFFERS
    is_cut_alike = [said.text.split() for said in ours] == [said.text.split() for said in theirs]
    return Kind.WHITESPACE if is_cut_alike else Kind.CUT_MOVED


def _name(said: Said) -> tuple[str, str]:
    return said.text, said.media


def _joined(said: Iterable[Said]) -> str:
    return "\n".join(message.text or message.media for message in said)


def _short(said: Said) -> str:
    text = said.text or said.media
    return repr(text if len(text) <= _NAME else f"{text[: _NAME - 1]}…")


def _receipt(said: Said) -> str:
    why = f" ({said.why[:_SHORT]})" if said.why else ""
    return f"{said.arrival}{why}, {said.manner}"


def _apart(ours: str, theirs: str) -> str:
    """Where two texts part, in a line for people."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    alike = next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    start = max(0, alike - _SHORT // 3)
    return f"{ours[start : start + _SHORT]!r} against {theirs[start : start + _SHORT]!r}"
