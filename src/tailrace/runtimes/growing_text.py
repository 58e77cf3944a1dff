"""Append to texts inside plain JSON values. The cost does not grow with the length of the texts.

Histories, which keep a conversation in its agent's own form, use this module. While a text is streamed, a list of its
pieces is stored in its place; `join_texts` returns the value with whole texts.
"""

from __future__ import annotations

from typing import Any


class _Pieces(list[str]):
    """The pieces of a text, stored in place of the text."""


def append_text(container: dict[str, Any], name: str, piece: str) -> None:
    """Append to the text that `container` has under this name. A value that is not a text is replaced."""
    pieces = container.get(name)
    if not isinstance(pieces, _Pieces):
        pieces = container[name] = _Pieces([pieces] if isinstance(pieces, str) else [])
    pieces.append(piece)


def join_texts(value: Any) -> Any:
    """Copy the value with every text joined."""
    match value:
        case _Pieces():
            return "".join(value)
        case list():
            return [join_texts(item) for item in value]
        case dict():
            return {name: join_texts(item) for name, item in value.items()}
        case _:
            return value
