"""The leases that a process gives while it has a SQLite ledger open.

This module assigns the epochs of leases. The process has locked the whole file, so a lease is only in memory: it needs
no write and has no deadline. The upper half of its epoch is the epoch of the file, which grows with each opening. So
each lease has a higher epoch than all earlier ones, also those of earlier processes.
"""

from __future__ import annotations

import os

from tailrace.deliveries import Lease
from tailrace.errors import Fenced

_HALF = 32


def file_epoch_of(epoch: int) -> int:
    """The epoch that the file had when a lease with this epoch was given."""
    return epoch >> _HALF


class Leases:
    """The current lease of each conversation."""

    def __init__(self, file_epoch: int) -> None:
        self._owner = f"{os.getpid()}.{file_epoch}"
        self._last = file_epoch << _HALF
        self._epochs: dict[str, int] = {}

    def acquire(self, conversation: str) -> Lease:
        """Give a new lease of the conversation. Its earlier lease ends."""
        self._last += 1
        self._epochs[conversation] = self._last
        return Lease(conversation=conversation, owner=self._owner, epoch=self._last)

    def release(self, lease: Lease) -> None:
        """End the lease. Does nothing if it has already ended."""
        if self._epochs.get(lease.conversation) == lease.epoch:
            del self._epochs[lease.conversation]

    def check(self, lease: Lease) -> None:
        """Raise `Fenced` if the lease has ended."""
        if self._epochs.get(lease.conversation) != lease.epoch:
            raise Fenced(f"the lease of {lease.conversation} with epoch {lease.epoch} has ended")

    def epochs(self, conversation: str | None) -> list[int]:
        """The epochs of the current leases: of this conversation, or with None of all conversations."""
        if conversation is None:
            return list(self._epochs.values())
        return [self._epochs[conversation]] if conversation in self._epochs else []
