"""Secrets of the settings, such as tokens. A secret is read when it is used, and its text is never shown.

A setting holds a reference: `env:NAME` means the value of an environment variable, `file:PATH` the content of a file.
Any other text is the secret itself. A channel type marks a field of its settings as a secret by the type `SecretText`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from tailrace.errors import UsageError

SecretText: TypeAlias = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""The type of a field that holds a secret. Its value in the settings is a reference; the channel gets the text."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret:
    """A secret that is read later. `reference` is the text in the settings; a relative PATH in it starts at `folder`.

    `str` and `repr` show only from where the secret is read.
    """

    def __init__(self, reference: str, folder: Path = Path()) -> None:
        kind, _, rest = reference.partition(":")
        self._path = folder / Path(rest).expanduser() if kind == "file" else None
        self._variable = rest if kind == "env" else None
        self._text = reference
        if self._variable is not None and not _VARIABLE.fullmatch(self._variable):
            # The text is not in the error: it may be the secret itself.
            raise ValueError("env: needs the name of an environment variable")

    def reveal(self) -> str:
        """Read the secret and return its text. Raises `UsageError` if it cannot be read."""
        if self._variable is not None:
            text, where = os.environ.get(self._variable, ""), f"the environment variable {self._variable}"
        elif self._path is not None:
            text, where = _content(self._path), f"the file {self._path}"
        else:
            text, where = self._text, "the text"
        if not text.strip():
            raise UsageError(f"{where} is empty or not set; it must hold the secret")
        return text.strip()

    def __repr__(self) -> str:
        return f"Secret({self})"

    def __str__(self) -> str:
        return self._text if self._variable is not None or self._path is not None else "(secret)"


def is_secret(kind: Any) -> bool:
    """Whether a type is `SecretText` or contains it, such as `SecretText | None`."""
    extra = getattr(kind, "extra", None)
    return (isinstance(extra, dict) and "secret" in extra) or any(is_secret(part) for part in get_args(kind))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UsageError(f"the file {path} cannot be read: {reason}") from error
