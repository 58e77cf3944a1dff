"""Web addresses in running text: where they are, and how to write one so that nothing in it becomes markup.

`links` decides which link texts and targets are allowed. Each dialect decides which characters are markup.
"""

from __future__ import annotations

import re

# An address has no spaces, angle brackets, backticks or characters that change the text direction. A round bracket is
# part of the address if its partner is too. Punctuation at the end of an address belongs to the sentence.
_OUTSIDE = r"\s<>`\"()\u202a-\u202e\u2066-\u2069"
_IN_BRACKETS = rf"\([^{_OUTSIDE}]*\)"
ADDRESS = re.compile(
    rf"https?://(?:[^{_OUTSIDE}]|{_IN_BRACKETS})*(?:[^{_OUTSIDE}.,:;!?'*_~|\]]|{_IN_BRACKETS})", re.IGNORECASE
)


def split_addresses(text: str) -> list[tuple[str, bool]]:
    """Split the text into pieces, and mark with True the pieces that are web addresses.

    `see https://a.b` gives [("see ", False), ("https://a.b", True), ("", False)].
    """
    if "://" not in text:
        return [(text, False)]
    found: list[tuple[str, bool]] = []
    at = 0
    for address in ADDRESS.finditer(text):
        found += [(text[at : address.start()], False), (address[0], True)]
        at = address.end()
    return [*found, (text[at:], False)]


def percent_encode(characters: str) -> str:
    """Percent-encode these characters of an address: `*` gives `%2A`. The address still leads to the same page."""
    return "".join(f"%{byte:02X}" for byte in characters.encode("utf-8", "replace"))
