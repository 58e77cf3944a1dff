"""What an agent does, in words that are safe to show: short, on one line, of whole characters, commanding nobody.

It owns how foreign text (names, arguments, thoughts) is cut down to a line and how a time is told. What the lines are
about, and which are shown, is left to `activity` and `processing`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import regex

from tailrace.events import MAIN_ARGUMENTS
from tailrace.markdown.graphemes import last_border

LINE = 60
"""The most characters of foreign text on a line."""

_LONGEST_S = 999_999_999.0
# Controls, marks that reorder text on the screen, halves of surrogate pairs. Separators of lines are space by then.
_COMMANDING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_CLUSTER = regex.compile(r"\X")


def one_line(text: str, length: int = LINE) -> str:
    """The beginning of the text on one line; `…` where there is more."""
    text = text.strip()
    seen = _beginning(text, 4 * length)
    line = _harmless(seen)
    if len(line) <= length and len(seen) == len(text):
        return line
    return _beginning(line, length - 1).rstrip() + "…"


def last_line(text: str, length: int = LINE) -> str:
    """The end of the last line that says something; `…` before it where the line begins earlier."""
    end = ending(text.rstrip(), 4 * length)
    line = _harmless(end.rpartition("\n")[2])
    return line if len(line) <= length else "…" + ending(line, length - 1).lstrip()


def ending(text: str, length: int) -> str:
    """The end of the text, at most so long, cut before a whole grapheme unless one alone is longer."""
    start = len(text) - length
    if start <= 0:
        return text
    border = last_border(text, start)
    if border < start:
        cluster = _CLUSTER.match(text, border)
        border = cluster.end() if cluster is not None and cluster.end() < len(text) else start
    return text[border:]


def telling(arguments: Any, names: Sequence[str] = MAIN_ARGUMENTS) -> str:
    """The argument that tells most about a call, on one line; nothing where none of the names is there.

    Arguments are what a runtime made of them: a mapping, the JSON of one (perhaps half of it), anything.
    """
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if not isinstance(arguments, dict):
        return ""
    return next((line for name in names if (line := one_line(_words(arguments.get(name))))), "")


def lasted(seconds: float) -> str:
    """How long something took, as a person says it: `0.3s`, `12s`, `1m 05s`."""
    if round(seconds, 1) < 10:
        return f"{max(0.0, seconds):.1f}s"
    return counted(seconds + 0.5)


def counted(seconds: float) -> str:
    """So many whole seconds: `0s`, `12s`, `1m 05s`."""
    whole = whole_seconds(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m {whole % 60:02d}s"


def whole_seconds(seconds: float) -> int:
    """The seconds as a number of few digits; what is told from outside may be negative, endless or no number."""
    return int(min(max(0.0, seconds), _LONGEST_S))  # in this order 0 is what is left of no number


def _beginning(text: str, length: int) -> str:
    """The beginning of the text, at most so long, cut behind a whole grapheme unless one alone is longer."""
    return text[: last_border(text, length) or length]


def _harmless(text: str) -> str:
    return _COMMANDING.sub(_REPLACEMENT, " ".join(text.split()))


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        return None


def _words(argument: Any) -> str:
    """The argument as text; a command may also come as a list of its words."""
    if isinstance(argument, list | tuple):
        argument = " ".join(word for word in argument[:LINE] if isinstance(word, str))
    return argument if isinstance(argument, str) else ""
