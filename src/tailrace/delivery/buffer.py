"""The text of a turn that is not yet given away: what is said goes in, parts that can be sent come out.

It owns what `block_final` and `text_retracted` mean once part of a text is already gone: what is still here
is completed, replaced or dropped, and what was given away cannot be taken back. The splitter cuts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.markdown import Part, Splitter, join

if TYPE_CHECKING:
    from collections.abc import Callable


class TextBuffer:
    """Text on its way to parts; every method returns the parts that are to be given away now, in order.

    `feed` takes any piece. Whoever reads a stream, where a call for each token counts, may do its work for a
    buffer that is not `sealed`: append the piece to `said`, feed it to `splitter`, and tell `gave` what comes
    of it. Both are new after any other method. A sealed buffer lets go of what it holds before it takes more.
    """

    def __init__(self, splitter: Callable[[], Splitter]) -> None:
        self._new_splitter = splitter
        self._spoke = False
        self._begin()

    def _begin(self) -> None:
        self.splitter = self._new_splitter()
        self.said: list[str] = []
        self.sealed = False
        self._given: list[Part] = []
        self._block_start = 0

    @property
    def spoke(self) -> bool:
        """Whether the turn has said anything that was not taken back in time."""
        return self._spoke or bool(self.said)

    def feed(self, text: str) -> list[Part]:
        """More text."""
        if not text:
            return []
        before = self.close() if self.sealed else []
        self.said.append(text)
        parts = self.splitter.feed(text)
        self.gave(parts)
        return before + parts

    def gave(self, parts: list[Part]) -> None:
        """Remember what the splitter has let go of."""
        self._given += parts

    def interrupt(self) -> None:
        """Something other than text was said: a text block that follows is another one."""
        self._block_start = len(self.said)

    def settle(self, text: str | None) -> list[Part]:
        """Seal the open block, completed or replaced by `text` where given; with none open `text` is one."""
        block = "".join(self.said[self._block_start :])
        parts: list[Part] = []
        if self.sealed or not block:
            if not text:
                return []
            parts = self.close() + self.feed(text)
        elif text is not None and text.startswith(block):
            parts = self.feed(text[len(block) :])
        elif text is not None:
            parts = self._replace_block(text)
        self.sealed = bool(self.said)
        return parts

    def retract(self, scope: Literal["block", "turn"]) -> list[Part]:
        """Drop what is still here of the block, or of the turn."""
        if scope == "turn":
            self._block_start = 0
        return self._replace_block("") if len(self.said) > self._block_start else []

    def close(self) -> list[Part]:
        """All that is still here; the buffer begins anew."""
        parts = self.splitter.close()
        self._spoke = self.spoke
        self._begin()
        return parts

    def _replace_block(self, text: str) -> list[Part]:
        before = "".join(self.said[: self._block_start])
        given = join(self._given)
        wanted = before + text
        self._spoke = self._spoke or bool(given)
        self._begin()
        # What does not begin with what was given away is another text, and is said whole.
        parts = self.feed(wanted[len(given) :] if wanted.startswith(given) else text)
        self._block_start = len(self.said)
        return parts
