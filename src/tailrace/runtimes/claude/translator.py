"""What Claude says while it works, told as events: the translator of the lines in `shapes`.

Both ways to run Claude, the command and the SDK, speak these lines, and so does Qwen Code. Owns what the lines mean for
a turn; what the messages in them say is `messages`' to tell.

- **What subagents and the system say in the middle of a sentence waits** until the agent's text is out.
- **What the command says in the person's name** ("[Request interrupted by user]") is no part of the answer.
- **A subagent in the background** is at work until its notification comes, whatever its launch returned.
- **The last result counts**: with work in the background there is one for each time that the model answered.

Pure. One translator is one turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tailrace.events import BlockFinal, Event, ModelChanged, Status, TextDelta, ToolProgress, TurnStarted, Usage
from tailrace.runtimes.claude.messages import Messages
from tailrace.runtimes.claude.shapes import (
    AssistantLine,
    Line,
    ProgressLine,
    ResultLine,
    StreamLine,
    SystemLine,
    UserLine,
    kind_of,
    readable,
    understood,
)
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Mapping

# Said so often, or of so little use to people, that nobody is told.
_NOISE = {
    "auth_status",
    "control_cancel_request",
    "control_response",
    "conversation_reset",
    "keep_alive",
    "prompt_suggestion",
    "rate_limit_event",
    "system/background_tasks_changed",
    "system/compact_boundary",
    "system/hook_progress",
    "system/hook_response",
    "system/hook_started",
    "system/task_updated",
    "system/thinking_tokens",
    "tool_use_summary",
}


class ClaudeTranslator:
    """One turn: `feed` it each line, and `end` it when there are no more."""

    def __init__(self, runtime: str = "claude") -> None:
        self.session_id = ""  # by which the conversation can be gone on with; empty before it has begun
        self._turn = TurnTranslation(runtime)
        self._messages = Messages(self._turn, self._wonder)
        self._waiting: list[Event] = []
        self._in_background: set[str] = set()
        self._model = ""
        self._complaint: AssistantLine | None = None
        self._result: ResultLine | None = None
        self._spent = Usage(input_tokens=0, output_tokens=0, scope="turn")
        self._line: bytes | Mapping[str, Any] = b""
        self._is_started = False
        self._is_answering = True
        self._had_background = False  # since the last answer began

    def feed(self, line: bytes | Mapping[str, Any]) -> list[Event]:
        """The events that one line tells of, given as JSON or as what that says."""
        self._line = line
        known = understood(line)
        told = self._wonder(kind_of(readable(line))) if known is None else self._tell(known)
        return self._started(self._in_turn(told))

    def aside(self, events: list[Event]) -> list[Event]:
        """What the runtime says itself, in its place in the turn."""
        return self._started(events)

    def end(self, remark: str = "") -> list[Event]:
        """The one end of the turn; `remark` is what is known beside the lines of why they ended."""
        told, self._waiting = self._waiting, []
        result, complaint, turn = self._result, self._complaint, self._turn
        if result is None:
            if complaint is not None:
                turn.fail(complaint.message.text, code=complaint.error, status_code=complaint.api_error_status)
            elif remark:
                turn.fail(remark, code="cut_off")
            return self._started([*told, *turn.end()])
        if result.is_error:
            code = result.subtype if result.subtype.startswith("error") else result.terminal_reason
            turn.fail(self.complaint or remark, code=code, status_code=result.api_error_status)
        turn.complete(text=result.result, stop_reason=result.stop_reason or "")
        return self._started([*told, *turn.end(cancelled=result.is_aborted)])

    @property
    def complaint(self) -> str:
        """What the last result says went wrong; empty where nothing did."""
        return self._result.complaint if self._result is not None and self._result.is_error else ""

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    @property
    def is_at_rest(self) -> Literal["", "for now", "for good"]:
        """Whether Claude has answered: for good, or it may go on by itself with what a subagent has found."""
        if self._is_answering or self._in_background:
            return ""
        return "for now" if self._had_background else "for good"

    def _started(self, told: list[Event]) -> list[Event]:
        """Whatever is told first stands behind the beginning of the turn."""
        if self._is_started or not (told or self.session_id):
            return told
        self._is_started = True
        return [TurnStarted(runtime=self._turn.runtime, session_id=self.session_id or None), *told]

    def _in_turn(self, told: list[Event]) -> list[Event]:
        """What would break the text that the agent is in waits until that is out."""
        if not self._messages.is_speaking:
            told += self._waiting
            self._waiting = []
            return told
        now: list[Event] = []
        for event in told:
            is_speech = isinstance(event, TextDelta | BlockFinal) and event.parent_tool_id is None
            (now if is_speech else self._waiting).append(event)
        return now

    def _wonder(self, kind: str) -> list[Event]:
        """A line that nobody has heard of."""
        return [] if kind in _NOISE else self._turn.unknown_event(readable(self._line), kind=kind)

    def _tell(self, line: Line) -> list[Event]:
        match line:
            case StreamLine():
                return self._messages.piece(line)
            case AssistantLine():
                return self._tell_whole(line)
            case UserLine():
                return self._tell_user(line)
            case SystemLine():
                return self._tell_system(line)
            case ProgressLine():
                return self._progress(line.tool_use_id, line.elapsed_time_seconds)
            case ResultLine():
                return self._tell_result(line)

    def _tell_whole(self, line: AssistantLine) -> list[Event]:
        if line.error is not None:
            self._complaint = line  # the result says it again, and whether it was the end
            return []
        return self._messages.whole(line)

    def _tell_user(self, line: UserLine) -> list[Event]:
        told: list[Event] = []
        for block in line.message.blocks:
            if block.type == "tool_result" and line.is_launch:
                self._in_background.add(block.tool_use_id)
                self._had_background = True
            elif block.type == "tool_result":
                told += self._messages.tool_result(block, line.parent_tool_use_id)
            elif line.parent_tool_use_id is None:
                self._messages.go_on()
        return told

    def _tell_system(self, line: SystemLine) -> list[Event]:
        told: list[Event] = []
        match line.subtype:
            case "init":
                told = self._tell_init(line)
            case "status" if line.status and line.status != "requesting":
                told = [Status(text=line.status)]
            case "status":
                told = []
            case "api_retry":
                why = line.error_status or line.error or "no answer"
                told = [Status(text=f"the model failed ({why}), trying again: {line.attempt} of {line.max_retries}")]
            case "permission_denied":
                told = self._turn.notice(f"{line.tool_name} was not allowed: {line.message}")
            case "task_started" | "task_progress":
                seconds = line.usage.duration_ms / 1000 if line.usage is not None else 0.0
                told = self._progress(line.tool_use_id, seconds, line.description)
            case "task_notification":
                told = self._tell_background(line)
            case _:
                told = self._wonder(f"system/{line.subtype}")
        return told

    def _tell_init(self, line: SystemLine) -> list[Event]:
        self.session_id = line.session_id or self.session_id
        if not self._is_answering and not self._in_background:
            self._had_background = False
        self._is_answering = True
        before, self._model = self._model, line.model or self._model
        return [ModelChanged(model_id=self._model)] if before and before != self._model else []

    def _tell_background(self, line: SystemLine) -> list[Event]:
        if line.tool_use_id is None or line.tool_use_id not in self._in_background:
            return []  # one that was waited for returns by itself
        self._in_background.remove(line.tool_use_id)
        return self._turn.tool_result(line.tool_use_id, line.summary, is_error=line.status != "completed")

    def _progress(self, call: str | None, seconds: float, text: str = "") -> list[Event]:
        if call is None or not self._turn.is_open_call(call):
            return []
        return [ToolProgress(id=call, elapsed_s=seconds, text=text or None)]

    def _tell_result(self, line: ResultLine) -> list[Event]:
        self._result = line
        self._is_answering = False
        self._messages.fall_silent()
        spent = line.usage
        if spent is None or not (spent.taken_in or spent.output_tokens):
            return []
        self._spent = Usage(
            input_tokens=self._spent.input_tokens + spent.taken_in,
            output_tokens=self._spent.output_tokens + spent.output_tokens,
            scope="turn",
        )
        return [self._spent]
