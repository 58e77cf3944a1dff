"""What gemini-cli says with `--output-format stream-json`, translated: one JSON object a line.

Owns which line says what. `TurnTranslation` owns the turn. The stream has no thoughts, no ids of messages and
no ends of blocks: a block is what is said between two calls. A model that is asked again is not told of (`attempts`).
A failure may be told by an error, by the result, or by an error before a result that claims success; the command's
exit code tells nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tailrace.events import Error, Event, Usage
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.restart_detector import MAY_HAVE_BEGUN_AGAIN, RestartDetector
from tailrace.runtimes.turn_translation import TurnTranslation

_CANCELLED = "FatalCancellationError"


class _Complaint(msgspec.Struct):
    message: str = ""
    type: str | None = None


class _Stats(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Line(msgspec.Struct):
    """A line of the stream; which fields count depends on the type."""

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
    error: _Complaint | None = None
    severity: str = ""
    message: str = ""
    stats: _Stats | None = None


class GeminiTranslator:
    """One turn: `feed` its lines, then `close`. `session_id` is known with the first line."""

    def __init__(self) -> None:
        self.session_id = ""
        self._turn = TurnTranslation("gemini")
        self._block = 0
        self._attempts = RestartDetector()
        self._has_failed = False

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self._turn.is_finished

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    def feed(self, line: bytes) -> list[Event]:
        """One line."""
        if self._turn.is_finished:
            return []
        value = frame_value(line.decode(errors="replace"))
        try:
            said = msgspec.convert(value, _Line)
        except msgspec.ValidationError:
            return self._turn.unknown_event(value)
        told = self._told(said)
        return self._turn.unknown_event(value) if told is None else told

    def close(self, why: str = "") -> list[Event]:
        """Nothing more comes: the one end of the turn, if it has not ended. `why` is what is known of that."""
        if self._turn.is_finished:
            return []
        if why:
            self._turn.fail(why, code="cut_off")
        return [*self._end_block(), *self._turn.end()]

    def _told(self, said: _Line) -> list[Event] | None:
        match said.type:
            case "init":
                self.session_id = said.session_id
                return []
            case "message":
                return self._message(said)
            case "tool_use" | "tool_result":
                return [*self._end_block(), *self._tool(said)]
            case "error":
                return self._error(said)
            case "result":
                return self._result(said)
            case _:
                return None

    def _message(self, said: _Line) -> list[Event]:
        if said.role != "assistant":
            return []
        if not said.delta:
            self._block += 1
            return [*self._end_block(), *self._turn.block_final(("whole", self._block), said.content)]
        heard = self._attempts.feed(said.content, _seconds(said.timestamp))
        again: list[Event] = []
        if heard.begins_again:
            again = self._turn.retract_try("gemini began its answer again")
        elif heard.may_begin_again:
            again = [*self._turn.block_final(self._block), *self._turn.notice(MAY_HAVE_BEGUN_AGAIN)]
            self._block += 1
        return [*again, *self._turn.text_delta(self._block, heard.text)]

    def _end_block(self) -> list[Event]:
        """What is said from here on is another block. Words that a failed turn repeats are not said twice."""
        rest = self._attempts.close()
        told = [] if self._has_failed else self._turn.text_delta(self._block, rest)
        told += self._turn.block_final(self._block)
        self._block += 1
        self._attempts = RestartDetector()
        return told

    def _tool(self, said: _Line) -> list[Event]:
        if said.type == "tool_use":
            return self._turn.tool_call(said.tool_id, said.tool_name, said.parameters)
        complaint = said.error.message if said.error is not None else ""
        return self._turn.tool_result(said.tool_id, said.output or complaint, is_error=said.status == "error")

    def _error(self, said: _Line) -> list[Event]:
        if said.severity != "error":
            return [*self._end_block(), Error(message=said.message)]
        self._has_failed = True
        self._turn.fail(said.message)
        return []

    def _result(self, said: _Line) -> list[Event]:
        if said.status != "success":
            self._has_failed = True
            self._turn.fail(said.error.message if said.error is not None else "gemini failed")
        self._turn.complete()
        rest = self._end_block()
        spent: list[Event] = []
        if said.stats is not None:
            spent = [Usage(**msgspec.structs.asdict(said.stats), scope="turn")]
        cancelled = said.error is not None and said.error.type == _CANCELLED
        return [*rest, *spent, *self._turn.end(cancelled=cancelled)]


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
