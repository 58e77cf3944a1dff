"""Web addresses in running text: where they stand, and how to write one so that nothing in it is taken for markup.

What a link may hide behind its text is `links`' to say; which characters are markup is the dialect's.
"""

from __future__ import annotations

import re

# Neither space, angle brackets and backticks nor what turns text around is in an address. A round bracket is, where it
# is closed in it; and what ends a sentence does not end an address.
_OUTSIDE = r"\s<>`\"()\u202a-\u202e\u2066-\u2069"
_IN_BRACKETS = rf"\([^{_OUTSIDE}]*\)"
ADDRESS = re.compile(
    rf"https?://(?:[^{_OUTSIDE}]|{_IN_BRACKETS})*(?:[^{_OUTSIDE}.,:;!?'*_~|\]]|{_IN_BRACKETS})", re.IGNORECASE
)


def split_addresses(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is an address."""
    if "://" not in text:
        return [(text, False)]
    found: list[tuple[str, bool]] = []
    at = 0
    for address in ADDRESS.finditer(text):
        found += [(text[at : address.start()], False), (address[0], True)]
        at = address.end()
    return [*found, (text[at:], False)]


def percent_encode(characters: str) -> str:
    """Characters as percent signs and the numbers of their bytes, which lead to the same place."""
    return "".join(f"%{byte:02X}" for byte in characters.encode("utf-8", "replace"))
