"""The rules that forbid a cut at a place, or say that more text is needed to decide. Each rule is one function.

Each function takes the lookahead (the text from which the cut is decided), a cut point and its kind of boundary. It
returns a `NoCut`, or None if it allows the cut. The rules look at structure only. Whether a cut changes what people
read, `cutting` finds out by parsing both sides.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from tailrace.markdown import graphemes
from tailrace.markdown.boundaries import Boundary
from tailrace.markdown.cut_markup import CutMarkup, CutPoint, cut_markups, fence_marker
from tailrace.markdown.emphasis import unclosed_runs
from tailrace.markdown.lookahead import Lookahead
from tailrace.markdown.outline import OutlineBlock

_BARE_MARKER = re.compile(r"[ \t>]*(?:[-+*]|\d{1,9}[.)]|#{1,6})?[ \t]*")
_BEGUN_ENTITY = re.compile(r"&#?[0-9A-Za-z]*\Z")
_LONGEST_ENTITY = 32

# Characters that may begin a line of another block. The whole line or its first word must be known to decide that.
_LINE_STARTERS = tuple("-=*_`~|:<[")
_WORD_STARTERS = tuple("#+>0123456789")
BLOCK_STARTERS = frozenset(_LINE_STARTERS + _WORD_STARTERS) | frozenset(" \t\r\n")
"""Characters that can begin a block other than a paragraph."""


class NoCut(Enum):
    """The reasons why a text is not cut at a point."""

    NEED_MORE = "the text so far does not show it yet"
    FORBIDDEN = "a rule forbids it"
    CHANGES_TEXT = "one side would read differently"


NEED_MORE, FORBIDDEN = NoCut.NEED_MORE, NoCut.FORBIDDEN


def check_rules(ahead: Lookahead, point: CutPoint, boundary: Boundary) -> NoCut | None:
    """Ask all rules about a cut at this point. Returns the first reason against it; None if all rules allow it."""
    for rule in (_splits_unbreakable, _empties_style, _follows_bare_marker, _cuts_code, _should_move, _is_too_early):
        reason = rule(ahead, point, boundary)
        if reason is not None:
            return reason
    return None


def _splits_unbreakable(ahead: Lookahead, point: CutPoint, boundary: Boundary) -> NoCut | None:
    """Do not cut inside a character, link, code span, address or escape, nor between a word and the space after it."""
    source = ahead.source
    if not graphemes.is_boundary(source, point.at) or not graphemes.is_boundary(source, point.end):
        return FORBIDDEN
    if any(start < point.at and end > point.end for start, end in ahead.unbreakable):
        return FORBIDDEN
    before_space = source[point.at].isspace() and graphemes.is_boundary(source, point.at + 1)
    if boundary is Boundary.CHARACTER and before_space and not ahead.code_at(point.at):
        return FORBIDDEN
    return None


def _empties_style(ahead: Lookahead, point: CutPoint, _boundary: Boundary) -> NoCut | None:
    if len(set(point.styles)) < len(point.styles):
        return FORBIDDEN  # `*` and `*` side by side would be read as `**`
    for style in ahead.outline.styles:
        if style.start < point.end and style.end > point.at:
            width = len(style.marker)
            if point.end <= style.start + width or point.at >= style.end - width:
                return FORBIDDEN  # a style without text is not a style
    return None


def _follows_bare_marker(ahead: Lookahead, point: CutPoint, _boundary: Boundary) -> NoCut | None:
    """Do not cut a line in its indentation or just after its marker: `-` alone would be left as an empty list item."""
    if point.begins_line:
        return None
    line = max(ahead.source.rfind("\n", 0, point.end) + 1, ahead.base)
    bare = _BARE_MARKER.fullmatch(ahead.source, line, point.end)
    return FORBIDDEN if bare or ahead.is_prefix(point.at) else None


def _cuts_code(ahead: Lookahead, point: CutPoint, boundary: Boundary) -> NoCut | None:
    """Cut code only at line ends, and tables only between rows.

    A line of code or a row may be cut inside if it is longer than a whole part.
    """
    leaf = point.leaf
    if leaf is None:
        return None
    if leaf.is_code and not ahead.hides_wrapper:
        if boundary is Boundary.CHARACTER:
            return check_long_line(ahead, point)
        return _check_code_line(ahead, leaf, point.at) if point.begins_line else FORBIDDEN
    if leaf.kind == "table":
        in_head = point.at <= leaf.body
        if point.begins_line:
            return FORBIDDEN if in_head else None
        return FORBIDDEN if in_head and leaf.start > ahead.base else check_long_line(ahead, point)
    return FORBIDDEN if leaf.kind == "rule" else None


def _check_code_line(ahead: Lookahead, leaf: OutlineBlock, at: int) -> NoCut | None:
    """Keep an opening fence and its first line of code together. A closing fence must not begin a part."""
    if leaf.kind == "indented":
        return None
    begins_part = not ahead.source[ahead.base : leaf.start].strip(" \t>")
    if at < leaf.body or (at == leaf.body and not begins_part):
        return FORBIDDEN
    marker = fence_marker(ahead.source, leaf)
    end = ahead.line_end(at)
    line = ahead.source[at : end if end >= 0 else None].strip(" \t>\r")
    if line.strip(marker[0]):
        return None
    if end < 0 and not ahead.must_decide:
        return NEED_MORE
    return FORBIDDEN if len(line) >= len(marker) and at >= leaf.content_end else None


def check_long_line(ahead: Lookahead, point: CutPoint) -> NoCut | None:
    """Do not cut inside a line of code or a table row, unless it is longer than a whole part."""
    source = ahead.source
    if source[point.at : point.at + 1] in ("\r", "\n", ""):
        return FORBIDDEN
    start = max(source.rfind("\n", 0, point.at) + 1, ahead.base)
    end = ahead.line_end(point.at)
    markup = best_markup(ahead, msgspec.structs.replace(point, at=start, end=start))
    opened = markup.opening.text if start > ahead.base else ahead.opening.text
    closed = "\n" + markup.closed.lstrip("\n") if markup.closed else ""
    if not ahead.measurer.fits(opened + source[start : end if end >= 0 else None] + closed):
        return None
    return FORBIDDEN if end >= 0 or ahead.must_decide else NEED_MORE


def best_markup(ahead: Lookahead, point: CutPoint) -> CutMarkup:
    """What to write before and after a cut at this point, so that both parts are valid alone.

    Markup that would take more than half of a part is left out, the least important first.
    """
    return next(markup for markup in cut_markups(point) if not is_too_wide(ahead, markup))


def is_too_wide(ahead: Lookahead, markup: CutMarkup) -> bool:
    """Whether the markup of a cut would take more than half of a part."""
    return bool(markup.opening.text) and ahead.measurer.source_size(markup.added) * 2 > ahead.measurer.limit


def _should_move(ahead: Lookahead, point: CutPoint, _boundary: Boundary) -> NoCut | None:
    """Do not cut a code block, table or list item that can move into the next part as a whole.

    It can move if it fits into one part, and if this part is at least a third full without it.
    """
    for block in ahead.outline.blocks:
        if not (ahead.base < block.start < point.end and block.end > point.at and block.moves_whole):
            continue
        if not ahead.is_movable(block):
            continue
        if ahead.has_ended(block):
            return FORBIDDEN
        if not ahead.must_decide:
            return NEED_MORE
    return None


def _is_too_early(ahead: Lookahead, point: CutPoint, boundary: Boundary) -> NoCut | None:
    """Wait for more text if it is still unknown what a cut at this point would do to the text.

    That is unknown while a style or link may be open at the point, or while the kind of the next block is unknown.
    """
    if ahead.must_decide:
        return None
    leaf = point.leaf
    if leaf and leaf.kind in ("paragraph", "heading") and not ahead.paragraph_ended(leaf):
        if unclosed_runs(ahead.outline, leaf.start, point.end, with_links_and_code=True):
            return NEED_MORE
    elif boundary is not Boundary.LINE or point.at < ahead.last_line:
        return None  # the rest is certainly a block of its own
    begun = (
        _BEGUN_ENTITY.search(ahead.source, max(point.end - _LONGEST_ENTITY, 0))
        if boundary is Boundary.CHARACTER
        else None
    )
    if begun and begun.start() < point.end:
        return NEED_MORE
    rest = ahead.source[point.at :]
    rest = rest.lstrip(" \t>") if point.begins_line else rest
    known = bool(rest)
    if rest[:1] in _LINE_STARTERS:
        known = "\n" in rest
    elif rest[:1] in _WORD_STARTERS:
        known = len(rest.split(maxsplit=1)) > 1 or rest[-1].isspace()
    return None if known else NEED_MORE
