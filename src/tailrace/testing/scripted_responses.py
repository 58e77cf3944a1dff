"""Requests and answers of the scripted model in the format of OpenAI's Responses API."""

from __future__ import annotations

from itertools import count
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
    from collections.abc import Callable, Iterator, Mapping

_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 50},
    "output_tokens": 33,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 133,
}


class Responses:
    """The API `POST /v1/responses`."""

    name = "responses"

    def parse(self, body: Mapping[str, Any]) -> ModelRequest:
        """Parse the body of a request."""
        items = body.get("input") or []
        tools = [tool for group in body.get("tools") or [] for tool in (group, *(group.get("tools") or []))]
        named = [group for group in body.get("tools") or [] if group.get("tools")]
        return ModelRequest(
            said=[items] if isinstance(items, str) else _said(items),
            tools=frozenset(str(tool.get("name") or tool.get("type")) for tool in tools),
            groups={str(tool.get("name")): str(group.get("name")) for group in named for tool in group["tools"]},
            model=str(body.get("model")),
            is_streamed=bool(body.get("stream")),
        )

    def refusal(self, refuse: HttpError) -> dict[str, Any]:
        """The body of a response that refuses the request with an HTTP error."""
        return {"error": {"message": refuse.message, "type": "scripted", "code": "scripted", "param": None}}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON object."""
        moves = [move for move in answer.moves if isinstance(move, Say | Think | Call)]
        output = [_item(answer, index, move) for index, move in enumerate(moves)]
        return _response(answer, "completed", output, _USAGE)

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as server-sent events. Each item is first added, then filled in pieces, then done."""
        numbers = count()

        def event_of(kind: str, **fields: Any) -> bytes:
            return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        yield event_of("response.created", response=_response(answer, "in_progress", [], None))
        yield event_of("response.in_progress", response=_response(answer, "in_progress", [], None))
        output: list[dict[str, Any]] = []
        for _, move, is_whole in answer.runs():
            match move:
                case Disconnect() | Stall():
                    yield move
                case Fail():
                    error = {"code": "server_error", "message": move.message}
                    yield event_of(
                        "response.failed", response={**_response(answer, "failed", [], None), "error": error}
                    )
                    return
                case Say() | Think() | Call():
                    item = _item(answer, len(output), move)
                    yield from _begun(item, len(output), move, event_of)
                    if is_whole:
                        yield from _done(item, len(output), event_of)
                        output.append(item)
                case _:
                    assert_never(move)
        yield event_of("response.completed", response=_response(answer, "completed", output, _USAGE))


def _said(items: list[dict[str, Any]]) -> list[str | None]:
    """The turns of the conversation: the text of each prompt, and None for each answer of the model.

    Items of the model that follow each other are one answer.
    """
    said: list[str | None] = []
    was_model = False
    for item in items:
        is_model = not str(item.get("type")).endswith("_output") and item.get("role", "assistant") == "assistant"
        if item.get("role") == "user":
            said.append(text_of(item.get("content")))
        elif is_model and not was_model:
            said.append(None)
        was_model = is_model
    return said


def _begun(
    item: dict[str, Any], index: int, move: Say | Think | Call, event_of: Callable[..., bytes]
) -> Iterator[Piece]:
    """The events of an item from its beginning to its last piece."""
    at = {"item_id": item["id"], "output_index": index}
    match move:
        case Say():
            at["content_index"] = 0
            yield event_of("response.output_item.added", output_index=index, item={**item, "content": []})
            yield event_of("response.content_part.added", **at, part={**item["content"][0], "text": ""})
            deltas = (event_of("response.output_text.delta", **at, delta=piece, logprobs=[]) for piece in move.pieces)
            yield from paced(move, deltas)
        case Think():
            at["summary_index"] = 0
            begun = {**item, "summary": [], "encrypted_content": None}
            yield event_of("response.output_item.added", output_index=index, item=begun)
            yield event_of("response.reasoning_summary_part.added", **at, part={**item["summary"][0], "text": ""})
            for piece in move.pieces:
                yield event_of("response.reasoning_summary_text.delta", **at, delta=piece)
        case Call():
            yield event_of("response.output_item.added", output_index=index, item={**item, "arguments": ""})
            for piece in in_pieces(item["arguments"]):
                yield event_of("response.function_call_arguments.delta", **at, delta=piece)


def _done(item: dict[str, Any], index: int, event_of: Callable[..., bytes]) -> Iterator[Piece]:
    """The events at the end of an item, which repeat its whole content."""
    at = {"item_id": item["id"], "output_index": index}
    match item:
        case {"content": [part]}:
            at["content_index"] = 0
            yield event_of("response.output_text.done", **at, text=part["text"], logprobs=[])
            yield event_of("response.content_part.done", **at, part=part)
        case {"summary": [part]}:
            at["summary_index"] = 0
            yield event_of("response.reasoning_summary_text.done", **at, text=part["text"])
            yield event_of("response.reasoning_summary_part.done", **at, part=part)
        case _:
            called = {"arguments": item["arguments"], "name": item["name"]}
            yield event_of("response.function_call_arguments.done", **at, **called)
    yield event_of("response.output_item.done", output_index=index, item=item)


def _item(answer: Answer, index: int, move: Say | Think | Call) -> dict[str, Any]:
    own = f"{answer.number}_{index}"
    match move:
        case Say():
            part = {"type": "output_text", "text": "".join(move.pieces), "annotations": []}
            message = {"type": "message", "id": f"msg_{own}", "status": "completed", "role": "assistant"}
            return {**message, "content": [part]}
        case Think():
            summary = [{"type": "summary_text", "text": "".join(move.pieces)}]
            sealed = {"summary": summary, "encrypted_content": move.signature}
            return {"type": "reasoning", "id": f"rs_{own}", **sealed}
        case Call():
            called = {"name": move.name, "arguments": arguments_of(move), "status": "completed"}
            if (group := answer.request.groups.get(move.name)) is not None:
                called["namespace"] = group
            return {"type": "function_call", "id": f"fc_{own}", "call_id": f"call_{own}", **called}


def _response(
    answer: Answer, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": answer.request.model,
        "status": status,
        "output": output,
        "usage": usage,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": [],
    }
