"""The answer of a turn as one text that grows, for receivers that show text in their own way.

`AnswerText` decides which text is valid. Nothing is cut here, and media, errors and tools are left to the caller.
"""

from __future__ import annotations

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Event,
    ModelChanged,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.operations import Target
from tailrace.projector.answer_text import AnswerText

BREAKS_TEXT = (ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded)
"""Text after one of these events begins another block, as in the fold."""

_WITHOUT_LIMITS = Capabilities(idempotency=Unkeyed(), limit=2**31)


class TurnText:
    """The text of one turn: `feed` takes its events and returns the new text, `text` is the whole valid text.

    Text that was returned and is then retracted is not in `text` any more. Reasoning and silent replies never are.
    """

    def __init__(self) -> None:
        nowhere = Target(channel="", chat="")
        self._answer = AnswerText(nowhere, _WITHOUT_LIMITS, blocks=None, keeps_appended=True, silent=("NO_REPLY",))

    @property
    def text(self) -> str:
        """The whole valid text."""
        return self._answer.run.text

    def feed(self, event: Event) -> str:
        """Process an event. Returns the text to append to what was returned before."""
        answer = self._answer
        if getattr(event, "parent_tool_id", None) is not None:
            return ""
        if isinstance(event, BREAKS_TEXT):
            answer.break_text()
        match event:
            case TextDelta():
                answer.feed(event.text)
            case BlockFinal():
                answer.close_block(event.text)
            case TextRetracted():
                answer.retract(event.scope)
            case TurnCompleted():
                answer.complete_text(event.text)
            case TurnFailed():
                answer.complete_text(None)
            case TurnCancelled():
                answer.complete_text(None, is_cancelled=True)
            case _:
                pass
        answer.reasoning.clear()
        return answer.take_appended(None)
