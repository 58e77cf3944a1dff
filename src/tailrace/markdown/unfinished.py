"""A text that is still being written, as it is probably meant.

People see an answer before it is complete: half a link, a style that is not closed yet, the first of two stars. Owns
how such a text is read in the meantime. What stays is never made here: a complete text says itself what it means.
"""

from __future__ import annotations

from tailrace.markdown.emphasis import Run, closers, unresolved
from tailrace.markdown.fast_scan import independent_pieces
from tailrace.markdown.outline import Outline, read_outline

_DELIMITERS = "*_~`"


def close_open_markup(text: str) -> str:
    """The text with the styles and the code span open at its end closed, and half a link as its words."""
    *_, last = independent_pieces(text)
    if not any(mark in last for mark in (*_DELIMITERS, "[")):
        return text
    before = text[: len(text) - len(last)]
    # A delimiter at the very end may be half of one; where it was whole, it is what is put back.
    written = last.rstrip(_DELIMITERS + "\\").rstrip()
    if not written:
        return before.rstrip() or text
    read = read_outline(written)
    if any(block.is_code and block.end == len(written) for block in read.blocks):
        return text
    return before + _closed(read)


def _closed(read: Outline) -> str:
    written = read.source
    leaf = next((block for block in reversed(read.blocks) if not block.holds), None)
    if leaf is None or leaf.kind not in ("paragraph", "heading") or leaf.end < len(written):
        return written
    runs = unresolved(read, leaf.start, len(written), also_literal=True)
    link = _half_link(read, runs)
    if link is not None:
        return _closed(read_outline(link))
    return written + closers(_open(runs))


def _open(runs: list[Run]) -> list[Run]:
    """The runs that are closed now, in their order: of several alike the last, and none behind an open code span."""
    last_of_kind: dict[str, Run] = {}
    for run in runs:
        if run.marker[0] in _DELIMITERS:
            last_of_kind[run.marker] = run
        if run.marker[0] == "`":
            break
    return sorted(last_of_kind.values(), key=lambda run: run.start)


def _half_link(read: Outline, runs: list[Run]) -> str | None:
    """The text with the words of the link that its end is in; None where it ends in none."""
    written = read.source
    for run in runs:
        target = written.find("](", run.start) if run.marker == "[" else -1
        if target >= 0 and not any(run.start <= start < target for start, _ in read.solids):
            label = written[run.start + 1 : target]
            start = run.start - (written[run.start - 1 : run.start] == "!")
            return (written[:start] + label).rstrip()
    return None
