"""Reads prompts: with a line editor and history at a terminal, one per line from a pipe.

While an answer runs the terminal does not echo, because typed text would appear in the middle of the answer. The text
is not lost: the next prompt shows it.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from tailrace.cli.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROMPT = "> "


def piped_lines() -> Iterator[str]:
    """The lines of a standard input that is not a terminal. Bytes that are not UTF-8 are replaced."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")


class Keyboard:
    """Reads prompts from a terminal; `prompt_to` is where the person sees the `>`."""

    def __init__(self, *, prompt_to: TextIO) -> None:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        self._prompt_to = prompt_to
        edits = prompt_to is sys.stdout and prompt_to.isatty() and History.is_available()
        self._history = History() if edits else None
        if edits:
            _paste_as_one_prompt()

    def read(self) -> str:
        """Read one prompt. Raises EOFError at Ctrl-D and KeyboardInterrupt at Ctrl-C."""
        if self._history is not None:
            prompt = input(_PROMPT).rstrip("\n")
            self._history.add(prompt)
            return prompt
        self._prompt_to.write(_PROMPT)
        self._prompt_to.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")


def _paste_as_one_prompt() -> None:
    """Keep pasted line breaks in the prompt, so that they do not end it.

    GNU readline can do this (bracketed paste): the terminal marks where a paste begins and ends. Python turns it off
    for its interactive mode, which runs one line at a time; `input` accepts line breaks. Other line editors ignore
    this setting. A dumb terminal would print the marks.
    """
    import readline  # noqa: PLC0415 -- not every Python has it

    if os.environ.get("TERM") != "dumb":
        readline.parse_and_bind("set enable-bracketed-paste on")


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
