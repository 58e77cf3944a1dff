"""Translates the lines of `shapes` into events.

The command `claude`, its SDK and Qwen Code all send these lines. This module owns the meaning of the lines for a turn;
`messages` translates the messages in them.

- **Events that come in the middle of the agent's text wait** until the text is complete: those of subagents and
systems. - **Messages that the command sends in the user's name** ("[Request interrupted by user]") are not part of the
answer. - **A background subagent runs** until its notification comes. The result of its launch is not its result. -
**The last result counts**: with background work there is one for each time that the model answered.

Pure. One instance is one turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tailrace.events import BlockFinal, Event, ModelChanged, Status, TextDelta, ToolProgress, TurnStarted, Usage
from tailrace.runtimes.claude import shapes
from tailrace.runtimes.claude.messages import ClaudeMessages
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Mapping

# Lines that are not shown, because they are sent too often or are of too little use to people.
_IGNORED = {
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
    """Translates one turn: call `feed` with each line, then `end`."""

    def __init__(self, runtime: str = "claude") -> None:
        self.session_id = ""  # with it the conversation can be resumed; empty before the start
        self.turn = TurnTranslation(runtime)
        self._messages = ClaudeMessages(self.turn, self._unknown)
        self._held: list[Event] = []
        self._background_calls: set[str] = set()
        self._model = ""
        self._error_line: shapes.AssistantLine | None = None
        self._result: shapes.ResultLine | None = None
        self._usage = Usage(input_tokens=0, output_tokens=0, scope="turn")
        self._line: bytes | Mapping[str, Any] = b""
        self._is_started = False
        self._is_answering = True
        self._had_background = False  # whether background work has started since the last answer started

    def feed(self, line: bytes | Mapping[str, Any]) -> list[Event]:
        """Translate one line, given as JSON or decoded."""
        self._line = line
        known = shapes.parse_line(line)
        events = self._unknown(shapes.line_kind(shapes.raw_line(line))) if known is None else self._translate(known)
        return self._with_turn_started(self._without_interruptions(events))

    def add_events(self, events: list[Event]) -> list[Event]:
        """Add events of the runtime itself; `turn_started` comes before them."""
        return self._with_turn_started(events)

    def end(self, exit_error: str = "") -> list[Event]:
        """Return the terminal event. `exit_error` says how the process failed; "" if it did not."""
        events, self._held = self._held, []
        result, error_line, turn = self._result, self._error_line, self.turn
        if result is None:
            if error_line is not None:
                turn.fail(error_line.message.text, code=error_line.error, status_code=error_line.api_error_status)
            return self._with_turn_started([*events, *turn.end(exit_error=exit_error)])
        if result.is_error:
            code = result.subtype if result.subtype.startswith("error") else result.terminal_reason
            turn.fail(self.error_text or exit_error, code=code, status_code=result.api_error_status)
        turn.complete(text=result.result, stop_reason=result.stop_reason or "")
        return self._with_turn_started([*events, *turn.end(cancelled=result.is_aborted)])

    @property
    def error_text(self) -> str:
        """The error of the last result; empty if it has none."""
        return self._result.error_text if self._result is not None and self._result.is_error else ""

    @property
    def answer_state(self) -> Literal["", "may continue", "done"]:
        """Whether Claude has answered: "" for no, "done" for yes.

        After background work it is "may continue", because Claude may answer again with the result of a subagent.
        """
        if self._is_answering or self._background_calls:
            return ""
        return "may continue" if self._had_background else "done"

    def _with_turn_started(self, events: list[Event]) -> list[Event]:
        """Put `turn_started` before the first events of the turn."""
        if self._is_started or not (events or self.session_id):
            return events
        self._is_started = True
        return [TurnStarted(runtime=self.turn.runtime, session_id=self.session_id or None), *events]

    def _without_interruptions(self, events: list[Event]) -> list[Event]:
        """Return the events to emit now. While the agent's text is open, other events wait for its end."""
        if not self._messages.is_in_text:
            events += self._held
            self._held = []
            return events
        now: list[Event] = []
        for event in events:
            is_speech = isinstance(event, TextDelta | BlockFinal) and event.parent_tool_id is None
            (now if is_speech else self._held).append(event)
        return now

    def _unknown(self, kind: str) -> list[Event]:
        """Report a line of an unknown kind."""
        return [] if kind in _IGNORED else self.turn.unknown_event(shapes.raw_line(self._line), kind=kind)

    def _translate(self, line: shapes.ClaudeLine) -> list[Event]:
        match line:
            case shapes.StreamLine():
                return self._messages.stream_event(line)
            case shapes.AssistantLine():
                return self._assistant_line(line)
            case shapes.UserLine():
                return self._user_line(line)
            case shapes.SystemLine():
                return self._system_line(line)
            case shapes.ProgressLine():
                return self._progress(line.tool_use_id, line.elapsed_time_seconds)
            case shapes.ResultLine():
                return self._result_line(line)

    def _assistant_line(self, line: shapes.AssistantLine) -> list[Event]:
        if line.error is not None:
            self._error_line = line  # the result line repeats the error and says whether the turn failed
            return []
        return self._messages.assistant_line(line)

    def _user_line(self, line: shapes.UserLine) -> list[Event]:
        events: list[Event] = []
        for block in line.message.blocks:
            if block.type == "tool_result" and line.is_background_launch:
                self._background_calls.add(block.tool_use_id)
                self._had_background = True
            elif block.type == "tool_result":
                events += self._messages.tool_result(block, line.parent_tool_use_id)
            elif line.parent_tool_use_id is None:
                self._messages.model_continues()
        return events

    def _system_line(self, line: shapes.SystemLine) -> list[Event]:
        events: list[Event] = []
        match line.subtype:
            case "init":
                events = self._init(line)
            case "status" if line.status and line.status != "requesting":
                events = [Status(text=line.status)]
            case "status":
                events = []
            case "api_retry":
                reason = line.error_status or line.error or "no answer"
                events = [
                    Status(text=f"the model failed ({reason}), trying again: {line.attempt} of {line.max_retries}")
                ]
            case "permission_denied":
                events = self.turn.notice(f"{line.tool_name} was not allowed: {line.message}")
            case "task_started" | "task_progress":
                seconds = line.usage.duration_ms / 1000 if line.usage is not None else 0.0
                events = self._progress(line.tool_use_id, seconds, line.description)
            case "task_notification":
                events = self._background_done(line)
            case _:
                events = self._unknown(f"system/{line.subtype}")
        return events

    def _init(self, line: shapes.SystemLine) -> list[Event]:
        self.session_id = line.session_id or self.session_id
        if not self._is_answering and not self._background_calls:
            self._had_background = False
        self._is_answering = True
        before, self._model = self._model, line.model or self._model
        return [ModelChanged(model_id=self._model)] if before and before != self._model else []

    def _background_done(self, line: shapes.SystemLine) -> list[Event]:
        if line.tool_use_id is None or line.tool_use_id not in self._background_calls:
            return []  # a subagent in the foreground has a result of its own
        self._background_calls.remove(line.tool_use_id)
        return self.turn.tool_result(line.tool_use_id, line.summary, is_error=line.status != "completed")

    def _progress(self, call: str | None, seconds: float, text: str = "") -> list[Event]:
        if call is None or not self.turn.is_open_call(call):
            return []
        return [ToolProgress(id=call, elapsed_s=seconds, text=text or None)]

    def _result_line(self, line: shapes.ResultLine) -> list[Event]:
        self._result = line
        self._is_answering = False
        self._messages.close_text()
        usage = line.usage
        if usage is None or not (usage.all_input_tokens or usage.output_tokens):
            return []
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + usage.all_input_tokens,
            output_tokens=self._usage.output_tokens + usage.output_tokens,
            scope="turn",
        )
        return [self._usage]
