"""Files on their way: what an agent made may be gone before it is sent, so a copy is kept until it is.

A copy is named by a hash of its delivery's name, never by what an agent calls it, and only its owner may read it.
Where no copy can be kept (the disk is full, the file is gone) that delivery has failed, and the text around it goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tailrace.deliveries import Delivery, fingerprint_of
from tailrace.operations import PostMedia


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
            copy = await asyncio.to_thread(self._copy, Path(media.path), self._place(delivery))
        except OSError as error:
            reason = f"the file could not be kept until it is sent: {error.strerror or type(error).__name__}"
            kept = replace(media, path=None)
        else:
            reason = ""
            kept = replace(media, path=str(copy))
        return replace(delivery, operation=kept, fingerprint=fingerprint_of(kept), error=reason)

    def release(self, delivery: Delivery) -> None:
        """The delivery is final: forget its copy."""
        if isinstance(delivery.operation, PostMedia) and delivery.operation.path is not None:
            place = self._place(delivery)
            if delivery.operation.path == str(place):
                with suppress(OSError):
                    place.unlink()

    def _place(self, delivery: Delivery) -> Path:
        name = hashlib.blake2b(delivery.delivery_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self._directory / name

    def _copy(self, source: Path, place: Path) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = place.with_suffix(".part")
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with source.open("rb") as original, os.fdopen(handle, "wb") as copy:
                shutil.copyfileobj(original, copy)
                copy.flush()
                os.fsync(copy.fileno())
            unfinished.replace(place)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        return place
