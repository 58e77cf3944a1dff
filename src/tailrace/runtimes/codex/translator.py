"""What `codex app-server` says of a turn, translated; and what `codex exec --json` does, where there is no other.

Owns which notification and which line says what. What an item comes to is `items`' to say, what a turn is told by is
`TurnTranslation`'s, and the talk with the server, which answers and asks as well, is `dialogue`'s.

`app-server` streams, and says so when it asks its model again. `exec` tells each item when it is complete, and a retry
by the words of an error alone. Both tell a failure twice, as an error and as the end of the turn: the end says it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import (
    Error,
    Event,
    ModelChanged,
    PlanItem,
    PlanUpdated,
    Status,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    Usage,
)
from tailrace.runtimes.codex.items import CodexItems
from tailrace.runtimes.codex.shapes import (
    ErrorSaid,
    Failure,
    Item,
    ItemSaid,
    Line,
    Piece,
    PlanSaid,
    Remark,
    Rerouted,
    Said,
    TurnSaid,
    UsageSaid,
)
from tailrace.runtimes.surrogates import decode_line
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

# Of use to an editor, or told by what follows.
_SILENT = (
    *("turn/diff/", "turn/moderationMetadata", "item/fileChange/", "item/autoApprovalReview/"),
    "item/commandExecution/terminalInteraction",
)
_AGAIN = re.compile(r"Reconnecting\b")
_WORD = re.compile(r"_([a-z])")
_decoder = msgspec.json.Decoder(Line)

_Handler: TypeAlias = "Callable[[CodexTranslator, Any, str | None], list[Event] | None]"


class CodexTranslator:
    """One turn of `codex app-server`: `feed` its notifications, then `close`. `thread_id` is the turn's own thread.

    `warned` are the warnings that were told before: each process gives them again, and people need them once.
    """

    def __init__(self, warned: set[str] | None = None) -> None:
        self.thread_id: str | None = None
        self._turn = TurnTranslation("codex")
        self._items = CodexItems(self._turn)
        self._warned = set() if warned is None else warned
        self._has_begun = False
        self._children: dict[str, str] = {}  # under which call each thread of a subagent speaks
        self._spawning: str | None = None  # a call for a subagent that speaks before it is named

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self._turn.is_finished

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    def feed(self, method: str, params: Any) -> list[Event]:
        """One notification."""
        was_over = self.is_over
        told = self._told(method, params)
        return [event for event in told if not was_over or isinstance(event, ToolOutput | ToolFinished)]

    def remark(self, text: str) -> list[Event]:
        """Something that whoever talks with the server has to say."""
        return [] if self.is_over else self._turn.notice(text)

    def wonder(self, kind: str, said: Any) -> list[Event]:
        """Something unknown."""
        return self._turn.unknown_event({kind: said}, kind=kind)

    def fail(self, message: str) -> list[Event]:
        """The turn cannot go on."""
        self._turn.fail(message)
        return self._turn.end()

    def close(self, why: str = "") -> list[Event]:
        """Nothing more comes: the one end of the turn, if it has not ended. `why` is what is known of that."""
        if why:
            self._turn.fail(why, code="cut_off")
        return self._turn.end()

    def _told(self, method: str, params: Any) -> list[Event]:
        if method in self._TABLE:
            shape, tell = self._TABLE[method]
            try:
                said = msgspec.convert(params, shape)
            except msgspec.ValidationError:
                return [*self.wonder(method, params), *self._ended_somehow(method, params)]
            told = tell(self, said, self._parent(said.thread_id))
            return self.wonder(method, params) if told is None else told
        # Whatever is not said of a turn or an item is the server's housekeeping.
        is_of_the_turn = method.startswith(("turn/", "item/")) and not method.startswith(_SILENT)
        return self.wonder(method, params) if is_of_the_turn else []

    def _ended_somehow(self, method: str, params: Any) -> list[Event]:
        """The server goes on after a turn: an end that cannot be read is one all the same, or none would ever come."""
        thread = params.get("threadId") if isinstance(params, dict) else None
        if method != "turn/completed" or (isinstance(thread, str) and self._parent(thread) is not None):
            return []
        self._turn.fail("codex ended its turn without saying how", code="malformed")
        return self._turn.end()

    def _parent(self, thread_id: str | None) -> str | None:
        if thread_id is None or self.thread_id in {None, thread_id}:
            return None
        return self._children.get(thread_id, self._spawning or thread_id)

    # Items

    def _item_begun(self, said: ItemSaid, parent: str | None) -> list[Event]:
        self._adopt(said.item)
        return self._items.begun(said.item, parent)

    def _item_done(self, said: ItemSaid, parent: str | None) -> list[Event] | None:
        self._adopt(said.item)
        return self._items.done(said.item, parent)

    def _adopt(self, item: Item) -> None:
        if item.type == "collabAgentToolCall":
            self._spawning = None if item.receiver_thread_ids else item.id
        for thread_id in item.receiver_thread_ids:
            self._children.setdefault(thread_id, item.id)

    def _message_piece(self, said: Piece, parent: str | None) -> list[Event]:
        return self._items.said(said.item_id, said.delta, parent)

    def _thought_piece(self, said: Piece, parent: str | None) -> list[Event]:
        return self._items.thought(said.item_id, said.delta, parent)

    def _thought_part(self, said: Piece, parent: str | None) -> list[Event]:
        return self._items.thought_break(said.item_id, parent)

    def _printed(self, said: Piece, _: str | None) -> list[Event]:
        return self._turn.tool_output(said.item_id, said.delta)

    def _progress(self, said: Piece, parent: str | None) -> list[Event]:
        return [ToolProgress(id=said.item_id, text=said.message, parent_tool_id=parent)]

    # The turn

    def _error(self, said: ErrorSaid, parent: str | None) -> list[Event]:
        error = said.error
        if said.will_retry:
            why = error.additional_details or error.message
            return [*self._turn.retract_try(why, parent=parent), Status(text=error.message, parent_tool_id=parent)]
        if parent is not None:
            return [Error(message=error.message, code=error.code, parent_tool_id=parent)]
        self._turn.fail(error.message, code=error.code, status_code=error.status_code)
        return []

    def _turn_begun(self, _: TurnSaid, parent: str | None) -> list[Event]:
        self._has_begun = self._has_begun or parent is None
        return []

    def _turn_done(self, said: TurnSaid, parent: str | None) -> list[Event]:
        turn = said.turn
        if parent is not None:
            return []
        if turn.status == "completed":
            texts = [item.text for item in turn.items if item.type == "agentMessage"]
            self._turn.complete(text=texts[-1] if texts else None)
        elif turn.status != "interrupted":
            error = turn.error or Failure(message=f"the turn ended as {turn.status}")
            self._turn.fail(error.message, code=error.code, status_code=error.status_code)
        return self._turn.end(cancelled=turn.status == "interrupted")

    def _usage(self, said: UsageSaid, parent: str | None) -> list[Event]:
        if not self._has_begun:
            return []  # what the last turn of a resumed thread has spent
        # It is told when a model call is complete: what was said until then is not said again.
        self._turn.model_call_completed(parent=parent)
        last = said.token_usage.last
        return [Usage(**msgspec.structs.asdict(last), scope="request", parent_tool_id=parent)]

    def _remark(self, said: Remark, parent: str | None) -> list[Event]:
        warning = said.message or said.summary
        if warning in self._warned:
            return []
        self._warned.add(warning)
        return self._turn.notice(warning, parent=parent)

    def _rerouted(self, said: Rerouted, parent: str | None) -> list[Event]:
        return [ModelChanged(model_id=said.to_model)] if parent is None else []

    def _plan(self, said: PlanSaid, parent: str | None) -> list[Event]:
        items = tuple(PlanItem(title=step.step, status=step.status) for step in said.plan)
        return [PlanUpdated(items=items, parent_tool_id=parent)]

    _TABLE: ClassVar[dict[str, tuple[type[Said], _Handler]]] = {
        "item/started": (ItemSaid, _item_begun),
        "item/completed": (ItemSaid, _item_done),
        "item/agentMessage/delta": (Piece, _message_piece),
        "item/plan/delta": (Piece, _message_piece),
        "item/reasoning/summaryTextDelta": (Piece, _thought_piece),
        "item/reasoning/textDelta": (Piece, _thought_piece),
        "item/reasoning/summaryPartAdded": (Piece, _thought_part),
        "item/commandExecution/outputDelta": (Piece, _printed),
        "item/mcpToolCall/progress": (Piece, _progress),
        "error": (ErrorSaid, _error),
        "turn/started": (TurnSaid, _turn_begun),
        "turn/completed": (TurnSaid, _turn_done),
        "turn/plan/updated": (PlanSaid, _plan),
        "thread/tokenUsage/updated": (UsageSaid, _usage),
        "warning": (Remark, _remark),
        "configWarning": (Remark, _remark),
        "guardianWarning": (Remark, _remark),
        "model/rerouted": (Rerouted, _rerouted),
    }


class CodexExecTranslator:
    """One turn of `codex exec --json`: `feed` its lines, then `close`. `thread_id` is known with the first line."""

    def __init__(self) -> None:
        self.thread_id: str | None = None
        self._turn = TurnTranslation("codex")
        self._items = CodexItems(self._turn)

    @property
    def is_at_work(self) -> bool:
        """Whether a tool is at work, which may take its time in silence."""
        return self._turn.has_open_calls

    def feed(self, line: bytes) -> list[Event]:
        """One line."""
        if self._turn.is_finished:
            return []
        try:
            said = decode_line(line, _decoder)
            told = self._told(said) if said.item is None else self._item_told(said.type, _item(said.item))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            told = None
        return self._turn.unknown_event(line.decode(errors="replace")) if told is None else told

    def close(self, why: str = "") -> list[Event]:
        """Nothing more comes: the one end of the turn, if it has not ended. `why` is what is known of that."""
        if why:
            self._turn.fail(why, code="cut_off")
        return self._turn.end()

    def _item_told(self, kind: str, item: Item) -> list[Event] | None:
        match kind:
            case "item.started":
                return self._items.begun(item, None)
            case "item.updated":
                return self._items.done(item, None) if item.type == "todoList" else []
            case "item.completed":
                return self._items.done(item, None)
            case _:
                return None

    def _told(self, said: Line) -> list[Event] | None:
        events: list[Event] = []
        match said.type:
            case "thread.started":
                self.thread_id = said.thread_id
            case "turn.started":
                pass
            case "error" if _AGAIN.match(said.message):
                events = [*self._turn.retract_try(said.message), Status(text=said.message)]
            case "error":
                self._turn.fail(said.message)
            case "turn.failed":
                self._turn.fail(said.error.message if said.error is not None else "")
                events = self._turn.end()
            case "turn.completed":
                self._turn.complete()
                if said.usage is not None:  # counted from the beginning of the thread, which may be turns ago
                    events = [Usage(**msgspec.structs.asdict(said.usage), scope="session")]
                events = [*events, *self._turn.end()]
            case _:
                return None
        return events


def _item(item: dict[str, Any]) -> Item:
    """An item of `exec`, which is one of `app-server` with its names written otherwise."""
    named = {_in_camel_case(name): value for name, value in item.items()}
    if isinstance(kind := named.get("type"), str):
        named["type"] = _in_camel_case(kind)
    return msgspec.convert(named, Item)


@lru_cache(maxsize=256)
def _in_camel_case(name: str) -> str:
    return _WORD.sub(lambda found: found[1].upper(), name)
