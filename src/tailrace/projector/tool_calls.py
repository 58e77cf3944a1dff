"""The tool calls of a turn, as lines and as tasks. Calls of a subagent are below the call that runs the subagent.

Ids come from the runtime, which may invent, omit or repeat them. An id means the last call that began with that id; an
event for an unknown id is ignored. The output and the result of a tool are never shown, because they were not written
for the people in the chat. Only the latest calls are kept for `lines` and `tasks`; the list for `changed_tasks` grows
until that method is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.events import BlockFinal, TextDelta, TextRetracted, ToolFinished, ToolInput, ToolProgress, ToolStarted
from tailrace.operations import Task
from tailrace.projector import wording

if TYPE_CHECKING:
    from typing import TypeAlias

    _State: TypeAlias = Literal["running", "done", "failed", "stopped"]

_MAX_KEPT = 64  # earlier calls are only counted
_MAX_DEPTH = 3  # deeper calls are indented no further, so that lines stay short
_TEXT_KEPT = 4 * wording.LINE  # characters from the end of a subagent's text, enough for one line
_MAX_TITLE = 256  # Slack's limit
_STATUS: dict[_State, Literal["pending", "in_progress", "complete", "error"]] = {
    "running": "in_progress",
    "done": "complete",
    "failed": "error",
    "stopped": "pending",  # neither running nor done
}


class ToolLine:
    """One tool call and how it is shown on a line."""

    __slots__ = ("argument", "duration_s", "name", "started_at", "state")

    def __init__(self, event: ToolStarted, now: float) -> None:
        self.name = wording.one_line(event.name) or "tool"
        self.argument = wording.main_argument(event.arguments)
        self.started_at = now
        self.state: _State = "running"
        self.duration_s = 0.0

    @property
    def title(self) -> str:
        """The name of the tool and its main argument, such as `Bash: ls -la`."""
        return f"{self.name}: {self.argument}" if self.argument else self.name

    @property
    def line(self) -> str:
        """The line without an outcome, such as `🔧 Bash: ls -la`."""
        return f"🔧 {self.title}"

    @property
    def line_with_outcome(self) -> str:
        """The line with the outcome, such as `🔧 Bash: ls -la ✓ 0.3s`. A call that still runs has no outcome yet."""
        match self.state:
            case "running":
                return self.line
            case "done":
                return f"{self.line} ✓ {wording.format_duration(self.duration_s)}"
            case "failed":
                return f"{self.line} ✗ {wording.format_duration(self.duration_s)}"
            case "stopped":
                return f"{self.line} …"

    def finish(self, event: ToolFinished, now: float) -> None:
        """Record that the call has returned, and how long it took."""
        self.state = "failed" if event.is_error else "done"
        self.duration_s = now - self.started_at

    def stop(self) -> None:
        """Record that the call does not run any more although no result came. A result may still come later."""
        self.state = "stopped"


class _NestedCall(ToolLine):
    """A tool call with its depth below other calls, its progress, and the last text of the subagent that it runs."""

    __slots__ = ("depth", "number", "progress_since", "text")

    def __init__(self, event: ToolStarted, now: float, number: int, depth: int) -> None:
        super().__init__(event, now)
        self.number = number
        self.depth = depth
        self.text = ""
        self.progress_since: float | None = None  # the start of the call, as its last progress event says

    def lines(self, now: float) -> list[str]:
        """The line of the call, and while it runs the last line of its subagent below it."""
        indent = "  " * min(self.depth, _MAX_DEPTH)
        if self.state != "running":
            return [indent + self.line_with_outcome]
        elapsed = f" ({wording.format_elapsed(now - self.progress_since)})" if self.progress_since is not None else ""
        text = wording.last_line(self.text)
        return [f"{indent}{self.line}{elapsed}", *([f"{indent}  💬 {text}"] if text else [])]

    def task(self) -> Task:
        """The call as a task, for platforms that show tasks."""
        return Task(id=str(self.number), title=wording.one_line(self.title, _MAX_TITLE), status=_STATUS[self.state])


class ToolCalls:
    """The tool calls of one turn, as far as they are shown."""

    __slots__ = ("_calls", "_changed", "_count", "_open", "left_out")

    def __init__(self) -> None:
        self._calls: list[_NestedCall] = []  # in the order they are shown: a call, then the calls of its subagent
        self._open: dict[str, _NestedCall] = {}  # calls without a result, by id
        self._changed: dict[int, _NestedCall] = {}  # those that changed since the last `changed_tasks`
        self._count = 0
        self.left_out = 0  # how many calls would be shown but are not kept

    def begin(self, event: ToolStarted, now: float) -> None:
        """Add a call. If an open call has the same id, it is stopped: later events belong to the new call."""
        before = self._open.pop(event.id, None)
        if before is not None:
            self._stop(before)
        index, depth = self._position(event.parent_tool_id)
        self._count += 1
        call = self._open[event.id] = _NestedCall(event, now, self._count, depth)
        self._changed[call.number] = call
        self._calls.insert(index, call)
        if len(self._calls) > _MAX_KEPT:
            self.left_out += 1
            del self._calls[next((nth for nth, old in enumerate(self._calls) if old.state != "running"), 0)]

    def _position(self, parent_id: str | None) -> tuple[int, int]:
        """Where to insert a new call, and its depth: after the other calls of its parent, or at the end."""
        parent = self._open.get(parent_id) if parent_id is not None else None
        if parent is None or parent not in self._calls:
            return len(self._calls), 0
        index = self._calls.index(parent) + 1
        while index < len(self._calls) and self._calls[index].depth > parent.depth:
            index += 1
        return index, parent.depth + 1

    def update(self, event: ToolInput | ToolProgress | ToolFinished, now: float) -> bool:
        """Update the call that the event belongs to. Returns True if a line has changed."""
        call = self._find(event.id)
        if call is None:
            return False
        match event:
            case ToolProgress():
                call.progress_since = now - wording.whole_seconds(event.elapsed_s)
                call.text = wording.text_end(event.text, _TEXT_KEPT) + "\n" if event.text else call.text
                return call.state == "running"
            case ToolInput():
                call.argument = wording.main_argument(event.arguments)
            case ToolFinished():
                del self._open[event.id]
                call.finish(event, now)
        self._changed[call.number] = call
        return True

    def _find(self, call_id: str | None) -> _NestedCall | None:
        """The open call with that id. If the id is None, the newest open call."""
        if call_id is None:
            return next(reversed(self._open.values()), None)
        return self._open.get(call_id)

    def feed_text(self, event: TextDelta | BlockFinal | TextRetracted, parent_id: str) -> bool:
        """Show text of a subagent below the call that runs it. Returns True if a line has changed."""
        call = self._open.get(parent_id)
        if call is None:
            return False
        match event:
            case TextDelta():
                call.text = wording.text_end(call.text + event.text, _TEXT_KEPT)
            case BlockFinal():
                call.text = wording.text_end(event.text or call.text, _TEXT_KEPT) + "\n"
            case TextRetracted():
                call.text = ""
        return call.state == "running"

    def clear_finished(self) -> None:
        """Remove the calls that have ended. Only calls that still run are shown from now on."""
        self.left_out = 0
        self._calls = [call for call in self._calls if call.state == "running"]

    def stop(self) -> bool:
        """Stop the calls without a result, because the turn has ended. Returns False if there are none."""
        running = [call for call in self._open.values() if call.state == "running"]
        for call in running:
            self._stop(call)
        return bool(running)

    def _stop(self, call: _NestedCall) -> None:
        call.stop()
        self._changed[call.number] = call

    def lines(self, now: float) -> list[str]:
        """The lines of the calls that are kept."""
        return [line for call in self._calls for line in call.lines(now)]

    def tasks(self) -> tuple[Task, ...]:
        """The calls that are kept, as tasks. The tasks get numbers as ids, because the ids of runtimes repeat."""
        return tuple(call.task() for call in self._calls)

    def changed_tasks(self) -> tuple[Task, ...]:
        """The tasks that are new or have changed since the last call of this method.

        Calls that are not shown any more are included.
        """
        changed, self._changed = self._changed, {}
        return tuple(call.task() for call in changed.values())
