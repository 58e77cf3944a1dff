"""Tool calls as lines: one per call, `◌` while it runs, `✓` or `✗` when it is finished.

On a terminal the line is updated in place while nothing else is below it, and shows the latest output of the tool. In a
pipe there is a line when a call begins and one when it ends, so that a log shows where an agent hung. Calls of a
subagent are indented under the call that started the subagent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from tailrace.channels.terminal.lines import DIM, TerminalLine, TerminalWriter
from tailrace.channels.terminal.visible import visible
from tailrace.events import MAIN_ARGUMENTS, ToolFinished, ToolInput, ToolOutput, ToolProgress, ToolStarted

if TYPE_CHECKING:
    from collections.abc import Callable

ToolEvent: TypeAlias = ToolStarted | ToolInput | ToolProgress | ToolOutput | ToolFinished

_MAX_SUMMARY = 200
_MAX_DEPTH = 4
# A tool may print faster than a person reads, so this is the least time between two updates of its line. The end of a
# call is always shown.
_REDRAW_S = 0.05


class _Marks(NamedTuple):
    """The signs with which the line of a tool call may begin."""

    running: str
    done: str
    failed: str
    unfinished: str


_UNICODE_MARKS = _Marks("◌", "✓", "✗", "–")
_ASCII_MARKS = _Marks("*", "+", "x", "-")


class _Call(msgspec.Struct):
    """A tool call that is not finished."""

    name: str
    summary: str
    started: float
    drawn: float
    parent: str | None = None
    detail: str = ""

    @property
    def label(self) -> str:
        """The name of the tool and the main argument of the call."""
        return f"{self.name}: {self.summary}" if self.summary else self.name


class ToolLines:
    """Shows the tool calls of a turn, one line for each.

    Before a line is added, `begin` is called with the id of the tool call that runs the subagent; None for the agent
    itself.
    """

    def __init__(self, out: TerminalWriter, *, begin: Callable[[str | None], None], clock: Callable[[], float]) -> None:
        self._out = out
        self._begin = begin
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._depths: dict[str, int] = {}
        self._finished: dict[str, str] = {}  # labels of finished calls: their subagents may still write
        self._remark = ""
        self._marks = _UNICODE_MARKS if out.can_carry("".join(_UNICODE_MARKS)) else _ASCII_MARKS

    def show(self, event: ToolEvent) -> None:
        """Show an event of a tool call. Events of unknown calls are ignored."""
        now = self._clock()
        if isinstance(event, ToolStarted):
            started = _Call(_one_line(event.name), _summary(event.arguments), now, now, event.parent_tool_id)
            self._calls[event.id] = started
            self._depths[event.id] = self._depth_under(event.parent_tool_id)
            self._begin(started.parent)
            self._out.add(event.id, self._line(started, self._marks.running), style=DIM)
            return
        id_ = event.id if event.id is not None else next(reversed(self._calls), "")
        call = self._calls.get(id_)
        if call is None:
            return
        match event:
            case ToolInput():
                call.summary = _summary(event.arguments)
                self._update(id_, call)
            case ToolProgress():
                call.detail = _one_line(event.text or "") or call.detail
                self._update_at(now, id_, call)
            case ToolOutput():
                call.detail = _last_line(event.data) or call.detail
                self._update_at(now, id_, call)
            case ToolFinished():
                self._finished[id_] = self.label(id_)
                del self._calls[id_]
                call.detail = self._reason(event.result) if event.is_error else ""
                mark = self._marks.failed if event.is_error else self._marks.done
                self._finish(id_, self._line(call, mark, f" ({_duration(now - call.started)})"), call.parent)

    def close(self) -> None:
        """End the turn: tool calls that are still open are shown as not finished."""
        for id_, call in self._calls.items():
            call.detail = ""
            self._finish(id_, self._line(call, self._marks.unfinished, " (not finished)"), call.parent)
        self._calls.clear()
        self._depths.clear()
        self._finished.clear()
        self._remark = ""

    def indent(self, parent: str | None) -> str:
        """The indentation below this call, which runs a subagent; empty for the agent itself."""
        return "  " * self._depth_under(parent)

    def label(self, id_: str) -> str:
        """The name and main argument of a call; empty if this turn has no such call."""
        call = self._calls.get(id_)
        return call.label if call is not None else self._finished.get(id_, "")

    def note_remark(self, remark: str) -> None:
        """Remember a line that was shown. A call that fails for the same reason then does not show the reason again."""
        self._remark = " ".join(remark.split())

    def _reason(self, result: Any) -> str:
        """The reason why a call failed; "" if the last shown remark already ended with that reason."""
        reason = _text_of(result)
        return "" if self._remark.endswith(" ".join(reason.split())) else _one_line(reason)

    def _depth_under(self, parent: str | None) -> int:
        return 0 if parent is None else min(self._depths.get(parent, 0) + 1, _MAX_DEPTH)

    def _update_at(self, now: float, id_: str, call: _Call) -> None:
        if now - call.drawn >= _REDRAW_S:
            call.drawn = now
            self._update(id_, call)

    def _update(self, id_: str, call: _Call) -> None:
        self._out.update(id_, self._line(call, self._marks.running), style=DIM)

    def _finish(self, id_: str, line: TerminalLine, parent: str | None) -> None:
        if not self._out.update(id_, line, style=DIM):
            self._begin(parent)
            self._out.add(id_, line, style=DIM)

    def _line(self, call: _Call, mark: str, tail: str = "") -> TerminalLine:
        head = f"{self.indent(call.parent)}{mark} {call.label}"
        detail = f" · {call.detail}" if call.detail not in {"", call.summary} else ""
        return TerminalLine(head, tail, detail, is_detail_important=mark == self._marks.failed)


def _summary(arguments: Any) -> str:
    """The main argument of a call; all its arguments if none of them is in `MAIN_ARGUMENTS`."""
    if isinstance(arguments, dict):
        main = next((arguments[name] for name in MAIN_ARGUMENTS if arguments.get(name)), None)
        arguments = main if main is not None else arguments or None
    return "" if arguments is None else _one_line(_text_of(arguments))


def _text_of(value: Any) -> str:
    """A JSON value as text; for any other value, the name of its type."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return repr(value)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"


def _one_line(text: str) -> str:
    """The beginning of the text, on one line."""
    return visible(" ".join(text[: 2 * _MAX_SUMMARY].split())[:_MAX_SUMMARY])


def _last_line(text: str) -> str:
    """The last line that is not blank."""
    lines = text[-2 * _MAX_SUMMARY :].split("\n")
    return next((_one_line(line) for line in reversed(lines) if line.strip()), "")


def _duration(seconds: float) -> str:
    """Format a duration for people."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s"
