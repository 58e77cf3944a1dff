"""The scripted model as OpenAI's Responses API."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, assert_never

from tailrace.testing.scripted_answers import Answer, Heard, Piece, arguments_of, event, in_pieces, text_of
from tailrace.testing.scripted_scenarios import Call, Cut, Fail, Pause, Refuse, Say, Stall, Think

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
    """`POST /v1/responses`."""

    name = "responses"

    def heard(self, body: Mapping[str, Any]) -> Heard:
        """Read a request."""
        items = body.get("input") or []
        tools = [tool for group in body.get("tools") or [] for tool in (group, *(group.get("tools") or []))]
        return Heard(
            said=[items] if isinstance(items, str) else _said(items),
            tools=frozenset(str(tool.get("name") or tool.get("type")) for tool in tools),
            model=str(body.get("model")),
            is_streamed=bool(body.get("stream")),
        )

    def refusal(self, refuse: Refuse) -> dict[str, Any]:
        """The body of a refusal."""
        return {"error": {"message": refuse.message, "type": "scripted", "code": "scripted", "param": None}}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The answer in one piece."""
        output = [_item(answer, index, move) for index, move in enumerate(answer.moves)]
        return _response(answer, "completed", [item for item in output if item], _USAGE)

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as server-sent events, each item added, filled and done."""
        numbers = count()

        def told(kind: str, **fields: Any) -> bytes:
            return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        yield told("response.created", response=_response(answer, "in_progress", [], None))
        yield told("response.in_progress", response=_response(answer, "in_progress", [], None))
        output: list[dict[str, Any]] = []
        for move in answer.moves:
            match move:
                case Cut() | Stall() | Pause():
                    yield move
                case Fail():
                    error = {"code": "server_error", "message": move.message}
                    yield told("response.failed", response={**_response(answer, "failed", [], None), "error": error})
                    return
                case Say() | Think() | Call():
                    yield from _streamed(answer, len(output), move, told)
                    output += [item] if (item := _item(answer, len(output), move)) is not None else []
                case _:
                    assert_never(move)
        yield told("response.completed", response=_response(answer, "completed", output, _USAGE))


def _said(items: list[dict[str, Any]]) -> list[str | None]:
    """The turns among the items: an answer of the model is all of them between two that others wrote."""
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


def _streamed(answer: Answer, index: int, move: Say | Think | Call, told: Callable[..., bytes]) -> Iterator[Piece]:
    item = _item(answer, index, move)
    assert item is not None, "what is streamed is an item"
    at = {"item_id": item["id"], "output_index": index}
    match move:
        case Say():
            text, at = "".join(move.pieces), {**at, "content_index": 0}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield told("response.output_item.added", output_index=index, item={**item, "content": []})
            yield told("response.content_part.added", **at, part=part)
            for piece in move.pieces:
                yield told("response.output_text.delta", **at, delta=piece, logprobs=[])
            yield told("response.output_text.done", **at, text=text, logprobs=[])
            yield told("response.content_part.done", **at, part={**part, "text": text})
        case Think():
            text, at = "".join(move.pieces), {**at, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            begun = {**item, "summary": [], "encrypted_content": None}
            yield told("response.output_item.added", output_index=index, item=begun)
            yield told("response.reasoning_summary_part.added", **at, part=part)
            for piece in move.pieces:
                yield told("response.reasoning_summary_text.delta", **at, delta=piece)
            yield told("response.reasoning_summary_text.done", **at, text=text)
            yield told("response.reasoning_summary_part.done", **at, part={**part, "text": text})
        case Call():
            arguments = arguments_of(move)
            yield told("response.output_item.added", output_index=index, item={**item, "arguments": ""})
            for piece in in_pieces(arguments):
                yield told("response.function_call_arguments.delta", **at, delta=piece)
            yield told("response.function_call_arguments.done", **at, arguments=arguments, name=move.name)
    yield told("response.output_item.done", output_index=index, item=item)


def _item(answer: Answer, index: int, move: object) -> dict[str, Any] | None:
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
            return {"type": "function_call", "id": f"fc_{own}", "call_id": f"call_{own}", **called}
        case _:
            return None


def _response(
    answer: Answer, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": answer.heard.model,
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
