"""When what was committed is brought from the write-ahead log into the main file, and how long that log may get.

Owns the measure only; the writer makes the checkpoint, and nobody else does: on SQLite before 3.51.3 two connections
that checkpoint at the same instant can lose what was committed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = 4096
_log = logging.getLogger(__name__)


class Checkpoints:
    """Counts towards the next checkpoint: so many `frames`, as far as can be told from the changes since the last.

    A log longer than `alarm_bytes` is no longer explained by work: somebody reads one old state and does not let go.
    """

    def __init__(self, path: Path, *, frames: int, alarm_bytes: int) -> None:
        self._path = path
        self._frames = frames
        self._alarm_at = alarm_bytes
        self._changes = 0
        self._every = max(frames // 2, 1)
        self._length = 0

    def are_due(self, changes: int, length: int) -> bool:
        """Whether the next one is due after so many more changes, the log being so long; warns where it is too long."""
        self._changes += changes
        if length > self._alarm_at:
            _log.warning(
                "%s-wal has grown to %d MiB. If it grows on, something reads the ledger and does not let go: look for "
                "a backup or a database tool that holds it open.",
                self._path,
                length >> 20,
            )
            self._alarm_at = length * 2
        return self._changes >= self._every or length > self._length + self._frames * _PAGE

    def made(self, frames: int, length: int) -> None:
        """A checkpoint was made: from the pages it found it is seen how many changes make that many."""
        self._every = min(max(self._changes * self._frames // max(frames, 1), 1), 20 * self._frames)
        self._changes = 0
        self._length = length
