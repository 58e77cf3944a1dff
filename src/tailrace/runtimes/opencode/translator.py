"""Translates the events of `opencode serve`, and the lines of `opencode run`.

This module owns the meaning of both; `parts` translates parts.

The server reports all sessions in one stream of events, the bus; a turn reads only its own session and those of its
subagents. The turn is over when its session is idle, which is reported more than once. Aborted tools send their results
after that. `run` reports only complete parts, nothing of subagents, and no end: the turn ends as the stop reason of its
last step says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Error, Event, PlanItem, PlanUpdated, Status, ToolFinished, ToolOutput
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.opencode import shapes
from tailrace.runtimes.opencode.parts import OpencodeParts
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.provider_errors import provider_error_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

# These events are useful for an editor only, repeat other events, or reply to our own requests.
_IGNORED = (
    *("session.deleted", "session.diff", "session.next.", "message.removed", "message.part.removed", "tui."),
    *("permission.replied", "permission.v2.", "question.replied", "question.rejected", "question.v2.", "command."),
)
_CHOICES = (
    Choice(id="once", name="Allow", kind="allow_once"),
    Choice(id="always", name="Allow always", kind="allow_always"),
    Choice(id="reject", name="Deny", kind="reject_once"),
)

_Handler: TypeAlias = "Callable[[OpencodeTranslator, Any, str | None], list[Event] | None]"


class OpencodeRequest(msgspec.Struct, frozen=True):
    """A request of the agent for permission.

    If `question` is None, the agent asks the person something else than permission, which is not supported.
    """

    id: str
    question: Question | None = None


class OpencodeTranslator:
    """Translates one turn of `opencode serve` in one session: `feed` the events of the server, then `close`."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.turn = TurnTranslation("opencode")
        self._parts = OpencodeParts(self.turn)
        self._subagent_sessions: set[str] = set()  # ids of sessions
        self._prompts: set[str] = set()  # ids of messages that are not the agent's
        self._requests: list[OpencodeRequest] = []
        self._has_started = False
        self._is_aborted = False

    def take_requests(self) -> list[OpencodeRequest]:
        """Return the requests that came since the last call. Each must be answered."""
        requests, self._requests = self._requests, []
        return requests

    def feed(self, event: Any) -> list[Event]:
        """Translate one event of the server, given as decoded JSON."""
        was_finished = self.turn.is_finished
        kind, properties = (event.get("type"), event.get("properties")) if isinstance(event, dict) else (None, None)
        if isinstance(kind, str) and isinstance(properties, dict):
            events = self._translate(kind, properties)
        else:
            events = self._unknown("event", event)
        return [event for event in events if isinstance(event, ToolOutput | ToolFinished)] if was_finished else events

    def close(self, exit_error: str = "") -> list[Event]:
        """End the stream. Returns the terminal event if there was none. `exit_error` says how the server failed."""
        return self.turn.end(cancelled=self._is_aborted, exit_error=exit_error)

    def _translate(self, kind: str, properties: dict[str, Any]) -> list[Event]:
        session_id = properties.get("sessionID")
        if kind in self._TABLE:
            shape, handle = self._TABLE[kind]
            try:
                event = msgspec.convert(properties, shape)
            except msgspec.ValidationError:
                return self._unknown(kind, properties) if self._is_ours(session_id) else []
            if kind in {"session.created", "session.updated"} or event.session_id is None or self._is_ours(session_id):
                events = handle(self, event, self._parent(session_id))
                return self._unknown(kind, properties) if events is None else events
            return []
        is_known = not self._is_ours(session_id) or kind.startswith(_IGNORED)
        return [] if is_known else self._unknown(kind, properties)

    def _is_ours(self, session_id: Any) -> bool:
        if not isinstance(session_id, str):
            return False
        return (
            session_id == self.session_id
            or session_id in self._subagent_sessions
            or session_id in self._parts.subagent_calls
        )

    def _parent(self, session_id: str | None) -> str | None:
        if session_id is None or session_id == self.session_id:
            return None
        return self._parts.subagent_calls.get(session_id, session_id)

    def _unknown(self, kind: str, event: Any) -> list[Event]:
        """Report an event of an unknown kind."""
        return self.turn.unknown_event({kind: event}, kind=kind)

    # Messages

    def _part(self, event: shapes.PartUpdated, parent: str | None) -> list[Event] | None:
        return [] if event.part.message_id in self._prompts else self._parts.updated(event.part, parent)

    def _part_delta(self, event: shapes.PartDelta, parent: str | None) -> list[Event]:
        return self._parts.delta(event.part_id, event.delta, parent) if event.field == "text" else []

    def _message(self, event: shapes.MessageUpdated, parent: str | None) -> list[Event]:
        if event.info.role == "user":
            self._prompts.add(event.info.id)
        elif event.info.error is not None and parent is None:
            self._record_failure(event.info.error)
        return []

    def _plan(self, event: shapes.TodosUpdated, parent: str | None) -> list[Event]:
        items = tuple(PlanItem(title=todo.content, status=todo.status) for todo in event.todos)
        return [PlanUpdated(items=items, parent_tool_id=parent)]

    # The session

    def _session(self, event: shapes.SessionUpdated, _: str | None) -> list[Event]:
        if self._is_ours(event.info.parent_id):
            self._subagent_sessions.add(event.info.id)
        return []

    def _status(self, event: shapes.StatusUpdated, parent: str | None) -> list[Event]:
        match event.status.type:
            case "busy":
                self._has_started = self._has_started or parent is None
                return []
            case "retry":
                exit_error, _ = provider_error_text(event.status.message)
                return [
                    *self.turn.retract_try(exit_error, parent=parent),
                    Status(text=f"Asking the model again: {exit_error}", parent_tool_id=parent),
                ]
            case "idle":
                return self._idle(event, parent)
            case _:
                return []

    def _idle(self, _: shapes.BusEvent, parent: str | None) -> list[Event]:
        if parent is not None or not self._has_started:
            return []
        if not self._parts.is_in_step:
            self.turn.complete(stop_reason=self._parts.stop_reason)
        return self.turn.end(cancelled=self._is_aborted)

    def _compacted(self, _: shapes.BusEvent, parent: str | None) -> list[Event]:
        return [Status(text="The conversation was shortened", parent_tool_id=parent)]

    def _error(self, event: shapes.SessionError, parent: str | None) -> list[Event]:
        error = event.error or shapes.OpencodeError(name="an unknown error")
        if parent is not None:
            return [Error(message=error.message, code=error.name, parent_tool_id=parent)]
        self._record_failure(error)
        return []

    def _record_failure(self, error: shapes.OpencodeError) -> None:
        if error.is_abort:
            self._is_aborted = True
        else:
            self.turn.fail(error.message, code=error.name, status_code=error.data.status_code)

    # Requests

    def _permission(self, event: shapes.PermissionAsked, _: str | None) -> list[Event]:
        self._requests.append(
            OpencodeRequest(event.id, Question(title=event.title, arguments=event.metadata, choices=_CHOICES))
        )
        return []

    def _question(self, event: shapes.QuestionAsked, _: str | None) -> list[Event]:
        self._requests.append(OpencodeRequest(event.id))
        return []

    _TABLE: ClassVar[dict[str, tuple[type[shapes.BusEvent], _Handler]]] = {
        "message.part.updated": (shapes.PartUpdated, _part),
        "message.part.delta": (shapes.PartDelta, _part_delta),
        "message.updated": (shapes.MessageUpdated, _message),
        "session.created": (shapes.SessionUpdated, _session),
        "session.updated": (shapes.SessionUpdated, _session),
        "session.status": (shapes.StatusUpdated, _status),
        "session.idle": (shapes.BusEvent, _idle),
        "session.error": (shapes.SessionError, _error),
        "session.compacted": (shapes.BusEvent, _compacted),
        "todo.updated": (shapes.TodosUpdated, _plan),
        "permission.asked": (shapes.PermissionAsked, _permission),
        "question.asked": (shapes.QuestionAsked, _question),
    }


class OpencodeRunTranslator:
    """Translates one turn of `opencode run --format json`: `feed` each line, then `close`.

    `session_id` comes with the first line.
    """

    def __init__(self) -> None:
        self.session_id = ""
        self.turn = TurnTranslation("opencode")
        self._parts = OpencodeParts(self.turn, reports_retries=True)

    def feed(self, line: bytes) -> list[Event]:
        """Translate one line."""
        value = frame_value(line.decode(errors="replace"))
        try:
            event = msgspec.convert(value, shapes.RunLine)
        except msgspec.ValidationError:
            return self.turn.unknown_event(value)
        self.session_id = self.session_id or event.session_id
        if event.error is not None:
            self.turn.fail(event.error.message, code=event.error.name, status_code=event.error.data.status_code)
            return []
        events = None if event.part is None else self._parts.updated(event.part, None)
        return self.turn.unknown_event(value) if events is None else events

    def close(self, exit_error: str = "") -> list[Event]:
        """End the stream. Returns the terminal event. `exit_error` says how the process failed."""
        if self._parts.stop_reason not in {"", "tool-calls"} and not self._parts.is_in_step:
            self.turn.complete(stop_reason=self._parts.stop_reason)
        return self.turn.end(exit_error=exit_error)
