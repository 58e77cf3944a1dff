"""The histories of conversations with agents that store nothing, each in the form of its protocol."""

from __future__ import annotations

from typing import Any

import agui_events as agui
import msgspec
import pytest
import vercel_chunks as vercel
from recorded_turns import GARBAGE, lines_of, recorded

from tailrace.runtimes.agui.history import AguiHistory
from tailrace.runtimes.agui.shapes import Interrupt
from tailrace.runtimes.vercel.history import VercelHistory

USER = {"id": "u", "role": "user", "content": "q"}
UI_USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]}


def ask_agui(history: AguiHistory) -> dict[str, Any]:
    return history.run_input("q", thread_id="t", run_id="r", message_id="u")


def ask_vercel(history: VercelHistory) -> dict[str, Any]:
    return history.request_body("q", chat_id="c", message_id="u", answer_id="a")


def saved(*natives: Any, interrupts: list[Interrupt] | None = None) -> list[Any]:
    """The saved messages of an AG-UI conversation after its first run."""
    history = AguiHistory()
    ask_agui(history)
    for native in natives:
        history.feed(native)
    messages: list[Any] = msgspec.json.decode(history.encode(interrupts or []))["messages"]
    return messages


def parts(*natives: Any) -> list[Any]:
    """The saved parts of the first answer in a conversation of the AI SDK."""
    history = VercelHistory()
    ask_vercel(history)
    for native in natives:
        history.feed(native)
    messages = msgspec.json.decode(history.encode())
    assert messages[0] == UI_USER
    found: list[Any] = messages[1]["parts"] if len(messages) == 2 else []
    return found


# AG-UI


def call_ids(messages: list[Any]) -> list[str]:
    return [call["id"] for message in messages for call in message.get("toolCalls", ())]


def test_a_run_is_saved_with_ids_and_encrypted_values() -> None:
    messages = saved(*lines_of("pydantic_ai_agui_tool"))
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    sealed = '{{"signature": "{}", "provider_name": "function"}}'.format
    assert [{name: value for name, value in message.items() if name != "id"} for message in messages] == [
        {"role": "user", "content": "q"},
        {"role": "reasoning", "content": "I should run a tool.", "encryptedValue": sealed("c2lnLTE=")},
        {"role": "assistant", "content": "Let me check.", "toolCalls": [call]},
        {"role": "tool", "toolCallId": "call_1", "content": "sunny in Oslo"},
        {"role": "reasoning", "content": "Now I know.", "encryptedValue": sealed("c2lnLTI=")},
        {"role": "assistant", "content": "It is sunny."},
    ]
    assert [message["id"] for message in messages] == [
        "u",
        "3c30f0b1-a4d6-45b9-9613-09e3df9e9f2d",
        "c34792e4-3db4-405f-be9e-68ca499b8052",
        "32efb400-52df-41b8-a82b-916b424c7c4c",
        "e85a8656-3430-4b50-a79e-0f88cb31a822",
        "66719918-52e8-40bb-8e8e-11c731ae3789",
    ]


@pytest.mark.parametrize("recording", ["agui_langgraph_tool", "agui_strands_tool"])
def test_a_snapshot_of_the_agent_replaces_the_messages(recording: str) -> None:
    natives = lines_of(recording)
    snapshot = [native["messages"] for native in natives if native["type"] == "MESSAGES_SNAPSHOT"][-1]
    messages = saved(*natives)
    assert [message["id"] for message in messages] == [message["id"] for message in snapshot]
    assert [text for message in messages if (text := message["content"])] == [
        text for message in snapshot if (text := message["content"])
    ]


def test_a_message_continues_after_a_snapshot() -> None:
    start, one, two, end = agui.text("m", "one ", "two")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "["}}
    known = [USER, {"id": "m", "role": "assistant", "content": "one ", "toolCalls": [call]}]
    activity = {"id": "p", "role": "activity", "content": {}}
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": [*known, activity, 7, {"role": "user"}]}
    _, message, _ = saved(start, one, snapshot, two, end, *agui.arguments("c", "1]"), agui.result("c"))
    assert message["content"] == "one two"
    assert message["toolCalls"] == [call | {"function": {"name": "look", "arguments": "[1]"}}]


def test_chunks_are_saved_like_other_events() -> None:
    messages = saved(*lines_of("agui_types_full")[:-2], agui.result("c3", "x"))
    texts = [message["content"] for message in messages if message["role"] == "assistant" and message.get("content")]
    assert texts == ["Let me check.", "child text", "Chunk form."]
    assert call_ids(messages) == ["c1", "c2", "c3"]


def test_a_call_without_a_result_is_saved_if_the_run_asks() -> None:
    natives = [*agui.text("m", "hm"), agui.call("c", parentMessageId="m"), agui.call("d"), *agui.arguments("d", "{}")]
    assert saved(*natives) == [USER, {"id": "m", "role": "assistant", "content": "hm"}]
    assert call_ids(saved(*natives, interrupts=[Interrupt(id="i", tool_call_id="c")])) == ["c", "d"]


def test_the_encrypted_value_of_a_call_is_saved_with_the_call() -> None:
    value = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c", "encryptedValue": "x"}
    kind = {"encryptedValueType": "google.thought"}
    messages = saved(agui.call("c"), value | kind, agui.result("c"), value | {"entityId": "nobody"})
    assert messages[1]["toolCalls"][0].items() >= {"encryptedValue": "x", **kind}.items()


@pytest.mark.parametrize("garbage", [b"{", b"7", b'{"messages": 7}', b"\xff", b""])
def test_a_file_that_cannot_be_read_is_an_empty_history(garbage: bytes) -> None:
    assert ask_agui(AguiHistory(garbage))["messages"] == [USER]
    assert ask_vercel(VercelHistory(garbage))["messages"] == [UI_USER]


def test_garbage_is_not_saved() -> None:
    strange = {"type": "MESSAGES_SNAPSHOT", "messages": [USER, {"id": "m", "role": "assistant", "toolCalls": [7, {}]}]}
    assert saved(*GARBAGE["agui"], strange, {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"}) == [USER]
    assert parts(*GARBAGE["vercel"]) == []


# The AI SDK


@pytest.mark.parametrize("recording", ["vercel5_ui_tool", "vercel6_ui_tool", "vercel7_ui_tool"])
def test_a_recorded_answer_is_saved_in_its_parts(recording: str) -> None:
    first, second = {"signature": "c2lnLTE="}, {"redactedData": "ZW5j"}
    reasoning = {"type": "reasoning", "state": "done"}
    call = {"type": "tool-get_weather", "toolCallId": "call_1", "state": "output-available"}
    assert parts(*lines_of(recording)) == [
        {"type": "step-start"},
        {**reasoning, "text": "I should run a tool.", "providerMetadata": {"anthropic": first}},
        {"type": "text", "text": "Let me check.", "state": "done"},
        {**call, "input": {"city": "Oslo"}, "output": "sunny in Oslo"},
        {"type": "step-start"},
        {**reasoning, "text": "", "providerMetadata": {"anthropic": second}},
        {"type": "text", "text": "It is sunny.", "state": "done"},
    ]


@pytest.mark.parametrize("recording", [f"vercel{version}_reader_snapshots" for version in (5, 6, 7)])
def test_an_answer_is_saved_as_the_sdk_s_own_client_has_it(recording: str) -> None:
    natives = [
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "hm"},
        {"type": "reasoning-end", "id": "r", "providerMetadata": {"anthropic": {"signature": "s"}}},
        *vercel.text("t", "Hel", "lo"),
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "x", "dynamic": True},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {"a": 1}, "dynamic": True},
        {"type": "tool-output-available", "toolCallId": "c", "output": {"ok": 1}, "dynamic": True},
    ]
    snapshot = recorded(recording)[-1]["snapshot"]
    assert parts(*natives) == [
        {name: value for name, value in part.items() if name != "id"} for part in snapshot["parts"]
    ]


def test_calls_without_an_end_are_not_saved() -> None:
    found = parts(*lines_of("vercel5_ui_parallel"), vercel.called("open"), vercel.output("nobody"))
    calls = [part for part in found if part["type"].startswith("tool-")]
    assert [(call["toolCallId"], call["state"]) for call in calls] == [
        ("call_a", "output-available"),
        ("call_b", "output-available"),
        ("call_c", "output-error"),
        ("call_d", "output-error"),
    ]
    assert calls[3]["errorText"].startswith("masked: Invalid input")


def test_preliminary_output_is_not_saved() -> None:
    found = parts(*lines_of("vercel5_ui_prelim"))
    assert [part["output"] for part in found if "output" in part] == [{"status": "done"}]
    assert parts(vercel.called("c"), vercel.output("c", preliminary=True)) == []


def test_a_step_that_was_reset_is_not_saved() -> None:
    natives = [vercel.STEP, *vercel.text("0", "a"), vercel.STEP, *vercel.text("0", "b"), {"type": "reset-step"}]
    assert [part.get("text") for part in parts(*natives, *vercel.text("0", "c"))] == [None, "a", None, "c"]


def test_a_step_without_content_is_not_saved() -> None:
    nothing = [vercel.STEP, *vercel.text("0", ""), vercel.called("open")]
    natives = [*nothing, vercel.STEP, *vercel.text("1", "text"), *nothing]
    assert [part["type"] for part in parts(*natives)] == ["step-start", "text"]
    assert parts(*nothing) == []


def test_files_are_saved_but_sources_and_data_are_not() -> None:
    file = {"type": "file", "url": "https://x/y.png", "mediaType": "image/png"}
    text = {"type": "text", "text": "hi", "state": "done"}
    assert parts(*lines_of("vercel6_custom_data"), file) == [text, file]


def test_parts_of_newer_versions_are_saved_unchanged() -> None:
    natives = [
        {"type": "custom", "kind": "openai.compaction", "providerMetadata": {"openai": {"itemId": "i"}}},
        {"type": "reasoning-file", "url": "data:,x", "mediaType": "text/plain"},
        {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "rather not"}]},
    ]
    assert parts(*natives, {"type": "custom"}, {"type": "file", "url": "x"}) == natives


@pytest.mark.parametrize("how", [{"isAutomatic": True}, {}])
def test_a_denied_call_is_saved_with_the_denial(how: dict[str, bool]) -> None:
    request = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c", **how}
    response = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "Nobody may."}
    denied = {"type": "tool-output-denied", "toolCallId": "c"}
    (call,) = parts(vercel.called("c"), request, response, denied)
    assert call["state"] == "output-denied"
    assert call["approval"] == {"id": "a", "approved": False, "reason": "Nobody may.", **how}
    assert parts(vercel.called("c"), denied) == [], "a model must get the denial with a denied call"


def test_metadata_of_a_call_and_its_result_are_saved() -> None:
    metadata = [{"openai": {"itemId": item}} for item in ("called", "done")]
    natives = [
        vercel.called("c") | {"providerMetadata": metadata[0]},
        vercel.output("c") | {"providerMetadata": metadata[1]},
    ]
    (call,) = parts(*natives)
    assert [call["callProviderMetadata"], call["resultProviderMetadata"]] == metadata


def test_the_next_question_is_sent_with_the_answer_before_it() -> None:
    history = VercelHistory()
    ask_vercel(history)
    for native in [{"type": "start", "messageId": "theirs"}, *vercel.text("0", "hi ", "there")]:
        history.feed(native)
    body = VercelHistory(history.encode()).request_body("q2", chat_id="c", message_id="u2", answer_id="a2")
    assert [(message["id"], message["parts"][0]["text"]) for message in body["messages"]] == [
        ("u", "q"),
        ("theirs", "hi there"),
        ("u2", "q2"),
    ]
