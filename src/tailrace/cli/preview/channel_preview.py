"""How a turn looks on one channel: its calls in groups, its messages, and their sizes compared with the limits.

The modules `terminal` and `page` show this to the person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.capabilities import CHANNELS, Capabilities
from tailrace.delivery.dry_run import PerformedCall, VisibleMessage, dry_run
from tailrace.markdown import units
from tailrace.markdown.dialects import renderer
from tailrace.operations import AppendStream, Target
from tailrace.projector.presentation import PRESENTATIONS, rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.cli.preview.recording import Turn
    from tailrace.projector import ProjectorSettings

TASK_MARKS = {"pending": "○", "in_progress": "◌", "complete": "✓", "error": "✗"}
NO_MESSAGES = "Nothing is posted."

_UNITS = {"code_points": "characters", "utf16": "UTF-16 units", "utf8_bytes": "bytes"}


class MessageSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a message in `unit`, the number of its lines, and the limits of both. None means: no limit."""

    size: int
    limit: int | None
    unit: str
    lines: int
    max_lines: int | None

    @property
    def is_over_limit(self) -> bool:
        """Whether the message is larger than its limit, so that the platform would refuse it. Lines do not count."""
        return self.limit is not None and self.size > self.limit

    def __str__(self) -> str:
        of_limit = f" of {self.limit:,}" if self.limit is not None else ""
        of_lines = f", {self.lines} of {self.max_lines} lines" if self.max_lines is not None else ""
        return f"{self.size:,}{of_limit} {self.unit}{of_lines}"


class CallGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that are shown as one row, such as several appends to one stream.

    `at` is the time of the first call, `count` the number of calls, and `last` the last call.
    """

    at: float
    count: int
    last: PerformedCall

    @property
    def shown(self) -> VisibleMessage | None:
        """The message or draft that the last call of the group changed; None if people see no change."""
        if not self.last.message_id:
            return draft_of(self.last) if not self.last.is_typing else None
        return next((message for message in self.last.chat if message.message_id == self.last.message_id), None)


class ChannelPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that show a turn on one channel, from a dry run.

    `presentation` is the one that was used. It can differ from the wanted one if the channel does not support that.
    """

    channel: str
    capabilities: Capabilities
    presentation: str
    calls: tuple[PerformedCall, ...]

    @property
    def chat(self) -> tuple[VisibleMessage, ...]:
        """The messages that the chat has after the last call."""
        return self.calls[-1].chat if self.calls else ()

    @property
    def ends_at(self) -> float:
        """The time of the last call, in seconds since the first event."""
        return self.calls[-1].at if self.calls else 0.0

    @property
    def summary(self) -> str:
        """One line with the number of messages and calls, and the duration."""
        durable = sum(call.is_durable for call in self.calls)
        messages, calls = plural(len(self.chat), "message"), plural(len(self.calls), "call")
        return f"{messages} · {calls}, {durable} to stay · {self.ends_at:.1f} s"

    def groups(self, *, within_s: float) -> Iterator[CallGroup]:
        """The calls in order, in groups. Appends to one stream within `within_s` seconds are one group."""
        group: list[PerformedCall] = []
        for call in self.calls:
            if group and not (_is_next_append(group[-1], call) and call.at - group[0].at < within_s):
                yield CallGroup(at=group[0].at, count=len(group), last=group[-1])
                group = []
            group.append(call)
        if group:
            yield CallGroup(at=group[0].at, count=len(group), last=group[-1])

    def row(self, group: CallGroup) -> tuple[str, str, str, str]:
        """The cells of a group in the table of calls: time, kind of call, message id, and size of the message."""
        kind = str(type(group.last.operation).__struct_config__.tag).replace("_", " ")
        return (
            f"{group.at:.2f} s",
            f"{kind} ×{group.count}" if group.count > 1 else kind,
            f"#{group.last.message_id}" if group.last.message_id else "",
            f"{self.size_of(group.shown).size:,}" if group.shown is not None else "",
        )

    def facts(self, message: VisibleMessage) -> tuple[str, str, str]:
        """Three texts to show with a message: its name, its size, and the number of its edits ("" if it has none)."""
        name = f"#{message.message_id}" if message.message_id else "draft"
        processing = ", processing" if message.is_processing else ""
        edits = plural(message.edits, "edit") if message.edits else ""
        return f"{name}{processing}", str(self.size_of(message)), edits

    def size_of(self, message: VisibleMessage) -> MessageSize:
        """The size of a message as its platform counts it, and the limits for it."""
        limits = self.capabilities
        if message.media:
            size, limit, max_lines = units.size(message.body.text, limits.unit), limits.caption_limit, None
        else:
            size = renderer(limits.dialect).measure(message.body, limits.unit)
            limit, max_lines = limits.limit, limits.lines
        lines = message.body.text.count("\n") + 1
        return MessageSize(size=size, limit=limit, unit=_UNITS[limits.unit], lines=lines, max_lines=max_lines)


def preview_on(turn: Turn, channel: str, settings: ProjectorSettings, *, group: bool = False) -> ChannelPreview:
    """Make the preview of a turn on a channel, in a thread of a chat: some platforms have streams only in threads."""
    capabilities = CHANNELS[channel]
    target = Target(channel=channel, chat="preview", thread="preview", group=group)
    rules = rules_for(settings, capabilities, target)
    calls = tuple(dry_run(turn, target, capabilities, settings))
    name = next(name for name, known in PRESENTATIONS.items() if known is rules)
    return ChannelPreview(channel=channel, capabilities=capabilities, presentation=name, calls=calls)


def draft_of(call: PerformedCall) -> VisibleMessage | None:
    """The draft that people see after the call, or None."""
    return VisibleMessage(message_id="", body=call.draft) if call.draft is not None else None


def plural(number: int, noun: str) -> str:
    """The number and the noun, such as `1 call` or `2 calls`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _is_next_append(before: PerformedCall, after: PerformedCall) -> bool:
    """Whether both calls append to the same stream."""
    match before.operation, after.operation:
        case AppendStream(stream_id=one), AppendStream(stream_id=other):
            return one == other
        case _:
            return False
