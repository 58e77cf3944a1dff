"""Why a model refused or failed, in the provider's own words, out of what an agent makes of it.

Agents hand over the JSON that the provider answered with, some of it wrapped once more. People are told the sentence in
it, and the status beside it is kept. Anything else is left as it is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

# gemini-cli puts it into brackets: [API Error: …]
_BRACKETED = re.compile(r"\[((?:API )?Error: .*)\]", re.DOTALL)
_DEEPEST = 4
_HTTP_ERRORS = range(400, 600)


def reason_of(message: str) -> tuple[str, int | None]:
    """The sentence, and the HTTP status where it is told."""
    said, status = message, None
    for _ in range(_DEEPEST):
        bracketed = _BRACKETED.fullmatch(said.strip())
        said = bracketed[1] if bracketed else said
        before, brace, after = said.partition("{")
        found = _sentence_in(brace + after) if brace else None
        if found is None:
            break
        sentence, code = found
        said = f"{before.strip().rstrip(':')}: {sentence}" if before.strip() else sentence
        status = code or status
    return said, status


def _sentence_in(text: str) -> tuple[str, int | None] | None:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    error: Any = value.get("error", value) if isinstance(value, dict) else None
    match error:
        case {"message": str(sentence)} if sentence:
            code = error.get("code")
            return sentence, code if isinstance(code, int) and code in _HTTP_ERRORS else None
        case str(sentence) if sentence:
            return sentence, None
        case _:
            return None
