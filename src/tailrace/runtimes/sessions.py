"""The files that store an agent's memory if its SDK does not store it. They are in this user's data directory.

The adapters decide what a file contains. A session may have any text as its name, so the file name is a hash of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.ports import Prompt

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


def session_of(prompt: Prompt) -> str:
    """The session name of a prompt; empty if the prompt has none."""
    return prompt.session_id or prompt.conversation


def sessions_directory() -> Path:
    """The folder for the files of all sessions, in this user's data directory."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "tailrace" / "sessions"


def private_file(path: Path) -> Path:
    """Create a file, and its folder, that only the owner may read. An existing file stays as it is."""
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.touch(mode=_PRIVATE_FILE)
    return path


class SessionFiles:
    """The files of many sessions in one folder, one file per session. The first `save` creates the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, session: str) -> bytes | None:
        """The saved content; None if there is none or the file cannot be read. `save` then reports the reason."""
        try:
            return self._path(session).read_bytes()
        except OSError:
            return None

    def save(self, session: str, content: bytes) -> None:
        """Replace the session's file. If the process dies meanwhile, the file has all the old or all the new content.

        Raises OSError if that fails.
        """
        path = self._path(session)
        temporary = private_file(path.with_suffix(".new"))
        temporary.write_bytes(content)
        temporary.replace(path)

    def _path(self, session: str) -> Path:
        return self._folder / f"{hashlib.sha256(session.encode(errors='replace')).hexdigest()[:32]}.json"


class SessionFile:
    """The file of one session of a runtime; `agent` keeps agents apart that use the same session name.

    If `session` is empty, nothing is loaded or saved.
    """

    def __init__(self, runtime: str, session: str, *agent: str) -> None:
        self._files = SessionFiles(sessions_directory() / runtime)
        self._key = "\n".join((*agent, session)) if session else ""

    async def load(self) -> bytes | None:
        """The saved content; None if there is none or it cannot be read."""
        return await asyncio.to_thread(self._files.load, self._key) if self._key else None

    async def save(self, encode: Callable[[], bytes]) -> str:
        """Save what `encode` returns. Returns the reason if that failed, else ""."""
        try:
            if self._key:
                await asyncio.to_thread(self._files.save, self._key, encode())
        except (OSError, ValueError, TypeError) as error:
            return str(error)
        return ""
