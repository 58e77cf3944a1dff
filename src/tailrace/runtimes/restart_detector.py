"""Detects that an agent starts its answer again. gemini-cli, and opencode over ACP, do not report it.

When the stream of its model breaks, the agent waits a second or longer, asks again and sends the new answer after the
old one. Two signs show a restart: the pause, and new text that repeats the block from its first word. So text after
such a pause is held back while it repeats the block. If it repeats the whole block, it is a restart. If it differs
before that, the case is unclear: after many equal characters the result says `may_be_restart`, after few characters the
text counts as part of the same answer. A new answer that differs from its first word on is not detected.

Pure: the time is an argument. One instance is one block of text.
"""

from __future__ import annotations

from io import StringIO

import msgspec

# The agents that retry wait at least this long before they do.
_PAUSE_S = 1.0
# A few words may occur twice in an answer, so a repetition shorter than this proves nothing.
_MIN_TEXT = 8
_CHECKED_START = 256
# An answer rarely repeats this many of its first characters on purpose.
_MAYBE_RESTART = 16

MAY_BE_RESTARTED = "The answer seems to start again: the text above may come from a failed try."


class DetectedText(msgspec.Struct, frozen=True):
    """The result for a piece of text: the text to emit now.

    `is_restart`: all text before it belongs to a failed answer.

    With `may_be_restart` that is uncertain: both texts stay, in separate blocks.
    """

    text: str = ""
    is_restart: bool = False
    may_be_restart: bool = False


class RestartDetector:
    """Detects restarts in one block of text: `feed` each piece, `close` at the end of the block."""

    def __init__(self) -> None:
        self._text = StringIO()  # a StringIO: a comparison then costs little even if the text is long
        self._size = 0
        self._repeated = 0  # how many characters the current try has repeated
        self._held: list[str] = []
        self._try_start = 0  # index in `_held` where the current try starts
        self._last_s: float | None = None

    def feed(self, piece: str, at_s: float | None) -> DetectedText:
        """Take a piece of text, and the time at which it came, or None if that is not known."""
        paused = self._last_s is not None and at_s is not None and at_s - self._last_s >= _PAUSE_S
        self._last_s = at_s
        if paused and len(self._text_at(0, _CHECKED_START).strip()) >= _MIN_TEXT:
            self._repeated, self._try_start = 0, len(self._held)
        elif not self._held:
            return self._accept(piece)
        return self._compare(piece)

    def close(self) -> str:
        """End the block: return the text that was held back."""
        return self._accept("".join(self._held)).text

    def _compare(self, piece: str) -> DetectedText:
        self._held.append(piece)
        left = self._size - self._repeated
        expected = self._text_at(self._repeated, len(piece))
        if piece == expected and len(piece) < left:
            self._repeated += len(piece)
            return DetectedText()
        if piece.startswith(expected) and len(piece) >= left:
            try_text = "".join(self._held[self._try_start :])
            return DetectedText(self._restart_with(try_text), is_restart=True)
        whole, start = "".join(self._held), self._text_at(0, _MAYBE_RESTART)
        if len(start) == _MAYBE_RESTART and "".join(self._held[self._try_start :]).startswith(start):
            return DetectedText(self._restart_with(whole), may_be_restart=True)
        return self._accept(whole)

    def _restart_with(self, text: str) -> str:
        self._text, self._size = StringIO(), 0
        return self._accept(text).text

    def _accept(self, text: str) -> DetectedText:
        self._held, self._try_start = [], 0
        self._text.seek(self._size)
        self._text.write(text)
        self._size += len(text)
        return DetectedText(text)

    def _text_at(self, start: int, length: int) -> str:
        self._text.seek(start)
        return self._text.read(length)
