"""The scripted model gives the same turn in every API, over real connections, and closes what it opened."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from typing import Any

import pytest

from tailrace.testing.scripted_model import ScriptedModel
from tailrace.testing.scripted_scenarios import SIGNATURE, Call, HttpError, Say, say

APIS = ("anthropic", "responses", "chat", "gemini")
PATHS = {
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/some-model:streamGenerateContent?alt=sse",
}
# A prompt, or the answer of the model with the results of its tools.
Turns = list[str | None]


def body(api: str, turns: Turns, *, tools: tuple[str, ...] = ("Bash", "weather"), stream: bool = True) -> Any:
    """A request as the clients of that API write it."""
    asked: dict[str, Any] = {"model": "some-model", "stream": stream}
    match api:
        case "anthropic":
            answered = [
                {"role": "assistant", "content": [{"type": "text", "text": "…"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]},
            ]
            asked |= {"tools": [{"name": name} for name in tools], "thinking": {"type": "adaptive"}}
            asked["messages"] = _turns(turns, lambda text: {"role": "user", "content": text}, answered)
        case "responses":
            answered = [
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "…"}]},
                {"type": "function_call", "call_id": "a", "name": "Bash", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "out"},
            ]
            asked["tools"] = [{"type": "function", "name": name} for name in tools]
            asked["input"] = _turns(
                turns, lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}]}, answered
            )
        case "chat":
            answered = [{"role": "assistant", "content": "…"}, {"role": "tool", "content": "out"}]
            asked["tools"] = [{"type": "function", "function": {"name": name}} for name in tools]
            asked["messages"] = _turns(turns, lambda text: {"role": "user", "content": text}, answered)
        case _:
            answered = [
                {"role": "model", "parts": [{"text": "…"}]},
                {"role": "user", "parts": [{"functionResponse": {}}]},
            ]
            asked["tools"] = [{"functionDeclarations": [{"name": name} for name in tools]}]
            asked["contents"] = _turns(turns, lambda text: {"role": "user", "parts": [{"text": text}]}, answered)
    return asked


def _turns(turns: Turns, prompt: Any, answered: list[Any]) -> list[Any]:
    return [message for turn in turns for message in (answered if turn is None else [prompt(turn)])]


@contextmanager
def asking(model: ScriptedModel, api: str, request: Any, path: str = "") -> Iterator[HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=20)
    try:
        connection.request("POST", path or PATHS[api], json.dumps(request), {"Content-Type": "application/json"})
        yield connection.getresponse()
    finally:
        connection.close()


def frames(content: bytes) -> list[Any]:
    """The values of server-sent events."""
    lines = [line.removeprefix("data: ") for line in content.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def streamed(model: ScriptedModel, api: str, *turns: str | None, tools: tuple[str, ...] = ("Bash", "weather")) -> Any:
    with asking(model, api, body(api, list(turns), tools=tools)) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        return read(api, frames(response.read()))


def read(api: str, values: list[Any]) -> dict[str, Any]:
    """What a client makes of the frames: the text, the thoughts, the calls, and the word for the end."""
    return {"anthropic": read_anthropic, "responses": read_responses, "chat": read_chat, "gemini": read_gemini}[api](
        values
    )


def read_anthropic(values: list[Any]) -> dict[str, Any]:
    blocks: dict[int, Any] = {}
    end = None
    for value in values:
        match value["type"]:
            case "content_block_start":
                blocks[value["index"]] = {**value["content_block"], "json": ""}
            case "content_block_delta":
                delta, block = value["delta"], blocks[value["index"]]
                for into, field in (("text", "text"), ("thinking", "thinking"), ("json", "partial_json")):
                    block[into] = block.get(into, "") + delta.get(field, "")
                block["signature"] = delta.get("signature", block.get("signature"))
            case "message_delta":
                end = value["delta"]["stop_reason"]
    assert [value["type"] for value in values].count("message_stop") == (end is not None)
    kinds = list(blocks.values())
    assert all(block["signature"] == SIGNATURE for block in kinds if block["type"] == "thinking")
    return {
        "text": [block["text"] for block in kinds if block["type"] == "text"],
        "thoughts": [block["thinking"] for block in kinds if block["type"] == "thinking"],
        "calls": [(block["name"], block["json"]) for block in kinds if block["type"] == "tool_use"],
        "end": end,
    }


def read_responses(values: list[Any]) -> dict[str, Any]:
    assert [value["sequence_number"] for value in values] == list(range(len(values)))
    deltas: dict[str, str] = {}
    for value in values:
        if value["type"].endswith(".delta"):
            deltas[value["item_id"]] = deltas.get(value["item_id"], "") + value["delta"]
    items = [value["item"] for value in values if value["type"] == "response.output_item.done"]
    for item in items:
        final = item.get("arguments") or (item.get("content") or item.get("summary"))[0]["text"]
        assert deltas.get(item["id"], "") == final
    end = values[-1]["type"]
    assert end != "response.completed" or values[-1]["response"]["output"] == items
    return {
        "text": [item["content"][0]["text"] for item in items if item["type"] == "message"],
        "thoughts": [item["summary"][0]["text"] for item in items if item["type"] == "reasoning"],
        "calls": [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
        "end": end,
    }


def read_chat(values: list[Any]) -> dict[str, Any]:
    choices = [choice for value in values for choice in value.get("choices", [])]
    deltas = [choice["delta"] for choice in choices]
    calls: dict[int, tuple[str, str]] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        name, arguments = calls.get(call["index"], (call["function"].get("name"), ""))
        calls[call["index"]] = (name, arguments + call["function"]["arguments"])
    thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
    return {
        "text": ["".join(delta.get("content", "") for delta in deltas)],
        "thoughts": [thought] if thought else [],
        "calls": list(calls.values()),
        "end": next((choice["finish_reason"] for choice in choices if choice["finish_reason"]), None),
    }


def read_gemini(values: list[Any]) -> dict[str, Any]:
    candidates = [candidate for value in values for candidate in value.get("candidates", [])]
    parts = [part for candidate in candidates for part in candidate["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return {
        "text": ["".join(part["text"] for part in parts if "text" in part and not part.get("thought"))],
        "thoughts": [part["text"].removeprefix("**Thinking** ") for part in parts if part.get("thought")],
        "calls": [(call["name"], json.dumps(call["args"])) for call in calls],
        "end": next((candidate["finishReason"] for candidate in candidates if "finishReason" in candidate), None),
    }


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as started:
        yield started


@pytest.mark.parametrize("api", APIS)
def test_every_api_gives_the_same_turn(model: ScriptedModel, api: str) -> None:
    first = streamed(model, api, "[[scenario:tool]] go")
    assert first["thoughts"] == ["I should run something."]
    assert first["text"] == ["Let me look."]
    ((name, arguments),) = first["calls"]
    assert (name, json.loads(arguments)["command"]) == ("Bash", "echo the tool speaks")
    assert first["end"] == {"anthropic": "tool_use", "chat": "tool_calls"}.get(api, first["end"])
    second = streamed(model, api, "[[scenario:tool]] go", None)
    assert (second["text"], second["calls"]) == (["The tool has spoken."], [])
    assert (
        second["end"]
        == {
            "anthropic": "end_turn",
            "responses": "response.completed",
            "chat": "stop",
            "gemini": "STOP",
        }[api]
    )
    assert [(asked.api, asked.scenario, asked.turn) for asked in model.requests] == [(api, "tool", 0), (api, "tool", 1)]


@pytest.mark.parametrize("api", APIS)
def test_one_answer_can_have_two_calls(model: ScriptedModel, api: str) -> None:
    commands = [
        json.loads(arguments)["command"] for _, arguments in streamed(model, api, "[[scenario:parallel]]")["calls"]
    ]
    assert commands == ["echo first", "echo second"]


@pytest.mark.parametrize("api", APIS)
def test_the_last_answer_is_repeated(model: ScriptedModel, api: str) -> None:
    assert streamed(model, api, "[[scenario:tool]]", None, None, None)["text"] == ["The tool has spoken."]


@pytest.mark.parametrize("api", APIS)
def test_the_last_mark_counts_and_earlier_ones_can_be_recalled(model: ScriptedModel, api: str) -> None:
    turns = ("[[scenario:tool]] go", None, None, "[[scenario:recall]] what was it?")
    assert streamed(model, api, *turns)["text"] == ["Before this: tool."]
    assert streamed(model, api, "[[scenario:recall]]")["text"] == ["Before this: nothing."]


@pytest.mark.parametrize("api", APIS)
def test_an_agent_without_the_tool_gets_a_text_that_says_so(model: ScriptedModel, api: str) -> None:
    answered = streamed(model, api, "[[scenario:subagent]]", tools=("weather",))
    assert "".join(answered["text"]) == "I delegate.I have no tool for that."
    assert answered["calls"] == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_refusal_has_a_status_and_a_reason(model: ScriptedModel, api: str, status: int) -> None:
    with asking(model, api, body(api, [f"[[scenario:http{status}]]"])) as response:
        assert response.status == status
        assert "the scripted model" in json.loads(response.read())["error"]["message"]


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_fails_in_the_middle_has_no_end(model: ScriptedModel, api: str) -> None:
    with asking(model, api, body(api, ["[[scenario:errmid]]"])) as response:
        values = frames(response.read())
    assert "the scripted model fails here" in json.dumps(values[-1])
    assert "to break" in json.dumps(values)
    assert read(api, values)["end"] in {None, "response.failed"}


@pytest.mark.parametrize("api", APIS)
def test_a_cut_closes_the_connection_within_an_answer(model: ScriptedModel, api: str) -> None:
    with asking(model, api, body(api, ["[[scenario:cut]]"])) as response, pytest.raises(IncompleteRead) as broken:
        response.read()
    assert b"to be cut" in broken.value.partial


@pytest.mark.parametrize("api", APIS)
def test_an_answer_without_streaming_has_the_same_content(model: ScriptedModel, api: str) -> None:
    path = "/v1beta/models/some-model:generateContent" if api == "gemini" else ""
    with asking(model, api, body(api, ["[[scenario:tool]]"], stream=False), path) as response:
        answered = response.read().decode()
    assert "Let me look." in answered
    assert "echo the tool speaks" in answered
    assert "data:" not in answered


@pytest.mark.parametrize("api", APIS)
def test_an_answer_without_streaming_that_fails_is_an_http_error(model: ScriptedModel, api: str) -> None:
    path = "/v1beta/models/some-model:generateContent" if api == "gemini" else ""
    with asking(model, api, body(api, ["[[scenario:errmid]]"], stream=False), path) as response:
        assert (response.status, "fails here" in response.read().decode()) == (500, True)
    with pytest.raises(ConnectionError), asking(model, api, body(api, ["[[scenario:cut]]"], stream=False), path):
        pass


@pytest.mark.parametrize("api", APIS)
def test_a_silent_answer_ends_when_the_model_is_stopped(api: str) -> None:
    ended: list[bytes] = []

    def read_to_the_end(response: HTTPResponse) -> None:
        try:
            ended.append(response.read())
        except IncompleteRead as broken:
            ended.append(broken.partial)

    with ScriptedModel() as model:
        connection = HTTPConnection("127.0.0.1", model.port, timeout=20)
        connection.request("POST", PATHS[api], json.dumps(body(api, ["[[scenario:stall]]"])))
        response = connection.getresponse()
        while b"Before the silence" not in (line := response.readline()):
            assert line, "it ended before it was silent"
        reading = threading.Thread(target=read_to_the_end, args=(response,))
        reading.start()
    reading.join(20)
    connection.close()
    assert ended, "it goes on after the model has ended"


def test_one_connection_serves_many_turns(model: ScriptedModel) -> None:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=20)
    for _ in range(3):
        connection.request("POST", PATHS["chat"], json.dumps(body("chat", ["[[scenario:hello]]"])))
        assert read_chat(frames(connection.getresponse().read()))["text"] == ["Hello from the scripted model."]
    connection.close()


def test_a_request_in_chunks_is_read_completely(model: ScriptedModel) -> None:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=20)
    asked = json.dumps(body("chat", ["[[scenario:hello]]"])).encode()
    connection.request("POST", PATHS["chat"], iter([asked[:10], asked[10:]]), encode_chunked=True)
    assert b"scripted" in connection.getresponse().read()
    assert model.requests[0].scenario == "hello"
    connection.close()


def test_a_tool_offered_in_a_namespace_is_called_in_it(model: ScriptedModel) -> None:
    request = body("responses", ["[[scenario:subagent]]"], tools=())
    request["tools"] = [
        {"type": "namespace", "name": "helpers", "tools": [{"type": "function", "name": "spawn_agent"}]}
    ]
    with asking(model, "responses", request) as response:
        items = frames(response.read())[-1]["response"]["output"]
    assert [(item["name"], item["namespace"]) for item in items if item["type"] == "function_call"] == [
        ("spawn_agent", "helpers")
    ]


def test_a_test_can_add_scenarios_of_its_own() -> None:
    mine = {
        "mine": (
            (say("Mine."), Call("weather", {"city": "Oslo"}), Call("weather", '{"city": ')),
            (Say(("En", "d."), every_s=0.001),),
        ),
        "hello": ((HttpError(403, "the scripted model is closed"),),),
    }
    with ScriptedModel(mine, unmarked="mine") as model:
        answered = streamed(model, "chat", "no mark at all")
        assert answered["calls"] == [("weather", '{"city": "Oslo"}'), ("weather", '{"city": ')]
        assert streamed(model, "chat", "no mark", None)["text"] == ["End."]
        with asking(model, "chat", body("chat", ["[[scenario:hello]]"])) as response:
            assert response.status == 403
    assert [asked.scenario for asked in model.requests] == ["mine", "mine", "hello"]


def test_it_serves_an_event_loop_in_the_same_thread(model: ScriptedModel) -> None:
    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", model.port)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        answered = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answered

    assert b'"id": "scripted"' in asyncio.run(ask())


def test_it_listens_on_this_machine_only(model: ScriptedModel) -> None:
    assert model.url == f"http://127.0.0.1:{model.port}"
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", model.port)) != 0


def test_the_program_prints_its_address_and_its_scenarios() -> None:
    command = [sys.executable, "-m", "tailrace.testing.scripted_model", "--pace", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            port = int(program.stdout.readline().rpartition(":")[2])
            assert "errmid" in program.stdout.readline()
            connection = HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("POST", PATHS["chat"], json.dumps(body("chat", ["no mark"])))
            assert read_chat(frames(connection.getresponse().read()))["text"] == ["Hello from the scripted model."]
            connection.close()
        finally:
            program.terminate()
