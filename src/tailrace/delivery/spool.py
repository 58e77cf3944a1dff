"""Files on their way: what an agent made may be gone before it is sent, so a copy is kept until it is.

A copy is named by hashes of its delivery's name and of its content, never by what an agent calls it, and only its owner
may read it: the same file said again is the same delivery, wherever it lies by then, and another one is another. Where
no copy can be kept (the disk is full, the file is gone) that delivery has failed, and the text around it goes on.
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

_PIECE = 1 << 20


class Spool:
    """A directory of our own with a copy of each file that is to be sent."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def keep(self, delivery: Delivery) -> Delivery:
        """The delivery with the copy in place of the file; with none, and the reason, where there can be none."""
        media = delivery.operation
        if not isinstance(media, PostMedia) or media.path is None:
            return delivery
        try:
            copy = await asyncio.to_thread(self._copy, Path(media.path), _hashed(delivery))
        except OSError as error:
            reason = f"the file could not be kept until it is sent: {error.strerror or type(error).__name__}"
            kept = replace(media, path=None)
        else:
            reason = ""
            kept = replace(media, path=str(copy))
        return replace(delivery, operation=kept, fingerprint=fingerprint_of(kept), error=reason)

    def release(self, delivery: Delivery) -> None:
        """The delivery is final: forget its copy, unless somebody may still ask for it to be sent again."""
        media = delivery.operation
        if isinstance(media, PostMedia) and media.path is not None and delivery.state not in UNDELIVERED:
            copy = Path(media.path)
            if copy.parent == self._directory and copy.name.startswith(_hashed(delivery)):
                with suppress(OSError):
                    copy.unlink()

    async def forget(self, before: float) -> None:
        """Forget the copies that were made before that time: nobody asks for them any more."""
        await asyncio.to_thread(self._forget, before)

    def _forget(self, before: float) -> None:
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
                while piece := original.read(_PIECE):
                    content.update(piece)
                    copy.write(piece)
                copy.flush()
                os.fsync(copy.fileno())
            return unfinished.replace(self._directory / f"{name}-{content.hexdigest()}")
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


def _hashed(delivery: Delivery) -> str:
    return hashlib.blake2b(delivery.id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
