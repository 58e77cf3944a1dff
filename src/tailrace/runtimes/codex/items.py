"""Translates the items of a codex turn (messages, reasoning and tool calls), for `app-server` and for `exec`.

This module owns the events that follow when an item starts, grows or is complete. The two translators know which lines
of output report that.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.events import Event, PlanItem, PlanUpdated, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.codex.shapes import CodexItem
    from tailrace.runtimes.turn_translation import TurnTranslation

_FAILED_STATUSES = {"failed", "declined", "interrupted"}
_IGNORED = {"userMessage", "hookPrompt", "subAgentActivity", "enteredReviewMode", "exitedReviewMode", "sleep"}


class CodexItems:
    """The items of one turn. `parent` is the id of the tool call under which a subagent's items are shown."""

    def __init__(self, turn: TurnTranslation) -> None:
        self._turn = turn
        # The key of a block is the number of blocks before it, because providers reuse ids.
        self._count = 0
        self._blocks: dict[str, int] = {}
        self._completed_texts: dict[str, str] = {}  # the text of each completed message, by its id
        self._streamed_reasoning: set[str] = set()  # ids of reasoning that was streamed

    def started(self, item: CodexItem, parent: str | None) -> list[Event]:
        """Translate the start of an item."""
        if item.type in {"agentMessage", "plan"}:
            self._count += 1
            self._blocks[item.id] = self._count
            self._completed_texts.pop(item.id, None)
            return []
        if item.type == "contextCompaction":
            return [Status(text="Shortening the conversation", parent_tool_id=parent)]
        if (describe := _CALLS.get(item.type)) is not None:
            return self._turn.tool_call(item.id, *describe(item), parent=parent)
        return []

    def text_delta(self, item_id: str, piece: str, parent: str | None) -> list[Event]:
        """Translate a piece of a message."""
        return self._turn.text_delta(self._block(item_id), piece, parent=parent)

    def reasoning_delta(self, item_id: str, piece: str, parent: str | None) -> list[Event]:
        """Translate a piece of reasoning."""
        self._streamed_reasoning.add(item_id)
        return self._turn.reasoning_delta(piece, parent=parent)

    def reasoning_break(self, item_id: str, parent: str | None) -> list[Event]:
        """Begin another paragraph of the same reasoning."""
        return self._turn.reasoning_delta("\n\n", parent=parent) if item_id in self._streamed_reasoning else []

    def completed(self, item: CodexItem, parent: str | None) -> list[Event] | None:
        """Translate a complete item. Returns None if its type is unknown."""
        if item.type in {"agentMessage", "plan"}:
            return self._message_completed(item, parent)
        if item.type == "reasoning":
            return self._reasoning_completed(item, parent)
        if item.type == "error":
            return self._turn.notice(item.message, parent=parent)
        if item.type == "todoList":
            return [_plan(item, parent)]
        if (describe := _CALLS.get(item.type)) is not None:
            started: list[Event] = []
            if not self._turn.is_open_call(item.id):
                started = self._turn.tool_call(item.id, *describe(item), parent=parent)
            result, is_error = _call_result(item)
            return [*started, *self._turn.tool_result(item.id, result, is_error=is_error, parent=parent)]
        return [] if item.type in _IGNORED or item.type == "contextCompaction" else None

    def _message_completed(self, item: CodexItem, parent: str | None) -> list[Event]:
        """Close the block of a message. A repeated text is ignored; another text with the same id is a new block."""
        if self._completed_texts.get(item.id) == item.text:
            return []
        self._completed_texts[item.id] = item.text
        events = self._turn.block_final(self._block(item.id), item.text, parent=parent)
        del self._blocks[item.id]
        return events

    def _reasoning_completed(self, item: CodexItem, parent: str | None) -> list[Event]:
        if item.id in self._streamed_reasoning:
            self._streamed_reasoning.discard(item.id)
            return self._turn.reasoning_end(parent=parent)
        raw = [text for text in item.content if isinstance(text, str)]
        events = self._turn.reasoning_delta(item.text or "\n\n".join(item.summary or raw), parent=parent)
        return [*events, *self._turn.reasoning_end(parent=parent)] if events else []

    def _block(self, item_id: str) -> int:
        if item_id not in self._blocks:
            self._count += 1
            self._blocks[item_id] = self._count
        return self._blocks[item_id]


def _plan(item: CodexItem, parent: str | None) -> PlanUpdated:
    steps = (PlanItem(title=todo.text, status="completed" if todo.completed else "pending") for todo in item.items)
    return PlanUpdated(items=tuple(steps), parent_tool_id=parent)


def _patch(item: CodexItem) -> tuple[str, Any]:
    paths = ", ".join(change.path for change in item.changes)
    return "apply_patch", {"path": paths, "changes": msgspec.to_builtins(item.changes)}


def _delegation(item: CodexItem) -> tuple[str, Any]:
    return item.tool, {"prompt": item.prompt} if item.prompt else None


_CALLS: dict[str, Callable[[CodexItem], tuple[str, Any]]] = {
    "commandExecution": lambda item: ("shell", {"command": without_shell(item.command)}),
    "fileChange": _patch,
    "mcpToolCall": lambda item: (f"{item.server}.{item.tool}", item.arguments),
    "dynamicToolCall": lambda item: (item.tool, item.arguments),
    "collabAgentToolCall": _delegation,
    "collabToolCall": _delegation,
    "webSearch": lambda item: ("web_search", {"query": item.query}),
    "imageView": lambda item: ("view_image", {"path": item.path}),
    "imageGeneration": lambda _: ("image_generation", None),
}


def _call_result(item: CodexItem) -> tuple[Any, bool]:
    """The result of a tool call, and whether the call failed."""
    is_error = item.status in _FAILED_STATUSES or item.exit_code not in {None, 0} or item.success is False
    result: Any = None
    match item.type:
        case "commandExecution":
            result = item.aggregated_output
        case "mcpToolCall":
            result = item.error.message if item.error is not None else item.result
        case "dynamicToolCall":
            result = item.content_items
    if result is None:
        result = item.status if item.status in _FAILED_STATUSES else ""
    return result, is_error


def without_shell(command: str) -> str:
    """The command as the model wrote it, without the shell that codex wraps around it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    match words:
        case [shell, "-c" | "-lc", script] if shell.endswith("sh"):
            return script
        case _:
            return command
