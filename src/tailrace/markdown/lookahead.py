"""The text from which a cut is decided, parsed. It begins where a part begins, and ends somewhere after the limit.

This module owns the facts about this text: what is code, what must not be cut, what is open at a position, which blocks
have ended. It decides nothing: `boundaries` proposes positions, `cut_rules` forbids some of them, `cutting` chooses.
"""

from __future__ import annotations

import re
from functools import cached_property

from tailrace.markdown.containers import Container, read_containers
from tailrace.markdown.cut_markup import CutPoint, Opening
from tailrace.markdown.dialects import Measurer
from tailrace.markdown.emphasis import closers, unclosed_runs
from tailrace.markdown.graphemes import skip_spaces
from tailrace.markdown.outline import OutlineBlock, read_outline

_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"`*|\\^{}]+")


class Lookahead:
    """The text from which the next cut is decided, parsed together with the `opening` of the part.

    `final`: no more text will come. `exhausted`: the lookahead has its largest size, so the decision cannot wait for
    more text. `source` is the opening and then the text. All offsets count from the start of `source`, and the text
    begins at `base`. The caller has found a top-level block that begins at `parse_from` in the text: the text before it
    is not parsed, because no position there is a better cut.
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
        self._text_end = len(self.source)  # the closers after it are only for the parser
        if exhausted and not final:
            self._drop_half_delimiter()
        self.outline = read_outline(self.source, parse_from)
        self.last_line = self.source.rfind("\n") + 1
        self._containers_of: dict[tuple[int, ...], tuple[Container, ...]] = {}
        self._movable: dict[tuple[int, int], bool] = {}
        self.min_size = -(-measurer.limit // 3)  # a part should be at least a third full
        if exhausted and not final:
            self._close_open_styles()

    @property
    def text(self) -> str:
        """The text alone, without the markup that was added before and after it for the parser."""
        return self.source[self.base : self._text_end]

    @cached_property
    def fitting_length(self) -> int:
        """How many characters of the text fit into the part, if the cut adds no markup.

        The value is the same for every lookahead of one part, so the splitter passes it on.
        """
        return self.measurer.fitting_length(self.opening.text, self.text)

    @cached_property
    def max_end(self) -> int:
        """The largest offset at which the part may end, if the cut adds no markup."""
        max_end = self.base + self.fitting_length
        row_end = self.source.find("\n", self.base)
        return min(max_end, row_end) if self.opening.in_row and row_end >= 0 else max_end

    @property
    def hides_wrapper(self) -> bool:
        """Whether the part begins inside code or a table, and does not show the fence or the header.

        That is so if the fence or the header is too long for a part.
        """
        return self.opening.hidden is not None

    @cached_property
    def kept_styles(self) -> tuple[str, ...]:
        """The styles that the beginning of the part opens again and that its text closes, or may still close.

        The other styles must not be opened again, because they would stay open.
        """
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
        """Drop delimiters at the end of the text, because they may be incomplete: half of `**` would close `*`.

        This does not affect the cut, which is before that place.
        """
        beyond = self.source[self.max_end + 1 :].rstrip(" \t\r\n*_~`[<\\")
        if beyond.strip():
            self.source = self.source[: self.max_end + 1] + beyond
            self._text_end = len(self.source)

    def _close_open_styles(self) -> None:
        """Parse the text as if all open styles were closed at its end.

        The decision cannot wait for the text that closes them, so this assumes that it will come.
        """
        leaf = next((block for block in reversed(self.outline.blocks) if block.kind == "paragraph"), None)
        if leaf is None or self.paragraph_ended(leaf):
            return
        # A closer matches the last opener of its kind, so only the last one of each kind is closed.
        last_of_kind = {run.marker: run for run in unclosed_runs(self.outline, leaf.start, len(self.source))}
        open_styles = sorted(last_of_kind.values(), key=lambda run: run.start)
        self._text_end = len(self.source.rstrip())
        while open_styles:
            source = self.source[: self._text_end] + closers(open_styles)
            outline = read_outline(source, self.parse_from)
            still_open = {run for run in open_styles if run.start in outline.unmatched}
            if not still_open:
                self.source, self.outline = source, outline
                return
            open_styles = [run for run in open_styles if run not in still_open]

    def paragraph_ended(self, block: OutlineBlock) -> bool:
        """Whether the text has a complete line after the paragraph, so that the paragraph cannot continue."""
        end_of_line = self.source.find("\n", block.end - 1) + 1
        return self.final or 0 < end_of_line < self.last_line

    def has_ended(self, block: OutlineBlock) -> bool:
        """Whether later text can no longer become a part of the block."""
        return self.final or (block.end <= self.last_line and block.end < len(self.source))

    def is_movable(self, block: OutlineBlock) -> bool:
        """Whether the whole block can move to the next part.

        That is so if the block fits into one part, and if the text before it fills at least a third of this part.
        """
        movable = self._movable.get((block.start, block.end))
        if movable is None:
            before = self.source[self.base : block.start].rstrip(" \t\r\n>")
            movable = self.measurer.fits(self.source[block.start : block.end].strip())
            movable = movable and self.measurer.size(self.opening.text + before) >= self.min_size
            self._movable[block.start, block.end] = movable
        return movable

    @cached_property
    def _code_blocks(self) -> list[OutlineBlock]:
        return [block for block in self.outline.blocks if block.is_code]

    def code_at(self, at: int) -> OutlineBlock | None:
        """The code block that contains the offset, or None."""
        return next((block for block in self._code_blocks if block.start < at < block.end), None)

    @cached_property
    def unbreakable(self) -> list[tuple[int, int]]:
        """The ranges of links, code spans, addresses and escapes that must not be cut. The last one comes first.

        Those that are longer than a part are left out, because they have to be cut.
        """
        addresses = [
            found.span() for found in _ADDRESS.finditer(self.source, self.base) if not self.code_at(found.start() + 1)
        ]
        spans = self.outline.unbreakable + addresses
        return sorted((span for span in spans if self.measurer.fits(self.source[slice(*span)])), reverse=True)

    @cached_property
    def line_starts(self) -> list[tuple[int, bool]]:
        """The offsets of the lines at which the next part can begin, because the text before them fits.

        True marks a line after a blank line; inside code it is always False.
        """
        source, max_end = self.source, self.max_end
        starts: list[tuple[int, bool]] = []
        at, after_blank = self.first_cut, self.parse_from > 0
        visible_end = at  # the end of the last visible character before the line
        while at < len(source) and visible_end <= max_end:
            end = source.find("\n", at) + 1 or len(source)
            line = source[at:end]
            in_code = self.code_at(at) is not None
            if at > self.base and (in_code or line.strip(" \t>\r\n")):
                starts.append((at, after_blank and not in_code))
            after_blank = line.isspace()
            visible_end = visible_end if after_blank else at + len(line.rstrip())
            at = end
        return starts

    def is_prefix(self, at: int) -> bool:
        """Whether only indentation and quote marks are before the offset in its line."""
        line = self.source.rfind("\n", 0, at) + 1
        return not self.source[line:at].strip(" \t>")

    def line_end(self, at: int) -> int:
        """The offset of the end of the line that contains `at`; -1 if its end has not arrived yet."""
        return self.source.find("\n", at)

    def _containers(self, blocks: list[OutlineBlock]) -> tuple[Container, ...]:
        starts = tuple(block.start for block in blocks)
        found = self._containers_of.get(starts)
        if found is None:
            found = self._containers_of[starts] = read_containers(self.source, blocks)
        return found

    def cut_point(self, at: int) -> CutPoint:
        """Make the cut point for this offset.

        In code, the line end before the offset stays in the part before. Elsewhere, whitespace before the offset is
        left out.
        """
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
