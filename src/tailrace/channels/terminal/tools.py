"""Tool activity as lines: one per call, `◌` while it runs, `✓` or `✗` when it has answered.

On a terminal the line is renewed in place and shows the latest the tool said, as long as nothing else stands
below it. In a pipe there is a line when a call begins and one when it ends: a log tells where an agent hung. Calls of
a subagent are set in under the call that it works for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from tailrace.channels.terminal.lines import DIM, Line, Lines
from tailrace.channels.terminal.visible import visible
from tailrace.events import MAIN_ARGUMENTS, ToolFinished, ToolInput, ToolOutput, ToolProgress, ToolStarted

if TYPE_CHECKING:
    from collections.abc import Callable

ToolEvent: TypeAlias = ToolStarted | ToolInput | ToolProgress | ToolOutput | ToolFinished

_SUMMARY_LENGTH = 200
_DEEPEST = 4
# A tool may print faster than anybody reads: its line is renewed at most this often, its end is always shown.
_REDRAW_S = 0.05


class Marks(NamedTuple):
    """The signs a line may begin with."""

    running: str
    done: str
    failed: str
    unfinished: str


UNICODE_MARKS = Marks("◌", "✓", "✗", "–")
ASCII_MARKS = Marks("*", "+", "x", "-")


class _Call(msgspec.Struct):
    """One call that has not answered yet."""

    name: str
    summary: str
    started: float
    drawn: float
    parent: str | None = None
    detail: str = ""


class ToolLines:
    """The calls that are open, and their lines; `begin` is called with whose line it is before one is added."""

    def __init__(self, lines: Lines, *, begin: Callable[[str | None], None], clock: Callable[[], float]) -> None:
        self._lines = lines
        self._begin = begin
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._depths: dict[str, int] = {}
        self._ended: dict[str, str] = {}  # what each call was that has answered: its subagent may speak on
        self._remark = ""
        self._marks = UNICODE_MARKS if lines.can_carry("".join(UNICODE_MARKS)) else ASCII_MARKS

    def show(self, event: ToolEvent) -> None:
        """Show what happened to a call; what belongs to no open call is passed over."""
        now = self._clock()
        if isinstance(event, ToolStarted):
            started = _Call(_one_line(event.name), _summary(event.arguments), now, now, event.parent_tool_id)
            self._calls[event.id] = started
            self._depths[event.id] = self._depth_under(event.parent_tool_id)
            self._begin(started.parent)
            self._lines.add(event.id, self._line(started, self._marks.running), style=DIM)
            return
        id_ = event.id if event.id is not None else next(reversed(self._calls), "")
        call = self._calls.get(id_)
        if call is None:
            return
        match event:
            case ToolInput():
                call.summary = _summary(event.arguments)
                self._renew(id_, call)
            case ToolProgress():
                call.detail = _one_line(event.text or "") or call.detail
                self._renew_at(now, id_, call)
            case ToolOutput():
                call.detail = _last_line(event.data) or call.detail
                self._renew_at(now, id_, call)
            case ToolFinished():
                self._ended[id_] = self.label(id_)
                del self._calls[id_]
                call.detail = self._reason(event.result) if event.is_error else ""
                mark = self._marks.failed if event.is_error else self._marks.done
                self._resolve(id_, self._line(call, mark, f" ({_duration(now - call.started)})"), call.parent)

    def close(self) -> None:
        """The turn is over: calls that never answered are shown as not finished."""
        for id_, call in self._calls.items():
            call.detail = ""
            self._resolve(id_, self._line(call, self._marks.unfinished, " (not finished)"), call.parent)
        self._calls.clear()
        self._depths.clear()
        self._ended.clear()
        self._remark = ""

    def indent(self, parent: str | None) -> str:
        """What stands before a line of the subagent that works for this call; nothing for the agent itself."""
        return "  " * self._depth_under(parent)

    def label(self, id_: str) -> str:
        """What the call is, or was; nothing where this turn has no such call."""
        call = self._calls.get(id_)
        if call is None:
            return self._ended.get(id_, "")
        return f"{call.name}: {call.summary}" if call.summary else call.name

    def hear(self, remark: str) -> None:
        """A remark stands on the screen: a call that fails for the same reason need not say it again."""
        self._remark = " ".join(remark.split())

    def _reason(self, result: Any) -> str:
        """Why a call failed, where nobody has just said that."""
        reason = _text_of(result)
        return "" if self._remark.endswith(" ".join(reason.split())) else _one_line(reason)

    def _depth_under(self, parent: str | None) -> int:
        return 0 if parent is None else min(self._depths.get(parent, 0) + 1, _DEEPEST)

    def _renew_at(self, now: float, id_: str, call: _Call) -> None:
        if now - call.drawn >= _REDRAW_S:
            call.drawn = now
            self._renew(id_, call)

    def _renew(self, id_: str, call: _Call) -> None:
        self._lines.renew(id_, self._line(call, self._marks.running), style=DIM)

    def _resolve(self, id_: str, line: Line, parent: str | None) -> None:
        if not self._lines.renew(id_, line, style=DIM):
            self._begin(parent)
            self._lines.add(id_, line, style=DIM)

    def _line(self, call: _Call, mark: str, tail: str = "") -> Line:
        said = f"{call.name}: {call.summary}" if call.summary else call.name
        head = f"{self.indent(call.parent)}{mark} {said}"
        detail = f" · {call.detail}" if call.detail not in {"", call.summary} else ""
        return Line(head, tail, detail, tells=mark == self._marks.failed)


def _summary(arguments: Any) -> str:
    """The argument that tells most about a call; all of them where none is known to."""
    if isinstance(arguments, dict):
        telling = next((arguments[name] for name in MAIN_ARGUMENTS if arguments.get(name)), None)
        arguments = telling if telling is not None else arguments or None
    return "" if arguments is None else _one_line(_text_of(arguments))


def _text_of(value: Any) -> str:
    """Any JSON value as text; what is no JSON value as Python would show it."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return repr(value)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"


def _one_line(text: str) -> str:
    """The text's beginning on one line."""
    return visible(" ".join(text[: 2 * _SUMMARY_LENGTH].split())[:_SUMMARY_LENGTH])


def _last_line(text: str) -> str:
    """The last line that says something, of the end of the text."""
    lines = text[-2 * _SUMMARY_LENGTH :].split("\n")
    return next((_one_line(line) for line in reversed(lines) if line.strip()), "")


def _duration(seconds: float) -> str:
    """How long something took, as a person says it."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s"
