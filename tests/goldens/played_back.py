"""A recorded turn as the calls of one channel, written as a text that people can read and tools can compare.

First every call with its time, `*` if it is durable, and its text; then the chat as it is at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.capabilities import CHANNELS
from tailrace.delivery.dry_run import PerformedCall, VisibleMessage, dry_run
from tailrace.events import Event, decode_event
from tailrace.operations import AppendStream, CloseStream, Draft, Edit, Entity, OpenStream, Post, PostMedia, Target
from tailrace.projector import ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.operations import Body, Task
    from tailrace.projector import Presentation

_WIDTH = 88
_MARKS = {"pending": "☐", "in_progress": "▶", "complete": "☑", "error": "☒"}


def recorded(path: Path) -> list[tuple[float, Event]]:
    """The events of a recording with their times."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    return [(line["at"], decode_event(line["event"])) for line in lines]


def played_back(events: list[tuple[float, Event]], channel: str, presentation: Presentation | None) -> str:
    """The turn on one channel: in a private chat, on Slack in a thread, because it has streams only there."""
    capabilities = CHANNELS[channel]
    target = Target(channel=channel, chat="chat", thread="thread" if channel == "slack" else None)
    calls = list(dry_run(events, target, capabilities, ProjectorSettings(presentation=presentation)))
    durable = sum(call.is_durable for call in calls)
    head = f"{channel}, {presentation or capabilities.presentation}: {len(calls)} calls, {durable} of them to stay"
    lines = [head, f"the turn took {events[-1][0]:.2f} s", "", *map(_call, calls)]
    for message in calls[-1].chat if calls else ():
        lines += ["", *_message(message, channel)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _call(call: PerformedCall) -> str:
    operation = call.operation
    kind = str(type(operation).__struct_config__.tag).replace("_", " ")
    message_id = getattr(operation, "message_id", getattr(operation, "stream_id", ""))
    texts: list[str] = []
    match operation:
        case Post() | OpenStream():
            message_id, texts = call.message_id, [_end_of(operation.body)]
        case PostMedia():
            message_id, texts = call.message_id, [call.chat[-1].media]
        case Edit() | Draft():
            texts = [_end_of(operation.body)]
        case CloseStream():
            texts = [_end_of(operation.body), *map(_task, operation.tasks)]
        case AppendStream():
            texts = [f"+ {_one_line(operation.text)}"] if operation.text else []
            texts += map(_task, operation.tasks)
        case _:
            pass
    return f"{call.at:7.2f} {'*' if call.is_durable else ' '} {kind:<13} {message_id:<2} {' '.join(texts)}"


def _end_of(body: Body) -> str:
    """The length of the text, and its end: new text is there."""
    return f"{len(body.text):>5} │ {_one_line(body.text)}"


def _one_line(text: str) -> str:
    line = text.replace("\n", "⏎")
    return line if len(line) <= _WIDTH else f"…{line[1 - _WIDTH :]}"


def _task(task: Task) -> str:
    return f"[{_MARKS[task.status]} {task.title}]"


def _message(message: VisibleMessage, channel: str) -> Iterator[str]:
    """A message as it is at the end, in the form that the platform gets."""
    body = message.body
    edits = f", {message.edits} edits" if message.edits else ""
    kind = " (processing message)" if message.is_processing else ""
    yield f"━━ {message.message_id}{kind}: {len(body.text)} characters{edits}"
    if message.media:
        yield f"({message.media})"
    match channel:
        case "slack":
            yield body.markdown or body.text
        case "matrix":
            yield body.html.replace("><", ">\n<") if body.html is not None else body.text
        case _:
            yield body.text
    if message.tasks:
        yield "── " + " ".join(map(_task, message.tasks))
    if body.entities:
        yield "── " + ", ".join(_entity(entity, body.text) for entity in body.entities)


def _entity(entity: Entity, text: str) -> str:
    units = text.encode("utf-16-le")[2 * entity.offset : 2 * (entity.offset + entity.length)]
    covered = units.decode("utf-16-le").replace("\n", "⏎")
    short = covered if len(covered) <= 24 else f"{covered[:11]}…{covered[-12:]}"
    extra = entity.url or entity.language
    return f"{entity.type} “{short}”" + (f" ({extra})" if extra else "")
