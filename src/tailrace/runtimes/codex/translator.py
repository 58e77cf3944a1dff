"""Translates the output of `codex app-server`, and that of `codex exec --json`, which old versions have.

This module owns the meaning of each notification and each line. `items` translates items; `client` talks to the server.

`app-server` streams, and reports when it asks its model again. `exec` reports each item only when the item is complete,
and a retry only in the text of an error. Both report a failure twice, as an error and as the end of the turn; only the
end is emitted.
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
from tailrace.runtimes.codex import shapes
from tailrace.runtimes.codex.items import CodexItems
from tailrace.runtimes.turn_translation import TurnTranslation
from tailrace.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Callable

# These are useful for an editor only, or later notifications repeat their content.
_IGNORED = (
    *("turn/diff/", "turn/moderationMetadata", "item/fileChange/", "item/autoApprovalReview/"),
    "item/commandExecution/terminalInteraction",
)
_RECONNECTING = re.compile(r"Reconnecting\b")
_SNAKE = re.compile(r"_([a-z])")
_decoder = msgspec.json.Decoder(shapes.ExecLine)

_Handler: TypeAlias = "Callable[[CodexTranslator, Any, str | None], list[Event] | None]"


class CodexTranslator:
    """Translates one turn of `codex app-server`: `feed` each notification, then `close`.

    `thread_id` is the thread of the turn; other threads are subagents. `warned` has the warnings that were already
    shown: each process of codex repeats its warnings, but people need each only once.
    """

    def __init__(self, warned: set[str] | None = None) -> None:
        self.thread_id: str | None = None
        self.turn = TurnTranslation("codex")
        self._items = CodexItems(self.turn)
        self._warned = set() if warned is None else warned
        self._has_started = False
        self._subagent_calls: dict[str, str] = {}  # the call that started each subagent's thread
        self._unnamed_spawn: str | None = None  # a call whose subagent speaks before its thread is named

    def feed(self, method: str, params: Any) -> list[Event]:
        """Translate one notification."""
        was_finished = self.turn.is_finished
        events = self._translate(method, params)
        return [event for event in events if not was_finished or isinstance(event, ToolOutput | ToolFinished)]

    def notice(self, text: str) -> list[Event]:
        """Add a notice of our own to the turn."""
        return [] if self.turn.is_finished else self.turn.notice(text)

    def unknown(self, kind: str, notification: Any) -> list[Event]:
        """Report a notification, an item or a line of an unknown kind."""
        return self.turn.unknown_event({kind: notification}, kind=kind)

    def fail(self, message: str) -> list[Event]:
        """End the turn with a failure."""
        self.turn.fail(message)
        return self.turn.end()

    def close(self, exit_error: str = "") -> list[Event]:
        """End the stream. Returns the terminal event if there was none. `exit_error` says how the process failed."""
        return self.turn.end(exit_error=exit_error)

    def _translate(self, method: str, params: Any) -> list[Event]:
        if method in self._TABLE:
            shape, handle = self._TABLE[method]
            try:
                notification = msgspec.convert(params, shape)
            except msgspec.ValidationError:
                return [*self.unknown(method, params), *self._unreadable_end(method, params)]
            events = handle(self, notification, self._parent(notification.thread_id))
            return self.unknown(method, params) if events is None else events
        # All other notifications are about the server, not about the turn.
        is_of_the_turn = method.startswith(("turn/", "item/")) and not method.startswith(_IGNORED)
        return self.unknown(method, params) if is_of_the_turn else []

    def _unreadable_end(self, method: str, params: Any) -> list[Event]:
        """End the turn although its last notification is malformed: the server keeps running and sends no other end."""
        thread = params.get("threadId") if isinstance(params, dict) else None
        if method != "turn/completed" or (isinstance(thread, str) and self._parent(thread) is not None):
            return []
        self.turn.fail("codex ended its turn in a way that cannot be read", code="malformed")
        return self.turn.end()

    def _parent(self, thread_id: str | None) -> str | None:
        if thread_id is None or self.thread_id in {None, thread_id}:
            return None
        return self._subagent_calls.get(thread_id, self._unnamed_spawn or thread_id)

    # Items

    def _item_started(self, notification: shapes.ItemNotification, parent: str | None) -> list[Event]:
        self._note_subagent(notification.item)
        return self._items.started(notification.item, parent)

    def _item_completed(self, notification: shapes.ItemNotification, parent: str | None) -> list[Event] | None:
        self._note_subagent(notification.item)
        return self._items.completed(notification.item, parent)

    def _note_subagent(self, item: shapes.CodexItem) -> None:
        if item.type == "collabAgentToolCall":
            self._unnamed_spawn = None if item.receiver_thread_ids else item.id
        for thread_id in item.receiver_thread_ids:
            self._subagent_calls.setdefault(thread_id, item.id)

    def _message_delta(self, notification: shapes.ItemDelta, parent: str | None) -> list[Event]:
        return self._items.text_delta(notification.item_id, notification.delta, parent)

    def _reasoning_delta(self, notification: shapes.ItemDelta, parent: str | None) -> list[Event]:
        return self._items.reasoning_delta(notification.item_id, notification.delta, parent)

    def _reasoning_break(self, notification: shapes.ItemDelta, parent: str | None) -> list[Event]:
        return self._items.reasoning_break(notification.item_id, parent)

    def _output_delta(self, notification: shapes.ItemDelta, _: str | None) -> list[Event]:
        return self.turn.tool_output(notification.item_id, notification.delta)

    def _progress(self, notification: shapes.ItemDelta, parent: str | None) -> list[Event]:
        return [ToolProgress(id=notification.item_id, text=notification.message, parent_tool_id=parent)]

    # The turn

    def _error(self, notification: shapes.ErrorNotification, parent: str | None) -> list[Event]:
        error = notification.error
        if notification.will_retry:
            exit_error = error.additional_details or error.message
            return [
                *self.turn.retract_try(exit_error, parent=parent),
                Status(text=error.message, parent_tool_id=parent),
            ]
        if parent is not None:
            return [Error(message=error.message, code=error.code, parent_tool_id=parent)]
        self.turn.fail(error.message, code=error.code, status_code=error.status_code)
        return []

    def _turn_started(self, _: shapes.TurnNotification, parent: str | None) -> list[Event]:
        self._has_started = self._has_started or parent is None
        return []

    def _turn_completed(self, notification: shapes.TurnNotification, parent: str | None) -> list[Event]:
        turn = notification.turn
        if parent is not None:
            return []
        if turn.status == "completed":
            texts = [item.text for item in turn.items if item.type == "agentMessage"]
            self.turn.complete(text=texts[-1] if texts else None)
        elif turn.status != "interrupted":
            error = turn.error or shapes.CodexFailure(message=f"the turn ended as {turn.status}")
            self.turn.fail(error.message, code=error.code, status_code=error.status_code)
        return self.turn.end(cancelled=turn.status == "interrupted")

    def _usage(self, notification: shapes.UsageNotification, parent: str | None) -> list[Event]:
        if not self._has_started:
            return []  # usage of the previous turn of a resumed thread
        # Usage comes when a model call is complete. From then on no retry repeats the text of that call.
        self.turn.model_call_completed(parent=parent)
        last = notification.token_usage.last
        return [Usage(**msgspec.structs.asdict(last), scope="request", parent_tool_id=parent)]

    def _warning(self, notification: shapes.WarningNotification, parent: str | None) -> list[Event]:
        warning = notification.message or notification.summary
        if warning in self._warned:
            return []
        self._warned.add(warning)
        return self.turn.notice(warning, parent=parent)

    def _rerouted(self, notification: shapes.ReroutedNotification, parent: str | None) -> list[Event]:
        return [ModelChanged(model_id=notification.to_model)] if parent is None else []

    def _plan(self, notification: shapes.PlanNotification, parent: str | None) -> list[Event]:
        items = tuple(PlanItem(title=step.step, status=step.status) for step in notification.plan)
        return [PlanUpdated(items=items, parent_tool_id=parent)]

    _TABLE: ClassVar[dict[str, tuple[type[shapes.CodexNotification], _Handler]]] = {
        "item/started": (shapes.ItemNotification, _item_started),
        "item/completed": (shapes.ItemNotification, _item_completed),
        "item/agentMessage/delta": (shapes.ItemDelta, _message_delta),
        "item/plan/delta": (shapes.ItemDelta, _message_delta),
        "item/reasoning/summaryTextDelta": (shapes.ItemDelta, _reasoning_delta),
        "item/reasoning/textDelta": (shapes.ItemDelta, _reasoning_delta),
        "item/reasoning/summaryPartAdded": (shapes.ItemDelta, _reasoning_break),
        "item/commandExecution/outputDelta": (shapes.ItemDelta, _output_delta),
        "item/mcpToolCall/progress": (shapes.ItemDelta, _progress),
        "error": (shapes.ErrorNotification, _error),
        "turn/started": (shapes.TurnNotification, _turn_started),
        "turn/completed": (shapes.TurnNotification, _turn_completed),
        "turn/plan/updated": (shapes.PlanNotification, _plan),
        "thread/tokenUsage/updated": (shapes.UsageNotification, _usage),
        "warning": (shapes.WarningNotification, _warning),
        "configWarning": (shapes.WarningNotification, _warning),
        "guardianWarning": (shapes.WarningNotification, _warning),
        "model/rerouted": (shapes.ReroutedNotification, _rerouted),
    }


class CodexExecTranslator:
    """Translates one turn of `codex exec --json`: `feed` each line, then `close`. `session_id` is its thread's id."""

    def __init__(self) -> None:
        self.session_id = ""
        self.turn = TurnTranslation("codex")
        self._items = CodexItems(self.turn)

    def feed(self, line: bytes) -> list[Event]:
        """Translate one line."""
        if self.turn.is_finished:
            return []
        try:
            notification = decode_line(line, _decoder)
            events = (
                self._translate(notification)
                if notification.item is None
                else self._translate_item(notification.type, _item_from_exec(notification.item))
            )
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            events = None
        return self.turn.unknown_event(line.decode(errors="replace")) if events is None else events

    def close(self, exit_error: str = "") -> list[Event]:
        """End the stream. Returns the terminal event if there was none. `exit_error` says how the process failed."""
        return self.turn.end(exit_error=exit_error)

    def _translate_item(self, kind: str, item: shapes.CodexItem) -> list[Event] | None:
        match kind:
            case "item.started":
                return self._items.started(item, None)
            case "item.updated":
                return self._items.completed(item, None) if item.type == "todoList" else []
            case "item.completed":
                return self._items.completed(item, None)
            case _:
                return None

    def _translate(self, notification: shapes.ExecLine) -> list[Event] | None:
        events: list[Event] = []
        match notification.type:
            case "thread.started":
                self.session_id = notification.thread_id
            case "turn.started":
                pass
            case "error" if _RECONNECTING.match(notification.message):
                events = [*self.turn.retract_try(notification.message), Status(text=notification.message)]
            case "error":
                self.turn.fail(notification.message)
            case "turn.failed":
                self.turn.fail(notification.error.message if notification.error is not None else "")
                events = self.turn.end()
            case "turn.completed":
                self.turn.complete()
                if notification.usage is not None:  # it counts all turns since the start of the thread
                    events = [Usage(**msgspec.structs.asdict(notification.usage), scope="session")]
                events = [*events, *self.turn.end()]
            case _:
                return None
        return events


def _item_from_exec(item: dict[str, Any]) -> shapes.CodexItem:
    """Convert an item of `exec` to the form of `app-server`: its names are in snake case instead of camel case."""
    named = {_camel_case(name): value for name, value in item.items()}
    if isinstance(kind := named.get("type"), str):
        named["type"] = _camel_case(kind)
    return msgspec.convert(named, shapes.CodexItem)


@lru_cache(maxsize=256)
def _camel_case(name: str) -> str:
    return _SNAKE.sub(lambda found: found[1].upper(), name)
