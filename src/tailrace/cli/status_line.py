"""The output of a command while it works: results, permanent lines and, on a terminal, one status line below them.

If the program that reads the results closes the pipe (`| head -1`), the command goes on and writes no more results.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from tailrace.channels.terminal.lines import DIM, TerminalLine, TerminalWriter

_EVERY = 1000


class StatusLine:
    """Writes results to `output`, and all else to standard error.

    With `is_live`, and if standard error is a terminal, a status line is shown below everything else.
    """

    def __init__(self, *, is_live: bool = True, output: TextIO | None = None) -> None:
        self.is_reader_gone = False
        self._output = output or sys.stdout
        self._lines = TerminalWriter(sys.stderr)
        self.is_live = self._lines.in_place = self._lines.in_place and is_live

    def show(self, text: str) -> None:
        """Show this text in the status line, in place of the text before. Without a status line, do nothing."""
        if self.is_live:
            with suppress(OSError, ValueError):
                line = TerminalLine(text)
                if not self._lines.update("status", line, style=DIM):
                    self._lines.add("status", line, style=DIM)

    def count(self, action: str, done: int) -> None:
        """Show a count in the status line, such as `deleted: 3000`.

        Without a status line, write a line after each thousand.
        """
        text = f"{action}: {done}"
        if self.is_live:
            self.show(text)
        elif done and done % _EVERY == 0:
            self.write(text)

    def write(self, text: str) -> None:
        """Write a line to standard error that stays, above the status line."""
        with suppress(OSError, ValueError):
            self._lines.withdraw("status")
            self._lines.space(1)
            self._lines.write(f"{text}\n")

    def print(self, text: str) -> None:
        """Write a line of the results to `output`."""
        self.clear()
        if self.is_reader_gone:
            return
        try:
            self._output.write(f"{text}\n")
            self._output.flush()
        except OSError:
            self.is_reader_gone = True
            # The interpreter flushes the output when it exits. Into the closed pipe, that would fail too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._output.fileno())

    def clear(self) -> None:
        """Remove the status line."""
        with suppress(OSError, ValueError):
            self._lines.withdraw("status")
