"""A recorded turn as it would be carried, told as a text that a person can read and a tool can compare.

Above, every call with its time, `*` where it is to stay, and what it shows; below, the chat as it stands in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from tailrace.capabilities import CHANNELS
from tailrace.delivery.dry_run import PerformedCall, VisibleMessage, dry_run
from tailrace.events import Event, decode_event
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Draft,
    Edit,
    Entity,
    OpenStream,
    Post,
    PostMedia,
    Target,
    Typing,
)
from tailrace.projector import ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.operations import Body, Operation, Task
    from tailrace.projector import Presentation

_WIDTH = 88
_MARKS = {"pending": "☐", "in_progress": "▶", "complete": "☑", "error": "☒"}


def recorded(path: Path) -> list[tuple[float, Event]]:
    """The events of a recording, each with its time."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    return [(line["at"], decode_event(line["event"])) for line in lines]


def played_back(events: list[tuple[float, Event]], channel: str, presentation: Presentation | None) -> str:
    """The turn on one channel: in a thread where the platform streams in threads only, and alone with the bot else."""
    capabilities = CHANNELS[channel]
    target = Target(channel=channel, chat="chat", thread="thread" if channel == "slack" else None)
    moments = list(dry_run(events, target, capabilities, ProjectorSettings(presentation=presentation)))
    chat = moments[-1].chat if moments else ()
    stay = sum(moment.is_durable for moment in moments)
    head = f"{channel}, {presentation or capabilities.presentation}: {len(moments)} calls, {stay} of them to stay"
    lines = [head, f"the turn took {events[-1][0]:.2f} s", "", *map(_told, moments)]
    for seen in chat:
        lines += ["", *_stands(seen, channel)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _told(moment: PerformedCall) -> str:
    operation = moment.operation
    kind = str(type(operation).__struct_config__.tag).replace("_", " ")
    which, shown = _about(operation, moment)
    return f"{moment.at:7.2f} {'*' if moment.is_durable else ' '} {kind:<13} {which:<2} {shown}"


def _about(operation: Operation, moment: PerformedCall) -> tuple[str, str]:
    """The message that a call is about, and what the call makes it show."""
    which, shown = "", ""
    match operation:
        case Post(body=body) | OpenStream(body=body):
            which, shown = moment.chat[-1].message_id, _shortened(body)
        case PostMedia():
            which, shown = moment.chat[-1].message_id, moment.chat[-1].media
        case Edit(message_id=which, body=body):
            shown = _shortened(body)
        case CloseStream(stream_id=which, body=body, tasks=tasks):
            shown = " ".join([_shortened(body), *map(_task, tasks)])
        case AppendStream(stream_id=which, text=text, tasks=tasks):
            shown = " ".join([f"+ {_one_line(text)}" if text else "", *map(_task, tasks)]).strip()
        case Delete(message_id=which):
            pass
        case Draft(body=body):
            shown = _shortened(body)
        case Typing():
            pass
        case _:
            assert_never(operation)
    return which, shown


def _shortened(body: Body) -> str:
    """How long it is, and how it ends: what is new in a message stands there."""
    return f"{len(body.text):>5} │ {_one_line(body.text)}"


def _one_line(text: str) -> str:
    line = text.replace("\n", "⏎")
    return line if len(line) <= _WIDTH else f"…{line[1 - _WIDTH :]}"


def _task(task: Task) -> str:
    return f"[{_MARKS[task.status]} {task.title}]"


def _stands(seen: VisibleMessage, channel: str) -> Iterator[str]:
    """A message as it stands, in the form that the platform is given."""
    body = seen.body
    times = f", {seen.edits} edits" if seen.edits else ""
    yield f"━━ {seen.message_id}{' (aside)' if seen.is_processing else ''}: {len(body.text)} characters{times}"
    if seen.media:
        yield f"({seen.media})"
    match channel:
        case "slack":
            yield body.markdown or body.text
        case "matrix":
            yield body.html.replace("><", ">\n<") if body.html is not None else body.text
        case _:
            yield body.text
    if seen.tasks:
        yield "── " + " ".join(map(_task, seen.tasks))
    if body.entities:
        yield "── " + ", ".join(_entity(entity, body.text) for entity in body.entities)


def _entity(entity: Entity, text: str) -> str:
    units = text.encode("utf-16-le")[2 * entity.offset : 2 * (entity.offset + entity.length)]
    covered = units.decode("utf-16-le").replace("\n", "⏎")
    short = covered if len(covered) <= 24 else f"{covered[:11]}…{covered[-12:]}"
    beside = entity.url or entity.language
    return f"{entity.type} “{short}”" + (f" ({beside})" if beside else "")
