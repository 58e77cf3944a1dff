"""The policy on link texts and targets for all dialects: a reader must see where a link leads.

If the platform cannot link to the target, or if the text names another address, the target is written after the text.
Characters that change the text direction are removed from the text of a link. Invisible characters in a target are
percent-encoded. `parsing` does the last two for every link and image.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they change the direction of the text that follows
_UNSEEN = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PORT = re.compile(r":\d")
_BEFORE_HOST = re.compile(r"/*(?:www\.)?")
_AFTER_HOST = re.compile(r"[/?#].*", re.DOTALL)
_AS_BROWSERS_READ = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": ".", "\\": "/"})
_OPENING, _CLOSING = "\"'<([{«“‘„", "\"'>)]}»”’.,;:!?"
_NAME = re.compile(r"(?:[^\s@/?#:]+@)?(?:[\w-]+\.)+([^\W\d_]{2,}|xn--[\w-]+)(?::\d+)?(?:[/?#]\S*)?")
# File names look like addresses. Some of these endings are countries too, but a file name is more likely.
_FILE_ENDINGS = frozenset(
    (
        *("c", "cc", "cpp", "cs", "css", "csv", "go", "h", "html", "ini", "ipynb", "java", "js", "json", "jsx", "kt"),
        *("lock", "log", "lua", "md", "pdf", "php", "png", "py", "rb", "rs", "rst", "sh", "sql", "svg", "toml", "ts"),
        *("tsx", "txt", "xml", "yaml", "yml"),
    )
)


def remove_bidi_overrides(text: str) -> str:
    """Remove the characters that change the direction of text."""
    return text if text.isascii() else _OVERRIDES.sub("", text)


def visible_target(url: str) -> str:
    """Percent-encode every space and invisible character of a target, so that it is visible and one word."""
    if url.isascii() and url.isprintable() and " " not in url:
        return url
    return "".join(_visible(character) for character in url)


def _visible(character: str) -> str:
    return quote(character, safe="") if unicodedata.category(character) in _UNSEEN else character


def scheme(url: str) -> str:
    """The scheme of an address in lower case, without its colon; "" if it has none."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def link_as_text(text: str, url: str) -> str:
    """Write a link as text: `text (url)`, or only one of the two if the other says nothing new."""
    if not url or url in (text, f"mailto:{text}"):
        return text
    return f"{text} ({url})" if text.strip() else url


def deceives(text: str, url: str) -> bool:
    """Whether a link's text names one address while the link leads to another one."""
    target = _bare_address(url)
    named = (word.lstrip(_OPENING).rstrip(_CLOSING) for word in _normalized(text).split())
    return any(_is_address(word) and not _leads_to(_bare_address(word), target) for word in named)


def _normalized(text: str) -> str:
    """The text as readers and browsers understand it: without invisible characters, and `Ａ` becomes `A`."""
    if not text.isascii():
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
        text = unicodedata.normalize("NFKC", text)
    return text.translate(_AS_BROWSERS_READ)


def _is_address(word: str) -> bool:
    if "://" in word or word.lower().startswith(("www.", "mailto:")):
        return True
    found = _NAME.fullmatch(word)
    return found is not None and ("@" in word or found[1].lower() not in _FILE_ENDINGS)


def _leads_to(named: str, target: str) -> bool:
    """Whether the target is the address that the text names, or a page below it."""
    return target == named or (target.startswith(named) and target[len(named)] in "/?#")


def _bare_address(address: str) -> str:
    """The part of an address that counts in a comparison: without scheme, `www.`, password and the slash at its end."""
    address = _normalized(address).casefold()
    url_scheme = scheme(address)
    if _PORT.match(address, len(url_scheme)):
        url_scheme = ""  # it is not a scheme but a host, because a port follows
    elif url_scheme:
        address = address[len(url_scheme) + 1 :]
    address = _BEFORE_HOST.sub("", address, count=1)
    host = _AFTER_HOST.sub("", address, count=1)
    rest = address[len(host) :]
    if url_scheme not in ("", "mailto"):
        host = host.rpartition("@")[2]
    return (host.rstrip(".") + rest).rstrip("/")
