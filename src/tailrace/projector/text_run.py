"""A run of text: the text of an answer between two messages that are not text, such as media or an error.

A run is made of blocks, which runtimes complete, replace or retract. A blank line separates two blocks. If a block ends
with an open code fence, the run closes the fence. The blocks since the last event that was not text (a tool call, for
example) form a segment, which is retracted as a whole. The run owns which text is valid; the splitter cuts the text
into parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.markdown.cutting import closing_fence
from tailrace.markdown.outline import read_outline
from tailrace.markdown.splitter import Splitter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.markdown.part import Part


class TextRun:
    """The text of an answer between two messages that are not text.

    `parts` do not change any more; `tail` is the rest.
    """

    def __init__(self, make_splitter: Callable[[], Splitter]) -> None:
        self._make_splitter = make_splitter
        self._pieces: list[str] = []
        self._segment_start = 0  # the index of the segment's first piece
        self._block_start = 0  # the index of the open block's first piece, which is the blank line before it
        self._text_start = 0  # the index of the piece after that blank line
        self._part_ends: list[int] = []  # the number of pieces at each call of `end_part`
        self._is_sealed = False  # more text begins another block
        self._splitter: Splitter | None = None
        self._unsplit: list[str] = []  # not fed to the splitter yet
        self.parts: list[Part] = []

    @property
    def text(self) -> str:
        """The whole text of the run."""
        return "".join(self._pieces)

    @property
    def block(self) -> str:
        """The text of the block that is still open; "" if the last block is complete."""
        return "" if self._is_sealed else "".join(self._pieces[self._text_start :])

    @property
    def has_text(self) -> bool:
        """Whether the run has any text."""
        return bool(self._pieces)

    @property
    def tail(self) -> str:
        """The text after the last part.

        If that part ended inside a style or code, the markup that opens it again comes first.
        """
        self.split()
        if self._splitter is None:
            return ""
        tail = self._splitter.open_text
        is_one_block = not (self._segment_start or self._block_start or self._text_start)
        if is_one_block and len(self._pieces) > 1 and "".join(self._pieces) == tail:
            self._pieces = [tail]  # most answers are one block and one message: keep one copy of it
        return tail

    @property
    def is_over_limit(self) -> bool:
        """Whether the text after the last part is too long for one message, and the place of the cut is still open."""
        self.split()
        return self._splitter is not None and self._splitter.is_over_limit

    @property
    def has_sealed_tail(self) -> bool:
        """Whether there is text after the last part, and the block at its end is complete."""
        return self._is_sealed and bool(self.tail.strip())

    def feed(self, text: str) -> str:
        """Add text; if the last block is complete, a new block begins.

        Returns the text and the blank line added before it.
        """
        if not text:
            return ""
        gap = ""
        if self._is_sealed:
            self._is_sealed = False
            self._block_start = len(self._pieces)
            before = "".join(self._pieces[-2:])
            gap = "" if before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
            if gap:
                self._append(gap)
            self._text_start = len(self._pieces)
        self._append(text)
        return gap + text

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._unsplit.append(text)

    def seal(self) -> str:
        """Complete the open block. If it ends in open code, returns the closing fence that was added, else ""."""
        if self._is_sealed or not self._pieces:
            return ""
        self._is_sealed = True
        tail = self.tail
        closing = closing_fence(read_outline(tail)) if "```" in tail or "~~~" in tail else ""
        if closing and tail.endswith("\n"):
            closing = closing.removeprefix("\n")
        if closing:
            self._append(closing)
        return closing

    def end_segment(self) -> None:
        """Begin a new segment: `retract` will not remove the text before it."""
        self._segment_start = len(self._pieces)

    def replace_block(self, text: str) -> None:
        """Replace the text of the open block, and cut the whole run again. An empty text removes the block."""
        self._truncate(self._block_start)
        self.feed(text)

    def retract(self) -> None:
        """Remove the text since the last call of `end_segment`."""
        self._truncate(self._segment_start)

    def clear(self) -> None:
        """Remove all text of the run."""
        self._truncate(0)

    def _truncate(self, count: int) -> None:
        """Keep only the first `count` of the pieces that were fed; later text begins a new block."""
        self._pieces = self._pieces[:count]
        self._part_ends = [end for end in self._part_ends if end <= count]
        self._splitter = None
        self.parts = []
        start = 0
        for end in self._part_ends:
            self._unsplit = self._pieces[start:end]
            self.close()
            start = end
        self._unsplit = self._pieces[start:]
        self._segment_start = min(self._segment_start, count)
        self._block_start = self._text_start = count
        self._is_sealed = count > 0

    def split(self) -> None:
        """Pass the text that is new since the last call to the splitter."""
        if not self._unsplit:
            return
        self._splitter = self._splitter or self._make_splitter()
        self.parts += self._splitter.feed("".join(self._unsplit))
        self._unsplit.clear()

    def cut(self) -> bool:
        """Make a part of the beginning of the tail now, although more text would fit.

        Returns False if there is no good boundary.
        """
        self.split()
        parts = self._splitter.cut() if self._splitter is not None else []
        self.parts += parts
        return bool(parts)

    def end_part(self) -> bool:
        """Make parts of the whole text, if its last block is complete. Returns False if that block is still open.

        If the text is cut again later, a part will end here too.
        """
        if not self.has_sealed_tail:
            return False
        self.close()
        self._part_ends.append(len(self._pieces))
        return True

    def close(self) -> None:
        """End the run: the text after the last part becomes parts too."""
        self.split()
        if self._splitter is not None:
            self.parts += self._splitter.close()
            self._splitter = None
