"""Finds the provider's error message in the error text of an agent.

Agents pass on the provider's JSON, sometimes inside other text. Python SDKs pass on its Python form (`repr`). People
see only the message in it, and the HTTP status is kept. Any other text stays unchanged.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

# gemini-cli writes the error in brackets: [API Error: …]
_BRACKETED = re.compile(r"\[((?:API )?Error: .*)\]", re.DOTALL)
# Python SDKs write the status first, then the `repr` of the response, which is no JSON:
# "Error code: 400 - {'error': …}", "status_code: 400, …, body: {…}", "400 INVALID_ARGUMENT. {…}".
_PYTHON_REPR = re.compile(
    r"(?:Error code: |status_code: )?([45]\d\d)\b[^{]*\{.*?'message': "
    r"""(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)")""",
    re.DOTALL,
)
_MAX_PYTHON_REPR = 4_000  # from each possible start, the pattern reads to the end, so long texts cost much
_ESCAPED = re.compile(r"\\([\\'\"nrt])")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_MAX_NESTING = 4
_HTTP_ERRORS = range(400, 600)


def provider_error_text(message: str) -> tuple[str, int | None]:
    """Return the provider's message in an error text, or the text itself; and the HTTP status if there is one."""
    text, status = message, None
    if (match := _PYTHON_REPR.match(message, 0, _MAX_PYTHON_REPR)) is not None:
        return _unescaped(match[2] or match[3]), int(match[1])
    for _ in range(_MAX_NESTING):
        bracketed = _BRACKETED.fullmatch(text.strip())
        text = bracketed[1] if bracketed else text
        before, brace, after = text.partition("{")
        found = _message_in(brace + after) if brace else None
        if found is None:
            break
        text_inside, code = found
        text = f"{before.strip().rstrip(':')}: {text_inside}" if before.strip() else text_inside
        status = code or status
    return text, status


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), text)


def _message_in(text: str) -> tuple[str, int | None] | None:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    error: Any = value.get("error", value) if isinstance(value, dict) else None
    match error:
        case {"message": str(text_inside)} if text_inside:
            code = error.get("code")
            return text_inside, code if isinstance(code, int) and code in _HTTP_ERRORS else None
        case str(text_inside) if text_inside:
            return text_inside, None
        case _:
            return None
