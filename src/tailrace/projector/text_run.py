"""The text of an answer between two things that are no text: what was said in it so far, and the parts it is cut into.

A flow is made of blocks, which runtimes seal, replace or take back; blocks that nothing but text came between are a run
and are taken back together. Blocks stand apart by a blank line, and none stands in code that another one left open. It
owns which text stands; the splitter cuts it. What a part looks like, and when it is sent, is left to others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.markdown.cutting import closing_fence
from tailrace.markdown.outline import outline
from tailrace.markdown.splitter import Splitter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.markdown.part import Part


class TextRun:
    """One run of text. `parts` are certain; `tail` is what follows them and is not."""

    __slots__ = (
        "_block_start",
        "_fresh",
        "_is_sealed",
        "_make",
        "_pieces",
        "_run_start",
        "_splitter",
        "_text_start",
        "parts",
    )

    def __init__(self, make: Callable[[], Splitter]) -> None:
        self._make = make
        self._pieces: list[str] = []
        self._run_start = 0  # the piece that the run begins with
        self._block_start = 0  # and the open block, with what parts it from the one before
        self._text_start = 0  # and its text
        self._is_sealed = False  # more text is another block
        self._splitter: Splitter | None = None
        self._fresh: list[str] = []  # what the splitter has not seen
        self.parts: list[Part] = []

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    @property
    def block(self) -> str:
        """The text of the open block; nothing where the last one is sealed."""
        return "" if self._is_sealed else "".join(self._pieces[self._text_start :])

    @property
    def said_anything(self) -> bool:
        """Whether any text stands."""
        return bool(self._pieces)

    @property
    def tail(self) -> str:
        """The text behind the parts, with what has to be opened again for it."""
        self.advance()
        if self._splitter is None:
            return ""
        tail = self._splitter.open_text
        is_one_block = not (self._run_start or self._block_start or self._text_start)
        if is_one_block and len(self._pieces) > 1 and "".join(self._pieces) == tail:
            self._pieces = [tail]  # most answers are one block and one message: one copy of it is enough
        return tail

    @property
    def is_over(self) -> bool:
        """Whether the tail is more than a message holds, and where it is cut is not decided yet."""
        self.advance()
        return self._splitter is not None and self._splitter.is_over

    @property
    def is_complete(self) -> bool:
        """Whether there is a tail of which no more is said: its block is sealed."""
        return self._is_sealed and bool(self.tail.strip())

    def feed(self, text: str) -> str:
        """More text, of a new block where the last one is sealed; returns it with the blank line that comes before."""
        if not text:
            return ""
        gap = ""
        if self._is_sealed:
            self._is_sealed = False
            self._block_start = len(self._pieces)
            before = "".join(self._pieces[-2:])
            gap = "" if before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
            if gap:
                self._put(gap)
            self._text_start = len(self._pieces)
        self._put(text)
        return gap + text

    def _put(self, text: str) -> None:
        self._pieces.append(text)
        self._fresh.append(text)

    def seal(self) -> str:
        """Text that follows is another block; returns what ends the code that this one left open."""
        if self._is_sealed or not self._pieces:
            return ""
        self._is_sealed = True
        tail = self.tail
        closing = closing_fence(outline(tail)) if "```" in tail or "~~~" in tail else ""
        if closing and tail.endswith("\n"):
            closing = closing.removeprefix("\n")
        if closing:
            self._put(closing)
        return closing

    def end_run(self) -> None:
        """Something else came: what was said before it stands."""
        self._run_start = len(self._pieces)

    def replace_block(self, text: str) -> None:
        """The open block says this instead; with an empty text it is taken back. All that follows is cut anew."""
        self._begin_again(self._block_start)
        self.feed(text)

    def retract(self) -> None:
        """The blocks since something else came were never said."""
        self._begin_again(self._run_start)

    def clear(self) -> None:
        """Nothing of it was said."""
        self._begin_again(0)

    def _begin_again(self, kept: int) -> None:
        """Only so many pieces stand, and what follows is another block."""
        self._pieces = self._pieces[:kept]
        self._fresh = self._pieces.copy()
        self._splitter = None
        self.parts = []
        self._run_start = min(self._run_start, kept)
        self._block_start = self._text_start = kept
        self._is_sealed = kept > 0

    def advance(self) -> None:
        """Cut what has come since."""
        if not self._fresh:
            return
        self._splitter = self._splitter or self._make()
        self.parts += self._splitter.feed("".join(self._fresh))
        self._fresh.clear()

    def cut(self) -> bool:
        """Cut now, though more would fit; whether there was a place for it."""
        self.advance()
        fresh = self._splitter.cut() if self._splitter is not None else []
        self.parts += fresh
        return bool(fresh)

    def close(self) -> None:
        """No more text comes: all that is left becomes parts."""
        self.advance()
        if self._splitter is not None:
            self.parts += self._splitter.close()
            self._splitter = None
