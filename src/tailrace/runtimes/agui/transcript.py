"""A conversation as AG-UI has it: what is sent with each question, since most agents remember nothing themselves.

Folds the events of a run into messages, ids and seals as they came, and answers what the run before has stopped to ask:
a question by what the person says next, and leave for a call never, since nobody was asked for that in so many words.
Where it is kept is the runtime's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.agui.expansion import Expansion
from tailrace.runtimes.agui.shapes import Interrupt
from tailrace.runtimes.growing_text import append_text, join_texts
from tailrace.runtimes.sdk import as_text


class _Kept(msgspec.Struct):
    """What a session remembers: the messages, and what the last run has stopped to ask."""

    messages: list[dict[str, Any]] = []
    questions: list[Interrupt] = []


class Transcript:
    """One conversation: `ask` for the input of a run, `feed` its events, and `keep` what it is then.

    `kept` is what was kept of it last; what cannot be read is forgotten.
    """

    def __init__(self, kept: bytes | None = None) -> None:
        try:
            known = msgspec.json.decode(kept, type=_Kept) if kept else _Kept()
        except (msgspec.MsgspecError, UnicodeError):
            known = _Kept()
        self._hold(known.messages)
        self._questions = known.questions
        self._expansion = Expansion()

    def ask(self, text: str, *, thread_id: str, run_id: str, message_id: str) -> dict[str, Any]:
        """The input of a run that answers this."""
        asked, self._questions = self._questions, []
        resume = [_answer(question, text) for question in asked if question.id]
        unnamed = next((question for question in asked if not question.id), None)
        command = {} if unnamed is None else {"command": {"resume": _reply(unnamed, text)}}
        if not asked or any(question.tool_call_id is not None for question in asked):
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
    def tools(self) -> dict[str, str]:
        """The name of the tool of each call there was."""
        return {call: name for call, known in self._calls.items() if (name := _name(known)) is not None}

    def feed(self, native: Any) -> None:
        """One event of the run."""
        for event in self._expansion.feed(native):
            self._take(event)

    def keep(self, questions: list[Interrupt]) -> bytes:
        """What is to be remembered after a run that has stopped to ask this.

        A call without a result is left out unless somebody is asked about it: most models refuse such a history.
        """
        answered = {as_text(message["toolCallId"]) for message in self._messages if "toolCallId" in message}
        messages: list[dict[str, Any]] = []
        for message in map(join_texts, self._messages):
            calls = [call for call in _calls(message) if questions or as_text(call["id"]) in answered]
            rest = {name: value for name, value in message.items() if name != "toolCalls"}
            if calls or rest.get("content") or rest.get("role") != "assistant":
                messages.append(rest | ({"toolCalls": calls} if calls else {}))
        return msgspec.json.encode(_Kept(messages=messages, questions=questions))

    def _take(self, event: Any) -> None:
        match event:
            case {"type": "MESSAGES_SNAPSHOT", "messages": [*messages]}:
                self._hold([message for message in messages if _is_conversation(message)])
            case {"type": "TEXT_MESSAGE_START", "messageId": str(message)}:
                self._message(message, event.get("role", "assistant"))
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": str(message), "delta": str(piece)}:
                append_text(self._message(message, "assistant"), "content", piece)
            case {"type": "REASONING_MESSAGE_CONTENT", "messageId": str(message), "delta": str(piece)}:
                append_text(self._message(message, "reasoning"), "content", piece)
            case {"type": "TOOL_CALL_START", "toolCallId": str(call), "toolCallName": str(name)}:
                self._call(call, name, event.get("parentMessageId"))
            case {"type": "TOOL_CALL_ARGS", "toolCallId": str(call), "delta": str(piece)}:
                if isinstance(function := self._calls.get(call, {}).get("function"), dict):
                    append_text(function, "arguments", piece)
            case {"type": "TOOL_CALL_RESULT", "messageId": str(message), "toolCallId": str(call), "content": content}:
                self._add({"id": message, "role": "tool", "toolCallId": call, "content": content})
            case {"type": "REASONING_ENCRYPTED_VALUE", "entityId": str(entity), "encryptedValue": str(value)}:
                kind = event.get("encryptedValueType")
                sealed = (self._calls if event.get("subtype") == "tool-call" else self._known).get(entity)
                if sealed is not None:
                    sealed |= {"encryptedValue": value} | ({} if kind is None else {"encryptedValueType": kind})

    def _hold(self, messages: list[dict[str, Any]]) -> None:
        """Let the conversation be these. The newest of an id is meant by it, since agents use ids again."""
        self._messages: list[dict[str, Any]] = []
        self._known: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        for message in messages:
            calls = _calls(message)
            self._add({**message, "toolCalls": calls} if calls else message)
            self._calls.update({call["id"]: call for call in calls if isinstance(call["id"], str)})

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        if isinstance(name := message.get("id"), str):
            self._known[name] = message

    def _message(self, message: str, role: Any) -> dict[str, Any]:
        if message not in self._known:
            self._add({"id": message, "role": role, "content": ""})
        return self._known[message]

    def _call(self, call: str, name: str, parent: Any) -> None:
        message = self._known.get(parent) if isinstance(parent, str) else None
        if message is None or message.get("role") != "assistant":
            message = {"id": parent if isinstance(parent, str) else call, "role": "assistant"}
            self._add(message)
        begun = {"id": call, "type": "function", "function": {"name": name, "arguments": ""}}
        self._calls[call] = begun
        if not isinstance(message.get("toolCalls"), list):
            message["toolCalls"] = []
        message["toolCalls"].append(begun)


def _answer(question: Interrupt, text: str) -> dict[str, Any]:
    if question.tool_call_id is None:
        return {"interruptId": question.id, "status": "resolved", "payload": _reply(question, text)}
    return {"interruptId": question.id, "status": "cancelled"}


def _reply(question: Interrupt, text: str) -> Any:
    """What a graph is answered: what the person says, which is no leave but may be why there is none."""
    if not question.tools:
        return text
    return {"decisions": [{"type": "reject", "message": text} for _ in question.tools]}


def _name(call: dict[str, Any]) -> str | None:
    match call:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def _is_conversation(message: Any) -> bool:
    """Whether a message is to be sent back; one that only shows what goes on is not."""
    return isinstance(message, dict) and isinstance(message.get("id"), str) and message.get("role") != "activity"


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("toolCalls")
    return [call for call in calls if isinstance(call, dict) and "id" in call] if isinstance(calls, list) else []
