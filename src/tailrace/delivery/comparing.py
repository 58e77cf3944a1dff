"""Two accounts of the same turn held against each other: what one said that the other did not, said otherwise or cut
elsewhere.

Pure. An account is the messages that stood in the end, in order, each with when it first stood; how they came to be is
left to whoever made them. Every difference has one kind, from harmless to grave.
"""

from __future__ import annotations

import enum
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHORT = 120


class Kind(enum.StrEnum):
    """How two accounts of a message stand to each other."""

    IDENTICAL = "identical"
    WHITESPACE = "whitespace"
    CUT_MOVED = "cut moved"
    TEXT_DIFFERS = "text differs"
    LOST = "lost"
    EXTRA = "extra"
    ORDER = "order"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it stood in the end; `at` is when it was first there, in seconds from the turn's beginning."""

    text: str
    at: float = 0.0
    media: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of messages in both accounts, and how they differ."""

    kind: Kind
    ours: tuple[Said, ...] = ()
    theirs: tuple[Said, ...] = ()

    @property
    def example(self) -> str:
        """Where they part, in a line for people."""
        ours, theirs = _joined(self.ours), _joined(self.theirs)
        start = max(0, _alike(ours, theirs) - _SHORT // 3)
        return f"{ours[start : start + _SHORT]!r} against {theirs[start : start + _SHORT]!r}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All differences of one turn, what was the same counted, and by how much the last message came later."""

    differences: tuple[Difference, ...]
    identical: int
    later_s: float

    @property
    def is_same(self) -> bool:
        """Whether people saw the same."""
        return not self.differences

    def counts(self) -> Counter[Kind]:
        """How many of each kind."""
        found = Counter(difference.kind for difference in self.differences)
        found[Kind.IDENTICAL] = self.identical
        return found


def compare(ours: Sequence[Said], theirs: Sequence[Said]) -> Comparison:
    """How what they said differs from what we said."""
    matcher = SequenceMatcher(None, [_name(said) for said in ours], [_name(said) for said in theirs], autojunk=False)
    differences: list[Difference] = []
    identical = 0
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            identical += b - a
        else:
            differences.append(_difference(tuple(ours[a:b]), tuple(theirs[c:d])))
    later_s = (theirs[-1].at - ours[-1].at) if ours and theirs else 0.0
    return Comparison(differences=tuple(_reordered(differences)), identical=identical, later_s=later_s)


def _difference(ours: tuple[Said, ...], theirs: tuple[Said, ...]) -> Difference:
    if not theirs:
        kind = Kind.LOST
    elif not ours:
        kind = Kind.EXTRA
    else:
        kind = _kind(ours, theirs)
    return Difference(kind=kind, ours=ours, theirs=theirs)


def _kind(ours: tuple[Said, ...], theirs: tuple[Said, ...]) -> Kind:
    if "".join(_joined(ours).split()) != "".join(_joined(theirs).split()):
        return Kind.TEXT_DIFFERS
    is_cut_alike = [said.text.split() for said in ours] == [said.text.split() for said in theirs]
    return Kind.WHITESPACE if is_cut_alike else Kind.CUT_MOVED


def _reordered(differences: list[Difference]) -> Iterable[Difference]:
    """A message that is lost in one place and extra in another is there, and stands elsewhere."""
    lost = Counter(_name(said) for each in differences if each.kind is Kind.LOST for said in each.ours)
    extra = Counter(_name(said) for each in differences if each.kind is Kind.EXTRA for said in each.theirs)
    moved = lost & extra
    for each in differences:
        said = each.ours if each.kind is Kind.LOST else each.theirs if each.kind is Kind.EXTRA else ()
        if not said or any(_name(message) not in moved for message in said):
            yield each
        elif each.kind is Kind.LOST:
            yield msgspec.structs.replace(each, kind=Kind.ORDER)


def _name(said: Said) -> tuple[str, str]:
    return said.text, said.media


def _joined(said: Iterable[Said]) -> str:
    return "\n".join(message.text or message.media for message in said)


def _alike(ours: str, theirs: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
