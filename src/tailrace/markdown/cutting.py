"""Decide where to cut a text that is longer than a part.

The result is one of three. A `TextCut` is a cut, and a `NoCut` is the reason why there is none yet. An `Opening` means:
the part opens a style again that its text never closes, so decide again without that style.

The decision depends only on the lookahead (a `Lookahead`), and the lookahead only on the text (see `splitter`). So the
parts never depend on how the text arrived.

Positions are tried from the best kind of boundary to the worst, and within one kind from the last that fits. A cut is
allowed if no rule of `cut_rules` forbids it, and if both sides, parsed alone, read as they did together. This test
finds all the ways in which the rest of a text can turn into a list, a heading or a closing fence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

import msgspec

from tailrace.markdown import graphemes
from tailrace.markdown.boundaries import Boundary, character_positions, cut_positions
from tailrace.markdown.containers import line_prefix, read_containers
from tailrace.markdown.cut_markup import NO_OPENING, CutMarkup, CutPoint, Opening, cut_markups, fence_marker
from tailrace.markdown.cut_rules import BLOCK_STARTERS, NoCut, best_markup, check_long_line, check_rules, is_too_wide
from tailrace.markdown.lookahead import Lookahead
from tailrace.markdown.outline import Outline, read_outline
from tailrace.markdown.same_reading import StyledText, merge, styled_text

# How many positions of one kind are tried, and how many of them may fail because the text would change.
_MAX_POSITIONS = 256
_MAX_PARSES = 8
_MAX_LAST_POSITIONS = 32  # how many positions the last resort tries for each opening


class TextCut(msgspec.Struct, frozen=True, kw_only=True):
    """A decided cut: this part has the text up to `end`, the next part begins at `resume`.

    Both are offsets in the text of the lookahead. `opened` and `closed` are the markup that was added at the beginning
    and the end of this part, `opening` is that of the next part. `size` is the rendered size of this part.
    """

    end: int
    resume: int
    opened: str
    closed: str
    opening: Opening
    size: int


def decide(ahead: Lookahead) -> TextCut | Opening | NoCut:
    """Choose the cut for a text that exceeds the limit. An `Opening` means: decide again with this opening."""
    if ahead.kept_styles != ahead.opening.styles:
        return msgspec.structs.replace(ahead.opening, styles=ahead.kept_styles)
    return _CutSearch(ahead).decide()


def take_whole(ahead: Lookahead) -> TextCut | Opening | None:
    """Take all of the text as the last part.

    None means that it does not fit. An `Opening` means: try again with this opening.
    """
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
    """Cut the text at the offset `at`; None if `at` is inside code or the text before it does not fit."""
    point = ahead.cut_point(ahead.base + at)
    if point.leaf and point.leaf.is_code:
        return None
    return _CutSearch(ahead).build_cut(point, best_markup(ahead, point))


def closing_fence(outline: Outline) -> str:
    """The line that closes a code fence that is still open at the end of the text; "" if no fence is open."""
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
    """The search for one cut. `fallback` is a cut that is used only if there is no better one.

    With `fallback`, people would read the text differently, but no code fence stays open.
    """

    def __init__(self, ahead: Lookahead) -> None:
        self.ahead = ahead
        self.fallback: TextCut | None = None

    def decide(self) -> TextCut | NoCut:
        best: TextCut | None = None
        for boundary in Boundary:
            found = self._last_allowed(boundary)
            if found is NoCut.NEED_MORE:
                return found
            if isinstance(found, NoCut):
                continue
            if found.size >= self.ahead.min_size or self._keeps_code_lines(found):
                return found
            if best is None or found.size > best.size:
                best = found
        if best is None and not self.ahead.must_decide:
            return NoCut.NEED_MORE
        return best or self.fallback or self._last_resort()

    def _last_allowed(self, boundary: Boundary) -> TextCut | NoCut:
        changed = 0
        for at in islice(cut_positions(self.ahead, boundary), _MAX_POSITIONS):
            found = self._try(at, boundary)
            if isinstance(found, TextCut) or found is NoCut.NEED_MORE:
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
        """Build the cut at a point; None if the part before it does not fit. `opened` replaces its opening."""
        ahead = self.ahead
        opened = ahead.opening.text if opened is None else opened
        reopened = point.leaf is not None and point.leaf.kind == "fence" and point.leaf.start < ahead.base
        closed = "" if reopened and opened != ahead.opening.context else markup.closed
        text = opened + ahead.source[ahead.base : point.end] + closed
        size = ahead.measurer.size(text)
        if size > ahead.measurer.limit or self._is_blank(point, opened):
            return None
        return TextCut(
            end=point.end - ahead.base,
            resume=self._resume(point, markup) - ahead.base,
            opened=opened,
            closed=closed,
            opening=markup.opening,
            size=size,
        )

    def _is_blank(self, point: CutPoint, opened: str) -> bool:
        """Whether a part up to the point would show nothing of the source. Blank lines of a shown fence are shown."""
        in_fence = point.leaf is not None and point.leaf.kind == "fence" and bool(opened)
        return not in_fence and not self.ahead.source[self.ahead.base : point.end].strip()

    def _resume(self, point: CutPoint, markup: CutMarkup) -> int:
        """Where the next part begins: after the whitespace at the cut.

        Its indentation is kept, unless so little room would be left that not even one character fits.
        """
        source, measurer = self.ahead.source, self.ahead.measurer
        visible = len(source) - len(source[markup.resume :].lstrip())
        boundary_at = graphemes.last_boundary(source, visible, markup.resume)
        if measurer.source_size(source[boundary_at : visible + 1]) <= measurer.limit:
            visible = boundary_at  # a space with a combining mark is visible
        space = source[markup.resume : visible]
        if visible == len(source) or (space.strip(" \t\r\n") and not (point.leaf and point.leaf.is_code)):
            return visible
        in_fence = markup.closed and markup.opening.shown and not markup.opening.styles
        no_room = measurer.source_size(markup.opening.text + space) + measurer.max_character_size > measurer.limit
        return visible if no_room and not in_fence else markup.resume

    def _cannot_change_text(self, point: CutPoint) -> bool:
        """Whether it is clear without parsing that people read the same text after a cut at this point."""
        if point.containers or point.styles or self.ahead.hides_wrapper:
            return False
        leaf = point.leaf
        if leaf is None:
            return True
        if leaf.kind in ("fence", "table"):
            return point.begins_line
        source = self.ahead.source
        if leaf.kind != "paragraph" or source[point.at] in BLOCK_STARTERS or source[point.end - 1] == "\\":
            return False
        line = source[source.rfind("\n", 0, point.end) + 1 : point.end].lstrip(" \t")
        return point.begins_line or not line.startswith(
            "```"
        )  # a backtick after the cut may show that this is no fence

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
        """Whether to accept a cut at this line end in code although the part is short.

        True if the next line fits into a part: it is better to keep that line whole than to fill this part.
        """
        ahead = self.ahead
        leaf = ahead.code_at(cut.end + ahead.base)
        if leaf is None or ahead.hides_wrapper:
            return False
        has_ended = leaf.kind == "indented" or leaf.content_end < leaf.end
        if has_ended and leaf.end <= ahead.max_end:
            return False  # the code ends within the part: a boundary after it may fill the part better
        return check_long_line(ahead, ahead.cut_point(cut.resume + ahead.base)) is not None

    def _is_balanced(self, cut: TextCut) -> bool:
        return not closing_fence(read_outline(cut.opened + self.ahead.text[: cut.end] + cut.closed))

    def _last_resort(self) -> TextCut:
        """Cut between two characters, because the rules forbid every cut.

        If even that is not possible, drop the markup at the beginning of the part, or cut a link or a code span.
        """
        ahead = self.ahead
        for unbreakable in dict.fromkeys((tuple(ahead.unbreakable), ())):
            for opened in dict.fromkeys((ahead.opening.text, "")):
                max_end = ahead.base + ahead.measurer.fitting_length(opened, ahead.text)
                for at in self._last_positions(max_end, unbreakable):
                    if (cut := self._with_any_markup(ahead.cut_point(at), opened)) is not None:
                        return cut
        return self._cut_one_character()

    def _last_positions(self, max_end: int, unbreakable: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The last characters that fit, then a place inside three backticks: cut later, they could open a fence."""
        ahead = self.ahead
        yield from islice(character_positions(ahead, max_end, unbreakable), _MAX_LAST_POSITIONS)
        leaf = ahead.cut_point(max_end).leaf
        if leaf is not None and leaf.kind == "paragraph" and ahead.source.startswith("```", leaf.start):
            yield leaf.start + 2

    def _with_any_markup(self, point: CutPoint, opened: str) -> TextCut | None:
        for markup in cut_markups(point) if point.end > self.ahead.base else ():
            cut = None if is_too_wide(self.ahead, markup) else self.build_cut(point, markup, opened)
            if cut is not None and self._is_balanced(cut):
                return cut
        return None

    def _cut_one_character(self) -> TextCut:
        """Take as much text as fits, and add no markup at all.

        Takes at least one code point, even if that cuts a visible character such as a flag in two.
        """
        ahead = self.ahead
        visible = len(ahead.text) - len(ahead.text.lstrip())
        at = ahead.base + max(ahead.measurer.fitting_length("", ahead.text), visible + 1)
        point = msgspec.structs.replace(ahead.cut_point(at), end=len(ahead.source[:at].rstrip()))
        *_, smallest = cut_markups(point)
        cut = self.build_cut(point, msgspec.structs.replace(smallest, closed=""), "")
        assert cut is not None, "one code point fits every limit that Measurer accepts"
        return cut
