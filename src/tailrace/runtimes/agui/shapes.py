"""What the translator reads of AG-UI's events, and no more of them than that: versions 0.1 to 1.1 of the protocol.

Chunks are not among them: see `expansion`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Attributed(msgspec.Struct, rename="camel"):
    """An event of the agent or, where an invocation is named, of a subagent."""

    subagent_run_id: str | None = None


class Opened(_Attributed, kw_only=True):
    """A message begins, said or thought."""

    message_id: str
    role: str = "assistant"


class Piece(_Attributed, kw_only=True):
    """A piece of a message; those of thoughts had no id before version 1."""

    delta: str
    message_id: str = ""


class Ended(_Attributed, kw_only=True):
    """A message is complete."""

    message_id: str = ""


class Called(_Attributed, kw_only=True):
    """A call begins."""

    tool_call_id: str
    tool_call_name: str


class Arguments(_Attributed, kw_only=True):
    """A piece of a call's arguments, which are JSON; the last one where it has none."""

    tool_call_id: str
    delta: str = ""


class Result(_Attributed, kw_only=True):
    """What a tool gave back: text, or parts of which some are text."""

    tool_call_id: str
    content: Any = ""


class Sealed(_Attributed, kw_only=True):
    """The provider's own of a thought, or of a call."""

    entity_id: str
    encrypted_value: str


class Step(_Attributed, kw_only=True):
    """A phase of the run begins."""

    step_name: str


class Activity(_Attributed, kw_only=True):
    """Something goes on, of a kind."""

    activity_type: str


class Custom(_Attributed, kw_only=True):
    """What only this agent says."""

    name: str
    value: Any = None


class Remembered(msgspec.Struct, rename="camel"):
    """A message of the conversation, as a snapshot has it."""

    role: str
    content: Any = None
    subagent_run_id: str | None = None

    @property
    def text(self) -> str:
        """What it says in words."""
        return text_of(self.content) or ""


class Messages(msgspec.Struct):
    """The whole conversation, in place of what was told of it."""

    messages: list[Remembered]


class Invoked(msgspec.Struct, rename="camel"):
    """A subagent begins."""

    subagent_run_id: str
    name: str = ""
    parent_tool_call_id: str | None = None
    parent_subagent_run_id: str | None = None


class Returned(msgspec.Struct, rename="camel"):
    """A subagent is through, or has failed."""

    subagent_run_id: str
    result: Any = ""
    message: str = ""


class Begun(msgspec.Struct, rename="camel"):
    """A run begins."""

    run_id: str = ""


class Interrupt(msgspec.Struct, rename="camel"):
    """What a run has stopped to ask: somebody's leave for a call, or something else."""

    id: str
    reason: str | None = None
    message: str | None = None
    tool_call_id: str | None = None
    metadata: Any = None

    @property
    def words(self) -> str:
        """The question in words, where somebody has put it so; Strands' are beside it."""
        match self:
            case Interrupt(message=str(words)) | Interrupt(metadata={"reason": str(words)}) if words:
                return words
            case _:
                return ""

    @property
    def tools(self) -> list[str]:
        """The tools that leave is wanted for, one for each call, as LangChain's middleware says it and ADK."""
        match self.metadata:
            case {"langgraph": {"raw": {"action_requests": [*requests]}}}:
                return [str(request.get("name")) for request in requests if isinstance(request, dict)]
            case {"adk": {"originalFunctionCall": {"name": str(name)}}}:
                return [name]
            case _:
                return []


class _Outcome(msgspec.Struct):
    type: str = "success"
    interrupts: list[Interrupt] = []


class Tokens(msgspec.Struct, rename="camel"):
    """What one model has cost in a run."""

    input_tokens: int = 0
    output_tokens: int = 0


class _Over(msgspec.Struct):
    """A run is over. What is said of it beside that may be anything, and is read as far as it can be."""

    usage: Any = None

    @property
    def tokens(self) -> list[Tokens]:
        """What it has cost."""
        try:
            return msgspec.convert(self.usage, list[Tokens])
        except msgspec.ValidationError:
            return []


class Finished(_Over):
    """A run is over: complete, interrupted or cancelled, as its outcome says."""

    outcome: Any = None
    result: Any = None

    @property
    def interrupts(self) -> list[Interrupt]:
        """What it has stopped to ask."""
        return self._outcome.interrupts if self._outcome.type == "interrupt" else []

    @property
    def is_cancelled(self) -> bool:
        """Whether it was stopped on purpose."""
        return self._outcome.type == "cancelled"

    @property
    def _outcome(self) -> _Outcome:
        try:
            return msgspec.convert(self.outcome, _Outcome)
        except msgspec.ValidationError:
            return _Outcome()


class Failed(_Over):
    """A run has failed."""

    message: Any = ""
    code: Any = None


def text_of(content: Any) -> str | None:
    """What a content says: it is text, or has parts of which some are. None where there is no text in it."""
    match content:
        case str():
            return content
        case list():
            texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
            return "".join(texts) if texts else None
        case _:
            return None
