"""The output of a command while it works: permanent lines and, on a terminal, one status line below them."""

from __future__ import annotations

import sys
from contextlib import suppress

import typer

from tailrace.channels.terminal.lines import DIM, TerminalLine, TerminalWriter

_EVERY = 1000


class StatusLine:
    """Writes to standard error. `is_live`: there is a status line, which only a terminal can have."""

    def __init__(self, *, is_live: bool = True) -> None:
        self._lines = TerminalWriter(sys.stderr)
        self.is_live = self._lines.in_place = self._lines.in_place and is_live

    def show(self, text: str) -> None:
        """Show this text in the status line."""
        if self.is_live:
            with suppress(OSError, ValueError):
                line = TerminalLine(text)
                if not self._lines.update("status", line, style=DIM):
                    self._lines.add("status", line, style=DIM)

    def count(self, action: str, done: int, total: str = "") -> None:
        """Show how many things are done; without a status line write every thousandth as a line."""
        text = f"{action}: {done}{total}"
        if self.is_live:
            self.show(text)
        elif done and done % _EVERY == 0:
            self.write(text)

    def write(self, text: str) -> None:
        """Write a permanent line."""
        with suppress(OSError, ValueError):
            self._lines.withdraw("status")
            self._lines.space(1)
            self._lines.write(f"{text}\n")

    def print(self, text: str) -> None:
        """Write a line to standard output."""
        self.clear()
        typer.echo(text)

    def clear(self) -> None:
        """Remove the status line."""
        with suppress(OSError, ValueError):
            self._lines.withdraw("status")
