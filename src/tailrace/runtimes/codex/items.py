"""The items of a codex turn: messages, thoughts and calls, as both of its streams tell of them.

Owns what becomes of an item when it begins, grows and is complete. Which line of which stream says so is for the two
translators to know.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.events import Event, PlanItem, PlanUpdated, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.codex.shapes import Item
    from tailrace.runtimes.turn_translation import TurnTranslation

_FAILED = {"failed", "declined", "interrupted"}
_SILENT = {"userMessage", "hookPrompt", "subAgentActivity", "enteredReviewMode", "exitedReviewMode", "sleep"}


class CodexItems:
    """The items of one turn, told to its turn. `parent` is the call under which a subagent speaks."""

    def __init__(self, turn: TurnTranslation) -> None:
        self._turn = turn
        # Providers use ids again, so a block is known by how many began before it.
        self._count = 0
        self._blocks: dict[str, int] = {}
        self._done: dict[str, str] = {}  # what each message said when it was complete
        self._thoughts: set[str] = set()  # which thoughts were told by their pieces

    def begun(self, item: Item, parent: str | None) -> list[Event]:
        """An item begins."""
        if item.type in {"agentMessage", "plan"}:
            self._count += 1
            self._blocks[item.id] = self._count
            self._done.pop(item.id, None)
            return []
        if item.type == "contextCompaction":
            return [Status(text="Shortening the conversation", parent_tool_id=parent)]
        if (describe := _CALLS.get(item.type)) is not None:
            return self._turn.tool_call(item.id, *describe(item), parent=parent)
        return []

    def said(self, item_id: str, piece: str, parent: str | None) -> list[Event]:
        """More of a message."""
        return self._turn.text_delta(self._block(item_id), piece, parent=parent)

    def thought(self, item_id: str, piece: str, parent: str | None) -> list[Event]:
        """More of a thought."""
        self._thoughts.add(item_id)
        return self._turn.reasoning_delta(piece, parent=parent)

    def thought_break(self, item_id: str, parent: str | None) -> list[Event]:
        """A thought goes on with another paragraph."""
        return self._turn.reasoning_delta("\n\n", parent=parent) if item_id in self._thoughts else []

    def done(self, item: Item, parent: str | None) -> list[Event] | None:
        """An item is complete; None for one of a type that nobody knows."""
        if item.type in {"agentMessage", "plan"}:
            return self._message_done(item, parent)
        if item.type == "reasoning":
            return self._thought_done(item, parent)
        if item.type == "error":
            return self._turn.notice(item.message, parent=parent)
        if item.type == "todoList":
            return [_plan(item, parent)]
        if (describe := _CALLS.get(item.type)) is not None:
            begun: list[Event] = []
            if not self._turn.is_open_call(item.id):
                begun = self._turn.tool_call(item.id, *describe(item), parent=parent)
            result, is_error = _outcome(item)
            return [*begun, *self._turn.tool_result(item.id, result, is_error=is_error, parent=parent)]
        return [] if item.type in _SILENT or item.type == "contextCompaction" else None

    def _message_done(self, item: Item, parent: str | None) -> list[Event]:
        """What is told again says nothing; another text under the same id is another block."""
        if self._done.get(item.id) == item.text:
            return []
        self._done[item.id] = item.text
        told = self._turn.block_final(self._block(item.id), item.text, parent=parent)
        del self._blocks[item.id]
        return told

    def _thought_done(self, item: Item, parent: str | None) -> list[Event]:
        if item.id in self._thoughts:
            self._thoughts.discard(item.id)
            return self._turn.reasoning_end(parent=parent)
        raw = [text for text in item.content if isinstance(text, str)]
        told = self._turn.reasoning_delta(item.text or "\n\n".join(item.summary or raw), parent=parent)
        return [*told, *self._turn.reasoning_end(parent=parent)] if told else []

    def _block(self, item_id: str) -> int:
        if item_id not in self._blocks:
            self._count += 1
            self._blocks[item_id] = self._count
        return self._blocks[item_id]


def _plan(item: Item, parent: str | None) -> PlanUpdated:
    steps = (PlanItem(title=todo.text, status="completed" if todo.completed else "pending") for todo in item.items)
    return PlanUpdated(items=tuple(steps), parent_tool_id=parent)


def _patch(item: Item) -> tuple[str, Any]:
    paths = ", ".join(change.path for change in item.changes)
    return "apply_patch", {"path": paths, "changes": msgspec.to_builtins(item.changes)}


def _delegation(item: Item) -> tuple[str, Any]:
    return item.tool, {"prompt": item.prompt} if item.prompt else None


_CALLS: dict[str, Callable[[Item], tuple[str, Any]]] = {
    "commandExecution": lambda item: ("shell", {"command": unwrapped(item.command)}),
    "fileChange": _patch,
    "mcpToolCall": lambda item: (f"{item.server}.{item.tool}", item.arguments),
    "dynamicToolCall": lambda item: (item.tool, item.arguments),
    "collabAgentToolCall": _delegation,
    "collabToolCall": _delegation,
    "webSearch": lambda item: ("web_search", {"query": item.query}),
    "imageView": lambda item: ("view_image", {"path": item.path}),
    "imageGeneration": lambda _: ("image_generation", None),
}


def _outcome(item: Item) -> tuple[Any, bool]:
    """What a call gave back, and whether it failed."""
    is_error = item.status in _FAILED or item.exit_code not in {None, 0} or item.success is False
    result: Any = None
    match item.type:
        case "commandExecution":
            result = item.aggregated_output
        case "mcpToolCall":
            result = item.error.message if item.error is not None else item.result
        case "dynamicToolCall":
            result = item.content_items
    if result is None:
        result = item.status if item.status in _FAILED else ""
    return result, is_error


def unwrapped(command: str) -> str:
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
