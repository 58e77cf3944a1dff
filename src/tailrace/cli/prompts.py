"""What the person says: a prompt with history at a terminal, one line each from anywhere else.

While an answer runs the keyboard is kept from echoing: what is typed ahead would land in the middle of it. It
is not lost, it stands at the next prompt.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from tailrace.cli.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROMPT = "> "


def piped_lines() -> Iterator[str]:
    """The lines of a standard input that is no terminal; bytes that are no UTF-8 are replaced."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")


class Keyboard:
    """Reads lines from a terminal; `prompt_to` is where the person sees the prompt."""

    def __init__(self, *, prompt_to: TextIO) -> None:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        self._prompt_to = prompt_to
        edits = prompt_to is sys.stdout and prompt_to.isatty() and History.is_available()
        self._history = History() if edits else None

    def read(self) -> str:
        """Ask for a line. Raises EOFError at Ctrl-D and KeyboardInterrupt at Ctrl-C."""
        if self._history is not None:
            line = input(_PROMPT)
            self._history.add(line)
            return line
        self._prompt_to.write(_PROMPT)
        self._prompt_to.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")


@contextmanager
def silent_keyboard() -> Iterator[None]:
    """Keep the terminal from echoing what is typed, until the block ends."""
    if find_spec("termios") is None:
        yield
        return
    import termios  # noqa: PLC0415 -- not every platform has it

    local_modes = 3
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    silent = [*before]
    silent[local_modes] &= ~termios.ECHO
    termios.tcsetattr(keyboard, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
