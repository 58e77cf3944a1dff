"""Split a text that arrives in pieces of any size into parts that fit.

This module owns the text that has arrived. As long as there is too little text to decide on a cut, this module decides
how much more text must arrive before `cutting` is asked again. These lengths, and so the parts too, depend only on the
text and not on the pieces in which it arrived.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from tailrace.markdown import graphemes
from tailrace.markdown.cut_markup import NO_OPENING, Opening
from tailrace.markdown.cut_rules import NoCut
from tailrace.markdown.cutting import TextCut, cut_outside_code, decide, take_whole
from tailrace.markdown.dialects import Measurer, shared_measurer, text_size
from tailrace.markdown.fast_scan import TopLevelBreak, last_top_level_break
from tailrace.markdown.lookahead import Lookahead
from tailrace.markdown.part import Part

_BLANK_LINES = re.compile(r"(?<=\S)[^\S\n]*\n\s*\n(?=(\s*\S))")  # the group reaches into the next text
_MARKDOWN_SPACE = " \t\r\n"  # Python counts more characters as space, but Markdown reads those as text
_MIN_ROOM = 8  # characters; one visible character may have that many code points
_SELDOM_SHARE = 16
_FIRST_STEP = 16  # characters; each further step is twice as long


class Splitter:
    """Splits a text that arrives in pieces into parts, each at most `limit` after rendering.

    `feed` returns the parts that later text cannot change any more, `close` returns the rest. The parts do not depend
    on the pieces in which the text was fed. With `lines`, no rendered part has more lines than `lines`. With
    `at_paragraphs`, the text is also cut at each blank line outside code.
    """

    __slots__ = (
        *("_at_paragraphs", "_check_at", "_fitting_length", "_known_to_fit", "_lead", "_length", "_line_broken"),
        *("_lookahead", "_max_lookahead", "_measurer", "_needs_visible", "_opening", "_parse_from", "_pending"),
        *("_scanned", "_start", "_step", "_text"),
    )

    def __init__(
        self,
        limit: int,
        unit: str = "code_points",
        dialect: str = "markdown",
        *,
        lines: int | None = None,
        at_paragraphs: bool = False,
    ) -> None:
        self._measurer = shared_measurer(limit, unit, dialect, lines)
        self._at_paragraphs = at_paragraphs
        self._reset()

    def _reset(self) -> None:
        self._pending: list[str] = []
        self._text = ""
        self._start = 0  # where the current part begins in `_text`
        self._length = 0  # of all text from `_start` on, pending text included
        self._lead: str | None = None  # None until the first visible character
        self._line_broken = False  # a line ended after the last visible character
        self._begin_part(NO_OPENING)

    def _begin_part(self, opening: Opening) -> None:
        self._opening = opening
        self._lookahead = 0  # how much text the next decision needs; 0 until the text exceeds the limit
        self._step = max(_FIRST_STEP, self._measurer.limit // 32)
        self._max_lookahead = 0
        self._known_to_fit = 0  # a length that is known to fit, although a shorter one did not fit
        self._fitting_length: int | None = None  # the length that fits; the first lookahead measures it
        self._parse_from: int | None = None  # a position where a top-level block begins; None until searched
        self._scanned = 0  # blank lines were searched up to here
        self._check_at = 0  # no decision is possible before the text is longer than this
        self._needs_visible = False  # no decision is possible before a visible character arrives

    def feed(self, text: str) -> list[Part]:
        """Take the next piece of the text. Returns the parts that are complete now."""
        self._pending.append(text)
        self._length += len(text)
        if self._at_paragraphs and self._ends_line(text):
            return self._parts(final=False)
        if self._length <= self._check_at or (self._needs_visible and not text.strip()):
            return []
        return self._parts(final=False)

    def _ends_line(self, text: str) -> bool:
        """Whether this piece has a visible character after a line end: a paragraph may have ended at that line end."""
        broken, self._line_broken = self._line_broken, self._line_broken or "\n" in text
        if not text.strip():
            return False
        self._line_broken = "\n" in text[len(text.rstrip()) :]
        return broken or "\n" in text.rstrip()

    def close(self) -> list[Part]:
        """Return the rest of the text. The splitter can then be used again."""
        parts = self._parts(final=True)
        self._reset()
        return parts

    @property
    def is_over_limit(self) -> bool:
        """Whether the text after the last cut exceeds the limit, while the place of the next cut is not decided yet."""
        return self._lookahead > 0

    @property
    def open_text(self) -> str:
        """The text after the last cut. Before it is the markup that the cut added, so that it is valid Markdown."""
        self._join_pending()
        return self._opening.text + self._text[self._start :]

    def cut(self) -> list[Part]:
        """Cut now at the best boundary, although more text would fit; [] if there is no good boundary.

        This is for a caller that cannot wait for more text. So these parts depend on the time of the call too.
        """
        self._join_pending()
        if self._lead is None and not self._take_lead():
            return []
        while True:
            text = self._text[self._start :]
            size = self._measurer.size(self._opening.text + text.rstrip())
            if not text.strip() or size <= self._measurer.max_character_size:
                return []
            measurer = Measurer(min(size - 1, self._measurer.limit), self._measurer.unit, self._measurer.dialect)
            if not measurer.fits(text[: len(text) - len(text.lstrip()) + 1]):
                return []  # the text is one visible character after its indentation
            decision = decide(Lookahead(text, self._opening, measurer, final=False, exhausted=True))
            if isinstance(decision, Opening):
                self._begin_part(decision)
                continue
            return [self._part(decision)] if isinstance(decision, TextCut) and _is_between_words(text, decision) else []

    def _join_pending(self) -> None:
        self._text = self._text[self._start :] + "".join(self._pending)
        self._pending.clear()
        self._start = 0

    def _parts(self, *, final: bool) -> list[Part]:
        self._join_pending()
        if self._lead is None and not self._take_lead():
            return []
        parts = []
        while self._start < len(self._text):
            cut = self._next_cut(final=final)
            if cut is None and final:
                cut = self._take_rest()
            if cut is None:
                break
            if self._is_blank_after(cut.resume):
                # Whitespace alone is no part: it belongs to the seam of this one, as soon as it is known where it ends.
                if not final:
                    self._needs_visible = True
                    break
                cut = replace(cut, resume=len(self._text) - self._start)
            parts.append(self._part(cut))
        return parts

    def _is_blank_after(self, resume: int) -> bool:
        at = self._start + resume
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return self._start + resume < len(self._text) == at

    def _take_lead(self) -> bool:
        """Remember the whitespace before the first line. Returns False if nothing but whitespace has arrived yet."""
        if not self._text.strip():
            self._needs_visible = True
            return False
        # Indentation has a meaning and stays with its line, unless too little room would be left.
        line = self._text.rfind("\n", 0, len(self._text) - len(self._text.lstrip(_MARKDOWN_SPACE))) + 1
        visible = len(self._text) - len(self._text.lstrip())
        room = self._measurer.limit - self._measurer.source_size(self._text[line:visible])
        boundary = graphemes.last_boundary(self._text, visible)
        if self._measurer.source_size(self._text[boundary : visible + 1]) <= self._measurer.limit:
            visible = boundary
        self._start = line if room >= _MIN_ROOM * self._measurer.max_character_size else visible
        self._lead = self._text[: self._start]
        self._length -= self._start
        self._needs_visible = False
        return True

    def _part(self, cut: TextCut) -> Part:
        start, end, resume = self._start, self._start + cut.end, self._start + cut.resume
        text = f"{cut.opened}{self._text[start:end]}{cut.closed}"
        body = self._measurer.body(text)
        part = Part(
            text=text,
            body=body,
            size=text_size(body, self._measurer.unit),
            opened=cut.opened,
            closed=cut.closed,
            seam=self._text[end:resume],
            lead=self._lead or "",
        )
        self._lead = ""
        self._start = resume
        self._length -= cut.resume
        self._begin_part(cut.opening)
        return part

    def _next_cut(self, *, final: bool) -> TextCut | None:
        """Find the next cut. None if it is not certain yet; then `_check_at` says at which length to try again."""
        available = len(self._text) - self._start
        while True:
            exceeded = self._find_excess(available)
            if self._at_paragraphs and (cut := self._paragraph_cut(available)) is not None:
                return cut
            if not exceeded:
                return None
            if self._parse_from is None and (cut := self._cut_at_top_level()) is not None:
                return cut
            self._skip_delimiters(available)
            if self._lookahead > available or (final and self._lookahead == available):
                self._check_at, self._needs_visible = self._lookahead - 1, False
                return None
            if self._fits_after_all():
                continue
            decision = self._decide()
            if isinstance(decision, TextCut):
                return decision
            if isinstance(decision, Opening):
                self._begin_part(decision)
            else:
                self._lookahead = min(self._lookahead + self._step, self._max_lookahead)
                self._step *= 2

    def _skip_delimiters(self, available: int) -> None:
        """Do not let the text of the next decision end inside a `**`, because half of a `**` would close a `*`."""
        while self._lookahead < min(self._max_lookahead, available + 1):
            if self._text[self._start + self._lookahead - 1] not in "*_~`":
                break
            self._lookahead += 1

    def _fits_after_all(self) -> bool:
        """Whether the text fits after all: a link, for example, is complete now, so its target is not shown."""
        if self._measurer.is_verbatim:
            return False
        if not self._measurer.fits(self._opening.text + self._text[self._start : self._start + self._lookahead]):
            return False
        self._known_to_fit, self._lookahead = self._lookahead, 0
        return True

    def _decide(self) -> TextCut | Opening | NoCut:
        text = self._text[self._start : self._start + self._lookahead]
        exhausted = self._lookahead >= self._max_lookahead
        ahead = Lookahead(
            text, self._opening, self._measurer, final=False, exhausted=exhausted, parse_from=self._parse_from or 0
        )
        if self._fitting_length is None or exhausted:
            self._fitting_length = ahead.fitting_length
        else:
            ahead.fitting_length = self._fitting_length  # measuring it costs more than all other work
        return decide(ahead)

    def _find_excess(self, available: int) -> bool:
        """Whether the text exceeds the limit; whitespace at its end does not count.

        If it does, set how much text the first decision on a cut gets.
        """
        if self._lookahead:
            return True
        start = self._start
        fits = self._measure_fitting(available)
        at = start + fits
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        if at == len(self._text):
            self._needs_visible = fits < available
            return False
        self._lookahead = at - start + 1
        self._max_lookahead = self._lookahead + self._measurer.limit
        return True

    def _measure_fitting(self, available: int) -> int:
        """How many characters of the text fit. If all fit, set `_check_at`, the length at which to measure again."""
        measurer, start, opened = self._measurer, self._start, self._opening.text
        if measurer.is_verbatim:
            text = self._text[start : start + measurer.limit + 1]
            fits = measurer.fitting_length(opened, text)
            if fits == available:
                self._check_at = available + measurer.spare_characters(opened + text)
            return fits
        # Rendering makes some texts much longer, so that they exceed the limit long before their source does. The sizes
        # so far say how much longer. All other texts exceed the limit only when their source does.
        length = max(measurer.limit // 8, self._known_to_fit)
        while length < available:
            size = measurer.size(opened + self._text[start : start + length + 1])
            if size > measurer.limit:
                return length
            step = (measurer.limit - size) * length // max(size, length, 1)
            # Measuring renders the whole text. So a long text with little visible content is measured less often.
            further = length + max(step, length // _SELDOM_SHARE - size, _FIRST_STEP)
            length = min(further, 2 * length + 1, measurer.limit) if length < measurer.limit else further
        self._check_at = length
        return available

    def _cut_at_top_level(self) -> TextCut | None:
        """Cut at a blank line between two top-level blocks, without parsing.

        If the result is None, a parser is needed, and `_parse_from` says from where on the text must be parsed.
        """
        text = self._text[self._start : self._start + self._lookahead].rstrip()
        if self._measurer.fits(self._opening.text + text):
            return None  # nothing to cut yet
        self._parse_from = 0
        if self._opening != NO_OPENING or (found := self._last_break(text)) is None:
            return None
        size = self._measurer.size(text[: found.end])
        if found.is_last and size * 3 >= self._measurer.limit:
            return TextCut(end=found.end, resume=found.resume, opened="", closed="", opening=NO_OPENING, size=size)
        self._parse_from = found.resume
        return None

    def _last_break(self, text: str) -> TopLevelBreak | None:
        """The last blank line between two top-level blocks, with text before it that fits.

        The last one of all is tried first, because the text before it often fits.
        """
        found = last_top_level_break(text, len(text) - 1)
        if found is None or (found.is_last and self._measurer.fits(text[: found.end])):
            return found
        found = last_top_level_break(text, self._measurer.fitting_length("", text))
        return found if found is not None and self._measurer.fits(text[: found.end]) else None

    def _paragraph_cut(self, available: int) -> TextCut | None:
        """The cut at the next blank line outside code, if it comes before the limit."""
        fitting_length = self._start + min(self._lookahead or available, available)
        for blank in _BLANK_LINES.finditer(self._text, self._start + self._scanned, fitting_length):
            resume = blank.end() - self._start
            seen = self._text[self._start : blank.end(1)]
            self._scanned = blank.start() + 1 - self._start
            if not self._text[self._start : blank.start()].strip():
                continue  # a part of nothing but the reopened markup would be blank
            ahead = Lookahead(seen, self._opening, self._measurer, final=True, exhausted=False)
            if (cut := cut_outside_code(ahead, resume)) is not None:
                return cut
        return None

    def _take_rest(self) -> TextCut:
        """Take the rest of the text as the last part. If it does not fit together with the added markup, cut it."""
        while True:
            text = self._text[self._start :]
            ahead = Lookahead(text, self._opening, self._measurer, final=True, exhausted=False)
            decision = take_whole(ahead) or decide(ahead)
            if isinstance(decision, TextCut):
                return decision
            assert isinstance(decision, Opening), "a text that is complete leaves nothing to wait for"
            self._begin_part(decision)


def _is_between_words(text: str, cut: TextCut) -> bool:
    """Whether the cut is between two words.

    False if the next part would begin inside code without its fence, or inside a row without its header.
    """
    return cut.opening.hidden is None and (cut.resume > cut.end or text[cut.end - 1].isspace())


def split(text: str, limit: int, *, unit: str = "code_points", dialect: str = "markdown") -> list[Part]:
    """Split a text into parts that each fit the limit, as rendered for the dialect and counted in the unit."""
    splitter = Splitter(limit, unit, dialect)
    return splitter.feed(text) + splitter.close()
