"""What a link may hide: the one policy on link texts and targets for all dialects.

A person must be able to tell where a link leads. A target that a platform has no link for stands behind the text, and
so does one whose text names another address. What cannot be seen is taken out of a link's text where it turns the
text around, and made visible in its target; `parsing` does both for every link and image of a tree.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they turn the text around that follows
_UNSEEN = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PORT = re.compile(r":\d")
_BEFORE_HOST = re.compile(r"/*(?:www\.)?")
_AFTER_HOST = re.compile(r"[/?#].*", re.DOTALL)
_AS_BROWSERS_READ = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": ".", "\\": "/"})
_OPENING, _CLOSING = "\"'<([{«“‘„", "\"'>)]}»”’.,;:!?"
_NAME = re.compile(r"(?:[^\s@/?#:]+@)?(?:[\w-]+\.)+([^\W\d_]{2,}|xn--[\w-]+)(?::\d+)?(?:[/?#]\S*)?")
# Names of files look like addresses. Where such an ending is a country's, too, the name of a file is still likelier.
_FILE_ENDINGS = frozenset(
    (
        *("c", "cc", "cpp", "cs", "css", "csv", "go", "h", "html", "ini", "ipynb", "java", "js", "json", "jsx", "kt"),
        *("lock", "log", "lua", "md", "pdf", "php", "png", "py", "rb", "rs", "rst", "sh", "sql", "svg", "toml", "ts"),
        *("tsx", "txt", "xml", "yaml", "yml"),
    )
)


def remove_bidi_overrides(text: str) -> str:
    """The text without the characters that turn its direction around."""
    return text if text.isascii() else _OVERRIDES.sub("", text)


def visible_target(url: str) -> str:
    """The target with every space and invisible character in it percent-encoded, so that it shows and is one word."""
    if url.isascii() and url.isprintable() and " " not in url:
        return url
    return "".join(_visible(character) for character in url)


def _visible(character: str) -> str:
    return quote(character, safe="") if unicodedata.category(character) in _UNSEEN else character


def scheme(url: str) -> str:
    """The scheme of an address in lower case, without its colon; nothing where it has none."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def link_as_text(text: str, url: str) -> str:
    """A link as text: `text (url)`, or one of them where the other adds nothing."""
    if not url or url in (text, f"mailto:{text}"):
        return text
    return f"{text} ({url})" if text.strip() else url


def deceives(text: str, url: str) -> bool:
    """Whether a link's text names an address, and the link leads to another one."""
    target = _bare_address(url)
    named = (word.lstrip(_OPENING).rstrip(_CLOSING) for word in _normalized(text).split())
    return any(_is_address(word) and not _leads_to(_bare_address(word), target) for word in named)


def _normalized(text: str) -> str:
    """The text as an eye and a browser take it: without what is invisible, in the usual width."""
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
    """Whether the target is what was named, or something below it."""
    return target == named or (target.startswith(named) and target[len(named)] in "/?#")


def _bare_address(address: str) -> str:
    """What an address leads to, for comparing: without scheme, `www.`, password and a slash at the end."""
    address = _normalized(address).casefold()
    named_scheme = scheme(address)
    if _PORT.match(address, len(named_scheme)):
        named_scheme = ""  # it was a host
    elif named_scheme:
        address = address[len(named_scheme) + 1 :]
    address = _BEFORE_HOST.sub("", address, count=1)
    host = _AFTER_HOST.sub("", address, count=1)
    rest = address[len(host) :]
    if named_scheme not in ("", "mailto"):
        host = host.rpartition("@")[2]
    return (host.rstrip(".") + rest).rstrip("/")
