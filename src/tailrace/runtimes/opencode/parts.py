"""The parts of opencode's messages: text, thoughts, calls and steps, as its server and its `run` tell of them.

Owns what becomes of a part as it grows. A part that is told of is told as it is now, a piece of one is what is new. A
step is one model call; one that begins again before it is finished is another try. A tool that fails says so only by
its exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.events import Event, ReasoningDelta, Status, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.opencode.shapes import Part
    from tailrace.runtimes.turn_translation import TurnTranslation

_SILENT = {"agent", "compaction", "file", "patch", "retry", "snapshot", "subtask"}


class OpencodeParts:
    """The parts of one turn, told to its turn. `parent` is the call under which a subagent speaks."""

    def __init__(self, turn: TurnTranslation, *, tells_again: bool = False) -> None:
        self._turn = turn
        self._tells_again = tells_again  # where nothing else tells that the model is asked again
        self._thoughts: dict[str, list[str]] = {}  # what was told of each thought that is not complete
        self._texts: dict[str, tuple[str, str]] = {}  # by its id, the message and the part that a text is
        self._inputs: dict[str, Any] = {}  # what was told of each call
        self._finished: set[str] = set()  # the parts of calls that were answered; providers use the ids of calls again
        self._steps: dict[str, str | None] = {}  # the messages whose step is not finished, and who says them
        self.reason = ""  # for which the last step was finished
        self.children: dict[str, str] = {}  # by which call each session of a subagent was begun

    @property
    def is_in_a_step(self) -> bool:
        """Whether a step of the agent's own has begun that is not finished."""
        return None in self._steps.values()

    def told(self, part: Part, parent: str | None) -> list[Event] | None:
        """A part as it is now; None for one of a type that nobody knows."""
        tell = self._TABLE.get(part.type)
        if tell is not None:
            return tell(self, part, parent)
        return [] if part.type in _SILENT else None

    def piece(self, part_id: str, piece: str, parent: str | None) -> list[Event]:
        """More of a part. Of what kind it is was told before; where it was not, all of it is told when it is."""
        if part_id in self._thoughts:
            self._thoughts[part_id].append(piece)
            return self._turn.reasoning_delta(piece, parent=parent) if piece else []
        if part_id in self._texts:
            return self._turn.text_delta(self._texts[part_id], piece, parent=parent)
        return []

    def _text(self, part: Part, parent: str | None) -> list[Event]:
        if part.synthetic or part.ignored:
            return []
        key = self._texts[part.id] = (part.message_id, part.id)
        if part.is_complete:
            return self._turn.block_final(key, part.text, parent=parent)
        return self._turn.text_snapshot(key, part.text, parent=parent)

    def _thought(self, part: Part, parent: str | None) -> list[Event]:
        said = "".join(self._thoughts.setdefault(part.id, []))
        rest = part.text.removeprefix(said) if part.text.startswith(said) else ""
        told = self._turn.reasoning_delta(rest, parent=parent) if rest else []
        self._thoughts[part.id].append(rest)
        if not part.is_complete:
            return told
        del self._thoughts[part.id]
        if not part.text and part.metadata is not None:
            # A thought that only its provider can read: without words, but with a place where it is kept.
            told = [*self._turn.reasoning_delta("", parent=parent), ReasoningDelta(text="", parent_tool_id=parent)]
        return [*told, *self._turn.reasoning_end(part.metadata, parent=parent)]

    def _tool(self, part: Part, parent: str | None) -> list[Event] | None:
        call, state = part.call_id, part.state
        if state is None:
            return None
        if part.id in self._finished:
            return []
        if isinstance(child := state.metadata.get("sessionId"), str):
            self.children[child] = call
        arguments = state.input or None
        is_news = not self._turn.is_open_call(call) or (arguments is not None and arguments != self._inputs.get(call))
        told = self._turn.tool_call(call, part.tool, arguments, parent=parent) if is_news else []
        self._inputs[call] = arguments
        if state.status == "running":
            output = state.metadata.get("output")
            return [*told, *self._turn.tool_output_snapshot(call, output if isinstance(output, str) else "")]
        if state.status == "pending":
            return told
        self._finished.add(part.id)
        is_error = state.status == "error" or state.metadata.get("exit") not in {None, 0}
        result = state.error if state.status == "error" else state.output
        return [*told, *self._turn.tool_result(call, result, is_error=is_error, parent=parent)]

    def _step_begun(self, part: Part, parent: str | None) -> list[Event]:
        is_again = part.message_id in self._steps
        self._steps[part.message_id] = parent
        if not is_again:
            return []
        told = [Status(text="Asking the model again", parent_tool_id=parent)] if self._tells_again else []
        return [*self._turn.retract_try("the model was asked again", parent=parent), *told]

    def _step_done(self, part: Part, parent: str | None) -> list[Event]:
        self._steps.pop(part.message_id, None)
        self._turn.model_call_completed(parent=parent)
        if parent is None:
            self.reason = part.reason
        if (tokens := part.tokens) is None:
            return []
        taken_in = tokens.input + tokens.cache.read + tokens.cache.write
        given = tokens.output + tokens.reasoning
        return [Usage(input_tokens=taken_in, output_tokens=given, scope="request", parent_tool_id=parent)]

    _TABLE: ClassVar[dict[str, Callable[[OpencodeParts, Part, str | None], list[Event] | None]]] = {
        "text": _text,
        "reasoning": _thought,
        "tool": _tool,
        "step-start": _step_begun,
        "step-finish": _step_done,
    }
