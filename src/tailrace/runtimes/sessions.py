"""Where the memory of agents is kept whose SDK leaves that to us: files of this user, in the platform's place for them.

Which agent remembers what is the adapters' to say. A session is known by any text; its file by a digest of it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.ports import Prompt

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


def session_of(prompt: Prompt) -> str:
    """Which memory a prompt belongs to; empty where nobody said."""
    return prompt.session_id or prompt.conversation


def sessions_directory() -> Path:
    """Where this platform keeps a program's own data for this user, and there our folder of sessions."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "tailrace" / "sessions"


def private_file(path: Path) -> Path:
    """Make a file that only its owner may read, and the folder as well; one that is there stays as it is."""
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.touch(mode=_PRIVATE_FILE)
    return path


class SessionFiles:
    """A file per session in one folder, which is made when the first one is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, session: str) -> bytes | None:
        """What was kept last; None where nothing was, or where it cannot be read: then `keep` says what is wrong."""
        try:
            return self._path(session).read_bytes()
        except OSError:
            return None

    def keep(self, session: str, content: bytes) -> None:
        """Keep this in place of what was kept: all of it or, if the process dies, what was there before.

        Raises OSError where that cannot be.
        """
        path = self._path(session)
        draft = private_file(path.with_suffix(".new"))
        draft.write_bytes(content)
        draft.replace(path)

    def _path(self, session: str) -> Path:
        return self._folder / f"{hashlib.sha256(session.encode(errors='replace')).hexdigest()[:32]}.json"
