"""What the agent is doing in a turn, as lines for people: plan, tool calls, reasoning, status and notices.

The answer is not part of these lines. `TurnActivity` owns which lines are current. `ToolCalls` makes the lines of
tools. `LivePreview` decides when the lines are shown, and escapes them for Markdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    ModelChanged,
    Notice,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.projector.tool_calls import ToolCalls
from tailrace.projector.wording import LINE, last_line, one_line, text_end

if TYPE_CHECKING:
    from tailrace.events import Event, PlanItem
    from tailrace.operations import Task

_REASONING_LINE = 2 * LINE
_REASONING_KEPT = 4 * _REASONING_LINE  # characters from the end of the reasoning, enough for one line
_PLAN_MARKS = {"in_progress": "▶", "completed": "☑"}
_TO_DO = "☐"  # also for an unknown status
_SCOPES = ("session", "request", "turn")  # of `Usage`; the one that describes the turn best is last


class TurnActivity:
    """Collects what the agent is doing in one turn. With `reasoning`, the lines include the agent's reasoning.

    Most open turns are idle, so `ToolCalls` is only made when the first call begins.
    """

    __slots__ = ("_calls", "_notice", "_plan", "_reasoning", "_shows_reasoning", "_status", "_usage")

    def __init__(self, *, reasoning: bool = False) -> None:
        self._shows_reasoning = reasoning
        self._calls: ToolCalls | None = None
        self._plan: tuple[PlanItem, ...] = ()
        self._reasoning = ""
        self._notice = ""
        self._status = ""
        self._usage: Usage | None = None

    def feed(self, event: Event, now: float) -> bool:
        """Take the next event of the turn. Returns True if a line or a task changes."""
        changed = False
        match event:
            case TextDelta() | BlockFinal() | TextRetracted():
                changed = self._feed_subagent_text(event, event.parent_tool_id)
            case ToolStarted():
                self._calls = self._calls or ToolCalls()
                self._calls.begin(event, now)
                changed = True
            case ToolInput() | ToolProgress() | ToolFinished():
                changed = self._calls is not None and self._calls.update(event, now)
            case ReasoningDelta() | ReasoningEnd():
                changed = self._feed_reasoning(event)
            case Status() | Notice() | ModelChanged() | ConfigReloaded():
                changed = self._feed_remark(event)
            case PlanUpdated(parent_tool_id=None):
                changed = event.items != self._plan
                self._plan = event.items
            case Usage():
                self._feed_usage(event)
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                changed = self._end()
            case _:
                pass
        return changed

    def clear_finished(self) -> None:
        """Remove what is over, because the agent writes text again: only the plan and the running calls stay."""
        self._reasoning = self._notice = self._status = ""
        if self._calls is not None:
            self._calls.clear_finished()

    def lines(self, now: float, limit: int = 8) -> list[str]:
        """The lines to show, the newest last.

        At most `limit` lines: if there are more, the first says how many are left out.
        """
        assert limit > 0, "the line that counts the others needs room"
        lines = [f"{_PLAN_MARKS.get(item.status, _TO_DO)} {one_line(item.title)}" for item in self._plan[-limit:]]
        left_out = len(self._plan) - len(lines)
        if self._calls is not None:
            lines += self._calls.lines(now)
            left_out += self._calls.left_out
        remarks = (("💭", last_line(self._reasoning, _REASONING_LINE)), ("ℹ️", self._notice), ("ℹ️", self._status))
        lines += [f"{mark} {text}" for mark, text in remarks if text]
        if not left_out and len(lines) <= limit:
            return lines
        newest = lines[max(0, len(lines) - limit + 1) :]
        return [f"… {left_out + len(lines) - len(newest)} earlier", *newest]

    def tasks(self) -> tuple[Task, ...]:
        """The tool calls that `lines` shows, as tasks for platforms that can show tasks."""
        return self._calls.tasks() if self._calls is not None else ()

    def changed_tasks(self) -> tuple[Task, ...]:
        """The tasks that are new or have changed since the last call of this method.

        Tasks that `lines` does not show any more are included.
        """
        return self._calls.changed_tasks() if self._calls is not None else ()

    def usage_line(self) -> str:
        """One line with the tokens that the turn has used; "" if the runtime reports none."""
        if self._usage is None:
            return ""
        of_session = " in this session" if self._usage.scope == "session" else ""
        return f"{self._usage.input_tokens:,} tokens in, {self._usage.output_tokens:,} out{of_session}"

    def _feed_subagent_text(self, event: TextDelta | BlockFinal | TextRetracted, parent_id: str | None) -> bool:
        """Show text of a subagent below the call that runs it.

        Text of the agent itself is ignored: it is the answer.
        """
        return parent_id is not None and self._calls is not None and self._calls.feed_text(event, parent_id)

    def _feed_reasoning(self, event: ReasoningDelta | ReasoningEnd) -> bool:
        if not self._shows_reasoning or event.parent_tool_id is not None:
            return False
        text = event.text if isinstance(event, ReasoningDelta) else "\n"
        self._reasoning = text_end(self._reasoning + text, _REASONING_KEPT)
        return True

    def _feed_remark(self, event: Status | Notice | ModelChanged | ConfigReloaded) -> bool:
        match event:
            case Status() | Notice() if event.parent_tool_id is not None:
                return self._feed_subagent_text(BlockFinal(text=event.text), event.parent_tool_id)
            case Status():
                self._status = one_line(event.text)
            case Notice():
                self._notice = one_line(event.text)
            case ModelChanged():
                key = f" ({event.key_id})" if event.key_id else ""
                self._notice = one_line(f"Switched to {event.model_id}{key}")
            case ConfigReloaded():
                self._notice = "Configuration reloaded"
        return True

    def _feed_usage(self, event: Usage) -> None:
        if event.parent_tool_id is not None and event.scope != "request":
            return  # the total of a subagent is not the total of the turn
        before = self._usage
        if before is not None and before.scope == event.scope == "request":
            event = Usage(
                input_tokens=before.input_tokens + event.input_tokens,
                output_tokens=before.output_tokens + event.output_tokens,
                scope="request",
            )
        if before is None or _SCOPES.index(event.scope) >= _SCOPES.index(before.scope):
            self._usage = event

    def _end(self) -> bool:
        """Process the end of the turn: nothing runs any more, and calls without a result count as stopped."""
        had_lines = self._status or self._reasoning
        self._status = self._reasoning = ""
        return (self._calls is not None and self._calls.stop()) or bool(had_lines)
