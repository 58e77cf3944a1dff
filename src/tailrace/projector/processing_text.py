"""The text of a processing message: the tool calls and the text of a turn so far, in order, and the elapsed time.

This module owns the format, and keeps no more than can be shown: the end of the text, and the latest calls. The caller
decides when the message is sent. Text of subagents is not shown, only the tools they use.

    [...earlier output truncated...]      if the oldest lines do not fit
    Let me look.                          text as it comes
    🔧 Bash: ls -la                       a tool call
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
from tailrace.projector.tool_calls import ToolLine
from tailrace.projector.wording import main_argument, text_end, whole_seconds

if TYPE_CHECKING:
    from tailrace.events import Event

SMALLEST_LIMIT = 64
"""A smaller limit has no room for the first line, the last line and a line between them."""

_TRUNCATED = "[...earlier output truncated...]"
_SHORTEST_CALL = len("🔧 x\n")
# Programs read these lines, so the arguments that they show and their order must not change.
_SHOWN_ARGUMENTS = ("command", "file_path", "path", "pattern", "query", "url")


class _CallLine(ToolLine):
    """A tool call, and the number that says where it is among the calls and text blocks of the message."""

    __slots__ = ("id", "position")

    def __init__(self, event: ToolStarted, now: float, position: int) -> None:
        super().__init__(event, now)
        self.argument = main_argument(event.arguments, _SHOWN_ARGUMENTS)
        self.id = event.id
        self.position = position


class _TextBlock:
    """A block of text in the pieces in which it came, and the number that says where it is in the message."""

    __slots__ = ("pieces", "position")

    def __init__(self, position: int) -> None:
        self.pieces: list[str] = []
        self.position = position

    @property
    def text(self) -> str:
        """The text of the block, as far as it is kept."""
        return "".join(self.pieces)


class ProcessingText:
    """The text of one processing message, at most `limit` characters. `shows_outcomes` adds ✓ or ✗ to finished calls.

    `version` changes whenever there is something new to show, except for the elapsed time.
    """

    def __init__(self, limit: int = 4096, *, shows_outcomes: bool = False) -> None:
        self.version = 0
        self._limit = limit
        self._shows_outcomes = shows_outcomes
        self._started_at: float | None = None
        self._elapsed_s: float | None = None  # as the runtime reported it last
        self._has_ended = False
        self._position = 0  # the position of the last call or block
        self._calls: list[_CallLine] = []
        self._open_calls: dict[str, _CallLine] = {}
        self._is_call_cut = False  # some calls are not kept
        self._blocks: list[_TextBlock] = []
        self._size = 0  # of the text in all blocks
        self._is_text_cut = False  # some text is not kept
        self._is_block_open = False
        self._segment_start = 0  # only text came after this position

    def start(self, now: float) -> None:
        """Begin to count the elapsed time. Without this call it is counted from the first event."""
        self._started_at = now

    def feed(self, event: Event, now: float) -> None:
        """Take the next event of the turn into the text."""
        if self._started_at is None:
            self._started_at = now
        match event:
            case _ if _is_subagent_text(event):
                pass
            case TextDelta():
                self._add_text(event.text)
            case BlockFinal():
                self._close_block(event.text)
            case TextRetracted():
                self._retract(0 if event.scope == "turn" else self._segment_start)
            case ToolStarted():
                self._add_call(event, now)
            case ToolInput() | ToolFinished():
                self._update_call(event, now)
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
        """The text of the message as it should be shown now."""
        if self._has_ended:
            return self.finished()
        started_at = now if self._started_at is None else self._started_at
        seconds = whole_seconds(now - started_at if self._elapsed_s is None else self._elapsed_s)
        return self._whole(f"⏳ Processing... ({seconds}s)")

    def finished(self) -> str:
        """The text after the end of the turn, without the line of the elapsed time; "" if there is nothing to show."""
        return self._whole("")

    def tools_only(self) -> str:
        """Only the lines of the tool calls, because the text was sent as the answer; "" if there were no calls."""
        return self._fitted([self._line(call) for call in self._calls], "", is_cut=self._is_call_cut)

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if not self._is_block_open:
            self._is_block_open = True
            self._position += 1
            self._blocks.append(_TextBlock(self._position))
        self._size += len(text)
        self._blocks[-1].pieces.append(text)
        self.version += 1
        # Do not cut on every event, so that each character is copied only a few times.
        if self._size > 2 * self._limit:
            self._cut_text()

    def _cut_text(self) -> None:
        """Drop text that is too old to be shown, and keep the end."""
        kept: list[_TextBlock] = []
        room = self._limit
        for block in reversed(self._blocks):
            kept.append(block)
            text = block.text
            block.pieces = [text_end(text, room)]
            room -= len(text)
            if room <= 0:
                break
        self._blocks = kept[::-1]
        self._size = sum(len(block.text) for block in kept)
        self._is_text_cut = True

    def _close_block(self, text: str | None) -> None:
        """Complete the open block.

        `text`, if given, is its whole text; if no block is open, `text` becomes a new block.
        """
        if self._is_block_open and text is not None and text != self._blocks[-1].text:
            self._retract(self._blocks[-1].position - 1)
        if text is not None and not self._is_block_open:
            self._add_text(text)
        self._is_block_open = False

    def _retract(self, position: int) -> None:
        """Remove the text blocks after this position."""
        kept = [block for block in self._blocks if block.position <= position]
        self.version += len(kept) != len(self._blocks)
        self._is_text_cut = self._is_text_cut and bool(kept)
        self._blocks = kept
        self._size = sum(len(block.text) for block in kept)
        self._is_block_open = False

    def _break_text(self) -> None:
        """End the open block, because an event that is not text came.

        A later retraction with scope "block" does not remove text before that event.
        """
        self._is_block_open = False
        self._segment_start = self._position

    def _add_call(self, event: ToolStarted, now: float) -> None:
        self._position += 1
        self._break_text()
        if (before := self._open_calls.get(event.id)) is not None:
            before.stop()
        call = self._open_calls[event.id] = _CallLine(event, now, self._position)
        self._calls.append(call)
        self.version += 1
        if len(self._calls) > 2 * (shown := self._limit // _SHORTEST_CALL + 1):
            self._cut_calls(len(self._calls) - shown)

    def _cut_calls(self, count: int) -> None:
        for call in self._calls[:count]:
            if self._open_calls.get(call.id) is call:
                del self._open_calls[call.id]
        del self._calls[:count]
        self._is_call_cut = True

    def _update_call(self, event: ToolInput | ToolFinished, now: float) -> None:
        call = self._open_calls.get(event.id)
        if call is None:
            return
        before = self._line(call)
        if isinstance(event, ToolInput):
            call.argument = main_argument(event.arguments, _SHOWN_ARGUMENTS)
        else:
            del self._open_calls[event.id]
            call.finish(event, now)
        self.version += self._line(call) != before

    def _end(self) -> None:
        self._has_ended = True
        for call in self._open_calls.values():
            call.stop()
        self.version += 1

    def _line(self, call: _CallLine) -> str:
        return call.line_with_outcome if self._shows_outcomes else call.line

    def _whole(self, last_line: str) -> str:
        items: list[_CallLine | _TextBlock] = sorted([*self._calls, *self._blocks], key=attrgetter("position"))
        texts = [self._line(item) if isinstance(item, _CallLine) else item.text.strip("\n") for item in items]
        is_cut = self._is_text_cut or self._is_call_cut
        return self._fitted([text for text in texts if text.strip()], last_line, is_cut=is_cut)

    def _fitted(self, texts: list[str], last_line: str, *, is_cut: bool) -> str:
        whole = "\n".join(texts)
        end = f"\n{last_line}" if whole and last_line else last_line
        if not is_cut and len(whole) + len(end) <= self._limit:
            return whole + end
        room = self._limit - len(_TRUNCATED) - 1 - len(end)
        if room < 1:
            return text_end(whole + end, self._limit)
        return f"{_TRUNCATED}\n{_last_lines(whole, room)}{end}"


def _is_subagent_text(event: Event) -> bool:
    """Whether the event is text of a subagent. Tool calls of subagents are shown like all others."""
    if isinstance(event, TextDelta | BlockFinal | TextRetracted | ReasoningDelta | Notice | Error):
        return event.parent_tool_id is not None
    return False


def _last_lines(text: str, room: int) -> str:
    """The last lines of the text that fit into `room` characters. If the last line alone is too long, its end."""
    if len(text) <= room:
        return text
    line_start = text.find("\n", len(text) - room - 1) + 1
    lines = text[line_start:].lstrip("\n") if line_start else ""
    return lines if lines.strip() else text_end(text, room)
