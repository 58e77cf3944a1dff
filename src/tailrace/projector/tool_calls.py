"""The tool calls of a turn: each as a line, those of a subagent below the call it works for, and as tasks.

Ids are the runtime's, and runtimes invent, leave out and repeat them: a call is found by the id it was last begun with,
and what belongs to no call is passed over. What a tool prints or gives back is never shown: it was not made for the
people in the chat.

Nothing here grows with the number of calls that are over, but the list of changes until somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace.events import BlockFinal, TextDelta, TextRetracted, ToolFinished, ToolInput, ToolProgress, ToolStarted
from tailrace.operations import Task
from tailrace.projector.wording import LINE, counted, ending, last_line, lasted, one_line, telling, whole_seconds

if TYPE_CHECKING:
    from typing import TypeAlias

    Outcome: TypeAlias = Literal["running", "done", "failed", "stopped"]

_KEPT = 64  # calls that lines are made of; earlier ones are only counted
_DEEPEST = 3  # lines are short, and who calls whom below that is of no interest
_HEARD = 4 * LINE  # of what comes in pieces, the end that a line may be made of
_TITLE = 256  # Slack's limit
_STATUS_OF: dict[Outcome, Literal["pending", "in_progress", "complete", "error"]] = {
    "running": "in_progress",
    "done": "complete",
    "failed": "error",
    "stopped": "pending",  # neither at work nor done
}


class ToolCall:
    """One call of a tool: what it is called for, and how it came out."""

    __slots__ = ("name", "outcome", "started_at", "summary", "took")

    def __init__(self, event: ToolStarted, now: float) -> None:
        self.name = one_line(event.name) or "tool"
        self.summary = telling(event.arguments)
        self.started_at = now
        self.outcome: Outcome = "running"
        self.took = 0.0

    @property
    def title(self) -> str:
        """The tool, and the argument that tells most."""
        return f"{self.name}: {self.summary}" if self.summary else self.name

    @property
    def line(self) -> str:
        """The call, however it came out."""
        return f"🔧 {self.title}"

    @property
    def resolved_line(self) -> str:
        """The call, and how it came out."""
        match self.outcome:
            case "running":
                return self.line
            case "done":
                return f"{self.line} ✓ {lasted(self.took)}"
            case "failed":
                return f"{self.line} ✗ {lasted(self.took)}"
            case "stopped":
                return f"{self.line} …"

    def finish(self, event: ToolFinished, now: float) -> None:
        """It has answered."""
        self.outcome = "failed" if event.is_error else "done"
        self.took = now - self.started_at

    def stop(self) -> None:
        """It is over, and how it came out is not known; an answer may still come."""
        self.outcome = "stopped"


class _Step(ToolCall):
    """A call among others: how deep it stands, what was last said under it, and since when it tells of its progress."""

    __slots__ = ("depth", "number", "said", "since")

    def __init__(self, event: ToolStarted, now: float, number: int, depth: int) -> None:
        super().__init__(event, now)
        self.number = number
        self.depth = depth
        self.said = ""
        self.since: float | None = None

    def lines(self, now: float) -> list[str]:
        """The call, and below it what was last said under it while it runs."""
        indent = "  " * min(self.depth, _DEEPEST)
        if self.outcome != "running":
            return [indent + self.resolved_line]
        at_work = f" ({counted(now - self.since)})" if self.since is not None else ""
        said = last_line(self.said)
        return [f"{indent}{self.line}{at_work}", *([f"{indent}  💬 {said}"] if said else [])]

    def task(self) -> Task:
        """The call as platforms show it that have steps of their own."""
        return Task(id=str(self.number), title=one_line(self.title, _TITLE), status=_STATUS_OF[self.outcome])


class ToolCalls:
    """The calls of one turn; made when there is one."""

    __slots__ = ("_changed", "_newest", "_open", "_steps", "left_out")

    def __init__(self) -> None:
        self._steps: list[_Step] = []  # as they are shown: each above those that were made under it
        self._open: dict[str, _Step] = {}  # by its id, each call that has no answer
        self._changed: dict[int, _Step] = {}  # since somebody asked for new tasks
        self._newest = 0  # the number of the last call
        self.left_out = 0  # so many calls that would be shown are not kept

    def begin(self, event: ToolStarted, now: float) -> None:
        """A call begins; one of the same id that has no answer will not get one."""
        before = self._open.pop(event.id, None)
        if before is not None:
            self._stop(before)
        place, depth = self._place(event.parent_tool_id)
        self._newest += 1
        step = self._open[event.id] = _Step(event, now, self._newest, depth)
        self._changed[step.number] = step
        self._steps.insert(place, step)
        if len(self._steps) > _KEPT:
            self.left_out += 1
            del self._steps[next((nth for nth, old in enumerate(self._steps) if old.outcome != "running"), 0)]

    def _place(self, parent_id: str | None) -> tuple[int, int]:
        """Where a call is shown and how deep: below what its parent called before, or last of all."""
        parent = self._open.get(parent_id) if parent_id is not None else None
        if parent is None or parent not in self._steps:
            return len(self._steps), 0
        place = self._steps.index(parent) + 1
        while place < len(self._steps) and self._steps[place].depth > parent.depth:
            place += 1
        return place, parent.depth + 1

    def renew(self, event: ToolInput | ToolProgress | ToolFinished, now: float) -> bool:
        """Something more is known of a call; whether that shows."""
        step = self._called(event.id)
        if step is None:
            return False
        match event:
            case ToolProgress():
                step.since = now - whole_seconds(event.elapsed_s)
                step.said = ending(event.text, _HEARD) + "\n" if event.text else step.said
                return step.outcome == "running"
            case ToolInput():
                step.summary = telling(event.arguments)
            case ToolFinished():
                del self._open[event.id]
                step.finish(event, now)
        self._changed[step.number] = step
        return True

    def _called(self, call_id: str | None) -> _Step | None:
        """The call of that id that has no answer; without an id the newest."""
        if call_id is None:
            return next(reversed(self._open.values()), None)
        return self._open.get(call_id)

    def hear(self, event: TextDelta | BlockFinal | TextRetracted, parent_id: str) -> bool:
        """A subagent speaks, under the call that it works for; whether that shows."""
        step = self._open.get(parent_id)
        if step is None:
            return False
        match event:
            case TextDelta():
                step.said = ending(step.said + event.text, _HEARD)
            case BlockFinal():
                step.said = ending(event.text or step.said, _HEARD) + "\n"
            case TextRetracted():
                step.said = ""
        return step.outcome == "running"

    def settle(self) -> None:
        """Show only those from now on that still run."""
        self.left_out = 0
        self._steps = [step for step in self._steps if step.outcome == "running"]

    def stop(self) -> bool:
        """Calls that have no answer count as over; whether there were any."""
        running = [step for step in self._open.values() if step.outcome == "running"]
        for step in running:
            self._stop(step)
        return bool(running)

    def _stop(self, step: _Step) -> None:
        step.stop()
        self._changed[step.number] = step

    def lines(self, now: float) -> list[str]:
        """Those that are kept, as lines."""
        return [line for step in self._steps for line in step.lines(now)]

    def tasks(self) -> tuple[Task, ...]:
        """Those that are kept, as tasks; each has a number of its own, whatever its id."""
        return tuple(step.task() for step in self._steps)

    def new_tasks(self) -> tuple[Task, ...]:
        """Those that are new or another since this was last asked, kept or not."""
        changed, self._changed = self._changed, {}
        return tuple(step.task() for step in changed.values())
