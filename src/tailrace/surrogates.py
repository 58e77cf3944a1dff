"""Join or replace lone surrogates that JavaScript agents write.

JavaScript stores a character outside the basic plane as two halves, called surrogates. A JavaScript program may cut a
text, above all long tool output, between the two halves, and write each half as an escape of its own. That is not valid
Unicode, so strict parsers refuse the whole line. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any, TypeVar

import msgspec

_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_encoder = msgspec.json.Encoder()

T = TypeVar("T")


def decode_line(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a line that a command wrote; each lone surrogate becomes U+FFFD. Raises the errors of the decoder."""
    try:
        return decoder.decode(line)
    except msgspec.DecodeError as error:
        if not _ESCAPED.search(line):
            raise
        try:
            value = json.loads(line)
        except ValueError:
            raise error from None
        return decoder.decode(_encoder.encode(replace_surrogates(value)))


def replace_surrogates(value: Any) -> Any:
    """Copy the value with each surrogate pair joined and each lone surrogate replaced by U+FFFD."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [replace_surrogates(item) for item in value]
        case dict():
            return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
        case _:
            return value


def has_surrogates(text: str) -> bool:
    """True if the text contains a surrogate, alone or in a pair."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def loads_surrogates(line: bytes | str) -> Any:
    """Decode JSON that contains surrogates as escapes, and keep them in the decoded texts.

    Raises `ValueError` if the line contains no such escape, or is not valid JSON.
    """
    encoded = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    if not _ESCAPED.search(encoded):
        raise ValueError("there is no surrogate in it")
    return json.loads(encoded)


class SurrogateJoiner:
    """Joins characters that were cut between two pieces of a text: the first half waits for the next piece."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, str] = {}

    def join(self, key: Hashable, piece: Any) -> Any:
        """Put the half character that waited for this text before the piece, and return the result.

        If the result ends with half a character, that half is held back until the next call. `key` names the text:
        several texts can grow at the same time.
        """
        if not isinstance(piece, str):
            return piece
        piece = self._halves.pop(key, "") + piece
        if "\ud800" <= piece[-1:] <= "\udbff":
            self._halves[key] = piece[-1]
            piece = piece[:-1]
        return replace_surrogates(piece) if has_surrogates(piece) else piece

    def end(self) -> list[Hashable]:
        """Drop the half characters that still wait. Returns the keys of their texts."""
        keys = list(self._halves)
        self._halves.clear()
        return keys

    @property
    def is_waiting(self) -> bool:
        """True if half a character waits for its other half."""
        return bool(self._halves)
