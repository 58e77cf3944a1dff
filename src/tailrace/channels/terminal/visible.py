"""Makes text safe to print: replaces every character that could control a terminal by a visible sign.

An escape sequence is only text without its first character (ESC or CSI) and its BEL. So single characters are replaced,
not whole sequences, and a sequence that is cut between two deltas needs no special care. Line feed and tab stay.
"""

from __future__ import annotations

import re
from functools import cache

# C0 without tab and line feed, DEL and C1; characters that reorder text on the screen (bidirectional controls and the
# deprecated format characters next to them); line and paragraph separators; lone surrogates.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]"
)
_CONTROL_PICTURES = 0x2400
_PICTURE_OF_DELETE = "\u2421"


def visible(text: str) -> str:
    """The text with a sign for each control character: ␛ for ESC, \\u202e for U+202E."""
    return _CONTROLS.sub(lambda match: _sign(match[0]), text)


@cache
def _sign(character: str) -> str:
    """The sign for a control character."""
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == 0x7F:
        return _PICTURE_OF_DELETE
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
