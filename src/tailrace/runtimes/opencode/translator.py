"""What opencode says of a turn, translated: the events of `opencode serve`, and the lines of `opencode run`.

Owns which of them says what. What a part comes to is `parts`' to say, what a turn is told by is `TurnTranslation`'s.

The server tells of all sessions on one bus: a turn hears its own session and those of its subagents, and nothing else.
It is over when its session is idle, which is told more than once; tools that were aborted answer after that. `run`
tells parts when they are complete, nothing of subagents, and ends without a word: what its last step said counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Error, Event, PlanItem, PlanUpdated, Status, ToolFinished, ToolOutput
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.opencode.parts import OpencodeParts
from tailrace.runtimes.opencode.shapes import (
    ErrorSaid,
    Failure,
    Line,
    MessageSaid,
    PartSaid,
    PermissionAsked,
    Piece,
    QuestionAsked,
    Said,
    SessionSaid,
    StatusSaid,
    TodosSaid,
)
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.provider_errors import provider_error_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

# Of use to an editor, told by other events too, or an echo of our own.
_SILENT = (
    *("session.deleted", "session.diff", "session.next.", "message.removed", "message.part.removed", "tui."),
    *("permission.replied", "permission.v2.", "question.replied", "question.rejected", "question.v2.", "command."),
)
_CHOICES = (
    Choice(id="once", name="Allow", kind="allow_once"),
    Choice(id="always", name="Allow always", kind="allow_always"),
    Choice(id="reject", name="Deny", kind="reject_once"),
)

_Handler: TypeAlias = "Callable[[OpencodeTranslator, Any, str | None], list[Event] | None]"


class Asked(msgspec.Struct, frozen=True):
    """What the agent wants to be allowed; without a question it wants to know something, and nobody is there."""

    id: str
    question: Question | None = None


class OpencodeTranslator:
    """One turn of `opencode serve` in one session: `feed` the events of the bus, then `close`."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._turn = TurnTranslation("opencode")
        self._parts = OpencodeParts(self._turn)
        self._family: set[str] = set()  # the sessions of subagents
        self._prompts: set[str] = set()  # messages that are not the agent's
        self._asked: list[Asked] = []
        self._has_begun = False
        self._is_aborted = False

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self._turn.is_finished

    def asked(self) -> list[Asked]:
        """What the agent asks for, which is to be answered."""
        asked, self._asked = self._asked, []
        return asked

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    def feed(self, event: Any) -> list[Event]:
        """One event of the bus, as the value it is."""
        was_over = self.is_over
        kind, properties = (event.get("type"), event.get("properties")) if isinstance(event, dict) else (None, None)
        if isinstance(kind, str) and isinstance(properties, dict):
            told = self._told(kind, properties)
        else:
            told = self._wonder("event", event)
        return [event for event in told if isinstance(event, ToolOutput | ToolFinished)] if was_over else told

    def close(self, why: str = "") -> list[Event]:
        """Nothing more comes: the one end of the turn, if it has not ended. `why` is what is known of that."""
        if why:
            self._turn.fail(why, code="cut_off")
        return self._turn.end(cancelled=self._is_aborted)

    def _told(self, kind: str, properties: dict[str, Any]) -> list[Event]:
        session_id = properties.get("sessionID")
        if kind in self._TABLE:
            shape, tell = self._TABLE[kind]
            try:
                said = msgspec.convert(properties, shape)
            except msgspec.ValidationError:
                return self._wonder(kind, properties) if self._is_ours(session_id) else []
            if kind in {"session.created", "session.updated"} or said.session_id is None or self._is_ours(session_id):
                told = tell(self, said, self._parent(session_id))
                return self._wonder(kind, properties) if told is None else told
            return []
        is_known = not self._is_ours(session_id) or kind.startswith(_SILENT)
        return [] if is_known else self._wonder(kind, properties)

    def _is_ours(self, session_id: Any) -> bool:
        if not isinstance(session_id, str):
            return False
        return session_id == self.session_id or session_id in self._family or session_id in self._parts.children

    def _parent(self, session_id: str | None) -> str | None:
        if session_id is None or session_id == self.session_id:
            return None
        return self._parts.children.get(session_id, session_id)

    def _wonder(self, kind: str, said: Any) -> list[Event]:
        """Something unknown."""
        return self._turn.unknown_event({kind: said}, kind=kind)

    # What is said

    def _part(self, said: PartSaid, parent: str | None) -> list[Event] | None:
        return [] if said.part.message_id in self._prompts else self._parts.told(said.part, parent)

    def _piece(self, said: Piece, parent: str | None) -> list[Event]:
        return self._parts.piece(said.part_id, said.delta, parent) if said.field == "text" else []

    def _message(self, said: MessageSaid, parent: str | None) -> list[Event]:
        if said.info.role == "user":
            self._prompts.add(said.info.id)
        elif said.info.error is not None and parent is None:
            self._failed(said.info.error)
        return []

    def _plan(self, said: TodosSaid, parent: str | None) -> list[Event]:
        items = tuple(PlanItem(title=todo.content, status=todo.status) for todo in said.todos)
        return [PlanUpdated(items=items, parent_tool_id=parent)]

    # The session

    def _session(self, said: SessionSaid, _: str | None) -> list[Event]:
        if self._is_ours(said.info.parent_id):
            self._family.add(said.info.id)
        return []

    def _status(self, said: StatusSaid, parent: str | None) -> list[Event]:
        match said.status.type:
            case "busy":
                self._has_begun = self._has_begun or parent is None
                return []
            case "retry":
                why, _ = provider_error_text(said.status.message)
                return [
                    *self._turn.retract_try(why, parent=parent),
                    Status(text=f"Asking the model again: {why}", parent_tool_id=parent),
                ]
            case "idle":
                return self._idle(said, parent)
            case _:
                return []

    def _idle(self, _: Said, parent: str | None) -> list[Event]:
        if parent is not None or not self._has_begun:
            return []
        if not self._parts.is_in_a_step:
            self._turn.complete(stop_reason=self._parts.reason)
        return self._turn.end(cancelled=self._is_aborted)

    def _compacted(self, _: Said, parent: str | None) -> list[Event]:
        return [Status(text="The conversation was shortened", parent_tool_id=parent)]

    def _error(self, said: ErrorSaid, parent: str | None) -> list[Event]:
        error = said.error or Failure(name="an unknown error")
        if parent is not None:
            return [Error(message=error.message, code=error.name, parent_tool_id=parent)]
        self._failed(error)
        return []

    def _failed(self, error: Failure) -> None:
        if error.is_abort:
            self._is_aborted = True
        else:
            self._turn.fail(error.message, code=error.name, status_code=error.data.status_code)

    # What is asked

    def _permission(self, said: PermissionAsked, _: str | None) -> list[Event]:
        self._asked.append(Asked(said.id, Question(title=said.title, arguments=said.metadata, choices=_CHOICES)))
        return []

    def _question(self, said: QuestionAsked, _: str | None) -> list[Event]:
        self._asked.append(Asked(said.id))
        return []

    _TABLE: ClassVar[dict[str, tuple[type[Said], _Handler]]] = {
        "message.part.updated": (PartSaid, _part),
        "message.part.delta": (Piece, _piece),
        "message.updated": (MessageSaid, _message),
        "session.created": (SessionSaid, _session),
        "session.updated": (SessionSaid, _session),
        "session.status": (StatusSaid, _status),
        "session.idle": (Said, _idle),
        "session.error": (ErrorSaid, _error),
        "session.compacted": (Said, _compacted),
        "todo.updated": (TodosSaid, _plan),
        "permission.asked": (PermissionAsked, _permission),
        "question.asked": (QuestionAsked, _question),
    }


class OpencodeRunTranslator:
    """One turn of `opencode run --format json`: `feed` its lines, then `close`. `session_id` comes with the first."""

    def __init__(self) -> None:
        self.session_id = ""
        self._turn = TurnTranslation("opencode")
        self._parts = OpencodeParts(self._turn, tells_again=True)

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    def feed(self, line: bytes) -> list[Event]:
        """One line."""
        value = frame_value(line.decode(errors="replace"))
        try:
            said = msgspec.convert(value, Line)
        except msgspec.ValidationError:
            return self._turn.unknown_event(value)
        self.session_id = self.session_id or said.session_id
        if said.error is not None:
            self._turn.fail(said.error.message, code=said.error.name, status_code=said.error.data.status_code)
            return []
        told = None if said.part is None else self._parts.told(said.part, None)
        return self._turn.unknown_event(value) if told is None else told

    def close(self, why: str = "") -> list[Event]:
        """The command is over: the one end of the turn. `why` is what is known of an end that was no good one."""
        if why:
            self._turn.fail(why, code="cut_off")
        if self._parts.reason not in {"", "tool-calls"} and not self._parts.is_in_a_step:
            self._turn.complete(stop_reason=self._parts.reason)
        return self._turn.end()
