"""Copies of the files to send: an agent may delete its own file before it is sent.

The name of a copy is made of hashes of the delivery's id and of the content, never of the agent's file name. So when a
turn is repeated, the same content is the same delivery, even if the file has moved. Only the owner of the copy may read
it. If no copy can be made (disk full, no such file), that delivery fails, and the other parts are still sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import UNDELIVERED, Delivery, fingerprint_of
from tailrace.operations import PostMedia

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK_SIZE = 1 << 20


class Spool:
    """A directory with a copy of each file to send. `sync` is called to write a file or a directory to the disk."""

    def __init__(self, directory: Path, *, sync: Callable[[int], None] = os.fsync) -> None:
        self._directory = directory
        self._sync = sync

    async def copy_file(self, delivery: Delivery) -> Delivery:
        """Copy the file of a delivery. Returns the delivery with the path of the copy.

        If the file could not be copied, the delivery has an error instead of the path.
        """
        media = delivery.operation
        if not isinstance(media, PostMedia) or media.path is None:
            return delivery
        try:
            copy = await asyncio.to_thread(self._copy, Path(media.path), _hashed_id(delivery))
        except OSError as error:
            reason = f"the file could not be copied: {error.strerror or type(error).__name__}"
            with_copy = replace(media, path=None)
        else:
            reason = ""
            with_copy = replace(media, path=str(copy))
        return replace(delivery, operation=with_copy, fingerprint=fingerprint_of(with_copy), error=reason)

    def release(self, delivery: Delivery) -> None:
        """Delete the copy of a final delivery, unless the delivery may be resent."""
        media = delivery.operation
        if isinstance(media, PostMedia) and media.path is not None and delivery.state not in UNDELIVERED:
            copy = Path(media.path)
            if copy.parent == self._directory and copy.name.startswith(_hashed_id(delivery)):
                with suppress(OSError):
                    copy.unlink()

    async def prune(self, before: float) -> None:
        """Delete the copies that are older than the time `before`."""
        await asyncio.to_thread(self._prune, before)

    def _prune(self, before: float) -> None:
        with suppress(OSError):
            for copy in self._directory.iterdir():
                if copy.stat().st_mtime < before:
                    copy.unlink()

    def _copy(self, source: Path, name: str) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._directory / f"{name}.part"
        content = hashlib.blake2b(digest_size=16)
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as copy, source.open("rb") as original:
                while block := original.read(_BLOCK_SIZE):
                    content.update(block)
                    copy.write(block)
                copy.flush()
                self._sync(copy.fileno())
            kept = unfinished.replace(self._directory / f"{name}-{content.hexdigest()}")
            # The ledger has the path on disk, so the name of the copy must be on disk too: power may be lost.
            directory = os.open(self._directory, os.O_RDONLY)
            try:
                self._sync(directory)
            finally:
                os.close(directory)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        return kept


def _hashed_id(delivery: Delivery) -> str:
    return hashlib.blake2b(delivery.id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
