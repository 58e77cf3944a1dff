"""Where to cut: one window of a text in, one decision out.

A window is the text from where the current part begins to some way past the limit. The decision is a `Cut`, or
`NEED_MORE`, or a new `Opening` where styles that were opened again turn out to match nothing. It depends on the
window alone, and the windows depend on the text alone (see `splitter`), so it never depends on how the text came.

Candidates are tried from the best kind of boundary to the worst, and within a kind from the last that fits. A
candidate is lawful if both sides of it still say what they said together: that one test stands in for the many
ways in which a rest can turn into a list, a heading, a closing fence, or code that was none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum
from functools import cached_property
from itertools import islice

import msgspec
import regex

from tailrace.markdown import graphemes
from tailrace.markdown.containers import containers, continuing
from tailrace.markdown.dialects import Ruler
from tailrace.markdown.emphasis import closers, unresolved
from tailrace.markdown.meaning import Said, meaning, merged
from tailrace.markdown.outline import Block, Outline, outline
from tailrace.markdown.reopening import NOTHING, Opening, Place, Seam, fence_marker, seams

# How far to look back for a lawful cut of one kind: so many places, and so many of them by parsing both sides.
_CANDIDATES = 256
_PARSES = 8
_SENTENCE = regex.compile(r"[.!?…]+[\"')\]»”’*_~]*(?=[^\S\n\r])|[。！？｡．]+[」』”’）】]*")
_SPACES = regex.compile(r"[^\S\n\r\u00a0\u202f]+")
_ADDRESS = regex.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"`*|\\^{}]+")
_BARE_MARKER = regex.compile(r"(?:^|\n)[ \t>]*(?:[-+*]|\d{1,9}[.)]|#{1,6})?[ \t]*\Z")

# What a line may begin with to be a block of its own, by how much of it must be seen to tell.
_LINE_STARTERS = tuple("-=*_`~|:<[")
_WORD_STARTERS = tuple("#+>0123456789")


class Kind(IntEnum):
    """The kinds of boundary, best first."""

    BLANK_LINE = 0
    LINE = 1
    SENTENCE = 2
    SPACE = 3
    HARD = 4


class Verdict(Enum):
    """What there is to say of a place other than to cut there."""

    NEED_MORE = "the text so far does not tell yet"
    UNLAWFUL = "not here"
    CHANGED = "here one side would no longer say what it said"


NEED_MORE = Verdict.NEED_MORE


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The decision: the slice ends at `end`, the next begins at `resume`, both counted in the window's text."""

    end: int
    resume: int
    opened: str
    closed: str
    opening: Opening
    size: int


class Window:
    """A part's text so far, with what it opens, to be cut once.

    `final` says that no more text will come; `exhausted`, that no more may be waited for.
    """

    def __init__(self, text: str, opening: Opening, ruler: Ruler, *, final: bool, exhausted: bool) -> None:
        self.opening = opening
        self.ruler = ruler
        self.final = final
        self.settled = final or exhausted
        self.base = len(opening.context)
        self.source = opening.context + text
        self.outline: Outline = outline(self.source)
        self.last_line = self.source.rfind("\n") + 1
        self.third = -(-ruler.limit // 3)
        self.fallback: Cut | None = None

    def decide(self) -> Cut | Opening | Verdict:
        """Cut the text, or say what is missing."""
        if (kept := self._kept_styles()) != self.opening.styles:
            return msgspec.structs.replace(self.opening, styles=kept)
        if self.settled and not self.final:
            self._take_open_styles_as_meant()
        self.furthest = self.base + self.ruler.fitting(self.opening.text, self.source[self.base :])
        if self.opening.one_row:
            self.furthest = min(self.furthest, self.source.find("\n", self.base) % (len(self.source) + 1))
        best: Cut | None = None
        for kind in Kind:
            found = self._last_lawful(kind)
            if isinstance(found, Verdict):
                if found is NEED_MORE:
                    return NEED_MORE
                continue
            if found.size >= self.third or self._keeps_code_lines(found):
                return found
            if best is None or found.size > best.size:
                best = found
        if best is None and not self.settled:
            return NEED_MORE
        return best or self.fallback or self._anywhere()

    def whole(self) -> Cut | Opening | None:
        """All of a complete text as one part; None where it must be cut after all."""
        if (kept := self._kept_styles()) != self.opening.styles:
            return msgspec.structs.replace(self.opening, styles=kept)
        text = self.source[self.base :].rstrip()
        if self.opening.one_row and "\n" in text:
            return None
        shown = self.opening.text + text
        as_parsed = not self._hidden and text == self.source[self.base :].rstrip(" \t\r\n")
        closed = closing_fence(self.outline if as_parsed else outline(shown))
        size = self.ruler.size(shown + closed)
        if size > self.ruler.limit:
            return None
        return Cut(
            end=len(text),
            resume=len(self.source) - self.base,
            opened=self.opening.text,
            closed=closed,
            opening=NOTHING,
            size=size,
        )

    def cut_at(self, at: int) -> Cut | None:
        """The cut at one place, unless it is inside code."""
        place = self._place(self.base + at)
        if place.leaf and place.leaf.kind in ("fence", "indented"):
            return None
        return self._mend(place, self._narrow_seam(place))

    # -- what is open

    def _kept_styles(self) -> tuple[str, ...]:
        """The styles of the opening, less those whose paragraph turned out to end without a closer."""
        if not self.opening.styles:
            return ()
        loose = set(self.outline.loose)
        at = self.base - sum(map(len, self.opening.styles))
        first = next((block for block in self.outline.blocks if block.start <= at < block.end and not _holds(block)), None)
        ended = self.final or first is None or self._paragraph_ended(first)
        kept = []
        for style in self.opening.styles:
            if not (ended and any(place in loose for place in range(at, at + len(style)))):
                kept.append(style)
            at += len(style)
        return tuple(kept)

    def _take_open_styles_as_meant(self) -> None:
        """No more may be waited for: read the text as if every style still open were closed at its end."""
        leaf = next((block for block in reversed(self.outline.blocks) if block.kind == "paragraph"), None)
        if leaf is None or self._paragraph_ended(leaf):
            return
        # A closer matches the last opener of its kind, so of several alike only that one is taken as meant.
        last_of_kind = {run.marker: run for run in unresolved(self.outline, leaf.start, len(self.source))}
        open_styles = sorted(last_of_kind.values(), key=lambda run: run.start)
        while open_styles:
            source = self.source.rstrip() + closers(open_styles)
            read = outline(source)
            still_loose = {run for run in open_styles if run.start in read.loose}
            if not still_loose:
                self.source, self.outline = source, read
                return
            open_styles = [run for run in open_styles if run not in still_loose]

    def _paragraph_ended(self, block: Block) -> bool:
        """Whether a whole line after the paragraph is known, and so known not to belong to it."""
        end_of_line = self.source.find("\n", block.end - 1) + 1
        return self.final or 0 < end_of_line < self.last_line

    def _ended(self, block: Block) -> bool:
        return self.final or (block.end <= self.last_line and block.end < len(self.source))

    # -- candidates

    def _last_lawful(self, kind: Kind) -> Cut | Verdict:
        changed = 0
        for at in islice(self._candidates(kind), _CANDIDATES):
            found = self._try(at, kind)
            changed += found is Verdict.CHANGED
            if changed == _PARSES:
                break
            if isinstance(found, Cut) or found is NEED_MORE:
                return found
        return Verdict.UNLAWFUL

    def _candidates(self, kind: Kind) -> Iterator[int]:
        match kind:
            case Kind.BLANK_LINE | Kind.LINE:
                return (at for at, blank in self._line_starts if blank == (kind is Kind.BLANK_LINE))
            case Kind.SENTENCE:
                return self._after(_SENTENCE)
            case Kind.SPACE:
                return self._after(_SPACES)
            case Kind.HARD:
                return self._borders(self.furthest, self._solids)

    @cached_property
    def _line_starts(self) -> list[tuple[int, bool]]:
        """Where lines begin up to the limit, the last first, each with whether a blank line is before it."""
        starts = []
        at, blank_before = self.base, False
        ink = self.base  # where the last visible character before the line ends
        while True:
            end = self.source.find("\n", at) + 1 or len(self.source)
            line = self.source[at:end]
            blank = not line.strip(" \t>\r\n")
            in_code = self._code_at(at) is not None
            if at > self.base and ink <= self.furthest and (in_code or not blank):
                starts.append((at, blank_before and not in_code))
            ink = at + len(line.rstrip()) if not line.isspace() else ink
            at, blank_before = end, blank
            if at == len(self.source) or ink > self.furthest:
                return starts[::-1]

    def _after(self, pattern: regex.Pattern[str]) -> Iterator[int]:
        places = []
        for found in pattern.finditer(self.source, self.base + 1, min(self.furthest + 1, len(self.source))):
            at = found.end()
            if pattern is _SENTENCE:
                spaces = _SPACES.match(self.source, at)
                at = spaces.end() if spaces else at
            if at < len(self.source) and self.source[at] not in "\r\n":
                places.append(at)
        return reversed(places)

    def _indents(self, at: int) -> bool:
        line = self.source.rfind("\n", 0, at) + 1
        return not self.source[line:at].strip(" \t>")

    def _borders(self, furthest: int, solids: Sequence[tuple[int, int]]) -> Iterator[int]:
        """Where a hard cut could be, the last first: between clusters and outside of what is solid."""
        at = min(furthest, len(self.source) - 1)
        while at > self.base:
            at = graphemes.last_border(self.source, at, self.base)
            for start, end in solids:
                if start < at < end:
                    at = start
            if at > self.base:
                yield at
            at -= 1

    @cached_property
    def _solids(self) -> list[tuple[int, int]]:
        """What may not be cut because it fits a part alone: links, code spans, addresses, escapes. Last first."""
        spans = self.outline.solids + self._addresses()
        return sorted((span for span in spans if self.ruler.fits(self.source[span[0] : span[1]])), reverse=True)

    def _addresses(self) -> list[tuple[int, int]]:
        """The addresses in the text that are no links."""
        return [
            found.span()
            for found in _ADDRESS.finditer(self.source, self.base)
            if not self._code_at(found.start() + 1)
        ]

    @cached_property
    def _codes(self) -> list[Block]:
        return [block for block in self.outline.blocks if block.kind in ("fence", "indented")]

    def _code_at(self, at: int) -> Block | None:
        return next((block for block in self._codes if block.start < at < block.end), None)

    # -- one candidate

    def _try(self, at: int, kind: Kind) -> Cut | Verdict:
        place = self._place(at)
        if place.end <= self.base:
            return Verdict.UNLAWFUL
        verdict = self._objection(place, kind)
        if verdict is not None:
            return verdict
        seam = self._narrow_seam(place)
        cut = self._mend(place, seam)
        if cut is None:
            return Verdict.UNLAWFUL
        if self._plainly_same(place) or self._same_meaning(place, seam):
            return cut
        if self.fallback is None and self._balanced(cut):
            self.fallback = cut
        return Verdict.CHANGED

    def _place(self, at: int) -> Place:
        code = self._code_at(at)
        end = at if code and not self._hidden else len(self.source[:at].rstrip())
        over = [block for block in self.outline.blocks if block.start < end and block.end > at]
        around = containers(self.source, [block for block in over if _holds(block)])
        leaf = next((block for block in reversed(over) if not _holds(block)), None)
        styles = tuple(s.marker for s in self.outline.styles if s.start < end and s.end > at)
        after_prefix = at
        while self.source[after_prefix : after_prefix + 1] in (" ", "\t"):
            after_prefix += 1
        item_follows = any(block.kind == "item" and at <= block.start <= after_prefix for block in self.outline.blocks)
        return Place(
            source=self.source, end=end, at=at, leaf=leaf, around=around, styles=styles, item_follows=item_follows
        )

    @property
    def _hidden(self) -> bool:
        return self.opening.parsed is not None

    def _narrow_seam(self, place: Place) -> Seam:
        """The best seam that adds no more than half of what a part holds."""
        return next(seam for seam in seams(place) if not self._too_wide(seam))

    def _too_wide(self, seam: Seam) -> bool:
        added = self.ruler.source_size(seam.opening.text) + self.ruler.source_size(seam.closed)
        return bool(seam.opening.text) and added * 2 > self.ruler.limit

    def _mend(self, place: Place, seam: Seam, opened: str | None = None) -> Cut | None:
        """The cut at a place with a seam; None where it does not fit."""
        opened = self.opening.text if opened is None else opened
        fence_unseen = self._reopened_fence(place) and opened != self.opening.context
        closed = "" if fence_unseen else seam.closed
        text = opened + self.source[self.base : place.end] + closed
        size = self.ruler.size(text)
        if size > self.ruler.limit or not text.strip():
            return None
        return Cut(
            end=place.end - self.base,
            resume=self._resume(seam) - self.base,
            opened=opened,
            closed=closed,
            opening=seam.opening,
            size=size,
        )

    def _reopened_fence(self, place: Place) -> bool:
        return place.leaf is not None and place.leaf.kind == "fence" and place.leaf.start < self.base

    def _resume(self, seam: Seam) -> int:
        """Where the next slice begins. Indentation that fills a part alone is no indentation, nor is it at the end."""
        ink = seam.resume
        while self.source[ink : ink + 1].isspace():
            ink += 1
        indent = self.ruler.source_size(seam.opening.text + self.source[seam.resume : ink])
        in_fence = seam.closed and seam.opening.shown and not seam.opening.styles
        no_room = indent + self.ruler.widest > self.ruler.limit
        return ink if ink == len(self.source) or (no_room and not in_fence) else seam.resume

    def _objection(self, place: Place, kind: Kind) -> Verdict | None:
        """Why the text may not be cut here, or not yet; None if nothing speaks against it."""
        if not graphemes.is_border(self.source, place.at) or not graphemes.is_border(self.source, place.end):
            return Verdict.UNLAWFUL
        if any(start < place.at and end > place.end for start, end in self._solids):
            return Verdict.UNLAWFUL
        if any(
            place.end <= style.start + len(style.marker) or place.at >= style.end - len(style.marker)
            for style in self.outline.styles
            if style.start < place.end and style.end > place.at
        ):
            return Verdict.UNLAWFUL  # a style around nothing is no style
        if len(set(place.styles)) < len(place.styles):
            return Verdict.UNLAWFUL  # two of a kind, opened again side by side, would be one of another kind
        if kind is Kind.HARD and self.source[place.at].isspace() and not self._code_at(place.at):
            return Verdict.UNLAWFUL
        in_prefix = self._indents(place.at) or _BARE_MARKER.search(self.source[self.base : place.end])
        if in_prefix and not place.begins_line:
            return Verdict.UNLAWFUL
        for check in (self._block_objection, self._moving_objection, self._rest_objection):
            if (verdict := check(place, kind)) is not None:
                return verdict
        return None

    def _block_objection(self, place: Place, kind: Kind) -> Verdict | None:
        leaf, at = place.leaf, place.at
        if leaf is None:
            return None
        if leaf.kind in ("fence", "indented") and not self._hidden:
            if kind is Kind.HARD:
                return self._long_line_objection(place, leaf)
            return self._code_line_objection(leaf, at) if place.begins_line else Verdict.UNLAWFUL
        if leaf.kind == "table":
            head_stays = at <= leaf.body
            if place.begins_line:
                return Verdict.UNLAWFUL if head_stays else None
            return Verdict.UNLAWFUL if head_stays and leaf.start > self.base else self._long_line_objection(place, leaf)
        if leaf.kind == "rule":
            return Verdict.UNLAWFUL
        return None

    def _code_line_objection(self, leaf: Block, at: int) -> Verdict | None:
        """A fence keeps a first line, and the closing fence never stands alone at the start of a part."""
        if leaf.kind == "indented":
            return None
        if at < leaf.body or (at == leaf.body and self.source[self.base : leaf.start].strip(" \t>")):
            return Verdict.UNLAWFUL
        marker = fence_marker(self.source, leaf)
        end = self.source.find("\n", at)
        line = self.source[at : end if end >= 0 else len(self.source)].strip(" \t>\r")
        if line.strip(marker[0]):
            return None
        if end < 0 and not self.settled:
            return NEED_MORE
        return Verdict.UNLAWFUL if len(line) >= len(marker) and at >= leaf.content_end else None

    def _long_line_objection(self, place: Place, leaf: Block) -> Verdict | None:
        """A line of code or a row of a table is cut only if it is longer than a part, and not at its very end."""
        if self.source[place.at] in "\r\n":
            return Verdict.UNLAWFUL
        start = max(self.source.rfind("\n", 0, place.at) + 1, self.base)
        end = self.source.find("\n", place.at)
        line = self.source[start : end if end >= 0 else len(self.source)]
        seam = self._narrow_seam(msgspec.structs.replace(place, at=start, end=start))
        whole = (seam.opening.text if start > self.base else self.opening.text) + line
        if seam.closed:
            whole += "\n" + seam.closed.lstrip("\n")
        if not self.ruler.fits(whole):
            return None
        return Verdict.UNLAWFUL if end >= 0 or self.settled else NEED_MORE

    def _moving_objection(self, place: Place, _kind: Kind) -> Verdict | None:
        """A code block, table or list item that fits a part is moved whole, if that leaves enough here."""
        for block in self.outline.blocks:
            if block.kind not in ("fence", "indented", "table", "item"):
                continue
            if not (self.base < block.start < place.end and block.end > place.at):
                continue
            if not self.ruler.fits(self.source[block.start : block.end].strip()):
                continue
            if self.ruler.size(self.opening.text + self.source[self.base : block.start].rstrip(" \t\r\n>")) < self.third:
                continue
            if self._ended(block):
                return Verdict.UNLAWFUL
            if not self.settled:
                return NEED_MORE
        return None

    def _rest_objection(self, place: Place, kind: Kind) -> Verdict | None:
        """Whether the text says yet what is open here and what the rest will begin as."""
        if self.settled:
            return None
        leaf = place.leaf
        if leaf and leaf.kind in ("paragraph", "heading") and not self._paragraph_ended(leaf):
            if unresolved(self.outline, leaf.start, place.end, also_literal=True):
                return NEED_MORE
        if leaf is None or leaf.kind in ("fence", "indented", "table"):
            # Between blocks the rest is what it is, unless its line has only begun and may yet belong above.
            if kind is not Kind.LINE or place.at < self.last_line:
                return None
        rest = self.source[place.at :]
        rest = rest.lstrip(" \t>") if place.begins_line else rest
        if not rest:
            return NEED_MORE
        if rest[:1] in _LINE_STARTERS:
            return None if "\n" in rest else NEED_MORE
        if rest[:1] in _WORD_STARTERS:
            return None if len(rest.split(maxsplit=1)) > 1 or rest[-1].isspace() else NEED_MORE
        return None

    def _plainly_same(self, place: Place) -> bool:
        """Whether nothing around the place could change its meaning, so that it need not be parsed again."""
        if place.around or place.styles or self._hidden:
            return False
        leaf = place.leaf
        if leaf is None:
            return True
        if leaf.kind in ("fence", "table"):
            return place.begins_line
        return leaf.kind == "paragraph" and self.source[place.at].isalpha() and self.source[place.end - 1] != "\\"

    def _same_meaning(self, place: Place, seam: Seam) -> bool:
        before = meaning(self.source[: place.end] + seam.closed, self.base)
        context = seam.opening.context
        after = meaning(context + self.source[seam.resume :], len(context))
        return merged(before, after) == self._meaning

    @cached_property
    def _meaning(self) -> Said:
        return merged(meaning(self.source, self.base))

    def _keeps_code_lines(self, cut: Cut) -> bool:
        """In code a line end is taken however little it leaves, unless the next line is longer than a part."""
        leaf = self._code_at(cut.end + self.base)
        if leaf is None or self._hidden or leaf.end <= self.furthest:
            return False
        return self._long_line_objection(self._place(cut.resume + self.base), leaf) is not None

    # -- when nothing is lawful

    def _balanced(self, cut: Cut) -> bool:
        text = cut.opened + self.source[self.base : self.base + cut.end] + cut.closed
        return not closing_fence(outline(text))

    def _anywhere(self) -> Cut:
        """Some cut, always: the text must go on. Without what was opened if need be, then through what is solid."""
        for solids in dict.fromkeys((tuple(self._solids), ())):
            for opened in dict.fromkeys((self.opening.text, "")):
                furthest = self.base + self.ruler.fitting(opened, self.source[self.base :])
                for at in islice(self._borders(furthest, solids), _CANDIDATES):
                    place = self._place(at)
                    for seam in seams(place) if place.end > self.base else ():
                        cut = None if self._too_wide(seam) else self._mend(place, seam, opened)
                        if cut is not None and self._balanced(cut):
                            return cut
        return self._character()

    def _character(self) -> Cut:
        """The smallest step there is: what fits of the text alone, though it be half of what a person sees as one."""
        at = self.base + max(self.ruler.fitting("", self.source[self.base :]), 1)
        place = msgspec.structs.replace(self._place(at), end=len(self.source[:at].rstrip()))
        *_, least = seams(place)
        cut = self._mend(place, msgspec.structs.replace(least, closed=""), "")
        assert cut is not None, "a single character is within every limit that Ruler admits"
        return cut


def _holds(block: Block) -> bool:
    return block.kind in ("quote", "item")


def closing_fence(read: Outline) -> str:
    """What closes the fence that is still open at the end of a text; nothing if none is."""
    source = read.source.rstrip()
    fence = next((block for block in reversed(read.blocks) if block.kind == "fence"), None)
    if fence is None or fence.end < len(source):
        return ""
    before_last, line_end, last = source[fence.start : fence.end].rpartition("\n")
    marker = fence_marker(source, fence)
    is_code = fence.content_end > fence.start + len(before_last) + 1
    if line_end and not is_code and not last.strip(" \t>\r").strip(marker[0]):
        return ""
    around = [block for block in read.blocks if _holds(block) and block.start <= fence.start < block.end]
    return "\n" + continuing(containers(source, around)) + marker
