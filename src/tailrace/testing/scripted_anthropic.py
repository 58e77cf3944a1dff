"""Requests and answers of the scripted model in the format of Anthropic's Messages API."""

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

_USAGE = {"input_tokens": 100, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 50, "output_tokens": 33}
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


class Anthropic:
    """The API `POST /v1/messages`."""

    name = "anthropic"

    def parse(self, body: Mapping[str, Any]) -> ModelRequest:
        """Parse the body of a request."""
        thinking = body.get("thinking") or {}
        return ModelRequest(
            said=[
                text_of(message.get("content")) if message.get("role") == "user" else None
                for message in body.get("messages", [])
                if message.get("role") in {"user", "assistant"}
            ],
            tools=frozenset(str(tool.get("name")) for tool in body.get("tools") or []),
            model=str(body.get("model")),
            is_streamed=bool(body.get("stream")),
            with_thoughts=thinking.get("type", "disabled") != "disabled",
        )

    def refusal(self, refuse: HttpError) -> dict[str, Any]:
        """The body of a response that refuses the request with an HTTP error."""
        return {"type": "error", "error": {"type": _KINDS.get(refuse.status, "api_error"), "message": refuse.message}}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON object."""
        content = [_block(answer, index, move) for index, move in enumerate(answer.moves)]
        return _message(answer, [block for block in content if block], _stop_reason(answer))

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as server-sent events. Each block has a start and a stop event."""
        yield _event("message_start", message=_message(answer, [], None))
        yield _event("ping")
        for index, move, is_whole in answer.runs():
            match move:
                case Disconnect() | Stall():
                    yield move
                case Fail():
                    yield _event("error", error={"type": "overloaded_error", "message": move.message})
                    return
                case Say() | Think() | Call():
                    yield from _streamed(answer, index, move)
                    if is_whole:
                        yield _event("content_block_stop", index=index)
                case _:
                    assert_never(move)
        ended = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage=_USAGE)
        yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _streamed(answer: Answer, index: int, move: Say | Think | Call) -> Iterator[Piece]:
    deltas: list[dict[str, Any]]
    match move:
        case Say():
            begun: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in move.pieces]
        case Think():
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in move.pieces]
            deltas.append({"type": "signature_delta", "signature": move.signature})
        case Call():
            begun = {"type": "tool_use", "id": f"toolu_{answer.number}_{index}", "name": move.name, "input": {}}
            pieces = ["", *in_pieces(arguments_of(move))]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield _event("content_block_start", index=index, content_block=begun)
    events = (_event("content_block_delta", index=index, delta=delta) for delta in deltas)
    yield from paced(move, events) if isinstance(move, Say) else events


def _block(answer: Answer, index: int, move: object) -> dict[str, Any] | None:
    match move:
        case Say():
            return {"type": "text", "text": "".join(move.pieces)}
        case Think():
            return {"type": "thinking", "thinking": "".join(move.pieces), "signature": move.signature}
        case Call():
            return {
                "type": "tool_use",
                "id": f"toolu_{answer.number}_{index}",
                "name": move.name,
                "input": _input(move),
            }
        case _:
            return None


def _input(call: Call) -> dict[str, Any]:
    return call.arguments if isinstance(call.arguments, dict) else {}


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if any(isinstance(move, Call) for move in answer.moves) else "end_turn"


def _message(answer: Answer, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.request.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {**_USAGE, "output_tokens": 1} if stop_reason is None else _USAGE,
    }
