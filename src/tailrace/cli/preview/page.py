"""The HTML page of a preview: one column per channel, styled like its platform.

A script on the page can show the chats at any time of the turn; without the script, the page shows the end of the turn.
The page is one file and cannot load other files: its content security policy allows only its own style and script.
"""

from __future__ import annotations

import base64
import hashlib
import math
from importlib.resources import files
from os.path import commonprefix
from string import Template
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tailrace.cli.preview.body_html import escaped, to_html
from tailrace.cli.preview.channel_preview import NO_MESSAGES, TASK_MARKS, draft_of, plural
from tailrace.markdown import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.cli.preview.channel_preview import CallGroup, ChannelPreview
    from tailrace.delivery.dry_run import PerformedCall, VisibleMessage
    from tailrace.operations import Task

_FRAME_S = 0.2  # all appends within this time form one frame
_MAX_FRAMES = 200  # so a long turn has fewer frames per second
_ROW_S = 5.0  # all appends within this time form one row
_TYPING = '<p class="typing">is typing…</p>'

_Version: TypeAlias = tuple[int, int, str]
_Frame: TypeAlias = tuple[float, list[int]]


def page(title: str, previews: Sequence[ChannelPreview]) -> str:
    """The HTML of the whole page."""
    style, script = _resource("page.css"), _resource("page.js")
    end = math.ceil(100 * max((preview.ends_at for preview in previews), default=0.0)) / 100
    films = [_Film(preview, end).as_json() for preview in previews]
    calls = sum(len(preview.calls) for preview in previews)
    return Template(_resource("page.html")).substitute(
        policy=_policy(style, script),
        title=escaped(title),
        facts=f"{plural(len(previews), 'channel')} · {plural(calls, 'call')} · {end:.1f} s",
        style=style,
        script=script,
        end=f"{end:.2f}",
        columns="\n".join(map(_column, previews)),
        # A `</script>` in a message must not end the script element.
        frames=f"[{','.join(films)}]".replace("<", "\\u003c"),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """A content security policy that allows only this style and this script; the page can load and send nothing."""
    allowed = {"default": "'none'", "style": _digest(style), "script": _digest(script)}
    sources = "; ".join(f"{kind}-src {source}" for kind, source in allowed.items())
    return f"{sources}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _column(preview: ChannelPreview) -> str:
    name = escaped(preview.channel)
    chat = "\n".join(_message(preview, message) for message in preview.chat)
    rows = "\n".join(_row(preview, group) for group in preview.groups(within_s=_ROW_S))
    return f"""\
<section class="channel {name}">
<header><h2>{name} <small>{escaped(preview.presentation)}</small></h2><p>{escaped(preview.summary)}</p></header>
<div class="chat" tabindex="0" role="region" aria-label="{name}, the chat">
{chat or f'<p class="nothing">{NO_MESSAGES}</p>'}
</div>
<details class="calls" open><summary>{plural(len(preview.calls), "call")}</summary>
<div tabindex="0" role="region" aria-label="{name}, the calls">
<table><thead><tr><th>at</th><th>call</th><th>message</th><th class="number">size</th><th>stays</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></details>
</section>"""


def _row(preview: ChannelPreview, group: CallGroup) -> str:
    at, kind, message, size = map(escaped, preview.row(group))
    name, stays = ("stays", "● yes") if group.last.is_durable else ("passes", "")
    return (
        f'<tr class="{name}" data-at="{group.at:.2f}"><td>{at}</td><td>{kind}</td><td>{message}</td>'
        f'<td class="number">{size}</td><td>{stays}</td></tr>'
    )


def _message(preview: ChannelPreview, message: VisibleMessage) -> str:
    kinds = {"processing": message.is_processing, "streaming": message.is_stream, "draft": not message.message_id}
    classes = " ".join(["message", *(kind for kind, is_so in kinds.items() if is_so)])
    body = f'<div class="body">{to_html(message.body, preview.capabilities.dialect)}</div>'
    return (
        f'<article class="{classes}" dir="auto"><p class="name">agent</p>{_tasks(message.tasks)}'
        f"{_medium(message) if message.media else body}{_footer(preview, message)}</article>"
    )


def _medium(message: VisibleMessage) -> str:
    """The HTML of a picture or a file: a box with its address. The picture or file itself is not loaded."""
    caption = f"<figcaption>{escaped(message.body.text)}</figcaption>" if message.body.text else ""
    return f'<figure class="medium"><div class="picture">{escaped(message.media)}</div>{caption}</figure>'


def _tasks(tasks: Sequence[Task]) -> str:
    items = (f'<li class="{task.status}">{TASK_MARKS[task.status]} {escaped(task.title)}</li>' for task in tasks)
    return f'<ul class="tasks">{"".join(items)}</ul>' if tasks else ""


def _footer(preview: ChannelPreview, message: VisibleMessage) -> str:
    size = preview.size_of(message)
    name, extent, edits = map(escaped, preview.facts(message))
    meter = f'<meter max="{size.limit}" value="{size.size}" aria-hidden="true"></meter>' if size.limit else ""
    fits = "over" if size.is_over_limit else "fits"
    edited = f"<span>{edits}</span>" if edits else ""
    return f'<footer><span>{name}</span>{meter}<span class="{fits}">{extent}</span>{edited}</footer>'


class _Film:
    """The chat of one channel at each time of the turn, as a list of frames. A frame has the messages at one time.

    Most edits keep the beginning of a message, so each version of a message stores only what is new.
    """

    def __init__(self, preview: ChannelPreview, end: float) -> None:
        self._preview = preview
        self._versions: list[_Version] = []
        self._latest: dict[str, tuple[int, str]] = {}
        self._frames: list[_Frame] = []
        for group in preview.groups(within_s=max(_FRAME_S, end / _MAX_FRAMES)):
            self._frames.append((round(group.last.at, 2), self._frame(group.last)))
        if preview.calls:
            self._frames.append((end, [self._version(message) for message in preview.chat]))

    def as_json(self) -> str:
        """The frames and the versions of messages as JSON.

        A version is the number of an earlier version, how much of that one's beginning is kept, and the text after it.
        """
        return msgspec.json.encode({"versions": self._versions, "frames": self._frames}).decode()

    def _frame(self, call: PerformedCall) -> list[int]:
        frame = [self._version(message) for message in call.chat]
        if (draft := draft_of(call)) is not None:
            frame.append(self._version(draft))
        if call.is_typing:
            frame.append(self._add("typing", _TYPING))
        return frame

    def _version(self, message: VisibleMessage) -> int:
        return self._add(f"#{message.message_id}", _message(self._preview, message))

    def _add(self, name: str, html: str) -> int:
        """Store a version of the message `name`, if it differs from the last version.

        Returns the number of the version.
        """
        number, before = self._latest.get(name, (-1, ""))
        if html != before:
            kept = commonprefix((before, html))  # noqa: RUF071 -- of characters, not of a path
            # The length is in UTF-16 units, as the script counts.
            self._versions.append((number, units.size(kept, "utf16"), html[len(kept) :]))
            number = len(self._versions) - 1
            self._latest[name] = number, html
        return number
