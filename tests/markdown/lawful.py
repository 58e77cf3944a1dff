"""The laws of cutting for one text, limit, unit and dialect."""

from __future__ import annotations

from cutting_laws.laws import judge
from cutting_laws.parts import MIN_LIMIT, Breach
from cutting_laws.structure import check_meaning, is_tame
from tailrace.markdown import split
from tailrace.markdown.dialects import Measurer


def at_least(unit: str, limit: int) -> int:
    """The limit, or the least one of the unit."""
    return max(limit, MIN_LIMIT[unit])


def breaches(source: str, limit: int, unit: str = "code_points", dialect: str = "markdown") -> list[object]:
    """Every breach of the laws by the parts of the text; the dialect's own measure must agree that they fit."""
    measurer = Measurer(at_least(unit, limit), unit, dialect)
    parts = split(source, measurer.limit, unit=unit, dialect=dialect)
    too_large = [part.text for part in parts if not measurer.fits(part.text)]
    return [*judge(source, parts, measurer.limit, unit, dialect), *too_large]


def changes_of_meaning(source: str, limit: int, dialect: str = "markdown") -> list[Breach]:
    """Every character that means something else in its part, if the text is one whose meaning can be compared."""
    return check_meaning(source, split(source, limit, dialect=dialect)) if is_tame(source, limit) else []
