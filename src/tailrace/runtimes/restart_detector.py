"""Noticing that an agent begins its answer again, which gemini-cli does not say, nor opencode over ACP.

When the stream of its model breaks, it waits a second or longer, asks again and tells the new answer behind the old
one. Only two things show it: the pause, and that the words begin again from the first one. So text that comes after
such a pause and repeats the block from its beginning is held back. Once it has repeated all of the block it is another
try. If it says anything else before that, nobody can know: after many words that were the same it is told that it may
be another try, after few it goes on as the same answer. So does what a new try says otherwise from its first word.

Pure: the time is an argument. One instance is one block of text.
"""

from __future__ import annotations

from io import StringIO

import msgspec

# What they wait at least before they ask again.
PAUSE_S = 1.0
# A few words come twice in an answer; so short a beginning proves nothing.
_TELLING = 8
_BEGINNING = 256
# So much, once more and from the first word on, is hardly ever a matter of style.
_SUSPICIOUS = 16

MAY_HAVE_BEGUN_AGAIN = "The answer seems to begin again: what stands above may be of a try that failed."


class Heard(msgspec.Struct, frozen=True):
    """What came of a piece: text that can be said now, and whether everything before it belongs to a failed try.

    Where that may be but is not sure, both stand, apart from each other.
    """

    text: str = ""
    begins_again: bool = False
    may_begin_again: bool = False


class RestartDetector:
    """The tries of one block: `feed` each piece, and `close` when the block is over."""

    def __init__(self) -> None:
        self._said = StringIO()  # of which a few characters can be looked at, however long it is
        self._size = 0
        self._repeated = 0  # how much of that the current try has repeated
        self._held: list[str] = []
        self._try = 0  # where in `_held` the current try begins
        self._last_s: float | None = None

    def feed(self, piece: str, at_s: float | None) -> Heard:
        """A piece of text and when it came, if that is known."""
        paused = self._last_s is not None and at_s is not None and at_s - self._last_s >= PAUSE_S
        self._last_s = at_s
        if paused and len(self._part(0, _BEGINNING).strip()) >= _TELLING:
            self._repeated, self._try = 0, len(self._held)
        elif not self._held:
            return self._say(piece)
        return self._compare(piece)

    def close(self) -> str:
        """The block is over: what was held back was said after all."""
        return self._say("".join(self._held)).text

    def _compare(self, piece: str) -> Heard:
        self._held.append(piece)
        left = self._size - self._repeated
        expected = self._part(self._repeated, len(piece))
        if piece == expected and len(piece) < left:
            self._repeated += len(piece)
            return Heard()
        if piece.startswith(expected) and len(piece) >= left:
            again = "".join(self._held[self._try :])
            return Heard(self._say_anew(again), begins_again=True)
        whole, beginning = "".join(self._held), self._part(0, _SUSPICIOUS)
        if len(beginning) == _SUSPICIOUS and "".join(self._held[self._try :]).startswith(beginning):
            return Heard(self._say_anew(whole), may_begin_again=True)
        return self._say(whole)

    def _say_anew(self, text: str) -> str:
        self._said, self._size = StringIO(), 0
        return self._say(text).text

    def _say(self, text: str) -> Heard:
        self._held, self._try = [], 0
        self._said.seek(self._size)
        self._said.write(text)
        self._size += len(text)
        return Heard(text)

    def _part(self, start: int, length: int) -> str:
        self._said.seek(start)
        return self._said.read(length)
