"""The messages of a conversation with an AG-UI agent.

They are sent with each question, because most agents store nothing.

The history collects the events of a run into messages, with unchanged ids and encrypted values. If the last run has
stopped to ask something, the person's next message is the answer. That message never approves a tool call that waits
for approval, because the person may have meant something else. The runtime saves the history.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.agui.chunk_expander import ChunkExpander
from tailrace.runtimes.agui.shapes import Interrupt
from tailrace.runtimes.growing_text import append_text, join_texts
from tailrace.runtimes.sdk import as_text


class _Saved(msgspec.Struct):
    """What is saved of a session: the messages, and the questions for which the last run has stopped."""

    messages: list[dict[str, Any]] = []
    questions: list[Interrupt] = []


class AguiHistory:
    """The history of one conversation: `run_input` to ask a question, `feed` the events of the run, `encode` to save.

    `saved` are the bytes of the last `encode`. If they cannot be read, the history is empty.
    """

    def __init__(self, saved: bytes | None = None) -> None:
        try:
            known = msgspec.json.decode(saved, type=_Saved) if saved else _Saved()
        except (msgspec.MsgspecError, UnicodeError):
            known = _Saved()
        self._replace_messages(known.messages)
        self._interrupts = known.questions
        self._expander = ChunkExpander()

    def run_input(self, text: str, *, thread_id: str, run_id: str, message_id: str) -> dict[str, Any]:
        """Add the person's text to the history, and return the input for the run that answers it."""
        open_interrupts, self._interrupts = self._interrupts, []
        resume = [_resume(interrupt, text) for interrupt in open_interrupts if interrupt.id]
        unnamed = next((interrupt for interrupt in open_interrupts if not interrupt.id), None)
        command = {} if unnamed is None else {"command": {"resume": _payload(unnamed, text)}}
        if not open_interrupts or any(interrupt.tool_call_id is not None for interrupt in open_interrupts):
            self._add({"id": message_id, "role": "user", "content": text})
        return {
            "threadId": thread_id,
            "runId": run_id,
            "state": {},
            "messages": list(self._messages),
            "tools": [],
            "context": [],
            "forwardedProps": command,
            **({"resume": resume} if resume else {}),
        }

    @property
    def tool_names(self) -> dict[str, str]:
        """The names of the tools by the ids of their calls."""
        return {call: name for call, known in self._calls.items() if (name := _tool_name(known)) is not None}

    def feed(self, native: Any) -> None:
        """Add the content of one event of the run to the messages."""
        for event in self._expander.feed(native):
            self._fold(event)

    def encode(self, interrupts: list[Interrupt]) -> bytes:
        """The bytes to save after a run that has stopped for these questions.

        If the run asks nothing, a tool call without a result is dropped, because most models refuse a history with such
        a call.
        """
        answered = {as_text(message["toolCallId"]) for message in self._messages if "toolCallId" in message}
        messages: list[dict[str, Any]] = []
        for message in map(join_texts, self._messages):
            calls = [call for call in _calls(message) if interrupts or as_text(call["id"]) in answered]
            rest = {name: value for name, value in message.items() if name != "toolCalls"}
            if calls or rest.get("content") or rest.get("role") != "assistant":
                messages.append(rest | ({"toolCalls": calls} if calls else {}))
        return msgspec.json.encode(_Saved(messages=messages, questions=interrupts))

    def _fold(self, event: Any) -> None:
        match event:
            case {"type": "MESSAGES_SNAPSHOT", "messages": [*messages]}:
                self._replace_messages([message for message in messages if _is_conversation(message)])
            case {"type": "TEXT_MESSAGE_START", "messageId": str(message)}:
                self._message(message, event.get("role", "assistant"))
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": str(message), "delta": str(piece)}:
                append_text(self._message(message, "assistant"), "content", piece)
            case {"type": "REASONING_MESSAGE_CONTENT", "messageId": str(message), "delta": str(piece)}:
                append_text(self._message(message, "reasoning"), "content", piece)
            case {"type": "TOOL_CALL_START", "toolCallId": str(call), "toolCallName": str(name)}:
                self._start_call(call, name, event.get("parentMessageId"))
            case {"type": "TOOL_CALL_ARGS", "toolCallId": str(call), "delta": str(piece)}:
                if isinstance(function := self._calls.get(call, {}).get("function"), dict):
                    append_text(function, "arguments", piece)
            case {"type": "TOOL_CALL_RESULT", "messageId": str(message), "toolCallId": str(call), "content": content}:
                self._add({"id": message, "role": "tool", "toolCallId": call, "content": content})
            case {"type": "REASONING_ENCRYPTED_VALUE", "entityId": str(entity), "encryptedValue": str(value)}:
                kind = event.get("encryptedValueType")
                holder = (self._calls if event.get("subtype") == "tool-call" else self._by_id).get(entity)
                if holder is not None:
                    holder |= {"encryptedValue": value} | ({} if kind is None else {"encryptedValueType": kind})

    def _replace_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace all messages by those of a snapshot. An id that several messages have means the newest of them."""
        self._messages: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        for message in messages:
            calls = _calls(message)
            self._add({**message, "toolCalls": calls} if calls else message)
            self._calls.update({call["id"]: call for call in calls if isinstance(call["id"], str)})

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        if isinstance(message_id := message.get("id"), str):
            self._by_id[message_id] = message

    def _message(self, message_id: str, role: Any) -> dict[str, Any]:
        if message_id not in self._by_id:
            self._add({"id": message_id, "role": role, "content": ""})
        return self._by_id[message_id]

    def _start_call(self, call_id: str, name: str, parent: Any) -> None:
        message = self._by_id.get(parent) if isinstance(parent, str) else None
        if message is None or message.get("role") != "assistant":
            message = {"id": parent if isinstance(parent, str) else call_id, "role": "assistant"}
            self._add(message)
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        self._calls[call_id] = call
        if not isinstance(message.get("toolCalls"), list):
            message["toolCalls"] = []
        message["toolCalls"].append(call)


def _resume(interrupt: Interrupt, text: str) -> dict[str, Any]:
    if interrupt.tool_call_id is None:
        return {"interruptId": interrupt.id, "status": "resolved", "payload": _payload(interrupt, text)}
    return {"interruptId": interrupt.id, "status": "cancelled"}


def _payload(interrupt: Interrupt, text: str) -> Any:
    """The person's answer to a question of the agent: the text, in the form that the agent expects.

    If tool calls wait for approval, the answer is a rejection, with the text as its reason.
    """
    if not interrupt.tools:
        return text
    return {"decisions": [{"type": "reject", "message": text} for _ in interrupt.tools]}


def _tool_name(call: dict[str, Any]) -> str | None:
    match call:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def _is_conversation(message: Any) -> bool:
    """Whether a message is sent back to the agent. Messages about activities are only shown."""
    return isinstance(message, dict) and isinstance(message.get("id"), str) and message.get("role") != "activity"


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("toolCalls")
    return [call for call in calls if isinstance(call, dict) and "id" in call] if isinstance(calls, list) else []
