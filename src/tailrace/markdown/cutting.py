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
from tailrace.markdown.boundaries import Kind, boundaries, hard_places
from tailrace.markdown.containers import containers, continuing
from tailrace.markdown.cut_rules import BLOCK_STARTERS, NEED_MORE, Verdict, long_line, narrow_seam, objection, too_wide
from tailrace.markdown.outline import Outline, read_outline
from tailrace.markdown.reopening import NOTHING, Opening, Place, Seam, fence_marker, seams
from tailrace.markdown.same_reading import Said, meaning, merged
from tailrace.markdown.window import Window

# How far to look back for a lawful cut of one kind: so many places, and so many of them by parsing both sides.
_PLACES = 256
_PARSES = 8
_LAST_PLACES = 32  # when no cut is lawful, each of these is parsed


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The decision: the slice ends at `end`, the next begins at `resume`, both counted in the window's text."""

    end: int
    resume: int
    opened: str
    closed: str
    opening: Opening
    size: int


def decide(window: Window) -> Cut | Opening | Verdict:
    """Cut the window's text, or say what is missing."""
    if window.kept_styles != window.opening.styles:
        return msgspec.structs.replace(window.opening, styles=window.kept_styles)
    return _Cutting(window).decide()


def whole(window: Window) -> Cut | Opening | None:
    """All of a complete text as one part; None where it must be cut after all."""
    opening = window.opening
    if window.kept_styles != opening.styles:
        return msgspec.structs.replace(opening, styles=window.kept_styles)
    text = window.text.rstrip()
    if opening.one_row and "\n" in text:
        return None
    shown = opening.text + text
    as_parsed = not window.hides_wrapper and text == window.text.rstrip(" \t\r\n")
    closed = closing_fence(window.outline if as_parsed else read_outline(shown))
    size = window.measurer.size(shown + closed)
    if size > window.measurer.limit:
        return None
    return Cut(end=len(text), resume=len(window.text), opened=opening.text, closed=closed, opening=NOTHING, size=size)


def cut_outside_code(window: Window, at: int) -> Cut | None:
    """The cut at one place of the window's text, unless it is inside code or does not fit."""
    place = window.place(window.base + at)
    if place.leaf and place.leaf.is_code:
        return None
    return _Cutting(window).mend(place, narrow_seam(window, place))


def closing_fence(read: Outline) -> str:
    """What closes the fence that is still open at the end of a text; nothing if none is."""
    source = read.source.rstrip()
    fence = next((block for block in reversed(read.blocks) if block.kind == "fence"), None)
    if fence is None or fence.end < len(source):
        return ""
    before_last, line_end, last = source[fence.start : fence.end].rpartition("\n")
    marker = fence_marker(source, fence)
    is_code = fence.content_end > fence.start + len(before_last) + 1
    if line_end and not is_code and last.strip(" \t>\r").startswith(marker):
        return ""
    around = [block for block in read.blocks if block.holds and block.start <= fence.start < block.end]
    return "\n" + continuing(containers(source, around)) + marker


class _Cutting:
    """The search for the cut of one window; `fallback` is the first place that only changed what is said."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.fallback: Cut | None = None

    def decide(self) -> Cut | Verdict:
        best: Cut | None = None
        for kind in Kind:
            found = self._last_lawful(kind)
            if found is NEED_MORE:
                return found
            if isinstance(found, Verdict):
                continue
            if found.size >= self.window.least or self._keeps_code_lines(found):
                return found
            if best is None or found.size > best.size:
                best = found
        if best is None and not self.window.settled:
            return NEED_MORE
        return best or self.fallback or self._anywhere()

    def _last_lawful(self, kind: Kind) -> Cut | Verdict:
        changed = 0
        for at in islice(boundaries(self.window, kind), _PLACES):
            found = self._try(at, kind)
            if isinstance(found, Cut) or found is NEED_MORE:
                return found
            changed += found is Verdict.CHANGED
            if changed == _PARSES:
                break
        return Verdict.UNLAWFUL

    def _try(self, at: int, kind: Kind) -> Cut | Verdict:
        place = self.window.place(at)
        if place.end <= self.window.base:
            return Verdict.UNLAWFUL
        if (verdict := objection(self.window, place, kind)) is not None:
            return verdict
        seam = narrow_seam(self.window, place)
        if (cut := self.mend(place, seam)) is None:
            return Verdict.UNLAWFUL
        if self._plainly_same(place) or self._same_meaning(place, seam):
            return cut
        if self.fallback is None and self._balanced(cut):
            self.fallback = cut
        return Verdict.CHANGED

    def mend(self, place: Place, seam: Seam, opened: str | None = None) -> Cut | None:
        """The cut at a place with a seam, behind what the part opens or less of it; None where it does not fit."""
        window = self.window
        opened = window.opening.text if opened is None else opened
        reopened = place.leaf is not None and place.leaf.kind == "fence" and place.leaf.start < window.base
        closed = "" if reopened and opened != window.opening.context else seam.closed
        text = opened + window.source[window.base : place.end] + closed
        size = window.measurer.size(text)
        if size > window.measurer.limit or not text.strip():
            return None
        return Cut(
            end=place.end - window.base,
            resume=self._resume(place, seam) - window.base,
            opened=opened,
            closed=closed,
            opening=seam.opening,
            size=size,
        )

    def _resume(self, place: Place, seam: Seam) -> int:
        """Where the next slice begins: past indentation that leaves no room, and past whitespace that is none."""
        source, measurer = self.window.source, self.window.measurer
        ink = len(source) - len(source[seam.resume :].lstrip())
        border = graphemes.last_boundary(source, ink, seam.resume)
        if measurer.source_size(source[border : ink + 1]) <= measurer.limit:
            ink = border  # a space that carries a mark is none
        space = source[seam.resume : ink]
        if ink == len(source) or (space.strip(" \t\r\n") and not (place.leaf and place.leaf.is_code)):
            return ink
        in_fence = seam.closed and seam.opening.shown and not seam.opening.styles
        no_room = measurer.source_size(seam.opening.text + space) + measurer.max_character_size > measurer.limit
        return ink if no_room and not in_fence else seam.resume

    def _plainly_same(self, place: Place) -> bool:
        """Whether nothing around the place could change its meaning, so that it need not be parsed again."""
        if place.around or place.styles or self.window.hides_wrapper:
            return False
        leaf = place.leaf
        if leaf is None:
            return True
        if leaf.kind in ("fence", "table"):
            return place.begins_line
        source = self.window.source
        return leaf.kind == "paragraph" and source[place.at] not in BLOCK_STARTERS and source[place.end - 1] != "\\"

    def _same_meaning(self, place: Place, seam: Seam) -> bool:
        window = self.window
        before = meaning(window.source[: place.end] + seam.closed, window.base, window.anchor)
        context = seam.opening.context
        after = meaning(context + window.source[seam.resume :], len(context))
        return merged(before, after) == self._meaning

    @cached_property
    def _meaning(self) -> Said:
        return merged(meaning(self.window.source, self.window.base, self.window.anchor))

    def _keeps_code_lines(self, cut: Cut) -> bool:
        """In code a line end is taken however little it leaves, unless the next line is longer than a part."""
        window = self.window
        leaf = window.code_at(cut.end + window.base)
        if leaf is None or window.hides_wrapper:
            return False
        ended = leaf.kind == "indented" or leaf.content_end < leaf.end
        if ended and leaf.end <= window.furthest:
            return False  # the text goes on after the code, where other boundaries may leave more
        return long_line(window, window.place(cut.resume + window.base)) is not None

    def _balanced(self, cut: Cut) -> bool:
        return not closing_fence(read_outline(cut.opened + self.window.text[: cut.end] + cut.closed))

    def _anywhere(self) -> Cut:
        """Some cut, always: the text must go on. Without what was opened if need be, then through what is solid."""
        window = self.window
        for solids in dict.fromkeys((tuple(window.solids), ())):
            for opened in dict.fromkeys((window.opening.text, "")):
                furthest = window.base + window.measurer.fitting_length(opened, window.text)
                for at in islice(hard_places(window, furthest, solids), _LAST_PLACES):
                    if (cut := self._some_seam(window.place(at), opened)) is not None:
                        return cut
        return self._character()

    def _some_seam(self, place: Place, opened: str) -> Cut | None:
        for seam in seams(place) if place.end > self.window.base else ():
            cut = None if too_wide(self.window, seam) else self.mend(place, seam, opened)
            if cut is not None and self._balanced(cut):
                return cut
        return None

    def _character(self) -> Cut:
        """The smallest step there is: what fits of the text alone, though it tear a cluster larger than a part."""
        window = self.window
        ink = len(window.text) - len(window.text.lstrip())
        at = window.base + max(window.measurer.fitting_length("", window.text), ink + 1)
        place = msgspec.structs.replace(window.place(at), end=len(window.source[:at].rstrip()))
        *_, least = seams(place)
        cut = self.mend(place, msgspec.structs.replace(least, closed=""), "")
        assert cut is not None, "a single character is within every limit that Ruler admits"
        return cut
