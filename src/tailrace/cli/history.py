"""Earlier prompts, for the arrow keys: kept in a private file if one can be written.

The file holds plain lines of UTF-8, so every line editor that Python may be built with reads it. If it cannot be read
or written, the history lasts for this session, and nothing is reported.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tailrace.ledger.files import data_directory

if TYPE_CHECKING:
    from pathlib import Path

_KEPT_LINES = 1000


class History:
    """The lines the line editor offers, and the file they are kept in."""

    def __init__(self) -> None:
        # Importing it is what makes `input` edit lines. Not every Python has it, and only a prompt needs it.
        import readline  # noqa: PLC0415

        readline.set_auto_history(False)
        self._add_to_editor = readline.add_history
        self._last = ""
        self._path: Path | None = None
        # Without a file if the home directory is unknown (RuntimeError) or cannot be used (OSError).
        with suppress(OSError, RuntimeError):
            self._path = data_directory() / "chat_history"
            self._load(self._path)

    @staticmethod
    def is_available() -> bool:
        """Whether this Python has line editing at all."""
        return find_spec("readline") is not None

    def add(self, prompt: str) -> None:
        """Remember a prompt as one line, unless it is blank or the same as the one before."""
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
        # The editor takes C strings, which cannot hold a NUL, and encodes strictly.
        self._add_to_editor(line.replace("\0", "").encode("utf-8", errors="replace").decode())


def _append(path: Path, *lines: str) -> None:
    """Add lines to a file that only its owner may read, whatever the umask."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "wb") as file:
        path.chmod(0o600)
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace"))
