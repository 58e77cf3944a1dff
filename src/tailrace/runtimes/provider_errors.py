"""Why a model refused or failed, in the provider's own words, out of what an agent makes of it.

Agents hand over the JSON that the provider answered with, some of it wrapped once more, and those in Python what Python
makes of it. People are told the sentence in it, and the status beside it is kept. Anything else is left as it is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

# gemini-cli puts it into brackets: [API Error: …]
_BRACKETED = re.compile(r"\[((?:API )?Error: .*)\]", re.DOTALL)
# SDKs in Python put the status first, and behind it the answer as Python writes it, which is no JSON:
# "Error code: 400 - {'error': …}", "status_code: 400, …, body: {…}", "400 INVALID_ARGUMENT. {…}".
_IN_PYTHON = re.compile(
    r"(?:Error code: |status_code: )?([45]\d\d)\b[^{]*\{.*?'message': "
    r"""(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)")""",
    re.DOTALL,
)
_LONGEST_IN_PYTHON = 4_000  # each place where a sentence could begin is looked at to the end
_ESCAPED = re.compile(r"\\([\\'\"nrt])")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_DEEPEST = 4
_HTTP_ERRORS = range(400, 600)


def provider_error_text(message: str) -> tuple[str, int | None]:
    """The sentence, and the HTTP status where it is told."""
    said, status = message, None
    if (written := _IN_PYTHON.match(message, 0, _LONGEST_IN_PYTHON)) is not None:
        return _unescaped(written[2] or written[3]), int(written[1])
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


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), text)


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
