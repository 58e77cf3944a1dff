"""Halves of characters in JSON, so that no text of ours holds one, and none of what holds one is lost.

JavaScript counts a character outside the basic plane as two. What is written in it cuts texts between them, above all
the output of tools that is too long, and writes each half for itself, which is no Unicode and which strict readers
refuse with all that stands around it. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_encoder = msgspec.json.Encoder()

T = TypeVar("T")


def decode_line(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """What a line of a command holds, with a mark in place of each half of a character. Raises as the decoder does."""
    try:
        return decoder.decode(line)
    except msgspec.DecodeError as error:
        if not _HALF.search(line):
            raise
        try:
            value = json.loads(line)
        except ValueError:
            raise error from None
        return decoder.decode(_encoder.encode(replace_surrogates(value)))


def replace_surrogates(value: Any) -> Any:
    """The value with every pair of halves as the character it is, and a mark for each half that is alone."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [replace_surrogates(item) for item in value]
        case dict():
            return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
        case _:
            return value
