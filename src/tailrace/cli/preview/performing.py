"""A turn on one channel, rehearsed: its calls, which of them belong together, and how much of the limits they take.

How any of it is drawn, in a terminal or on a page, is the others' to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.capabilities import CHANNELS, Capabilities
from tailrace.delivery.dry_run import PerformedCall, VisibleMessage, dry_run
from tailrace.markdown import units
from tailrace.markdown.dialects import renderer
from tailrace.operations import AppendStream, CloseStream, Delete, Edit, OpenStream, Post, PostMedia, Target
from tailrace.projector.presentation import PRESENTATIONS, rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.cli.preview.recording import Turn
    from tailrace.projector import ProjectorSettings

_UNITS = {"code_points": "characters", "utf16": "UTF-16 units", "utf8_bytes": "bytes"}


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much a message holds of what it may; what is None is not limited."""

    size: int
    limit: int | None
    unit: str
    lines: int
    most_lines: int | None

    @property
    def is_too_much(self) -> bool:
        """Whether the platform would refuse it."""
        return self.limit is not None and self.size > self.limit

    def __str__(self) -> str:
        of_limit = f" of {self.limit:,}" if self.limit is not None else ""
        of_lines = f", {self.lines} of {self.most_lines} lines" if self.most_lines is not None else ""
        return f"{self.size:,}{of_limit} {self.unit}{of_lines}"


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that belong together: when the first was made, how many they are, and the last of them."""

    at: float
    count: int
    last: PerformedCall

    @property
    def kind(self) -> str:
        """What was asked for, in a word or two."""
        return str(type(self.last.operation).__struct_config__.tag).replace("_", " ")

    @property
    def message_id(self) -> str:
        """The message they are about; nothing where there is none."""
        match self.last.operation:
            case Post() | PostMedia() | OpenStream():
                return self.last.chat[-1].message_id
            case Edit(message_id=message_id) | Delete(message_id=message_id):
                return message_id
            case AppendStream(stream_id=stream_id) | CloseStream(stream_id=stream_id):
                return stream_id
            case _:
                return ""

    @property
    def shown(self) -> VisibleMessage | None:
        """What people see of it after the last: the message or the draft; None where there is nothing to see."""
        if not self.message_id:
            return draft_of(self.last) if not self.last.is_typing else None
        return next((seen for seen in self.last.chat if seen.message_id == self.message_id), None)


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as one channel would carry it; `look` is the presentation as it came out."""

    channel: str
    capabilities: Capabilities
    look: str
    moments: tuple[PerformedCall, ...]

    @property
    def chat(self) -> tuple[VisibleMessage, ...]:
        """What stands in the end."""
        return self.moments[-1].chat if self.moments else ()

    @property
    def ends_at(self) -> float:
        """When the last call is made."""
        return self.moments[-1].at if self.moments else 0.0

    @property
    def summary(self) -> str:
        """What it takes, in a line."""
        stay = sum(moment.is_durable for moment in self.moments)
        messages, calls = counted(len(self.chat), "message"), counted(len(self.moments), "call")
        return f"{messages} · {calls}, {stay} to stay · {self.ends_at:.1f} s"

    def calls(self, *, within_s: float) -> Iterator[Calls]:
        """The calls in order; appends to one message belong together within so many seconds of their first."""
        group: list[PerformedCall] = []
        for moment in self.moments:
            if group and not (_goes_on(group[-1], moment) and moment.at - group[0].at < within_s):
                yield Calls(at=group[0].at, count=len(group), last=group[-1])
                group = []
            group.append(moment)
        if group:
            yield Calls(at=group[0].at, count=len(group), last=group[-1])

    def extent(self, seen: VisibleMessage) -> Extent:
        """How much a message holds."""
        limits = self.capabilities
        if seen.media:
            size, limit, most_lines = units.size(seen.body.text, limits.unit), limits.caption_limit, None
        else:
            size = renderer(limits.dialect).measure(seen.body, limits.unit)
            limit, most_lines = limits.limit, limits.lines
        lines = seen.body.text.count("\n") + 1
        return Extent(size=size, limit=limit, unit=_UNITS[limits.unit], lines=lines, most_lines=most_lines)


def perform(turn: Turn, channel: str, settings: ProjectorSettings, *, group: bool = False) -> Performance:
    """Rehearse the turn in a chat of the channel: in a thread of it, since some platforms stream nowhere else."""
    capabilities = CHANNELS[channel]
    target = Target(channel=channel, chat="preview", thread="preview", group=group)
    look = rules_for(settings, capabilities, target)
    moments = tuple(dry_run(turn, target, capabilities, settings))
    name = next(name for name, known in PRESENTATIONS.items() if known is look)
    return Performance(channel=channel, capabilities=capabilities, look=name, moments=moments)


def draft_of(moment: PerformedCall) -> VisibleMessage | None:
    """What is shown as no message yet; None where nothing is."""
    return VisibleMessage(message_id="", body=moment.draft) if moment.draft is not None else None


def counted(number: int, noun: str) -> str:
    """So many of something."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _goes_on(before: PerformedCall, after: PerformedCall) -> bool:
    """Whether one append follows another."""
    match before.operation, after.operation:
        case AppendStream(stream_id=one), AppendStream(stream_id=other):
            return one == other
        case _:
            return False
