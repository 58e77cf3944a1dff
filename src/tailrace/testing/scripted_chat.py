"""Requests and answers of the scripted model in the format of OpenAI's Chat Completions API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from tailrace.testing.scripted_answers import (
    Answer,
    ModelRequest,
    Piece,
    arguments_of,
    event,
    in_pieces,
    paced,
    text_of,
)
from tailrace.testing.scripted_scenarios import Call, Disconnect, Fail, HttpError, Say, Stall, Think

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 33,
    "total_tokens": 133,
    "prompt_tokens_details": {"cached_tokens": 50},
    "completion_tokens_details": {"reasoning_tokens": 12},
}


class Chat:
    """The API `POST /v1/chat/completions`."""

    name = "chat"

    def parse(self, body: Mapping[str, Any]) -> ModelRequest:
        """Parse the body of a request."""
        return ModelRequest(
            said=[
                text_of(message.get("content")) if message.get("role") == "user" else None
                for message in body.get("messages", [])
                if message.get("role") in {"user", "assistant"}
            ],
            tools=frozenset(str((tool.get("function") or {}).get("name")) for tool in body.get("tools") or []),
            model=str(body.get("model")),
            is_streamed=bool(body.get("stream")),
        )

    def refusal(self, refuse: HttpError) -> dict[str, Any]:
        """The body of a response that refuses the request with an HTTP error."""
        return {"error": {"message": refuse.message, "type": "scripted", "code": "scripted", "param": None}}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON object."""
        calls = [move for move in answer.moves if isinstance(move, Call)]
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if calls:
            message["tool_calls"] = [_call(answer, index, call, arguments_of(call)) for index, call in enumerate(calls)]
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(calls)}
        return {**_envelope(answer, "chat.completion"), "choices": [choice], "usage": _USAGE}

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as chunks. The last one has the number of tokens, even if the request did not ask for it."""

        def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
            return event({**_envelope(answer, "chat.completion.chunk"), "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        calls: list[Call] = []
        for move in answer.moves:
            match move:
                case Disconnect() | Stall():
                    yield move
                case Fail():
                    yield event({"error": {"message": move.message, "type": "server_error", "code": 500}})
                    return
                case Say():
                    yield from paced(move, (chunk({"content": piece}) for piece in move.pieces))
                case Think():
                    yield from (chunk({"reasoning_content": piece}) for piece in move.pieces)
                case Call():
                    index = len(calls)
                    calls.append(move)
                    yield chunk({"tool_calls": [_call(answer, index, move, "")]})
                    for piece in in_pieces(arguments_of(move)):
                        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
                case _:
                    assert_never(move)
        yield chunk({}, _finish_reason(calls))
        yield event({**_envelope(answer, "chat.completion.chunk"), "choices": [], "usage": _USAGE})
        yield event("[DONE]")


def _envelope(answer: Answer, kind: str) -> dict[str, Any]:
    own = {"id": f"chatcmpl-{answer.number}", "object": kind, "created": 1_700_000_000}
    return {**own, "model": answer.request.model}


def _call(answer: Answer, index: int, call: Call, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"index": index, "id": f"call_{answer.number}_{index}", "type": "function", "function": function}


def _finish_reason(calls: list[Call]) -> str:
    return "tool_calls" if calls else "stop"
