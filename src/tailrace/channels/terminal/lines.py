"""Where the cursor is, and which lines above it may still change.

Text goes out as it comes and is never touched again. A *keyed* line can be renewed in place as long as
nothing but keyed lines stands below it, it has not left the screen, and none of them has come to wrap because
the window got narrower. Outside a terminal no line can be renewed, and not a single control code is written.

What is written here must have been made `visible` before; which line says what is the channel's business.
"""

from __future__ import annotations

import io
import os
import re
from typing import NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size

DIM = "2"
RED = "31"

_DEFAULT_SIZE = os.terminal_size((80, 24))
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_ERASE_LINE = "\r\x1b[2K"
# A word with the space around it; all of a line is found in such pieces.
_PIECE = re.compile(r"\s*\S+|\s+$")


class _Keyed(NamedTuple):
    key: str
    shown: str
    cells: int
    above: int  # line ends before it


class Line(NamedTuple):
    """A line in three pieces: where it does not fit the detail is cut, then the head, the tail never.

    A detail that `tells` as much as the head has half of the room, should it need that much.
    """

    head: str
    tail: str = ""
    detail: str = ""
    tells: bool = False

    @property
    def whole(self) -> str:
        """All of it, one piece behind the other."""
        return f"{self.head}{self.tail}{self.detail}"


class Lines:
    """A terminal or a pipe, written from top to bottom, with a few last lines that may be written again."""

    def __init__(self, out: TextIO) -> None:
        # What the stream's encoding cannot carry is shown by its code: Latin-1 is no reason to fail.
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")
        self._out = out
        self.in_place = out.isatty() and os.environ.get("TERM") != "dumb"
        self.styled = self.in_place and not os.environ.get("NO_COLOR")
        self._keyed: list[_Keyed] = []
        self._newlines = 2
        self._column = 0  # in a row with a bar

    def can_carry(self, text: str) -> bool:
        """Whether the stream's encoding has these characters."""
        try:
            text.encode(self._out.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return True

    @property
    def begins_line(self) -> bool:
        """Whether the cursor is where a line begins."""
        return self._newlines > 0

    def ends_with(self, key: str) -> bool:
        """Whether the line of that key is the last one, as far as lines have keys."""
        return bool(self._keyed) and self._keyed[-1].key == key

    def write(self, text: str, *, style: str = "") -> None:
        """Go on writing where the cursor is; what stood in keyed lines before stays as it is."""
        if not text:
            return
        self._keyed.clear()
        self._out.write(self._style(text, style))
        self._out.flush()
        trailing = len(text) - len(text.rstrip("\n")) if text.endswith("\n") else 0
        self._newlines = trailing if trailing < len(text) else self._newlines + trailing

    def flow(self, text: str, bar: str, *, style: str = "") -> None:
        """Go on with text that has a bar before each of its rows; at a terminal they are broken between words."""
        for line in text.splitlines(keepends=True):
            if self.begins_line:
                self._begin_row(bar)
            for number, row in enumerate(self._rows(line.rstrip("\n"), cell_len(bar))):
                if number:
                    self.write("\n")
                    self._begin_row(bar)
                self.write(row, style=style)
            self.write("\n" if line.endswith("\n") else "")

    def space(self, newlines: int) -> None:
        """See to it that so many line ends stand before the cursor: 1 begins a line, 2 leaves one blank."""
        self.write(self.gap(newlines))

    def gap(self, newlines: int) -> str:
        """The line ends that are missing before the cursor, for whoever writes them on their own."""
        return "\n" * max(newlines - self._newlines, 0)

    def wrapped(self, text: str, indent: str = "") -> str:
        """The text broken between words where the window ends, each line it goes on in set in; in a pipe as it is."""
        if not self.in_place:
            return text
        cells = self._size().columns
        return "\n".join(_broken(line, cells, indent) for line in text.split("\n"))

    def forget(self) -> None:
        """Something else was written to the same terminal: nothing above may be changed any more."""
        self._keyed.clear()
        self._newlines = 1

    def add(self, key: str, line: Line, *, style: str = "") -> None:
        """Write a line of its own, to be renewed under that key."""
        self.space(1)
        if not self.in_place:
            self.write(f"{line.whole}\n", style=style)
            return
        shown = _fit(line, self._size().columns - 1)
        self._out.write(f"{self._unwrapped(shown, style)}\n")
        self._out.flush()
        self._keyed.append(_Keyed(key, shown, cell_len(shown), self._newlines))
        self._newlines = 1

    def renew(self, key: str, line: Line, *, style: str = "") -> bool:
        """Write the line of that key anew in its place; False where that is not possible, or not any more."""
        size = self._size()
        index = max((i for i, keyed in enumerate(self._keyed) if keyed.key == key), default=None)
        if index is None or not self._reachable(index, size):
            return False
        shown = _fit(line, size.columns - 1)
        if shown != self._keyed[index].shown:
            rows = len(self._keyed) - index
            self._out.write(f"\x1b[{rows}A{_ERASE_LINE}{self._unwrapped(shown, style)}\r\x1b[{rows}B")
            self._out.flush()
            self._keyed[index] = self._keyed[index]._replace(shown=shown, cells=cell_len(shown))
        return True

    def withdraw(self, key: str) -> None:
        """Take the last line away, if it is the one of that key and can still be changed."""
        if self._keyed and self._keyed[-1].key == key and self._reachable(len(self._keyed) - 1, self._size()):
            self._out.write(f"\x1b[1A{_ERASE_LINE}")
            self._out.flush()
            self._newlines = self._keyed.pop().above

    def _begin_row(self, bar: str) -> None:
        self.write(bar, style=DIM)
        self._column = cell_len(bar)

    def _rows(self, text: str, begin: int) -> list[str]:
        """The text in rows that begin at that column; the first goes on where the cursor is."""
        if not self.in_place:
            return [text]
        cells = self._size().columns
        rows = [""]
        for piece in _PIECE.findall(text):
            if piece.isspace() and self._column + cell_len(piece) > cells:
                self._column = cells
                continue
            fits = self._column + cell_len(piece.rstrip()) <= cells
            if not fits and self._column > begin:
                rows.append("")
                self._column = begin
            shown = piece if fits else piece.lstrip()
            rows[-1] += shown
            self._column += cell_len(shown)
        return rows

    def _reachable(self, index: int, size: os.terminal_size) -> bool:
        """Whether the line is still on the screen, and each line from it down still takes one row."""
        below = self._keyed[index:]
        return len(below) < size.lines and all(keyed.cells <= size.columns for keyed in below)

    def _unwrapped(self, text: str, style: str) -> str:
        """The text in one row, also where this terminal's idea of a character's width is not ours."""
        return f"{_WRAP_OFF}{self._style(text, style)}{_WRAP_ON}"

    def _style(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self.styled else text

    def _size(self) -> os.terminal_size:
        """The window as it is now; asked for each time, because people resize it."""
        try:
            size = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return _DEFAULT_SIZE
        return size if size.columns and size.lines else _DEFAULT_SIZE


def _fit(line: Line, cells: int) -> str:
    """The line cut to so many cells."""
    if cell_len(line.whole) <= cells:
        return line.whole
    room = max(cells - cell_len(line.tail), 1)
    least = min(room // 2, cell_len(line.detail)) if line.tells else 0
    head = _cut(line.head, room - least)
    return f"{head}{line.tail}{_cut(line.detail, room - cell_len(head))}"


def _broken(line: str, cells: int, indent: str) -> str:
    """The line in rows of so many cells; a word that no row can hold is left for the terminal to break."""
    if cell_len(line) <= cells:
        return line
    rows = [""]
    for piece in _PIECE.findall(line):
        alone = indent + piece.lstrip()
        if rows[-1] and cell_len(rows[-1] + piece.rstrip()) > cells >= cell_len(alone):
            rows.append(alone)
        else:
            rows[-1] += piece
    return "\n".join(row.rstrip() for row in rows)


def _cut(text: str, cells: int) -> str:
    """The text if it fits, or else its beginning and an ellipsis, together at most so many cells."""
    if cell_len(text) <= cells:
        return text
    return f"{set_cell_size(text, cells - 1).rstrip()}…" if cells > 0 else ""
