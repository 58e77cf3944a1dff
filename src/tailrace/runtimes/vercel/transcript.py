"""A conversation as the AI SDK has it: UI messages, sent with each question, since a chat route remembers nothing.

Folds the chunks of an answer into the parts of its message: what was said, thought and done, with the provider's own.
What an application shows beside that, sources and data, is no part of it for the model, and is left out. Where it is
kept is the runtime's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.endpoint import SurrogateJoiner
from tailrace.runtimes.growing_text import append_text, join_texts

_KEPT_OF_A_CALL = {"input": "input", "providerExecuted": "providerExecuted", "providerMetadata": "callProviderMetadata"}
_HAS_AN_END = {"output-available", "output-error", "output-denied"}
# Parts that come in one chunk, with what each must have. The model is given all of them again.
_WHOLE = {
    "file": {"url", "mediaType"},
    "reasoning-file": {"url", "mediaType"},
    "custom": {"kind"},
    "steering-message": {"id", "parts"},
}
# What is nothing to a model if it is all that a step has.
_IDLE = {"step-start", "custom"}


class Transcript:
    """One conversation: `ask` for what to send, `feed` the chunks of the answer, and `keep` what it is then.

    `kept` is what was kept of it last; what cannot be read is forgotten.
    """

    def __init__(self, kept: bytes | None = None) -> None:
        try:
            self._messages = msgspec.json.decode(kept, type=list[dict[str, Any]]) if kept else []
        except (msgspec.MsgspecError, UnicodeError):
            self._messages = []
        self._answer_id = ""
        self._parts: list[dict[str, Any]] = []
        self._open: dict[tuple[str, str], dict[str, Any]] = {}  # the newest block of each kind and id
        self._calls: dict[str, dict[str, Any]] = {}
        # Calls that somebody's leave was asked for, and whether a rule gives it, by what was asked.
        self._asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._seams = SurrogateJoiner()

    def ask(self, text: str, *, chat_id: str, message_id: str, answer_id: str) -> dict[str, Any]:
        """What to send for an answer to this; `answer_id` is the answer's, where it gives itself none."""
        self._answer_id = answer_id
        self._messages.append({"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]})
        return {"id": chat_id, "messages": list(self._messages), "trigger": "submit-message"}

    def feed(self, native: Any) -> None:
        """One chunk of the answer."""
        match native:
            case {"type": "start", "messageId": str(answer)}:
                self._answer_id = answer
            case {"type": "start-step"}:
                self._parts.append({"type": "step-start"})
            case {"type": "reset-step"}:
                while self._parts and self._parts[-1]["type"] != "step-start":
                    self._parts.pop()
            case {"type": "text-start" | "text-delta" | "text-end" as kind, "id": str(block)}:
                self._block("text", block, native, is_new=kind == "text-start")
            case {"type": "reasoning-start" | "reasoning-delta" | "reasoning-end" as kind, "id": str(block)}:
                self._block("reasoning", block, native, is_new=kind == "reasoning-start")
            case {"type": str(kind)} if kind in _WHOLE and native.keys() >= _WHOLE[kind]:
                kept = {"type", "providerMetadata"} | _WHOLE[kind]
                self._parts.append({name: value for name, value in native.items() if name in kept})
            case {"type": "tool-approval-response", "approvalId": str(approval)}:
                self._answered(approval, native)
            case {"type": str(kind), "toolCallId": str(call)} if kind.startswith("tool-"):
                self._call(kind, call, native)

    def keep(self) -> bytes:
        """What is to be remembered after the answer.

        Calls without an end, texts without a word and steps without either are left out: most models refuse those.
        """
        steps: list[list[dict[str, Any]]] = [[]]
        for part in join_texts(self._parts):
            if part["type"] == "step-start":
                steps.append([])
            if _is_content(part):
                steps[-1].append(part)
        parts = [part for step in steps if any(part["type"] not in _IDLE for part in step) for part in step]
        answer = {"id": self._answer_id, "role": "assistant", "parts": parts}
        return msgspec.json.encode([*self._messages, *([answer] if parts else [])])

    def _block(self, kind: str, block: str, native: dict[str, Any], *, is_new: bool) -> None:
        part = self._open.get((kind, block))
        if is_new or part is None:
            part = self._open[kind, block] = {"type": kind, "text": "", "state": "done"}
            self._parts.append(part)
        if isinstance(piece := native.get("delta"), str):
            append_text(part, "text", self._seams.join((kind, block), piece))
        if (seal := native.get("providerMetadata")) is not None:
            part["providerMetadata"] = seal

    def _call(self, kind: str, call: str, native: dict[str, Any]) -> None:
        part = self._calls.get(call)
        if kind in {"tool-input-start", "tool-input-available", "tool-input-error"}:
            if part is None or part["state"] in _HAS_AN_END:
                part = self._calls[call] = _named(native) | {"toolCallId": call, "state": "input-available"}
                self._parts.append(part)
            part |= {kept: native[name] for name, kept in _KEPT_OF_A_CALL.items() if native.get(name) is not None}
        if part is None:
            return
        match kind, native:
            case "tool-approval-request", {"approvalId": str(approval)}:
                self._asked[approval] = part, {"isAutomatic": True} if native.get("isAutomatic") is True else {}
            case "tool-output-denied", _ if "approval" in part:
                part["state"] = "output-denied"
            case "tool-output-available", {"output": output} if not native.get("preliminary"):
                part |= {"state": "output-available", "output": output}
            case "tool-output-error" | "tool-input-error", {"errorText": str(error)} if (
                part["state"] not in _HAS_AN_END
            ):
                part |= {"state": "output-error", "errorText": error}
        if kind.startswith("tool-output") and (seal := native.get("providerMetadata")) is not None:
            part["resultProviderMetadata"] = seal

    def _answered(self, approval: str, native: dict[str, Any]) -> None:
        """A call was allowed, or not; the model is told which."""
        if approval in self._asked and isinstance(native.get("approved"), bool):
            part, automatic = self._asked[approval]
            told = {name: native[name] for name in ("approved", "reason") if native.get(name) is not None}
            part["approval"] = {"id": approval, **automatic, **told}


def _is_content(part: dict[str, Any]) -> bool:
    if "toolCallId" in part:
        return part["state"] in _HAS_AN_END
    return part.get("text") != "" or "providerMetadata" in part


def _named(native: dict[str, Any]) -> dict[str, Any]:
    name = str(native.get("toolName", ""))
    return {"type": "dynamic-tool", "toolName": name} if native.get("dynamic") else {"type": f"tool-{name}"}
