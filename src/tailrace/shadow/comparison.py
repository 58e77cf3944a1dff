"""Compares how a turn was shown in two ways: what people read, whether it arrived, the calls, and the times.

Pure. The result does not grow with the turn: it has a count for each kind of difference, and the first example.
"""

from __future__ import annotations

import enum
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec

from tailrace.shadow.shown_turn import Arrival, ShownMessage, ShownTurn

if TYPE_CHECKING:
    from collections.abc import Iterable

TOLERANCE_S = 1.0
"""Two messages count as simultaneous if their times differ by at most this."""

_EXCERPT = 120
_NAME = 40


class Difference(enum.StrEnum):
    """What a comparison can find: no difference, a difference in what people read, or in how it was sent."""

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


GRAVE = frozenset({Difference.TEXT_DIFFERS, Difference.LOST, Difference.EXTRA, Difference.ORDER})
"""With one of these differences, people would read something else."""
_VISIBLE = GRAVE | {Difference.WHITESPACE, Difference.CUT_MOVED}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of one turn: for each kind how often it occurs, and its first example.

    Three fields say how many seconds later the second way is (below 0: earlier): `first_s` for the first message,
    `later_s` for the end of the last one, `apart_s` for the message with the largest difference.
    """

    counts: dict[Difference, int]
    examples: dict[Difference, str]
    first_s: float = 0.0
    later_s: float = 0.0
    apart_s: float = 0.0

    @property
    def is_same(self) -> bool:
        """Whether people read the same text in the same messages. Differences in sending do not count."""
        return not self.counts.keys() & _VISIBLE

    @property
    def is_alike(self) -> bool:
        """Whether there is no difference: people read the same, sent in the same way and at the same time."""
        return self.counts.keys() <= {Difference.IDENTICAL}

    @property
    def is_grave(self) -> bool:
        """Whether people would miss text with the second way, or read text that they should not."""
        return bool(self.counts.keys() & GRAVE)

    def __str__(self) -> str:
        text = ", ".join(f"{self.counts[kind]} {kind}" for kind in Difference if self.counts.get(kind)) or "no message"
        first = f", first there {self.first_s:+.1f} s" if abs(self.first_s) >= 0.05 else ""
        later = f", done {self.later_s:+.1f} s" if abs(self.later_s) >= 0.05 else ""
        return text + first + later


def compare(ours: ShownTurn, theirs: ShownTurn, *, tolerance_s: float = TOLERANCE_S) -> Comparison:
    """Compare how a turn was shown in two ways: `ours` is the present way, `theirs` the one to try."""
    found = _Differences(tolerance_s)
    pairs = found.compare_messages(ours.messages, theirs.messages)
    for mine, yours in pairs:
        found.compare_receipts(mine, yours)
        if mine.arrival is yours.arrival is Arrival.DELIVERED:
            found.compare_times(mine, yours)
    found.compare_calls(ours, theirs)
    return found.result(ours.messages, theirs.messages)


class _Differences:
    """Collects the differences while two shown turns are compared."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._counts: Counter[Difference] = Counter()
        self._examples: dict[Difference, str] = {}
        self._apart_s = 0.0

    def result(self, ours: tuple[ShownMessage, ...], theirs: tuple[ShownMessage, ...]) -> Comparison:
        first_s = later_s = 0.0
        if ours and theirs:
            first_s = min(message.at for message in theirs) - min(message.at for message in ours)
            later_s = max(message.done for message in theirs) - max(message.done for message in ours)
            if not self._counts[Difference.TIMING] and max(abs(first_s), abs(later_s)) > self._tolerance_s:
                self._add(Difference.TIMING, f"first there {first_s:+.1f} s, done {later_s:+.1f} s")
        counts = {kind: count for kind in Difference if (count := self._counts[kind])}
        return Comparison(
            counts=counts,
            examples=self._examples,
            first_s=round(first_s, 3),
            later_s=round(later_s, 3),
            apart_s=round(self._apart_s, 3),
        )

    def _add(self, kind: Difference, example: str) -> None:
        self._counts[kind] += 1
        self._examples.setdefault(kind, example)

    def compare_messages(
        self, ours: tuple[ShownMessage, ...], theirs: tuple[ShownMessage, ...]
    ) -> list[tuple[ShownMessage, ShownMessage]]:
        """Compare what people read. Returns pairs of messages with the same place in both, for further comparison."""
        lost: list[ShownMessage] = []
        extra: list[ShownMessage] = []
        pairs: list[tuple[ShownMessage, ShownMessage]] = []
        matcher = SequenceMatcher(None, list(map(_content, ours)), list(map(_content, theirs)), autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            mine, yours = ours[a:b], theirs[c:d]
            if tag == "equal":
                self._counts[Difference.IDENTICAL] += b - a
            elif not yours:
                # A message that was cancelled before it was sent is not lost.
                lost += [message for message in mine if message.arrival is not Arrival.UNDELIVERED]
            elif not mine:
                extra += yours
            else:
                self._add(_kind(mine, yours), _where_they_part(_joined(mine), _joined(yours)))
            if len(mine) == len(yours):
                pairs += zip(mine, yours, strict=True)
        self._compare_order(lost, extra)
        return pairs

    def _compare_order(self, lost: list[ShownMessage], extra: list[ShownMessage]) -> None:
        """Count the messages that only one of the two turns has.

        If a message is lost in one place and extra in another, it has only moved.
        """
        moved = Counter(map(_content, lost)) & Counter(map(_content, extra))
        left = Counter(moved)
        for message in lost:
            is_moved = left[_content(message)] > 0
            left[_content(message)] -= is_moved
            self._add(Difference.ORDER if is_moved else Difference.LOST, _short(message))
        for message in extra:
            if moved[_content(message)] > 0:
                moved[_content(message)] -= 1
            else:
                self._add(Difference.EXTRA, _short(message))

    def compare_receipts(self, mine: ShownMessage, yours: ShownMessage) -> None:
        if (mine.arrival, mine.completion) != (yours.arrival, yours.completion):
            self._add(Difference.RECEIPT, f"{_short(mine)}: {_receipt(mine)} against {_receipt(yours)}")

    def compare_times(self, mine: ShownMessage, yours: ShownMessage) -> None:
        apart = max(yours.at - mine.at, yours.done - mine.done, key=abs)
        self._apart_s = max(self._apart_s, apart, key=abs)
        if abs(apart) > self._tolerance_s:
            there = f"there at {mine.at:.1f} s against {yours.at:.1f} s"
            done = f"done at {mine.done:.1f} s against {yours.done:.1f} s"
            self._add(Difference.TIMING, f"{_short(mine)}: {there}, {done}")

    def compare_calls(self, ours: ShownTurn, theirs: ShownTurn) -> None:
        mine, yours = ours.calls, theirs.calls
        if mine.previews is None or yours.previews is None:
            mine, yours = (msgspec.structs.replace(calls, previews=None) for calls in (mine, yours))
        if mine != yours:
            self._add(Difference.CALLS, f"{mine} against {yours}")


def _kind(ours: tuple[ShownMessage, ...], theirs: tuple[ShownMessage, ...]) -> Difference:
    if "".join(_joined(ours).split()) != "".join(_joined(theirs).split()):
        return Difference.TEXT_DIFFERS
    is_cut_alike = [message.text.split() for message in ours] == [message.text.split() for message in theirs]
    return Difference.WHITESPACE if is_cut_alike else Difference.CUT_MOVED


def _content(message: ShownMessage) -> tuple[str, str]:
    return message.text, message.media


def _joined(messages: Iterable[ShownMessage]) -> str:
    return "\n".join(message.text or message.media for message in messages)


def _short(message: ShownMessage) -> str:
    text = message.text or message.media
    return repr(text if len(text) <= _NAME else f"{text[: _NAME - 1]}…")


def _receipt(message: ShownMessage) -> str:
    why = f" ({message.why[:_EXCERPT]})" if message.why else ""
    return f"{message.arrival}{why}, {message.completion}"


def _where_they_part(ours: str, theirs: str) -> str:
    """The place of the first difference as text: an excerpt of both texts around it, on one line."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    alike = next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    start = max(0, alike - _EXCERPT // 3)
    return f"{ours[start : start + _EXCERPT]!r} against {theirs[start : start + _EXCERPT]!r}"
