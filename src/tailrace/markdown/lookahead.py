"""A window: the text from where a part begins to some way past the limit, and what is known of it.

Owns the facts a cut is judged by: what is code, what is solid, what is open at a place, what has surely ended. It
decides nothing; `boundaries` proposes places, `objections` speaks against them, `cutting` chooses.
"""

from __future__ import annotations

import re
from functools import cached_property

from tailrace.markdown.containers import Container, read_containers
from tailrace.markdown.cut_markup import CutPoint, Opening
from tailrace.markdown.dialects import Measurer
from tailrace.markdown.emphasis import closers, unclosed_runs
from tailrace.markdown.graphemes import skip_spaces
from tailrace.markdown.outline import Block, read_outline

_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"`*|\\^{}]+")


class Lookahead:
    """A part's text so far behind what the part opens, as parsed.

    `final` says that no more text will come; `exhausted`, that no more may be waited for. `base` is where the
    text begins in `source`, after the opening; all offsets here count in `source`. Where a top-level block is
    known to begin, at the `anchor`, what is before it need not be parsed, and places before it are no better.
    """

    def __init__(
        self, text: str, opening: Opening, measurer: Measurer, *, final: bool, exhausted: bool, parse_from: int = 0
    ) -> None:
        self.opening = opening
        self.measurer = measurer
        self.final = final
        self.must_decide = final or exhausted
        self.base = len(opening.context)
        self.parse_from = parse_from
        self.first_cut = self.base + parse_from
        self.source = opening.context + text
        self._text_end = len(self.source)  # of the text itself, before what is read behind it
        if exhausted and not final:
            self._drop_half_delimiter()
        self.outline = read_outline(self.source, parse_from)
        self.last_line = self.source.rfind("\n") + 1
        self._containers_of: dict[tuple[int, ...], tuple[Container, ...]] = {}
        self._movable: dict[tuple[int, int], bool] = {}
        self.min_size = -(-measurer.limit // 3)  # a part less full than a third is a bad part
        if exhausted and not final:
            self._close_open_styles()

    @property
    def text(self) -> str:
        """The text without what the part opens, and without what is only read behind it."""
        return self.source[self.base : self._text_end]

    @cached_property
    def fitting_length(self) -> int:
        """How many characters of the text fit, additions aside; the same for all windows of a part."""
        return self.measurer.fitting_length(self.opening.text, self.text)

    @cached_property
    def max_end(self) -> int:
        """How far the text fits, additions aside."""
        max_end = self.base + self.fitting_length
        row_end = self.source.find("\n", self.base)
        return min(max_end, row_end) if self.opening.in_row and row_end >= 0 else max_end

    @property
    def hides_wrapper(self) -> bool:
        """Whether the part stands in code or a table without showing it, for want of room."""
        return self.opening.hidden is not None

    @cached_property
    def kept_styles(self) -> tuple[str, ...]:
        """The styles of the opening, less those whose paragraph turned out to end without a closer."""
        if not self.opening.styles:
            return ()
        unmatched = set(self.outline.unmatched)
        at = self.base - sum(map(len, self.opening.styles))
        leaves = (block for block in self.outline.blocks if block.start <= at < block.end and not block.is_container)
        paragraph = next(leaves, None)
        if paragraph is not None and not self.paragraph_ended(paragraph):
            return self.opening.styles
        kept = []
        for style in self.opening.styles:
            if unmatched.isdisjoint(range(at, at + len(style))):
                kept.append(style)
            at += len(style)
        return tuple(kept)

    def _drop_half_delimiter(self) -> None:
        """A delimiter at the very end may be half of a closer, which is another closer; the cut is far before it."""
        beyond = self.source[self.max_end + 1 :].rstrip(" \t\r\n*_~`[<\\")
        if beyond.strip():
            self.source = self.source[: self.max_end + 1] + beyond
            self._text_end = len(self.source)

    def _close_open_styles(self) -> None:
        """No more may be waited for: read the text as if every style still open were closed at its end."""
        leaf = next((block for block in reversed(self.outline.blocks) if block.kind == "paragraph"), None)
        if leaf is None or self.paragraph_ended(leaf):
            return
        # A closer matches the last opener of its kind, so of several alike only that one is taken as meant.
        last_of_kind = {run.marker: run for run in unclosed_runs(self.outline, leaf.start, len(self.source))}
        open_styles = sorted(last_of_kind.values(), key=lambda run: run.start)
        self._text_end = len(self.source.rstrip())
        while open_styles:
            source = self.source[: self._text_end] + closers(open_styles)
            outline = read_outline(source, self.parse_from)
            still_loose = {run for run in open_styles if run.start in outline.unmatched}
            if not still_loose:
                self.source, self.outline = source, outline
                return
            open_styles = [run for run in open_styles if run not in still_loose]

    def paragraph_ended(self, block: Block) -> bool:
        """Whether a whole line after the paragraph is known, and so known not to belong to it."""
        end_of_line = self.source.find("\n", block.end - 1) + 1
        return self.final or 0 < end_of_line < self.last_line

    def has_ended(self, block: Block) -> bool:
        """Whether more text can no longer make the block longer."""
        return self.final or (block.end <= self.last_line and block.end < len(self.source))

    def is_movable(self, block: Block) -> bool:
        """Whether the block fits a part alone, and the text before it fills one well enough."""
        movable = self._movable.get((block.start, block.end))
        if movable is None:
            before = self.source[self.base : block.start].rstrip(" \t\r\n>")
            movable = self.measurer.fits(self.source[block.start : block.end].strip())
            movable = movable and self.measurer.size(self.opening.text + before) >= self.min_size
            self._movable[block.start, block.end] = movable
        return movable

    @cached_property
    def _codes(self) -> list[Block]:
        return [block for block in self.outline.blocks if block.is_code]

    def code_at(self, at: int) -> Block | None:
        """The code block that reaches over a place."""
        return next((block for block in self._codes if block.start < at < block.end), None)

    @cached_property
    def unbreakable(self) -> list[tuple[int, int]]:
        """What may not be cut because it fits a part alone: links, code spans, addresses, escapes. Last first."""
        addresses = [
            found.span() for found in _ADDRESS.finditer(self.source, self.base) if not self.code_at(found.start() + 1)
        ]
        spans = self.outline.unbreakable + addresses
        return sorted((span for span in spans if self.measurer.fits(self.source[slice(*span)])), reverse=True)

    @cached_property
    def lines(self) -> list[tuple[int, bool]]:
        """Where lines begin up to the limit, each with whether a blank line is before it; in code none is blank."""
        source, max_end = self.source, self.max_end
        starts: list[tuple[int, bool]] = []
        at, after_blank = self.first_cut, self.parse_from > 0
        ink = at  # where the last visible character before the line ends
        while at < len(source) and ink <= max_end:
            end = source.find("\n", at) + 1 or len(source)
            line = source[at:end]
            in_code = self.code_at(at) is not None
            if at > self.base and (in_code or line.strip(" \t>\r\n")):
                starts.append((at, after_blank and not in_code))
            after_blank = line.isspace()
            ink = ink if after_blank else at + len(line.rstrip())
            at = end
        return starts

    def is_prefix(self, at: int) -> bool:
        """Whether nothing stands before the place on its line but indentation and quote marks."""
        line = self.source.rfind("\n", 0, at) + 1
        return not self.source[line:at].strip(" \t>")

    def line_end(self, at: int) -> int:
        """Where the line ends that the place is on; -1 if its end is not known yet."""
        return self.source.find("\n", at)

    def _containers(self, blocks: list[Block]) -> tuple[Container, ...]:
        starts = tuple(block.start for block in blocks)
        found = self._containers_of.get(starts)
        if found is None:
            found = self._containers_of[starts] = read_containers(self.source, blocks)
        return found

    def cut_point(self, at: int) -> CutPoint:
        """A place and what is open there. In code the line end stays with its line; elsewhere it is whitespace."""
        in_code = self.code_at(at) is not None and not self.hides_wrapper
        end = at if in_code else len(self.source[:at].rstrip())
        around = [block for block in self.outline.blocks if block.start < end and block.end > at]
        content = skip_spaces(self.source, at)
        return CutPoint(
            source=self.source,
            end=end,
            at=at,
            leaf=next((block for block in reversed(around) if not block.is_container), None),
            containers=self._containers([block for block in around if block.is_container]),
            styles=tuple(s.marker for s in self.outline.styles if s.start < end and s.end > at),
            item_follows=any(b.kind == "item" and at <= b.start <= content for b in self.outline.blocks),
        )
