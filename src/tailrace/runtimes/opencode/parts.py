"""Translates the parts of opencode's messages: text, reasoning, tool calls and steps, of its server and of `run`.

This module owns the events that follow when a part grows. A part is reported in its current state; a delta adds to it.
A step is one model call; if a step starts again before it is finished, that is a retry. A command that failed is
reported as complete; only its exit code shows the failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.events import Event, ReasoningDelta, Status, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.opencode.shapes import OpencodePart
    from tailrace.runtimes.turn_translation import TurnTranslation

_IGNORED = {"agent", "compaction", "file", "patch", "retry", "snapshot", "subtask"}


class OpencodeParts:
    """The parts of one turn. `parent` is the id of the tool call under which a subagent's parts are shown."""

    def __init__(self, turn: TurnTranslation, *, reports_retries: bool = False) -> None:
        self._turn = turn
        self._reports_retries = reports_retries  # set if no other event reports a retry
        self._reasoning_pieces: dict[str, list[str]] = {}  # emitted pieces of reasoning that is not complete
        self._text_keys: dict[str, tuple[str, str]] = {}  # the block key of each text part, by its id
        self._inputs: dict[str, Any] = {}  # the last input of each call
        self._finished_parts: set[str] = set()  # parts with a result; call ids are reused by providers
        self._open_steps: dict[str, str | None] = {}  # messages with an unfinished step, and their speaker
        self.stop_reason = ""  # the one of the last finished step
        self.subagent_calls: dict[str, str] = {}  # the call that started each subagent's session

    @property
    def is_in_step(self) -> bool:
        """Whether a model call of the agent itself, not of a subagent, has started and is not finished."""
        return None in self._open_steps.values()

    def updated(self, part: OpencodePart, parent: str | None) -> list[Event] | None:
        """Translate a part that is reported in its current state. Returns None if its type is unknown."""
        handle = self._TABLE.get(part.type)
        if handle is not None:
            return handle(self, part, parent)
        return [] if part.type in _IGNORED else None

    def delta(self, part_id: str, piece: str, parent: str | None) -> list[Event]:
        """Translate a piece of a part.

        If the type of the part is not known yet, emit nothing: the whole part comes later.
        """
        if part_id in self._reasoning_pieces:
            self._reasoning_pieces[part_id].append(piece)
            return self._turn.reasoning_delta(piece, parent=parent) if piece else []
        if part_id in self._text_keys:
            return self._turn.text_delta(self._text_keys[part_id], piece, parent=parent)
        return []

    def _text(self, part: OpencodePart, parent: str | None) -> list[Event]:
        if part.synthetic or part.ignored:
            return []
        key = self._text_keys[part.id] = (part.message_id, part.id)
        if part.is_complete:
            return self._turn.block_final(key, part.text, parent=parent)
        return self._turn.text_snapshot(key, part.text, parent=parent)

    def _reasoning(self, part: OpencodePart, parent: str | None) -> list[Event]:
        emitted = "".join(self._reasoning_pieces.setdefault(part.id, []))
        rest = part.text.removeprefix(emitted) if part.text.startswith(emitted) else ""
        updated = self._turn.reasoning_delta(rest, parent=parent) if rest else []
        self._reasoning_pieces[part.id].append(rest)
        if not part.is_complete:
            return updated
        del self._reasoning_pieces[part.id]
        if not part.text and part.metadata is not None:
            # Only the provider can read this reasoning. It has no text, but metadata that must be kept.
            updated = [*self._turn.reasoning_delta("", parent=parent), ReasoningDelta(text="", parent_tool_id=parent)]
        return [*updated, *self._turn.reasoning_end(part.metadata, parent=parent)]

    def _tool(self, part: OpencodePart, parent: str | None) -> list[Event] | None:
        call, state = part.call_id, part.state
        if state is None:
            return None
        if part.id in self._finished_parts:
            return []
        if isinstance(subagent := state.metadata.get("sessionId"), str):
            self.subagent_calls[subagent] = call
        arguments = state.input or None
        has_changed = not self._turn.is_open_call(call) or (
            arguments is not None and arguments != self._inputs.get(call)
        )
        updated = self._turn.tool_call(call, part.tool, arguments, parent=parent) if has_changed else []
        self._inputs[call] = arguments
        if state.status == "running":
            output = state.metadata.get("output")
            return [*updated, *self._turn.tool_output_snapshot(call, output if isinstance(output, str) else "")]
        if state.status == "pending":
            return updated
        self._finished_parts.add(part.id)
        is_error = state.status == "error" or state.metadata.get("exit") not in {None, 0}
        result = state.error if state.status == "error" else state.output
        return [*updated, *self._turn.tool_result(call, result, is_error=is_error, parent=parent)]

    def _step_started(self, part: OpencodePart, parent: str | None) -> list[Event]:
        is_retry = part.message_id in self._open_steps
        self._open_steps[part.message_id] = parent
        if not is_retry:
            return []
        updated = [Status(text="Asking the model again", parent_tool_id=parent)] if self._reports_retries else []
        return [*self._turn.retract_try("the model was asked again", parent=parent), *updated]

    def _step_finished(self, part: OpencodePart, parent: str | None) -> list[Event]:
        self._open_steps.pop(part.message_id, None)
        self._turn.model_call_completed(parent=parent)
        if parent is None:
            self.stop_reason = part.reason
        if (tokens := part.tokens) is None:
            return []
        input_tokens = tokens.input + tokens.cache.read + tokens.cache.write
        output_tokens = tokens.output + tokens.reasoning
        return [Usage(input_tokens=input_tokens, output_tokens=output_tokens, scope="request", parent_tool_id=parent)]

    _TABLE: ClassVar[dict[str, Callable[[OpencodeParts, OpencodePart, str | None], list[Event] | None]]] = {
        "text": _text,
        "reasoning": _reasoning,
        "tool": _tool,
        "step-start": _step_started,
        "step-finish": _step_finished,
    }
