"""When the write-ahead log is copied into the main file (a checkpoint), and how long the log may get.

This module only decides. The writer makes the checkpoints, and no other connection does: before SQLite 3.51.3, two
connections that make a checkpoint at the same moment can lose commits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = 4096
_log = logging.getLogger(__name__)


class Checkpoints:
    """Decides when a checkpoint is due: after about `frames` pages, estimated from the number of changes.

    If the log grows beyond `alarm_bytes`, a warning is logged: another process probably reads an old state for long.
    """

    def __init__(self, path: Path, *, frames: int, alarm_bytes: int) -> None:
        self._path = path
        self._frames = frames
        self._alarm_at = alarm_bytes
        self._changes = 0
        self._every = max(frames // 2, 1)
        self._length = 0

    def are_due(self, changes: int, length: int) -> bool:
        """Whether a checkpoint is due after these `changes`. Warns if the log, of `length` bytes, is too long."""
        self._changes += changes
        if length > self._alarm_at:
            _log.warning(
                "%s-wal has grown to %d MiB. If it keeps growing, another program holds the ledger open: look for a "
                "backup or a database tool.",
                self._path,
                length >> 20,
            )
            self._alarm_at = length * 2
        return self._changes >= self._every or length > self._length + self._frames * _PAGE

    def made(self, frames: int, length: int) -> None:
        """Record that a checkpoint of `frames` pages was made, to estimate how many pages one change needs."""
        self._every = min(max(self._changes * self._frames // max(frames, 1), 1), 20 * self._frames)
        self._changes = 0
        self._length = length
