"""Copies of the files to send: an agent may delete its own file before it is sent.

A copy is named by hashes of the delivery's id and of the content, never by the agent's file name, and only its owner
may read it. So the same file sent again is the same delivery, wherever it lies by then, and another file is another. If
no copy can be made (disk full, file gone) that delivery fails, and the text around it is still sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tailrace.deliveries import UNDELIVERED, Delivery, fingerprint_of
from tailrace.operations import PostMedia

_BLOCK_SIZE = 1 << 20


class Spool:
    """A directory with a copy of each file that is to be sent."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def copy_file(self, delivery: Delivery) -> Delivery:
        """Copy the file of the delivery. Returns the delivery with the path of the copy, or with an error and no
        path."""
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
        """Delete the copies that are older than that time."""
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
                os.fsync(copy.fileno())
            return unfinished.replace(self._directory / f"{name}-{content.hexdigest()}")
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


def _hashed_id(delivery: Delivery) -> str:
    return hashlib.blake2b(delivery.id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
