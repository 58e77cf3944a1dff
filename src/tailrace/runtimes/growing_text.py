"""Appends to texts inside plain JSON values, at the same cost however long the texts are.

The modules `history` use this: they keep a conversation in the form of the agent. While a text is streamed, a list of
its pieces is stored in its place; `join_texts` returns the value with whole texts.
"""

from __future__ import annotations

from typing import Any


class _Pieces(list[str]):
    """The pieces of a text, in the place where the whole text will be stored."""


def append_text(container: dict[str, Any], name: str, piece: str) -> None:
    """Append `piece` to the text `container[name]`. A value that is not a text is replaced by the piece."""
    pieces = container.get(name)
    if not isinstance(pieces, _Pieces):
        pieces = container[name] = _Pieces([pieces] if isinstance(pieces, str) else [])
    pieces.append(piece)


def join_texts(value: Any) -> Any:
    """Copy a JSON value; in the copy, the pieces of each text are joined."""
    match value:
        case _Pieces():
            return "".join(value)
        case list():
            return [join_texts(item) for item in value]
        case dict():
            return {name: join_texts(item) for name, item in value.items()}
        case _:
            return value
