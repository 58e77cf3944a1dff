"""The text of a turn that was not given to the caller yet: text goes in, parts that can be sent come out.

A part that the caller already has cannot be taken back. So this module decides what `block_final` and `text_retracted`
do with the rest of the text: the rest is completed, replaced or dropped. The splitter cuts the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.markdown import Part, Splitter, join

if TYPE_CHECKING:
    from collections.abc import Callable


class TextBuffer:
    """Cuts the text of a turn into parts. Every method returns the parts that are complete now, in order.

    `feed` takes any piece of text. To save the time of that call, a caller may do its work while the buffer is not
    `sealed`: append the piece to `pieces`, feed it to `splitter`, and pass the result to `record_given`. Any other
    method may replace `pieces` and `splitter`. A sealed buffer returns all its text before it takes more.
    """

    def __init__(self, splitter: Callable[[], Splitter]) -> None:
        self._new_splitter = splitter
        self._had_text = False
        self._reset()

    def _reset(self) -> None:
        self.splitter = self._new_splitter()
        self.pieces: list[str] = []
        self.sealed = False
        self._given: list[Part] = []
        self._block_start = 0

    @property
    def has_text(self) -> bool:
        """Whether the turn has text. Text that was retracted before a caller got it does not count."""
        return self._had_text or bool(self.pieces)

    def feed(self, text: str) -> list[Part]:
        """Add text. Returns the parts that are complete now."""
        if not text:
            return []
        before = self.close() if self.sealed else []
        self.pieces.append(text)
        parts = self.splitter.feed(text)
        self.record_given(parts)
        return before + parts

    def record_given(self, parts: list[Part]) -> None:
        """Remember the parts that the splitter returned."""
        self._given += parts

    def end_block(self) -> None:
        """End the text block, because an event without text came. Later text begins a new block."""
        self._block_start = len(self.pieces)

    def finish_block(self, text: str | None) -> list[Part]:
        """End the open block. Returns the parts that are ready to send.

        `text` is the whole text of the block: if it begins with the text so far, only the rest is added, otherwise it
        replaces that text. None leaves the text as it is. If no block is open, `text` is a new block.
        """
        block = "".join(self.pieces[self._block_start :])
        parts: list[Part] = []
        if self.sealed or not block:
            if not text:
                return []
            parts = self.close() + self.feed(text)
        elif text is not None and text.startswith(block):
            parts = self.feed(text[len(block) :])
        elif text is not None:
            parts = self._replace_block(text)
        self.sealed = bool(self.pieces)
        return parts

    def retract(self, scope: Literal["block", "turn"]) -> list[Part]:
        """Drop the text of the block or of the whole turn, except the parts that were already returned."""
        if scope == "turn":
            self._block_start = 0
        return self._replace_block("") if len(self.pieces) > self._block_start else []

    def close(self) -> list[Part]:
        """Return all remaining text as parts. The buffer is then empty and can take new text."""
        parts = self.splitter.close()
        self._had_text = self.has_text
        self._reset()
        return parts

    def _replace_block(self, text: str) -> list[Part]:
        before = "".join(self.pieces[: self._block_start])
        given = join(self._given)
        wanted = before + text
        self._had_text = self._had_text or bool(given)
        self._reset()
        # If the new text does not start with the parts that were given out, it is another text: give out all of it.
        parts = self.feed(wanted[len(given) :] if wanted.startswith(given) else text)
        self._block_start = len(self.pieces)
        return parts
