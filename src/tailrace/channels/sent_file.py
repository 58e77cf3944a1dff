"""A file of this machine that a channel sends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import SendRefused

if TYPE_CHECKING:
    from typing import BinaryIO

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def open_to_send(path: str) -> BinaryIO:
    """Open the file. Raises `SendRefused` if it cannot be read."""
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise SendRefused(f"the file to send cannot be read: {error.strerror}") from error


def shown_name(path: str) -> str:
    """The file name that users see: the last part of the path, without control characters."""
    return _CONTROLS.sub("_", Path(path).name) or "file"
