"""Spoilers: what stands between two pairs of bars is hidden until somebody asks to see it.

Owns where one begins and ends. The parser knows nothing of them, so they are found in its events: in the text of one
and the same construct, never in code, and never in the bars of a table, which are its own. To hide what nobody meant
to is worse than not to hide: bars that touch a word on the outside, or a space on the inside, are an `or`, as are
three of them, and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Event: TypeAlias = tuple[str, Any, int, int]

MARK = "||"
"""What a spoiler begins and ends with."""

_RUN = re.compile(r"\|{2,}")
_INLINES = frozenset(("Emphasis", "Strong", "Strikethrough", "Link", "Image"))


def spoiled(events: Iterable[Event], source: str) -> Iterable[Event]:
    """The events of a source with `Spoiler` among its constructs; one that is only begun is a text of its own."""
    return _Reading(source).read(events) if MARK in source else events


class _Reading:
    """One walk over the events; `begun` says for each open construct where in `out` a spoiler has begun in it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.out: list[Event] = []
        self.begun: list[int | None] = [None]
        self.in_code = False
        self.read_until = 0

    def read(self, events: Iterable[Event]) -> list[Event]:
        for event in events:
            tag, value, start, end = event
            if tag == "Text" and not self.in_code:
                self._text(value, start, end)
            else:
                self._other(event)
            self.read_until = start if tag == "Start" else end
        return self.out

    def _other(self, event: Event) -> None:
        self.out.append(event)
        tag, value, _, _ = event
        if tag == "Start":
            name = value if isinstance(value, str) else next(iter(value))
            self.in_code = name == "CodeBlock"
            if name not in _INLINES:
                self.begun[-1] = None
            self.begun.append(None)
        elif tag == "End":
            self.in_code = False
            self.begun.pop()
        elif tag == "Rule":
            self.begun[-1] = None

    def _text(self, value: str, start: int, end: int) -> None:
        if end - start != len(value):  # an entity
            self.out.append(("Text", value, start, end))
            return
        at = start
        for mark in self._marks(start, end):
            if mark > at:
                self.out.append(("Text", value[at - start : mark - start], at, mark))
            at = mark + len(MARK)
            self._mark(mark, at)
        if at < end:
            self.out.append(("Text", value[at - start :], at, end))

    def _mark(self, start: int, end: int) -> None:
        begun = self.begun[-1]
        if begun is None:
            self.begun[-1] = len(self.out)
            self.out.append(("Text", MARK, start, end))
            return
        first = self.out[begun][2]
        self.out[begun] = ("Start", "Spoiler", first, end)
        self.out.append(("End", "Spoiler", first, end))
        self.begun[-1] = None

    def _marks(self, start: int, end: int) -> Iterator[int]:
        """The marks in a text that begin a spoiler, or end the one that has begun."""
        escaped = self.read_until < start and self.source[start - 1] == "\\"  # which the parser passes over
        for run in _RUN.finditer(self.source, start + escaped, end):
            before, after = self.source[max(run.start() - 1, 0) : run.start()], self.source[run.end() : run.end() + 1]
            touches = before if self.begun[-1] is None else after
            inside = after if self.begun[-1] is None else before
            if len(run[0]) == len(MARK) and inside.strip() and not (touches.isalnum() or touches in ("_", "|")):
                yield run.start()
