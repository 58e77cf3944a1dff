"""Join or replace lone surrogates that JavaScript agents write.

JavaScript counts a character outside the basic plane as two. Programs written in it cut texts in the middle of one,
above all long tool output, and write each half as an escape of its own. That is no Unicode: strict parsers refuse the
whole line. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_encoder = msgspec.json.Encoder()

T = TypeVar("T")


def decode_line(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a line of a command with each lone surrogate replaced by U+FFFD. Raises as the decoder does."""
    try:
        return decoder.decode(line)
    except msgspec.DecodeError as error:
        if not _SURROGATE.search(line):
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
