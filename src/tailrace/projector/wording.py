"""Makes lines that are safe to show from text of others (tool names, arguments, reasoning, errors); formats durations.

This module shortens such a text to one line, replaces control characters and redacts secrets. `activity`, `tool_calls`
and `processing_text` decide which lines there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import regex

from tailrace.contract import ADAPTER_FAULTS
from tailrace.events import MAIN_ARGUMENTS, Error, TurnFailed
from tailrace.markdown.graphemes import last_boundary
from tailrace.redaction import redact

LINE = 60
"""The maximum number of characters of outside text on one line."""

_MAX_ERROR = 500

_LONGEST_S = 999_999_999.0
# Control characters, marks that reorder text on the screen, lone surrogates. Line ends were made spaces before.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_CLUSTER = regex.compile(r"\X")
# Markup at any position. `_` within a word is not markup, and names of tools contain it often.
_MARKUP = re.compile(r"[\\`*\[\]<~|]|&(?=[#\w])|(?<![^\W_])_|_(?![^\W_])")
# Markup at the start of a line: headings, quotes, lists, rules and the underlines of headings.
_MARKUP_AT_START = re.compile(r"^(?:[#>+=-]|(\d+)(?=[.)]))")


def one_line(text: str, length: int = LINE) -> str:
    """The text on one line. If it is longer than `length`, only its beginning, with `…` at the end."""
    text = text.strip()
    start = _text_start(text, 4 * length)
    line = _safe_line(start)
    if len(line) <= length and len(start) == len(text):
        return line
    return _text_start(line, length - 1).rstrip() + "…"


def last_line(text: str, length: int = LINE) -> str:
    """The last line of the text that is not blank. If it is longer than `length`, only its end, with `…` before it."""
    end = text_end(text.rstrip(), 4 * length)
    line = _safe_line(end.rpartition("\n")[2])
    return line if len(line) <= length else "…" + text_end(line, length - 1).lstrip()


def text_end(text: str, length: int) -> str:
    """The end of the text, at most `length` characters.

    No visible character is cut, unless it alone is longer than `length`.
    """
    start = len(text) - length
    if start <= 0:
        return text
    border = last_boundary(text, start)
    if border < start:
        cluster = _CLUSTER.match(text, border)
        border = cluster.end() if cluster is not None and cluster.end() < len(text) else start
    return text[border:]


def escaped(line: str) -> str:
    """The line as Markdown that is shown exactly like the line, with its indentation."""
    words = line.lstrip(" \t")
    indent = line[: len(line) - len(words)].expandtabs(4)
    return "\xa0" * len(indent) + _MARKUP_AT_START.sub(_escaped_start, _MARKUP.sub(r"\\\g<0>", words))


def _escaped_start(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[1] else f"\\{found[0]}"


def main_argument(arguments: Any, names: Sequence[str] = MAIN_ARGUMENTS) -> str:
    """The value of the first of these arguments that the call has, on one line: `{"command": "ls"}` gives `ls`.

    `arguments` is a mapping or the JSON of a mapping. For anything else, also for incomplete JSON, the result is "".
    """
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if not isinstance(arguments, dict):
        return ""
    return next((line for name in names if (line := one_line(redact(_as_text(arguments.get(name)))))), "")


def failure_text(event: Error | TurnFailed) -> str:
    """The message of a failure for users, on one line and without secrets.

    If the author of the runtime adapter made the mistake, users only read that the answer failed.
    """
    if event.code in ADAPTER_FAULTS:
        return "The answer failed."
    text = one_line(redact(event.message), _MAX_ERROR)
    return f"{text} [{event.code}]" if event.code else text


def format_duration(seconds: float) -> str:
    """The duration of something that has ended: `0.3s`, `12s`, `1m 05s`."""
    if round(seconds, 1) < 10:
        return f"{max(0.0, seconds):.1f}s"
    return format_elapsed(seconds + 0.5)


def format_elapsed(seconds: float) -> str:
    """Whole seconds of something that still runs: `0s`, `12s`, `1m 05s`."""
    whole = whole_seconds(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m {whole % 60:02d}s"


def whole_seconds(seconds: float) -> int:
    """The seconds as a whole number that is never negative and not too long to show.

    The runtime may report any number, also infinity or NaN.
    """
    return int(min(max(0.0, seconds), _LONGEST_S))  # `max` with the arguments in this order makes NaN 0


def _text_start(text: str, length: int) -> str:
    """The beginning of the text, at most `length` characters.

    No visible character is cut, unless it alone is longer than `length`.
    """
    return text[: last_boundary(text, length) or length]


def _safe_line(text: str) -> str:
    return _UNSAFE.sub(_REPLACEMENT, " ".join(text.split()))


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        return None


def _as_text(argument: Any) -> str:
    """The argument as text; a list of words becomes one text, because some agents give a command as such a list."""
    if isinstance(argument, list | tuple):
        argument = " ".join(word for word in argument[:LINE] if isinstance(word, str))
    return argument if isinstance(argument, str) else ""
