"""Text as it is appended to an open stream: piece by piece, so only what can be said of each character alone is done.

What the stream says in the end is set by the rendered body; until then it must be readable and harmless.
"""

from __future__ import annotations

# Slack reads mentions and links in angle brackets, also in what an agent says.
_ESCAPES = {"slack": str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})}


def appendable(text: str, dialect: str) -> str:
    """The text as the platform takes it."""
    escapes = _ESCAPES.get(dialect)
    return text.translate(escapes) if escapes is not None else text
