"""The UI messages of a conversation with the AI SDK. They are sent with each question: a chat route stores nothing.

The history collects the chunks of an answer into the parts of its message: text, reasoning and tool calls, with
provider metadata. Sources and data are only shown to people, so the model does not get them again. The runtime saves
the history.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.growing_text import append_text, join_texts
from tailrace.surrogates import SurrogateJoiner

# The fields of a call's chunks that are kept in the message part of the call, and their names in that part.
_CALL_FIELDS = {"input": "input", "providerExecuted": "providerExecuted", "providerMetadata": "callProviderMetadata"}
_FINAL_STATES = {"output-available", "output-error", "output-denied"}
# Parts that come in one chunk, with the fields that each must have. The model gets all of them again.
_WHOLE_PARTS = {
    "file": {"url", "mediaType"},
    "reasoning-file": {"url", "mediaType"},
    "custom": {"kind"},
    "steering-message": {"id", "parts"},
}
# A step that has only these parts has no content for a model.
_EMPTY_PARTS = {"step-start", "custom"}


class VercelHistory:
    """The history of one conversation. Call `request_body` to ask a question, `feed` for each chunk, `encode` to save.

    `saved` are the bytes of the last `encode`. If they cannot be read, the history is empty.
    """

    def __init__(self, saved: bytes | None = None) -> None:
        try:
            self._messages = msgspec.json.decode(saved, type=list[dict[str, Any]]) if saved else []
        except (msgspec.MsgspecError, UnicodeError):
            self._messages = []
        self._answer_id = ""
        self._parts: list[dict[str, Any]] = []
        self._blocks: dict[tuple[str, str], dict[str, Any]] = {}  # the newest block of each kind and id
        self._calls: dict[str, dict[str, Any]] = {}
        # For each approval id, the call that waits for approval, and whether a rule gives the approval automatically.
        self._approvals: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._joiner = SurrogateJoiner()

    def request_body(self, text: str, *, chat_id: str, message_id: str, answer_id: str) -> dict[str, Any]:
        """Add the question `text`, and return the body of the request. An answer without an id gets `answer_id`."""
        self._answer_id = answer_id
        self._messages.append({"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]})
        return {"id": chat_id, "messages": list(self._messages), "trigger": "submit-message"}

    def feed(self, native: Any) -> None:
        """Add the content of one chunk to the answer."""
        match native:
            case {"type": "start", "messageId": str(answer_id)}:
                self._answer_id = answer_id
            case {"type": "start-step"}:
                self._parts.append({"type": "step-start"})
            case {"type": "reset-step"}:
                while self._parts and self._parts[-1]["type"] != "step-start":
                    self._parts.pop()
            case {"type": "text-start" | "text-delta" | "text-end" as kind, "id": str(block_id)}:
                self._fold_block("text", block_id, native, is_new=kind == "text-start")
            case {"type": "reasoning-start" | "reasoning-delta" | "reasoning-end" as kind, "id": str(block_id)}:
                self._fold_block("reasoning", block_id, native, is_new=kind == "reasoning-start")
            case {"type": str(kind)} if kind in _WHOLE_PARTS and native.keys() >= _WHOLE_PARTS[kind]:
                names = {"type", "providerMetadata"} | _WHOLE_PARTS[kind]
                self._parts.append({name: value for name, value in native.items() if name in names})
            case {"type": "tool-approval-response", "approvalId": str(approval_id)}:
                self._fold_approval(approval_id, native)
            case {"type": str(kind), "toolCallId": str(call_id)} if kind.startswith("tool-"):
                self._fold_call(kind, call_id, native)

    def encode(self) -> bytes:
        """The bytes to save after the answer.

        Tool calls without a result, empty texts and steps without content are dropped, because most models refuse them.
        """
        steps: list[list[dict[str, Any]]] = [[]]
        for part in join_texts(self._parts):
            if part["type"] == "step-start":
                steps.append([])
            if _has_content(part):
                steps[-1].append(part)
        parts = [part for step in steps if any(part["type"] not in _EMPTY_PARTS for part in step) for part in step]
        answer = {"id": self._answer_id, "role": "assistant", "parts": parts}
        return msgspec.json.encode([*self._messages, *([answer] if parts else [])])

    def _fold_block(self, kind: str, block_id: str, native: dict[str, Any], *, is_new: bool) -> None:
        part = self._blocks.get((kind, block_id))
        if is_new or part is None:
            part = self._blocks[kind, block_id] = {"type": kind, "text": "", "state": "done"}
            self._parts.append(part)
        if isinstance(piece := native.get("delta"), str):
            append_text(part, "text", self._joiner.join((kind, block_id), piece))
        if (metadata := native.get("providerMetadata")) is not None:
            part["providerMetadata"] = metadata

    def _fold_call(self, kind: str, call_id: str, native: dict[str, Any]) -> None:
        part = self._calls.get(call_id)
        if kind in {"tool-input-start", "tool-input-available", "tool-input-error"}:
            if part is None or part["state"] in _FINAL_STATES:
                part = self._calls[call_id] = _tool_type(native) | {"toolCallId": call_id, "state": "input-available"}
                self._parts.append(part)
            part |= {field: native[name] for name, field in _CALL_FIELDS.items() if native.get(name) is not None}
        if part is None:
            return
        match kind, native:
            case "tool-approval-request", {"approvalId": str(approval_id)}:
                self._approvals[approval_id] = part, {"isAutomatic": True} if native.get("isAutomatic") is True else {}
            case "tool-output-denied", _ if "approval" in part:
                part["state"] = "output-denied"
            case "tool-output-available", {"output": output} if not native.get("preliminary"):
                part |= {"state": "output-available", "output": output}
            case "tool-output-error" | "tool-input-error", {"errorText": str(error)} if (
                part["state"] not in _FINAL_STATES
            ):
                part |= {"state": "output-error", "errorText": error}
        if kind.startswith("tool-output") and (metadata := native.get("providerMetadata")) is not None:
            part["resultProviderMetadata"] = metadata

    def _fold_approval(self, approval_id: str, native: dict[str, Any]) -> None:
        """Record that a tool call was approved or denied. The next request tells the model about a denial."""
        if approval_id in self._approvals and isinstance(native.get("approved"), bool):
            part, automatic = self._approvals[approval_id]
            decision = {name: native[name] for name in ("approved", "reason") if native.get(name) is not None}
            part["approval"] = {"id": approval_id, **automatic, **decision}


def _has_content(part: dict[str, Any]) -> bool:
    if "toolCallId" in part:
        return part["state"] in _FINAL_STATES
    return part.get("text") != "" or "providerMetadata" in part


def _tool_type(native: dict[str, Any]) -> dict[str, Any]:
    name = str(native.get("toolName", ""))
    return {"type": "dynamic-tool", "toolName": name} if native.get("dynamic") else {"type": f"tool-{name}"}
