"""Reads prompts: with a line editor and a history at a terminal, or one per line from a pipe.

During an answer the terminal does not show what is typed, because that text would appear in the middle of the answer.
The text is not lost: the next prompt shows it.

The history is a private file of plain lines in UTF-8, which every line editor of Python can read. If the file cannot be
read or written, the history is kept until the session ends, and no error is shown.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from tailrace.ledger.files import data_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROMPT = "> "
_KEPT_LINES = 1000


def piped_lines() -> Iterator[str]:
    """The lines of standard input, if that is a pipe or a file. Bytes that are not UTF-8 are replaced."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")


class Keyboard:
    """Reads prompts from a person at a terminal. The `>` that asks for a prompt is written to `prompt_to`."""

    def __init__(self, *, prompt_to: TextIO) -> None:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        self._prompt_to = prompt_to
        edits = prompt_to is sys.stdout and prompt_to.isatty() and find_spec("readline") is not None
        self._history = _History() if edits else None

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


@contextmanager
def silent_keyboard() -> Iterator[None]:
    """Do not show typed text on the terminal while the block runs."""
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


class _History:
    """The earlier prompts: in the line editor of `input`, and in a file for the next session.

    It also lets the line editor take pasted text with several lines as one prompt.
    """

    def __init__(self) -> None:
        # This import gives `input` its line editor. Not every Python has the module, and only prompts need it.
        import readline  # noqa: PLC0415

        if os.environ.get("TERM") != "dumb":  # such a terminal would show the marks of a paste
            # GNU readline keeps pasted line breaks in the prompt. Python turns this off for its interactive mode, which
            # runs one line at a time. Other line editors ignore the setting.
            readline.parse_and_bind("set enable-bracketed-paste on")
        readline.set_auto_history(False)
        self._add_to_editor = readline.add_history
        self._last = ""
        self._path: Path | None = None
        # There is no file if the home directory is unknown (RuntimeError) or cannot be used (OSError).
        with suppress(OSError, RuntimeError):
            self._path = data_directory() / "chat_history"
            self._load(self._path)

    def add(self, prompt: str) -> None:
        """Add a prompt to the history as one line, unless it is blank or equal to the last one."""
        line = " ".join(prompt.splitlines()).strip()
        if not line or line == self._last:
            return
        self._last = line
        self._offer(line)
        if self._path is not None:
            with suppress(OSError):
                _append(self._path, line)

    def _load(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        if not path.exists():
            return
        lines = path.read_bytes().decode("utf-8", errors="replace").splitlines()
        for line in lines[-_KEPT_LINES:]:
            self._offer(line)
        if len(lines) > 2 * _KEPT_LINES:
            path.unlink()
            _append(path, *lines[-_KEPT_LINES:])

    def _offer(self, line: str) -> None:
        # The editor takes C strings without NUL, and refuses text that is not valid in UTF-8.
        self._add_to_editor(line.replace("\0", "").encode("utf-8", errors="replace").decode())


def _append(path: Path, *lines: str) -> None:
    """Add lines to a file and make sure that only its owner may read the file, also if the umask would allow more."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "wb") as file:
        path.chmod(0o600)
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace"))
