"""Removes secrets from text before a person, a log or a file gets it.

`redact` removes text that looks like a secret: well-known kinds of tokens, passwords in URLs, and values after words
such as `password=`. `Redaction` also removes the values of secret environment variables. Both need whole texts: a
caller that gets text in pieces joins the pieces first. Pure: the environment is an argument.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

REDACTED = "[redacted]"
_MIN_LENGTH = 8  # a shorter value would also be found in ordinary words
_SECRET_NAMES = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_TOKENS = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|gh[oprsu]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}"
    r"|(?<!\d)\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"  # a Telegram token, also after `bot` in a URL
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# The first group is kept. A password ends at the last @ before the path, because it may itself contain an @.
_PASSWORD_IN_URL = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/@:\"'<>]{0,256}:)[^\s/\"'<>]{1,512}(?=@)")
_AUTHORIZATION = re.compile(r"(?i)(\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_NAMED_VALUE = re.compile(
    r"(?i)(\b[\w.-]{0,40}(?:passwo?r?d|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s{0,3}[=:]\s{0,3})"
    r"(?!\[redacted\])(?:\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[^\s\"'&,;)\]}]{4,512})"
)


def redact(text: str) -> str:
    """The text with everything that looks like a secret replaced."""
    text = _TOKENS.sub(REDACTED, text)
    text = _PASSWORD_IN_URL.sub(rf"\1{REDACTED}", text)
    text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
    return _NAMED_VALUE.sub(rf"\1{REDACTED}", text)


class Redaction:
    """Removes what looks like a secret, and the values of environment variables with names such as `API_KEY`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        names = (name for name in environment if _SECRET_NAMES.search(name))
        secrets = {environment[name] for name in names if len(environment[name]) >= _MIN_LENGTH}
        # The pattern tries the longest secret first, because one secret may be part of another.
        pattern = "|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True))
        self._secrets = re.compile(pattern) if pattern else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        return redact(text if self._secrets is None else self._secrets.sub(REDACTED, text))

    def value(self, value: Any) -> Any:
        """The value with secrets removed from each text in it, also inside lists and mappings."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.value(key): self.value(item) for key, item in value.items()}
            case list() | tuple():
                return [self.value(item) for item in value]
            case _:
                return value
