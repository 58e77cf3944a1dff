"""Requests and answers of the scripted model in the format of Google's generateContent API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, assert_never

from tailrace.testing.scripted_answers import Answer, ModelRequest, Piece, event, paced, text_of
from tailrace.testing.scripted_scenarios import SIGNATURE, Call, Disconnect, Fail, HttpError, Say, Stall, Think

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_USAGE = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 33,
    "thoughtsTokenCount": 12,
    "cachedContentTokenCount": 50,
    "totalTokenCount": 145,
}
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
# gemini-cli also asks in JSON who speaks next, and how difficult a task is. This object answers both questions.
_ROUTING_ANSWER = {
    "reasoning": "scripted",
    "next_speaker": "user",
    "complexity_reasoning": "scripted",
    "complexity_score": 1,
}


class Gemini:
    """The APIs `POST /v1beta/models/MODEL:streamGenerateContent`, and `:generateContent`, which is not streamed."""

    name = "gemini"

    def parse(self, body: Mapping[str, Any]) -> ModelRequest:
        """Parse the body of a request. The name of the model is not read, because only the URL has it."""
        declared = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
        wanted = body.get("generationConfig") or {}
        return ModelRequest(
            said=[
                None if content.get("role") == "model" else text_of(content.get("parts"))
                for content in body.get("contents") or []
            ],
            tools=frozenset(str(function.get("name")) for functions in declared for function in functions),
            model="gemini",
            is_streamed=bool(body.get("stream")),
            as_json=wanted.get("responseMimeType") == "application/json",
        )

    def refusal(self, refuse: HttpError) -> dict[str, Any]:
        """The body of a response that refuses the request with an HTTP error."""
        status = _STATUSES.get(refuse.status, "INTERNAL")
        return {"error": {"code": refuse.status, "message": refuse.message, "status": status}}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON object."""
        if answer.request.as_json:
            return _content(answer, [{"text": json.dumps(_ROUTING_ANSWER)}], "STOP")
        calls = [_call(move) for move in answer.moves if isinstance(move, Call)]
        return _content(answer, [{"text": answer.text}, *calls], "STOP")

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as server-sent events. A tool call is not split into pieces."""
        for move in answer.moves:
            match move:
                case Disconnect() | Stall():
                    yield move
                case Fail():
                    yield event({"error": {"code": 503, "message": move.message, "status": "UNAVAILABLE"}})
                    return
                case Say():
                    yield from paced(move, (event(_content(answer, [{"text": piece}])) for piece in move.pieces))
                case Think():
                    thought = {"text": f"**Thinking** {''.join(move.pieces)}", "thought": True}
                    yield event(_content(answer, [thought]))
                case Call():
                    yield event(_content(answer, [_call(move)]))
                case _:
                    assert_never(move)
        yield event(_content(answer, [{"text": ""}], "STOP"))


def _call(call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return {"functionCall": {"name": call.name, "args": arguments}, "thoughtSignature": SIGNATURE}


def _content(answer: Answer, parts: list[dict[str, Any]], finish_reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    metadata = {"usageMetadata": _USAGE, "modelVersion": answer.request.model, "responseId": f"gemini-{answer.number}"}
    return {"candidates": [candidate], **metadata}
