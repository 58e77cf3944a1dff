"""Translates the output of `gemini --output-format stream-json`: one JSON object a line.

This module owns the meaning of lines. The stream has no reasoning, no message ids and no ends of blocks: a block is the
text between two tool calls. A retry of the model is not reported, so `restart_detector` looks for it. A failure is
reported by an error, by the result, or by an error before a result that claims success. The exit code shows no failure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tailrace.events import Error, Event, Usage
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED, RestartDetector
from tailrace.runtimes.turn_translation import TurnTranslation

_CANCELLED = "FatalCancellationError"


class _GeminiError(msgspec.Struct):
    message: str = ""
    type: str | None = None


class _Stats(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Line(msgspec.Struct):
    """A line of output; the type decides which fields are set."""

    type: str
    timestamp: str = ""
    session_id: str = ""
    role: str = ""
    content: str = ""
    delta: bool = False
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    status: str = ""
    output: str | None = None
    error: _GeminiError | None = None
    severity: str = ""
    message: str = ""
    stats: _Stats | None = None


class GeminiTranslator:
    """Translates one turn: `feed` each line, then `close`. `session_id` comes with the first line."""

    def __init__(self) -> None:
        self.session_id = ""
        self.turn = TurnTranslation("gemini")
        self._block = 0
        self._restarts = RestartDetector()
        self._has_failed = False

    def feed(self, raw: bytes) -> list[Event]:
        """Translate one line."""
        if self.turn.is_finished:
            return []
        value = frame_value(raw.decode(errors="replace"))
        try:
            line = msgspec.convert(value, _Line)
        except msgspec.ValidationError:
            return self.turn.unknown_event(value)
        events = self._translate(line)
        return self.turn.unknown_event(value) if events is None else events

    def close(self, exit_error: str = "") -> list[Event]:
        """End the stream. Returns the terminal event if there was none. `exit_error` says how the process failed."""
        if self.turn.is_finished:
            return []
        return [*self._end_block(), *self.turn.end(exit_error=exit_error)]

    def _translate(self, line: _Line) -> list[Event] | None:
        match line.type:
            case "init":
                self.session_id = line.session_id
                return []
            case "message":
                return self._message(line)
            case "tool_use" | "tool_result":
                return [*self._end_block(), *self._tool(line)]
            case "error":
                return self._error(line)
            case "result":
                return self._result(line)
            case _:
                return None

    def _message(self, line: _Line) -> list[Event]:
        if line.role != "assistant":
            return []
        if not line.delta:
            self._block += 1
            return [*self._end_block(), *self.turn.block_final(("whole", self._block), line.content)]
        detected = self._restarts.feed(line.content, _seconds(line.timestamp))
        events: list[Event] = []
        if detected.is_restart:
            events = self.turn.retract_try("gemini started its answer again")
        elif detected.may_be_restart:
            events = [*self.turn.block_final(self._block), *self.turn.notice(MAY_BE_RESTARTED)]
            self._block += 1
        return [*events, *self.turn.text_delta(self._block, detected.text)]

    def _end_block(self) -> list[Event]:
        """End the block of text.

        If the restart detector kept text back, the text is emitted, unless the turn has failed.
        """
        rest = self._restarts.close()
        events = [] if self._has_failed else self.turn.text_delta(self._block, rest)
        events += self.turn.block_final(self._block)
        self._block += 1
        self._restarts = RestartDetector()
        return events

    def _tool(self, line: _Line) -> list[Event]:
        if line.type == "tool_use":
            return self.turn.tool_call(line.tool_id, line.tool_name, line.parameters)
        error_text = line.error.message if line.error is not None else ""
        return self.turn.tool_result(line.tool_id, line.output or error_text, is_error=line.status == "error")

    def _error(self, line: _Line) -> list[Event]:
        if line.severity != "error":
            return [*self._end_block(), Error(message=line.message)]
        self._has_failed = True
        self.turn.fail(line.message)
        return []

    def _result(self, line: _Line) -> list[Event]:
        if line.status != "success":
            self._has_failed = True
            self.turn.fail(line.error.message if line.error is not None else "gemini failed")
        self.turn.complete()
        rest = self._end_block()
        usage: list[Event] = []
        if line.stats is not None:
            usage = [Usage(**msgspec.structs.asdict(line.stats), scope="turn")]
        cancelled = line.error is not None and line.error.type == _CANCELLED
        return [*rest, *usage, *self.turn.end(cancelled=cancelled)]


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
