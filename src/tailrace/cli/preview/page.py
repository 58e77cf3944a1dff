"""The page of a preview: every channel in a column, drawn in the manner of its platform, at any time of the turn.

One file that needs nothing else and can reach nothing else: its policy lets no script run but ours, and loads nothing.
What stands in the end is in the document itself; the script turns back the time.
"""

from __future__ import annotations

import base64
import hashlib
import math
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tailrace.cli.preview.markup import shown
from tailrace.cli.preview.performing import counted, draft_of
from tailrace.cli.preview.safe_html import as_text
from tailrace.markdown import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.cli.preview.performing import Calls, Performance
    from tailrace.delivery.dry_run import PerformedCall, VisibleMessage
    from tailrace.operations import Task

_FRAME_S = 0.2  # so close together, appends are one picture
_MOST_FRAMES = 200  # of a turn that is long, fewer to the second
_ROW_S = 5.0  # and one row
_MARKS = {"pending": "○", "in_progress": "◌", "complete": "✓", "error": "✗"}
_TYPING = '<p class="typing">is typing…</p>'

_Version: TypeAlias = tuple[int, int, str]
_Frame: TypeAlias = tuple[float, list[int]]


def page(title: str, performances: Sequence[Performance]) -> str:
    """The whole page."""
    style, script = _resource("page.css"), _resource("page.js")
    end = math.ceil(100 * max((performance.ends_at for performance in performances), default=0.0)) / 100
    films = [_Film(performance, end).as_json() for performance in performances]
    calls = sum(len(performance.moments) for performance in performances)
    return Template(_resource("page.html")).substitute(
        policy=_policy(style, script),
        title=as_text(title),
        facts=f"{counted(len(performances), 'channel')} · {counted(calls, 'call')} · {end:.1f} s",
        style=style,
        script=script,
        end=f"{end:.2f}",
        columns="\n".join(map(_column, performances)),
        # In a script nothing is markup but its end.
        frames=f"[{','.join(films)}]".replace("<", "\\u003c"),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, nothing is sent, and nothing runs but this style and this script."""
    allowed = {"default": "'none'", "style": _digest(style), "script": _digest(script)}
    sources = "; ".join(f"{kind}-src {source}" for kind, source in allowed.items())
    return f"{sources}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _column(performance: Performance) -> str:
    name = as_text(performance.channel)
    chat = "\n".join(_message(performance, seen) for seen in performance.chat)
    rows = "\n".join(_row(performance, calls) for calls in performance.calls(within_s=_ROW_S))
    return f"""\
<section class="channel {name}">
<header><h2>{name} <small>{as_text(performance.look)}</small></h2><p>{as_text(performance.summary)}</p></header>
<div class="chat" tabindex="0" role="region" aria-label="{name}, the chat">
{chat or '<p class="nothing">Nothing is said.</p>'}
</div>
<details class="calls" open><summary>{counted(len(performance.moments), "call")}</summary>
<div tabindex="0" role="region" aria-label="{name}, the calls">
<table><thead><tr><th>at</th><th>call</th><th>message</th><th class="number">holds</th><th>stays</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></details>
</section>"""


def _row(performance: Performance, calls: Calls) -> str:
    seen = calls.shown
    times = f" ×{calls.count}" if calls.count > 1 else ""
    number = f"#{as_text(calls.message_id)}" if calls.message_id else ""
    size = f"{performance.extent(seen).size:,}" if seen is not None else ""
    kind, stays = ("stays", "● yes") if calls.last.is_durable else ("passes", "")
    return (
        f'<tr class="{kind}" data-at="{calls.at:.2f}"><td>{calls.at:.2f} s</td><td>{calls.kind}{times}</td>'
        f'<td>{number}</td><td class="number">{size}</td><td>{stays}</td></tr>'
    )


def _message(performance: Performance, seen: VisibleMessage) -> str:
    kinds = {"aside": seen.is_processing, "streaming": seen.is_stream, "draft": not seen.message_id}
    classes = " ".join(["message", *(kind for kind, is_so in kinds.items() if is_so)])
    return (
        f'<article class="{classes}" dir="auto"><p class="name">agent</p>{_tasks(seen.tasks)}'
        f"{_medium(seen) if seen.media else _body(performance, seen)}{_footer(performance, seen)}</article>"
    )


def _body(performance: Performance, seen: VisibleMessage) -> str:
    return f'<div class="body">{shown(seen.body, performance.capabilities.dialect)}</div>'


def _medium(seen: VisibleMessage) -> str:
    """The place of a picture or a file; what is there is not loaded."""
    caption = f"<figcaption>{as_text(seen.body.text)}</figcaption>" if seen.body.text else ""
    return f'<figure class="medium"><div class="picture">{as_text(seen.media)}</div>{caption}</figure>'


def _tasks(tasks: Sequence[Task]) -> str:
    items = (f'<li class="{task.status}">{_MARKS[task.status]} {as_text(task.title)}</li>' for task in tasks)
    return f'<ul class="tasks">{"".join(items)}</ul>' if tasks else ""


def _footer(performance: Performance, seen: VisibleMessage) -> str:
    extent = performance.extent(seen)
    name = f"#{as_text(seen.message_id)}" if seen.message_id else "draft"
    meter = (
        f'<meter max="{extent.limit}" value="{extent.size}" aria-hidden="true"></meter>'
        if extent.limit is not None
        else ""
    )
    fits = "over" if extent.is_too_much else "fits"
    facts = [f"<span>{name}{', processing' if seen.is_processing else ''}</span>", meter]
    facts.append(f'<span class="{fits}">{extent}</span>')
    if seen.edits:
        facts.append(f"<span>{counted(seen.edits, 'edit')}</span>")
    return f"<footer>{''.join(facts)}</footer>"


class _Film:
    """The chat of one channel as pictures. What a message says is mostly what it said before, and is kept once."""

    def __init__(self, performance: Performance, end: float) -> None:
        self._performance = performance
        self._versions: list[_Version] = []
        self._latest: dict[str, tuple[int, str]] = {}
        self._frames: list[_Frame] = []
        for calls in performance.calls(within_s=max(_FRAME_S, end / _MOST_FRAMES)):
            self._frames.append((round(calls.last.at, 2), self._picture(calls.last)))
        if performance.moments:
            self._frames.append((end, [self._version(seen) for seen in performance.chat]))

    def as_json(self) -> str:
        """The versions of messages, each by what it keeps of another and how it goes on; and the frames by time."""
        return msgspec.json.encode({"versions": self._versions, "frames": self._frames}).decode()

    def _picture(self, moment: PerformedCall) -> list[int]:
        picture = [self._version(seen) for seen in moment.chat]
        if (draft := draft_of(moment)) is not None:
            picture.append(self._version(draft))
        if moment.is_typing:
            picture.append(self._added("typing", _TYPING))
        return picture

    def _version(self, seen: VisibleMessage) -> int:
        return self._added(f"#{seen.message_id}", _message(self._performance, seen))

    def _added(self, name: str, html: str) -> int:
        base, before = self._latest.get(name, (-1, ""))
        if html != before:
            kept = _shared(before, html)
            self._versions.append((base, units.size(html[:kept], "utf16"), html[kept:]))  # as the script counts
            self._latest[name] = base, before = len(self._versions) - 1, html
        return base


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((nth for nth, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))
