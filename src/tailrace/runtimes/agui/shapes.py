"""The fields of AG-UI's events that the translator reads, for versions 0.1 to 1.1 of the protocol.

Chunk events are missing here, because `chunk_expander` rewrites them.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _SpeakerEvent(msgspec.Struct, rename="camel"):
    """An event that comes from the agent, or from the subagent with the id `subagent_run_id`."""

    subagent_run_id: str | None = None


class MessageStart(_SpeakerEvent, kw_only=True):
    """A text or reasoning message starts."""

    message_id: str
    role: str = "assistant"


class MessageContent(_SpeakerEvent, kw_only=True):
    """A piece of a message. Before version 1 of the protocol, reasoning had no id."""

    delta: str
    message_id: str = ""


class MessageEnd(_SpeakerEvent, kw_only=True):
    """A message is complete."""

    message_id: str = ""


class ToolCallStart(_SpeakerEvent, kw_only=True):
    """A tool call starts."""

    tool_call_id: str
    tool_call_name: str


class ToolCallArguments(_SpeakerEvent, kw_only=True):
    """A piece of the arguments of a tool call, as JSON text. In the event that ends the arguments, `delta` is empty."""

    tool_call_id: str
    delta: str = ""


class ToolCallResult(_SpeakerEvent, kw_only=True):
    """The result of a tool call: a text, or a list of parts, some of which are texts."""

    tool_call_id: str
    content: Any = ""


class EncryptedValue(_SpeakerEvent, kw_only=True):
    """Encrypted data of the model's provider that belongs to a message or a tool call. It is sent back unchanged."""

    entity_id: str
    encrypted_value: str


class StepStarted(_SpeakerEvent, kw_only=True):
    """A step of the run starts."""

    step_name: str


class ActivitySnapshot(_SpeakerEvent, kw_only=True):
    """The agent reports an activity; `activity_type` says which kind."""

    activity_type: str


class CustomEvent(_SpeakerEvent, kw_only=True):
    """A custom event, which the agent defines itself."""

    name: str
    value: Any = None


class SnapshotMessage(msgspec.Struct, rename="camel"):
    """A message in a snapshot of the conversation."""

    role: str
    content: Any = None
    subagent_run_id: str | None = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return text_of(self.content) or ""


class MessagesSnapshot(msgspec.Struct):
    """The whole conversation, in place of the messages that were streamed."""

    messages: list[SnapshotMessage]


class SubagentStarted(msgspec.Struct, rename="camel"):
    """A subagent starts."""

    subagent_run_id: str
    name: str = ""
    parent_tool_call_id: str | None = None
    parent_subagent_run_id: str | None = None


class SubagentEnded(msgspec.Struct, rename="camel"):
    """A subagent has finished or failed."""

    subagent_run_id: str
    result: Any = ""
    message: str = ""


class RunStarted(msgspec.Struct, rename="camel"):
    """A run starts."""

    run_id: str = ""


class Interrupt(msgspec.Struct, rename="camel"):
    """A question for which a run has stopped: whether tool calls are allowed, or something else."""

    id: str
    reason: str | None = None
    message: str | None = None
    tool_call_id: str | None = None
    metadata: Any = None

    @property
    def text(self) -> str:
        """The question as text; "" if there is none. The framework Strands sends the text in the metadata."""
        match self:
            case Interrupt(message=str(text)) | Interrupt(metadata={"reason": str(text)}) if text:
                return text
            case _:
                return ""

    @property
    def tools(self) -> list[str]:
        """The names of the tools that wait for approval, one for each call.

        LangChain and ADK send them in the metadata.
        """
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


class ModelUsage(msgspec.Struct, rename="camel"):
    """The tokens that one model used in a run."""

    input_tokens: int = 0
    output_tokens: int = 0


class _RunEnd(msgspec.Struct):
    """The base of the events that end a run. `usage` may have any form; only a list of token counts is read."""

    usage: Any = None

    @property
    def model_usage(self) -> list[ModelUsage]:
        """The tokens of each model; empty if the agent did not send them in the known form."""
        try:
            return msgspec.convert(self.usage, list[ModelUsage])
        except msgspec.ValidationError:
            return []


class RunFinished(_RunEnd):
    """A run has ended: completed, interrupted or cancelled, as its outcome says."""

    outcome: Any = None
    result: Any = None

    @property
    def interrupts(self) -> list[Interrupt]:
        """The questions that the run has stopped for."""
        return self._outcome.interrupts if self._outcome.type == "interrupt" else []

    @property
    def is_cancelled(self) -> bool:
        """True if the run was cancelled."""
        return self._outcome.type == "cancelled"

    @property
    def _outcome(self) -> _Outcome:
        try:
            return msgspec.convert(self.outcome, _Outcome)
        except msgspec.ValidationError:
            return _Outcome()


class RunError(_RunEnd):
    """A run has failed."""

    message: Any = ""
    code: Any = None


def text_of(content: Any) -> str | None:
    """The text of a message content, which is a text or a list of parts. None if it contains no text."""
    match content:
        case str():
            return content
        case list():
            texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
            return "".join(texts) if texts else None
        case _:
            return None
