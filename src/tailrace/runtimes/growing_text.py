"""Texts that grow inside plain JSON values, piece by piece, at a cost that does not grow with them.

For transcripts, which hold a conversation in the form that its agent has it in. While a text is streamed its pieces
stand in its place; `join_texts` gives the value with the texts.
"""

from __future__ import annotations

from typing import Any


class _Growing(list[str]):
    """The pieces of a text, in its place."""


def append_text(holder: dict[str, Any], name: str, piece: str) -> None:
    """Add a piece to the text that `holder` has under that name; what is there and is no text is replaced."""
    said = holder.get(name)
    if not isinstance(said, _Growing):
        said = holder[name] = _Growing([said] if isinstance(said, str) else [])
    said.append(piece)


def join_texts(value: Any) -> Any:
    """The value with every text whole; what is not growing is copied as it is."""
    match value:
        case _Growing():
            return "".join(value)
        case list():
            return [join_texts(item) for item in value]
        case dict():
            return {name: join_texts(item) for name, item in value.items()}
        case _:
            return value
