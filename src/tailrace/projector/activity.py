"""What a turn does beside talking, as lines for people: its plan, its tools, what it thinks and what it is at.

It owns which of that is worth a line now. What is shown of a tool is `tool_calls`' to say; where the lines stand, and
when they are shown, is the projector's. The lines are literal text: in a message that is Markdown they stand `escaped`.
"""

from __future__ import annotations

import re
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
from tailrace.projector.wording import LINE, ending, last_line, one_line

if TYPE_CHECKING:
    from tailrace.events import Event, PlanItem
    from tailrace.operations import Task

_THOUGHT = 2 * LINE
_HEARD = 4 * _THOUGHT  # the end of the reasoning that a line may be made of
_PLAN_MARKS = {"in_progress": "▶", "completed": "☑"}
_TO_DO = "☐"  # also for a state that nobody told us of
_SCOPES = ("session", "request", "turn")  # of usage; the further on, the better it tells what the turn has cost


class Activity:
    """What one turn is doing. With `reasoning` it also tells what the agent thinks.

    Most open turns do nothing at the moment: what is not needed yet is not there yet.
    """

    __slots__ = ("_calls", "_notice", "_plan", "_reasoning", "_status", "_thinks_aloud", "_usage")

    def __init__(self, *, reasoning: bool = False) -> None:
        self._thinks_aloud = reasoning
        self._calls: ToolCalls | None = None
        self._plan: tuple[PlanItem, ...] = ()
        self._reasoning = ""
        self._notice = ""
        self._status = ""
        self._usage: Usage | None = None

    def feed(self, event: Event, now: float) -> bool:
        """Take in what happened; whether a line or a task is another one now."""
        changed = False
        match event:
            case TextDelta() | BlockFinal() | TextRetracted():
                changed = self._hear(event, event.parent_tool_id)
            case ToolStarted():
                self._calls = self._calls or ToolCalls()
                self._calls.begin(event, now)
                changed = True
            case ToolInput() | ToolProgress() | ToolFinished():
                changed = self._calls is not None and self._calls.renew(event, now)
            case ReasoningDelta() | ReasoningEnd():
                changed = self._think(event)
            case Status() | Notice() | ModelChanged() | ConfigReloaded():
                changed = self._remark(event)
            case PlanUpdated(parent_tool_id=None):
                changed = event.items != self._plan
                self._plan = event.items
            case Usage():
                self._spend(event)
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                changed = self._end()
            case _:
                pass
        return changed

    def settle(self) -> None:
        """The agent speaks again: what it did, thought and was at before that is of no interest any more."""
        self._reasoning = self._notice = self._status = ""
        if self._calls is not None:
            self._calls.settle()

    def lines(self, now: float, limit: int = 8) -> list[str]:
        """What there is to show, the newest last: at most so many lines, and what they leave out is counted."""
        assert limit > 0, "there is always something to show, if only how much"
        found = [f"{_PLAN_MARKS.get(item.status, _TO_DO)} {one_line(item.title)}" for item in self._plan[-limit:]]
        left_out = len(self._plan) - len(found)
        if self._calls is not None:
            found += self._calls.lines(now)
            left_out += self._calls.left_out
        remarks = (("💭", last_line(self._reasoning, _THOUGHT)), ("ℹ️", self._notice), ("ℹ️", self._status))
        found += [f"{mark} {words}" for mark, words in remarks if words]
        if not left_out and len(found) <= limit:
            return found
        newest = found[max(0, len(found) - limit + 1) :]
        return [f"… {left_out + len(found) - len(newest)} earlier", *newest]

    def tasks(self) -> tuple[Task, ...]:
        """The calls that are shown, as steps; each has a number of its own, whatever its id."""
        return self._calls.tasks() if self._calls is not None else ()

    def new_tasks(self) -> tuple[Task, ...]:
        """The calls that are new or another since this was last asked, shown or not."""
        return self._calls.new_tasks() if self._calls is not None else ()

    def usage_line(self) -> str:
        """What the turn has cost, as far as it was told; nothing where it was not."""
        if self._usage is None:
            return ""
        of_session = " in this session" if self._usage.scope == "session" else ""
        return f"{self._usage.input_tokens:,} tokens in, {self._usage.output_tokens:,} out{of_session}"

    def _hear(self, event: TextDelta | BlockFinal | TextRetracted, parent_id: str | None) -> bool:
        """What is said under a call is shown with it; what the agent itself says is the answer."""
        return parent_id is not None and self._calls is not None and self._calls.hear(event, parent_id)

    def _think(self, event: ReasoningDelta | ReasoningEnd) -> bool:
        if not self._thinks_aloud or event.parent_tool_id is not None:
            return False
        thought = event.text if isinstance(event, ReasoningDelta) else "\n"
        self._reasoning = ending(self._reasoning + thought, _HEARD)
        return True

    def _remark(self, event: Status | Notice | ModelChanged | ConfigReloaded) -> bool:
        match event:
            case Status() | Notice() if event.parent_tool_id is not None:
                return self._hear(BlockFinal(text=event.text), event.parent_tool_id)
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

    def _spend(self, event: Usage) -> None:
        if event.parent_tool_id is not None and event.scope != "request":
            return  # the total of a subagent is not that of the turn
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
        """The turn is over: it is at nothing, and how calls without an answer came out nobody knows."""
        was_at = self._status or self._reasoning
        self._status = self._reasoning = ""
        return (self._calls is not None and self._calls.stop()) or bool(was_at)


# What is markup wherever it stands; `_` is none within a word, and names of tools are full of it.
_MARKUP = re.compile(r"[\\`*\[\]<~|]|&(?=[#\w])|(?<![^\W_])_|_(?![^\W_])")
# What is markup where a line begins: headings, quotes, lists, rules and the underlines of headings.
_MARKUP_AT_START = re.compile(r"^(?:[#>+=-]|(\d+)(?=[.)]))")


def escaped(line: str) -> str:
    """The line as Markdown that reads like it: nothing in it is markup, and its indentation stays."""
    words = line.lstrip(" \t")
    indent = line[: len(line) - len(words)].expandtabs(4)
    return "\xa0" * len(indent) + _MARKUP_AT_START.sub(_escaped_start, _MARKUP.sub(r"\\\g<0>", words))


def _escaped_start(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[1] else f"\\{found[0]}"
