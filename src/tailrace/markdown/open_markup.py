"""Close the markup that is still open at the end of a text, so that people can read it while it is written.

A partial answer may end in half a link, in an open style or after the first of two stars. Use this for previews only: a
complete text is shown as it is.
"""

from __future__ import annotations

from tailrace.markdown.emphasis import DelimiterRun, closers, unclosed_runs
from tailrace.markdown.fast_scan import independent_pieces
from tailrace.markdown.outline import Outline, read_outline

_DELIMITERS = "*_~`"


def close_open_markup(text: str) -> str:
    """Close the styles and the code span that are open at the end of the text: `a *b` gives `a *b*`.

    Of a link that is not complete, only its text is shown: `see [the docs](http://exa` gives `see the docs`.
    """
    *_, last = independent_pieces(text)
    if not any(mark in last for mark in (*_DELIMITERS, "[")):
        return text
    before = text[: len(text) - len(last)]
    # A delimiter at the very end may be incomplete, so it is removed. If it was complete, the added closer replaces it.
    kept = last.rstrip(_DELIMITERS + "\\").rstrip()
    if not kept:
        return before.rstrip() or text
    outline = read_outline(kept)
    if any(block.is_code and block.end == len(kept) for block in outline.blocks):
        return text
    return before + _close(outline)


def _close(outline: Outline) -> str:
    text = outline.source
    leaf = next((block for block in reversed(outline.blocks) if not block.is_container), None)
    if leaf is None or leaf.kind not in ("paragraph", "heading") or leaf.end < len(text):
        return text
    runs = unclosed_runs(outline, leaf.start, len(text), with_links_and_code=True)
    link = _without_half_link(outline, runs)
    if link is not None:
        return _close(read_outline(link))
    return text + closers(_runs_to_close(runs))


def _runs_to_close(runs: list[DelimiterRun]) -> list[DelimiterRun]:
    """Choose the delimiter runs that must be closed, in order: the last of each kind.

    After the start of an open code span nothing is closed, because delimiters are text there.
    """
    last_of_kind: dict[str, DelimiterRun] = {}
    for run in runs:
        if run.marker[0] in _DELIMITERS:
            last_of_kind[run.marker] = run
        if run.marker[0] == "`":
            break
    return sorted(last_of_kind.values(), key=lambda run: run.start)


def _without_half_link(outline: Outline, runs: list[DelimiterRun]) -> str | None:
    """The text with the unfinished link at its end replaced by the link's text; None if there is no such link."""
    text = outline.source
    for run in runs:
        target = text.find("](", run.start) if run.marker == "[" else -1
        if target >= 0 and not any(run.start <= start < target for start, _ in outline.unbreakable):
            label = text[run.start + 1 : target]
            start = run.start - (text[run.start - 1 : run.start] == "!")
            return (text[:start] + label).rstrip()
    return None
