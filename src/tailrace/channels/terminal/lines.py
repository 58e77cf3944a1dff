"""The cursor of the terminal, and the lines above it that can still be updated.

Text is written as it comes and never changed. A *keyed* line, which was written with a key, can be updated in place
while it is on the screen and only keyed lines are below it. It cannot be updated any more when the window gets so
narrow that one of these lines wraps. Outside a terminal no line can be updated, and no control code is written.

The caller removes control characters first (`visible`). `channel` decides what is written.
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
# A word with the space before it, or the space at the end of the line. The matches together are the whole line.
_PIECE = re.compile(r"\s*\S+|\s+$")


class _Keyed(NamedTuple):
    key: str
    shown: str
    cells: int
    newlines_above: int


class TerminalLine(NamedTuple):
    """A line in three pieces: `head`, `detail` and `tail`.

    If the line is too long, the detail is cut first, then the head. The tail is never cut. An important detail, such as
    the reason of a failure, keeps up to half of the width.
    """

    head: str
    tail: str = ""
    detail: str = ""
    is_detail_important: bool = False

    @property
    def whole(self) -> str:
        """The whole line, not cut."""
        return f"{self.head}{self.tail}{self.detail}"


class TerminalWriter:
    """Writes to a terminal or a pipe from top to bottom; the last lines may be updated."""

    def __init__(self, out: TextIO) -> None:
        # A character that the encoding does not have is written as its code, and raises no error.
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")
        self._out = out
        self.in_place = out.isatty() and os.environ.get("TERM") != "dumb"
        self.styled = self.in_place and not os.environ.get("NO_COLOR")
        self._keyed: list[_Keyed] = []
        self._newlines = 2
        self._column = 0  # of the cursor; only kept in rows with a bar

    def can_carry(self, text: str) -> bool:
        """Whether the encoding of the stream can represent this text."""
        try:
            text.encode(self._out.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def ends_with(self, key: str) -> bool:
        """Whether the line with that key is the last thing that was written."""
        return bool(self._keyed) and self._keyed[-1].key == key

    def write(self, text: str, *, style: str = "") -> None:
        """Write at the cursor; the keyed lines above can no longer be updated."""
        if not text:
            return
        self._keyed.clear()
        self._out.write(self._style(text, style))
        self._out.flush()
        trailing = len(text) - len(text.rstrip("\n")) if text.endswith("\n") else 0
        self._newlines = trailing if trailing < len(text) else self._newlines + trailing

    def write_barred(self, text: str, bar: str, *, style: str = "") -> None:
        """Write text with a bar before each row; at a terminal rows are broken between words."""
        for line in text.splitlines(keepends=True):
            if self._newlines:  # the cursor is at the beginning of a line
                self._begin_row(bar)
            for number, row in enumerate(self._rows(line.rstrip("\n"), cell_len(bar))):
                if number:
                    self.write("\n")
                    self._begin_row(bar)
                self.write(row, style=style)
            self.write("\n" if line.endswith("\n") else "")

    def space(self, newlines: int) -> None:
        """Write line ends until `newlines` of them are before the cursor: 1 begins a line, 2 leave a blank line."""
        self.write(self.gap(newlines))

    def gap(self, newlines: int) -> str:
        """The line ends that `space` would write, for a caller that writes them itself."""
        return "\n" * max(newlines - self._newlines, 0)

    def wrapped(self, text: str, indent: str = "") -> str:
        """Break the text between words to fit the window; all rows but the first are indented.

        In a pipe it is unchanged.
        """
        if not self.in_place:
            return text
        cells = self._size().columns
        return "\n".join(_broken(line, cells, indent) for line in text.split("\n"))

    def forget(self) -> None:
        """Stop updating the lines above, because something else was written to the same terminal."""
        self._keyed.clear()
        self._newlines = 1

    def add(self, key: str, line: TerminalLine, *, style: str = "") -> None:
        """Write a line that can be updated under that key."""
        self.space(1)
        if not self.in_place:
            self.write(f"{line.whole}\n", style=style)
            return
        shown = _fit(line, self._size().columns - 1)
        self._out.write(f"{self._unwrapped(shown, style)}\n")
        self._out.flush()
        self._keyed.append(_Keyed(key, shown, cell_len(shown), self._newlines))
        self._newlines = 1

    def update(self, key: str, line: TerminalLine, *, style: str = "") -> bool:
        """Rewrite the line of that key in its place. Returns False if that is not possible (any more)."""
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
        """Remove the last line, if it was written with that key and can still be changed."""
        if self._keyed and self._keyed[-1].key == key and self._reachable(len(self._keyed) - 1, self._size()):
            self._out.write(f"\x1b[1A{_ERASE_LINE}")
            self._out.flush()
            self._newlines = self._keyed.pop().newlines_above

    def _begin_row(self, bar: str) -> None:
        self.write(bar, style=DIM)
        self._column = cell_len(bar)

    def _rows(self, text: str, begin: int) -> list[str]:
        """The text as rows. The first row begins at the cursor, all others at the column `begin`."""
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
        """Whether the line is still on the screen, and neither this line nor a line below it wraps."""
        below = self._keyed[index:]
        return len(below) < size.lines and all(keyed.cells <= size.columns for keyed in below)

    def _unwrapped(self, text: str, style: str) -> str:
        """The text between the control codes that switch off line wrapping and switch it on again.

        Some terminals show a character wider than expected; it must not push the line into a second row.
        """
        return f"{_WRAP_OFF}{self._style(text, style)}{_WRAP_ON}"

    def _style(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self.styled else text

    def _size(self) -> os.terminal_size:
        """The current size of the window. It is read each time, because people resize windows."""
        try:
            size = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return _DEFAULT_SIZE
        return size if size.columns and size.lines else _DEFAULT_SIZE


def _fit(line: TerminalLine, cells: int) -> str:
    """The line as text, cut to a width in cells."""
    if cell_len(line.whole) <= cells:
        return line.whole
    room = max(cells - cell_len(line.tail), 1)
    least = min(room // 2, cell_len(line.detail)) if line.is_detail_important else 0
    head = _cut(line.head, room - least)
    return f"{head}{line.tail}{_cut(line.detail, room - cell_len(head))}"


def _broken(line: str, cells: int, indent: str) -> str:
    """The line in rows of at most `cells` cells. The terminal itself breaks a word that is longer than a row."""
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
    """The text, or its beginning and an ellipsis, in at most `cells` cells."""
    if cell_len(text) <= cells:
        return text
    return f"{set_cell_size(text, cells - 1).rstrip()}…" if cells > 0 else ""
