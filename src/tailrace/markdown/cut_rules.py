"""What speaks against a cut at a place, and whether it is too early to say: the laws, one function each.

Each function takes a window, a place and the kind of boundary it is, and answers with a `Verdict` or None. They
look at structure only; whether a cut would change what is said is tested by `cutting`, which parses both sides.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from tailrace.markdown import graphemes
from tailrace.markdown.boundaries import Kind
from tailrace.markdown.emphasis import unresolved
from tailrace.markdown.outline import Block
from tailrace.markdown.reopening import Place, Seam, fence_marker, seams
from tailrace.markdown.window import Window

_BARE_MARKER = re.compile(r"[ \t>]*(?:[-+*]|\d{1,9}[.)]|#{1,6})?[ \t]*")
_BEGUN_ENTITY = re.compile(r"&#?[0-9A-Za-z]*\Z")
_LONGEST_ENTITY = 32

# What a line may begin with to be a block of its own, by how much of it must be seen to tell.
_LINE_STARTERS = tuple("-=*_`~|:<[")
_WORD_STARTERS = tuple("#+>0123456789")
BLOCK_STARTERS = frozenset(_LINE_STARTERS + _WORD_STARTERS) | frozenset(" \t\r\n")
"""Characters that can begin a block of another kind than a paragraph."""


class Verdict(Enum):
    """What there is to say of a place other than to cut there."""

    NEED_MORE = "the text so far does not tell yet"
    UNLAWFUL = "not here"
    CHANGED = "here one side would no longer say what it said"


NEED_MORE, UNLAWFUL = Verdict.NEED_MORE, Verdict.UNLAWFUL


def objection(window: Window, place: Place, kind: Kind) -> Verdict | None:
    """The first thing that speaks against the place; None if nothing does."""
    for law in (_tears_a_unit, _tears_a_style, _splits_a_line, _cuts_a_block, _moves_a_block, _is_too_early):
        verdict = law(window, place, kind)
        if verdict is not None:
            return verdict
    return None


def _tears_a_unit(window: Window, place: Place, kind: Kind) -> Verdict | None:
    """Clusters, links, code spans, addresses and escapes stay whole; whitespace is no place for a hard cut."""
    source = window.source
    if not graphemes.is_boundary(source, place.at) or not graphemes.is_boundary(source, place.end):
        return UNLAWFUL
    if any(start < place.at and end > place.end for start, end in window.solids):
        return UNLAWFUL
    before_space = source[place.at].isspace() and graphemes.is_boundary(source, place.at + 1)
    if kind is Kind.HARD and before_space and not window.code_at(place.at):
        return UNLAWFUL
    return None


def _tears_a_style(window: Window, place: Place, _kind: Kind) -> Verdict | None:
    if len(set(place.styles)) < len(place.styles):
        return UNLAWFUL  # two of a kind, opened again side by side, would be one of another kind
    for style in window.outline.styles:
        if style.start < place.end and style.end > place.at:
            width = len(style.marker)
            if place.end <= style.start + width or place.at >= style.end - width:
                return UNLAWFUL  # a style around nothing is no style
    return None


def _splits_a_line(window: Window, place: Place, _kind: Kind) -> Verdict | None:
    """Inside a line, not within its indentation and not behind a bare marker, which would be an empty item."""
    if place.begins_line:
        return None
    line = max(window.source.rfind("\n", 0, place.end) + 1, window.base)
    bare = _BARE_MARKER.fullmatch(window.source, line, place.end)
    return UNLAWFUL if bare or window.is_prefix(place.at) else None


def _cuts_a_block(window: Window, place: Place, kind: Kind) -> Verdict | None:
    """Code is cut at line ends, tables between rows, lines of either only if longer than a part."""
    leaf = place.leaf
    if leaf is None:
        return None
    if leaf.is_code and not window.hides_wrapper:
        if kind is Kind.HARD:
            return long_line(window, place)
        return _code_line(window, leaf, place.at) if place.begins_line else UNLAWFUL
    if leaf.kind == "table":
        in_head = place.at <= leaf.body
        if place.begins_line:
            return UNLAWFUL if in_head else None
        return UNLAWFUL if in_head and leaf.start > window.base else long_line(window, place)
    return UNLAWFUL if leaf.kind == "rule" else None


def _code_line(window: Window, leaf: Block, at: int) -> Verdict | None:
    """A fence keeps a first line, and its closing fence never stands alone at the start of a part."""
    if leaf.kind == "indented":
        return None
    begins_part = not window.source[window.base : leaf.start].strip(" \t>")
    if at < leaf.body or (at == leaf.body and not begins_part):
        return UNLAWFUL
    marker = fence_marker(window.source, leaf)
    end = window.line_end(at)
    line = window.source[at : end if end >= 0 else None].strip(" \t>\r")
    if line.strip(marker[0]):
        return None
    if end < 0 and not window.settled:
        return NEED_MORE
    return UNLAWFUL if len(line) >= len(marker) and at >= leaf.content_end else None


def long_line(window: Window, place: Place) -> Verdict | None:
    """Whether the line of code or the table row that the place is in fits a part, and so must not be cut."""
    source = window.source
    if source[place.at : place.at + 1] in ("\r", "\n", ""):
        return UNLAWFUL
    start = max(source.rfind("\n", 0, place.at) + 1, window.base)
    end = window.line_end(place.at)
    seam = narrow_seam(window, msgspec.structs.replace(place, at=start, end=start))
    opened = seam.opening.text if start > window.base else window.opening.text
    closed = "\n" + seam.closed.lstrip("\n") if seam.closed else ""
    if not window.measurer.fits(opened + source[start : end if end >= 0 else None] + closed):
        return None
    return UNLAWFUL if end >= 0 or window.settled else NEED_MORE


def narrow_seam(window: Window, place: Place) -> Seam:
    """The best seam that adds no more than half of what a part holds."""
    return next(seam for seam in seams(place) if not too_wide(window, seam))


def too_wide(window: Window, seam: Seam) -> bool:
    """Whether what the seam adds would take more than half of a part."""
    return bool(seam.opening.text) and window.measurer.source_size(seam.added) * 2 > window.measurer.limit


def _moves_a_block(window: Window, place: Place, _kind: Kind) -> Verdict | None:
    """A code block, table or list item that fits a part is moved whole, if that leaves enough here."""
    for block in window.outline.blocks:
        if not (window.base < block.start < place.end and block.end > place.at and block.stays_whole):
            continue
        if not window.is_movable(block):
            continue
        if window.ended(block):
            return UNLAWFUL
        if not window.settled:
            return NEED_MORE
    return None


def _is_too_early(window: Window, place: Place, kind: Kind) -> Verdict | None:
    """Whether the text does not say yet what is open here, or what the rest will begin as."""
    if window.settled:
        return None
    leaf = place.leaf
    if leaf and leaf.kind in ("paragraph", "heading") and not window.paragraph_ended(leaf):
        if unresolved(window.outline, leaf.start, place.end, also_literal=True):
            return NEED_MORE
    elif kind is not Kind.LINE or place.at < window.last_line:
        return None  # between blocks the rest is what it is, unless its line has only begun and may belong above
    begun = _BEGUN_ENTITY.search(window.source, max(place.end - _LONGEST_ENTITY, 0)) if kind is Kind.HARD else None
    if begun and begun.start() < place.end:
        return NEED_MORE
    rest = window.source[place.at :]
    rest = rest.lstrip(" \t>") if place.begins_line else rest
    known = bool(rest)
    if rest[:1] in _LINE_STARTERS:
        known = "\n" in rest
    elif rest[:1] in _WORD_STARTERS:
        known = len(rest.split(maxsplit=1)) > 1 or rest[-1].isspace()
    return None if known else NEED_MORE
