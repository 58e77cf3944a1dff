"""Find delimiters (`*`, `_`, `~~`, backticks, brackets) that are not closed yet, but that later text may still close.

A style, link or code span exists only once it is closed. This module owns CommonMark's left-flanking rule, which
decides whether a delimiter run can open emphasis, and the text that closes open runs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import msgspec

from tailrace.markdown.outline import Outline


class DelimiterRun(msgspec.Struct, frozen=True, gc=False):
    """One or more equal delimiters side by side, such as `**`, or one bracket, without a match so far."""

    start: int
    marker: str


def unclosed_runs(outline: Outline, start: int, end: int, *, with_links_and_code: bool = False) -> list[DelimiterRun]:
    """The delimiter runs between `start` and `end` that later text might close, in order.

    With `with_links_and_code`, the beginnings of links and code spans are included. They stay plain text if no later
    text closes them.
    """
    found = []
    open_brackets = _open_brackets(outline) if with_links_and_code else frozenset[int]()
    for run in _runs(outline, start, end):
        if run.marker[0] in "*_~":
            if run.marker != "~" and _can_open(outline.source, run):
                found.append(run)
        elif with_links_and_code and (run.start in open_brackets or _may_become_code(outline.source, run)):
            found.append(run)
    return found


def closers(runs: Sequence[DelimiterRun]) -> str:
    """The text that closes these delimiter runs: the last one is closed first, so `**` and `_` give `_**`."""
    return "".join(run.marker for run in reversed(runs))


def _runs(outline: Outline, start: int, end: int) -> list[DelimiterRun]:
    source = outline.source
    runs: list[DelimiterRun] = []
    for at in outline.unmatched:
        if not start <= at < end:
            continue
        mark = source[at]
        if mark == "`":
            after = at
            while source[after : after + 1] == "`":
                after += 1
            runs.append(DelimiterRun(at, source[at:after]))
        elif runs and mark in "*_~" and mark == runs[-1].marker[0] and runs[-1].start + len(runs[-1].marker) == at:
            runs[-1] = DelimiterRun(runs[-1].start, runs[-1].marker + mark)
        else:
            runs.append(DelimiterRun(at, mark))
    return runs


def _can_open(source: str, run: DelimiterRun) -> bool:
    before = source[run.start - 1 : run.start] if run.start else ""
    after = source[run.start + len(run.marker) :][:1]
    if not after or after.isspace():
        return False
    left = not _is_punctuation(after) or not before or before.isspace() or _is_punctuation(before)
    if not left or run.marker[0] != "_":
        return left
    right = bool(before) and not before.isspace() and (not _is_punctuation(before) or _is_punctuation(after))
    return not right or _is_punctuation(before)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _may_become_code(source: str, run: DelimiterRun) -> bool:
    """Whether the run may be the beginning of a code span or of an address in `<…>`, if later text ends it."""
    if run.marker[0] == "<":
        rest = source[run.start + 1 :]
        return not rest or (rest[0].isalpha() and not any(end in rest for end in " \t\n<>"))
    return run.marker[0] == "`"


def _open_brackets(outline: Outline) -> frozenset[int]:
    """The positions of each `[` that later text may still make the beginning of a link.

    That is so if the `[` is not closed, or if its `]` is the last character or comes before a `(`.
    """
    found: set[int] = set()
    opened: list[int] = []
    for at in outline.unmatched:
        if outline.source[at] == "[":
            opened.append(at)
        elif outline.source[at] == "]" and opened:
            start = opened.pop()
            if outline.source[at + 1 : at + 2] == "(" or at + 1 >= len(outline.source):
                found.add(start)
    return frozenset(found.union(opened))
