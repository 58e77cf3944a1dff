"""Where to cut: one window of a text in, one decision out.

The decision is a `Cut`, or `NEED_MORE`, or a new `Opening` where styles that were opened again turn out to match
nothing. It depends on the window alone, and the windows depend on the text alone (see `splitter`), so it never
depends on how the text came.

Places are tried from the best kind of boundary to the worst, and within a kind from the last that fits. A cut is
lawful if nothing in `objections` speaks against it and both sides of it still say what they said together: that
one test stands in for the many ways in which a rest can turn into a list, a heading or a closing fence.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice

import msgspec

from tailrace.markdown import graphemes
from tailrace.markdown.boundaries import Boundary, character_positions, cut_positions
from tailrace.markdown.containers import line_prefix, read_containers
from tailrace.markdown.cut_markup import NO_OPENING, CutMarkup, CutPoint, Opening, cut_markups, fence_marker
from tailrace.markdown.cut_rules import (
    BLOCK_STARTERS,
    NEED_MORE,
    NoCut,
    best_markup,
    check_long_line,
    check_rules,
    is_too_wide,
)
from tailrace.markdown.lookahead import Lookahead
from tailrace.markdown.outline import Outline, read_outline
from tailrace.markdown.same_reading import StyledText, merge, styled_text

# How far to look back for a lawful cut of one kind: so many places, and so many of them by parsing both sides.
_MAX_POSITIONS = 256
_MAX_PARSES = 8
_MAX_LAST_POSITIONS = 32  # when no cut is lawful, each of these is parsed


class TextCut(msgspec.Struct, frozen=True, kw_only=True):
    """The decision: the slice ends at `end`, the next begins at `resume`, both counted in the window's text."""

    end: int
    resume: int
    opened: str
    closed: str
    opening: Opening
    size: int


def decide(ahead: Lookahead) -> TextCut | Opening | NoCut:
    """Cut the window's text, or say what is missing."""
    if ahead.kept_styles != ahead.opening.styles:
        return msgspec.structs.replace(ahead.opening, styles=ahead.kept_styles)
    return _CutSearch(ahead).decide()


def take_whole(ahead: Lookahead) -> TextCut | Opening | None:
    """All of a complete text as one part; None where it must be cut after all."""
    opening = ahead.opening
    if ahead.kept_styles != opening.styles:
        return msgspec.structs.replace(opening, styles=ahead.kept_styles)
    text = ahead.text.rstrip()
    if opening.in_row and "\n" in text:
        return None
    shown = opening.text + text
    as_parsed = not ahead.hides_wrapper and text == ahead.text.rstrip(" \t\r\n")
    closed = closing_fence(ahead.outline if as_parsed else read_outline(shown))
    size = ahead.measurer.size(shown + closed)
    if size > ahead.measurer.limit:
        return None
    return TextCut(
        end=len(text), resume=len(ahead.text), opened=opening.text, closed=closed, opening=NO_OPENING, size=size
    )


def cut_outside_code(ahead: Lookahead, at: int) -> TextCut | None:
    """The cut at one place of the window's text, unless it is inside code or does not fit."""
    point = ahead.cut_point(ahead.base + at)
    if point.leaf and point.leaf.is_code:
        return None
    return _CutSearch(ahead).build_cut(point, best_markup(ahead, point))


def closing_fence(outline: Outline) -> str:
    """What closes the fence that is still open at the end of a text; nothing if none is."""
    source = outline.source.rstrip()
    fence = next((block for block in reversed(outline.blocks) if block.kind == "fence"), None)
    if fence is None or fence.end < len(source):
        return ""
    before_last, line_end, last = source[fence.start : fence.end].rpartition("\n")
    marker = fence_marker(source, fence)
    is_code = fence.content_end > fence.start + len(before_last) + 1
    if line_end and not is_code and last.strip(" \t>\r").startswith(marker):
        return ""
    containers = [block for block in outline.blocks if block.is_container and block.start <= fence.start < block.end]
    return "\n" + line_prefix(read_containers(source, containers)) + marker


class _CutSearch:
    """The search for the cut of one window; `fallback` is the first place that only changed what is said."""

    def __init__(self, ahead: Lookahead) -> None:
        self.ahead = ahead
        self.fallback: TextCut | None = None

    def decide(self) -> TextCut | NoCut:
        best: TextCut | None = None
        for boundary in Boundary:
            found = self._last_allowed(boundary)
            if found is NEED_MORE:
                return found
            if isinstance(found, NoCut):
                continue
            if found.size >= self.ahead.min_size or self._keeps_code_lines(found):
                return found
            if best is None or found.size > best.size:
                best = found
        if best is None and not self.ahead.must_decide:
            return NEED_MORE
        return best or self.fallback or self._last_resort()

    def _last_allowed(self, boundary: Boundary) -> TextCut | NoCut:
        changed = 0
        for at in islice(cut_positions(self.ahead, boundary), _MAX_POSITIONS):
            found = self._try(at, boundary)
            if isinstance(found, TextCut) or found is NEED_MORE:
                return found
            changed += found is NoCut.CHANGES_TEXT
            if changed == _MAX_PARSES:
                break
        return NoCut.FORBIDDEN

    def _try(self, at: int, boundary: Boundary) -> TextCut | NoCut:
        point = self.ahead.cut_point(at)
        if point.end <= self.ahead.base:
            return NoCut.FORBIDDEN
        if (reason := check_rules(self.ahead, point, boundary)) is not None:
            return reason
        markup = best_markup(self.ahead, point)
        if (cut := self.build_cut(point, markup)) is None:
            return NoCut.FORBIDDEN
        if self._cannot_change_text(point) or self._keeps_text(point, markup):
            return cut
        if self.fallback is None and self._is_balanced(cut):
            self.fallback = cut
        return NoCut.CHANGES_TEXT

    def build_cut(self, point: CutPoint, markup: CutMarkup, opened: str | None = None) -> TextCut | None:
        """The cut at a place with a seam, behind what the part opens or less of it; None where it does not fit."""
        ahead = self.ahead
        opened = ahead.opening.text if opened is None else opened
        reopened = point.leaf is not None and point.leaf.kind == "fence" and point.leaf.start < ahead.base
        closed = "" if reopened and opened != ahead.opening.context else markup.closed
        text = opened + ahead.source[ahead.base : point.end] + closed
        size = ahead.measurer.size(text)
        if size > ahead.measurer.limit or not text.strip():
            return None
        return TextCut(
            end=point.end - ahead.base,
            resume=self._resume(point, markup) - ahead.base,
            opened=opened,
            closed=closed,
            opening=markup.opening,
            size=size,
        )

    def _resume(self, point: CutPoint, markup: CutMarkup) -> int:
        """Where the next slice begins: past indentation that leaves no room, and past whitespace that is none."""
        source, measurer = self.ahead.source, self.ahead.measurer
        visible = len(source) - len(source[markup.resume :].lstrip())
        boundary_at = graphemes.last_boundary(source, visible, markup.resume)
        if measurer.source_size(source[boundary_at : visible + 1]) <= measurer.limit:
            visible = boundary_at  # a space that carries a mark is none
        space = source[markup.resume : visible]
        if visible == len(source) or (space.strip(" \t\r\n") and not (point.leaf and point.leaf.is_code)):
            return visible
        in_fence = markup.closed and markup.opening.shown and not markup.opening.styles
        no_room = measurer.source_size(markup.opening.text + space) + measurer.max_character_size > measurer.limit
        return visible if no_room and not in_fence else markup.resume

    def _cannot_change_text(self, point: CutPoint) -> bool:
        """Whether nothing around the place could change its meaning, so that it need not be parsed again."""
        if point.containers or point.styles or self.ahead.hides_wrapper:
            return False
        leaf = point.leaf
        if leaf is None:
            return True
        if leaf.kind in ("fence", "table"):
            return point.begins_line
        source = self.ahead.source
        return leaf.kind == "paragraph" and source[point.at] not in BLOCK_STARTERS and source[point.end - 1] != "\\"

    def _keeps_text(self, point: CutPoint, markup: CutMarkup) -> bool:
        ahead = self.ahead
        before = styled_text(ahead.source[: point.end] + markup.closed, ahead.base, ahead.parse_from)
        context = markup.opening.context
        after = styled_text(context + ahead.source[markup.resume :], len(context))
        return merge(before, after) == self._whole_text

    @cached_property
    def _whole_text(self) -> StyledText:
        return merge(styled_text(self.ahead.source, self.ahead.base, self.ahead.parse_from))

    def _keeps_code_lines(self, cut: TextCut) -> bool:
        """In code a line end is taken however little it leaves, unless the next line is longer than a part."""
        ahead = self.ahead
        leaf = ahead.code_at(cut.end + ahead.base)
        if leaf is None or ahead.hides_wrapper:
            return False
        has_ended = leaf.kind == "indented" or leaf.content_end < leaf.end
        if has_ended and leaf.end <= ahead.max_end:
            return False  # the text goes on after the code, where other boundaries may leave more
        return check_long_line(ahead, ahead.cut_point(cut.resume + ahead.base)) is not None

    def _is_balanced(self, cut: TextCut) -> bool:
        return not closing_fence(read_outline(cut.opened + self.ahead.text[: cut.end] + cut.closed))

    def _last_resort(self) -> TextCut:
        """Some cut, always: the text must go on. Without what was opened if need be, then through what is solid."""
        ahead = self.ahead
        for unbreakable in dict.fromkeys((tuple(ahead.unbreakable), ())):
            for opened in dict.fromkeys((ahead.opening.text, "")):
                max_end = ahead.base + ahead.measurer.fitting_length(opened, ahead.text)
                for at in islice(character_positions(ahead, max_end, unbreakable), _MAX_LAST_POSITIONS):
                    if (cut := self._with_any_markup(ahead.cut_point(at), opened)) is not None:
                        return cut
        return self._cut_one_character()

    def _with_any_markup(self, point: CutPoint, opened: str) -> TextCut | None:
        for markup in cut_markups(point) if point.end > self.ahead.base else ():
            cut = None if is_too_wide(self.ahead, markup) else self.build_cut(point, markup, opened)
            if cut is not None and self._is_balanced(cut):
                return cut
        return None

    def _cut_one_character(self) -> TextCut:
        """The smallest step there is: what fits of the text alone, though it tear a cluster larger than a part."""
        ahead = self.ahead
        visible = len(ahead.text) - len(ahead.text.lstrip())
        at = ahead.base + max(ahead.measurer.fitting_length("", ahead.text), visible + 1)
        point = msgspec.structs.replace(ahead.cut_point(at), end=len(ahead.source[:at].rstrip()))
        *_, smallest = cut_markups(point)
        cut = self.build_cut(point, msgspec.structs.replace(smallest, closed=""), "")
        assert cut is not None, "a single character is within every limit that Ruler admits"
        return cut
