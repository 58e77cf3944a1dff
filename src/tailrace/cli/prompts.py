"""Where prompts come from: a line editor with history at a terminal, one line each from a pipe.

While an answer runs the terminal does not echo: what is typed ahead would appear in the middle of the answer. It is not
lost, the next prompt shows it.
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
    """Have pasted line breaks stay in the prompt, instead of each of them ending one.

    GNU readline does it (bracketed paste): the terminal says where a paste begins and ends. Python turns that off,
    because its own prompt runs one line at a time; `input` itself takes a line with breaks in it. Other line editors
    pass over a setting that they do not know, and a dumb terminal would print the marks.
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
