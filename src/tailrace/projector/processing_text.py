"""What a processing message says: the tools and the text of a turn so far, in order, and how long it has been at it.

It owns the format and keeps no more than can be shown: the end of the text, and the latest calls. When the message is
sent, and by whom, is left to others. What subagents say is not shown here, only the tools they use.

    [...earlier output truncated...]      where the oldest lines had to go
    Let me look.                          text as it comes
    🔧 Bash: ls -la                       a call
    ⏳ Processing... (12s)                while the turn runs
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    ModelChanged,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.projector.tool_calls import ToolCall
from tailrace.projector.wording import ending, telling, whole_seconds

if TYPE_CHECKING:
    from tailrace.events import Event

SMALLEST_LIMIT = 64
"""Below this there is no room for the first line, the last line and anything between them."""

_TRUNCATED = "[...earlier output truncated...]"
_SHORTEST_CALL = len("🔧 x\n")
# Others read these lines by program: what stands in them is promised.
_SUMMARISED = ("command", "file_path", "path", "pattern", "query", "url")


class _Call(ToolCall):
    """A call at its place."""

    __slots__ = ("id", "place")

    def __init__(self, event: ToolStarted, now: float, place: int) -> None:
        super().__init__(event, now)
        self.summary = telling(event.arguments, _SUMMARISED)
        self.id = event.id
        self.place = place


class _Text:
    """A block of text at its place, in the pieces it came in."""

    __slots__ = ("pieces", "place")

    def __init__(self, place: int) -> None:
        self.pieces: list[str] = []
        self.place = place

    @property
    def said(self) -> str:
        """All of it that is kept."""
        return "".join(self.pieces)

    @property
    def size(self) -> int:
        """How much of it is kept."""
        return sum(map(len, self.pieces))


class ProcessingText:
    """The text of one processing message, at most `limit` characters; with `resolved` it says how calls came out.

    `version` is another one whenever there is something new to show; that time passes is nothing new.
    """

    __slots__ = (
        *("_breaks_at", "_calls", "_elapsed_s", "_has_ended", "_is_writing", "_limit", "_lost_calls", "_lost_text"),
        *("_open", "_places", "_resolved", "_size", "_started_at", "_texts", "version"),
    )

    def __init__(self, limit: int = 4096, *, resolved: bool = False) -> None:
        self.version = 0
        self._limit = limit
        self._resolved = resolved
        self._started_at: float | None = None
        self._elapsed_s: float | None = None  # as the latest progress told
        self._has_ended = False
        self._places = 0  # so many are taken by calls and blocks of text
        self._calls: list[_Call] = []
        self._open: dict[str, _Call] = {}
        self._lost_calls = False  # some are not kept
        self._texts: list[_Text] = []
        self._size = 0  # of all texts
        self._lost_text = False  # some of it is not kept
        self._is_writing = False  # the last text is open
        self._breaks_at = 0  # the texts behind this place follow each other

    def start(self, now: float) -> None:
        """The work begins now; where nobody says so it began with the first event."""
        self._started_at = now

    def feed(self, event: Event, now: float) -> None:
        """Take in what happened."""
        if self._started_at is None:
            self._started_at = now
        match event:
            case _ if _is_of_subagent(event):
                pass
            case TextDelta():
                self._write(event.text)
            case BlockFinal():
                self._settle(event.text)
            case TextRetracted():
                self._take_back(0 if event.scope == "turn" else self._breaks_at)
            case ToolStarted():
                self._call(event, now)
            case ToolInput() | ToolFinished():
                self._renew(event, now)
            case ToolProgress():
                self._elapsed_s = event.elapsed_s
                self.version += 1
            case ReasoningDelta() | Notice() | ModelChanged() | ConfigReloaded() | Error():
                self._break_text()
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._end()
            case _:
                pass

    def render(self, now: float) -> str:
        """What the message says now."""
        if self._has_ended:
            return self.finished()
        since = now if self._started_at is None else self._started_at
        seconds = whole_seconds(now - since if self._elapsed_s is None else self._elapsed_s)
        return self._whole(f"⏳ Processing... ({seconds}s)")

    def finished(self) -> str:
        """What it says when the work is over; nothing where there was none."""
        return self._whole("")

    def without_answer(self) -> str:
        """The calls alone, once the text has gone out as messages of its own; nothing where there were none."""
        return self._fitted([self._line(call) for call in self._calls], "", lost=self._lost_calls)

    def _write(self, text: str) -> None:
        if not text:
            return
        if not self._is_writing:
            self._is_writing = True
            self._places += 1
            self._texts.append(_Text(self._places))
        self._size += len(text)
        self._texts[-1].pieces.append(text)
        self.version += 1
        if self._size > 2 * self._limit:
            self._forget_text()

    def _forget_text(self) -> None:
        """Keep the end of the text that may be shown; seldom enough that each character is moved but a few times."""
        kept: list[_Text] = []
        room = self._limit
        for text in reversed(self._texts):
            kept.append(text)
            if text.size >= room:
                text.pieces = [ending(text.said, room)]
                break
            room -= text.size
        self._texts = kept[::-1]
        self._size = sum(text.size for text in kept)
        self._lost_text = True

    def _settle(self, text: str | None) -> None:
        """The open block is complete, and says this after all where it is told; where none is open, this is one."""
        if self._is_writing and text is not None and text != self._texts[-1].said:
            self._take_back(self._texts[-1].place - 1)
        if text is not None and not self._is_writing:
            self._write(text)
        self._is_writing = False

    def _take_back(self, place: int) -> None:
        """The texts behind the place were never said."""
        kept = [text for text in self._texts if text.place <= place]
        self.version += len(kept) != len(self._texts)
        self._lost_text = self._lost_text and bool(kept)
        self._texts = kept
        self._size = sum(text.size for text in kept)
        self._is_writing = False

    def _break_text(self) -> None:
        """What came is no text: text that follows is another block."""
        self._is_writing = False
        self._breaks_at = self._places

    def _call(self, event: ToolStarted, now: float) -> None:
        self._places += 1
        self._break_text()
        if (before := self._open.get(event.id)) is not None:
            before.stop()
        call = self._open[event.id] = _Call(event, now, self._places)
        self._calls.append(call)
        self.version += 1
        if len(self._calls) > 2 * (most := self._limit // _SHORTEST_CALL + 1):
            self._forget_calls(len(self._calls) - most)

    def _forget_calls(self, count: int) -> None:
        for call in self._calls[:count]:
            if self._open.get(call.id) is call:
                del self._open[call.id]
        del self._calls[:count]
        self._lost_calls = True

    def _renew(self, event: ToolInput | ToolFinished, now: float) -> None:
        call = self._open.get(event.id)
        if call is None:
            return
        before = self._line(call)
        if isinstance(event, ToolInput):
            call.summary = telling(event.arguments, _SUMMARISED)
        else:
            del self._open[event.id]
            call.finish(event, now)
        self.version += self._line(call) != before

    def _end(self) -> None:
        self._has_ended = True
        for call in self._open.values():
            call.stop()
        self.version += 1

    def _line(self, call: _Call) -> str:
        return call.resolved_line if self._resolved else call.line

    def _whole(self, last_line: str) -> str:
        items: list[_Call | _Text] = sorted([*self._calls, *self._texts], key=attrgetter("place"))
        said = [self._line(item) if isinstance(item, _Call) else item.said.strip("\n") for item in items]
        blocks = [block for block in said if block.strip()]
        return self._fitted(blocks, last_line, lost=self._lost_text or self._lost_calls)

    def _fitted(self, blocks: list[str], last_line: str, *, lost: bool) -> str:
        whole = "\n".join(blocks)
        end = f"\n{last_line}" if whole and last_line else last_line
        if not lost and len(whole) + len(end) <= self._limit:
            return whole + end
        room = self._limit - len(_TRUNCATED) - 1 - len(end)
        if room < 1:
            return ending(whole + end, self._limit)
        return f"{_TRUNCATED}\n{_newest_lines(whole, room)}{end}"


def _is_of_subagent(event: Event) -> bool:
    """Whether a subagent says it or thinks it; the tools it uses are shown like any."""
    if isinstance(event, TextDelta | BlockFinal | TextRetracted | ReasoningDelta | Notice | Error):
        return event.parent_tool_id is not None
    return False


def _newest_lines(text: str, room: int) -> str:
    """The last lines that fit; of one that is too long alone, its end."""
    if len(text) <= room:
        return text
    line_start = text.find("\n", len(text) - room - 1) + 1
    newest = text[line_start:].lstrip("\n") if line_start else ""
    return newest if newest.strip() else ending(text, room)
