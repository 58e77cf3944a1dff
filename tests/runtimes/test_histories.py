"""What is remembered of conversations with agents that remember nothing: in the form that each of them has it in."""

from __future__ import annotations

from typing import Any

import agui_streams as agui
import msgspec
import pytest
import vercel_streams as vercel
from sdk_streams import lines_of

from tailrace.runtimes.agui.history import AguiHistory
from tailrace.runtimes.agui.shapes import Interrupt
from tailrace.runtimes.vercel.history import VercelHistory

USER = {"id": "u", "role": "user", "content": "q"}
UI_USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]}


def question(transcript: AguiHistory, text: str = "q") -> dict[str, Any]:
    return transcript.run_input(text, thread_id="t", run_id="r", message_id="u")


def kept(*natives: Any, questions: list[Interrupt] | None = None) -> list[Any]:
    """The messages of an AG-UI conversation after a first run."""
    transcript = AguiHistory()
    question(transcript)
    for native in natives:
        transcript.feed(native)
    messages: list[Any] = msgspec.json.decode(transcript.encode(questions or []))["messages"]
    return messages


def parts(*natives: Any) -> list[Any]:
    """The parts of the answer in a conversation of the AI SDK after a first one."""
    transcript = VercelHistory()
    transcript.request_body("q", chat_id="c", message_id="u", answer_id="a")
    for native in natives:
        transcript.feed(native)
    messages = msgspec.json.decode(transcript.encode())
    assert messages[0] == UI_USER
    found: list[Any] = messages[1]["parts"] if len(messages) == 2 else []
    return found


# AG-UI


def test_a_run_is_remembered_with_its_ids_and_seals() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    text, again = "c34792e4-3db4-405f-be9e-68ca499b8052", "66719918-52e8-40bb-8e8e-11c731ae3789"
    thought, known = "3c30f0b1-a4d6-45b9-9613-09e3df9e9f2d", "e85a8656-3430-4b50-a79e-0f88cb31a822"
    assert kept(*agui.natives_of("pydantic_ai_agui_tool")) == [
        USER,
        {
            "id": thought,
            "role": "reasoning",
            "content": "I should run a tool.",
            "encryptedValue": '{"signature": "c2lnLTE=", "provider_name": "function"}',
        },
        {"id": text, "role": "assistant", "content": "Let me check.", "toolCalls": [call]},
        {
            "id": "32efb400-52df-41b8-a82b-916b424c7c4c",
            "role": "tool",
            "toolCallId": "call_1",
            "content": "sunny in Oslo",
        },
        {
            "id": known,
            "role": "reasoning",
            "content": "Now I know.",
            "encryptedValue": '{"signature": "c2lnLTI=", "provider_name": "function"}',
        },
        {"id": again, "role": "assistant", "content": "It is sunny."},
    ]


@pytest.mark.parametrize("recording", ["agui_langgraph_tool", "agui_strands_tool"])
def test_where_the_agent_says_what_it_remembers_that_is_remembered(recording: str) -> None:
    natives = agui.natives_of(recording)
    snapshots = [native["messages"] for native in natives if native["type"] == "MESSAGES_SNAPSHOT"]
    remembered = kept(*natives)
    assert [message["id"] for message in remembered] == [message["id"] for message in snapshots[-1]]
    assert [message["content"] for message in remembered if message["content"]] == [
        message["content"] for message in snapshots[-1] if message["content"]
    ]


def test_a_message_goes_on_where_a_snapshot_has_left_it() -> None:
    start, one, two, end = agui.text("m", "one ", "two")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "["}}
    snapshot = [USER, {"id": "m", "role": "assistant", "content": "one ", "toolCalls": [call]}]
    activity = {"id": "p", "role": "activity", "content": {}}
    restated = {"type": "MESSAGES_SNAPSHOT", "messages": [*snapshot, activity, 7, {"role": "user"}]}
    assert kept(start, one, restated, two, end, *agui.arguments("c", "1]"), agui.result("c"))[1:2] == [
        {
            "id": "m",
            "role": "assistant",
            "content": "one two",
            "toolCalls": [call | {"function": {"name": "look", "arguments": "[1]"}}],
        }
    ]


def test_chunks_are_remembered_like_anything_else() -> None:
    messages = kept(*agui.natives_of("agui_types_full")[:-2], agui.result("c3", "x"))
    said = [message["content"] for message in messages if message["role"] == "assistant" and message.get("content")]
    assert said == ["Let me check.", "child text", "Chunk form."]
    assert [call["id"] for message in messages for call in message.get("toolCalls", ())] == ["c1", "c2", "c3"]


def test_a_call_without_a_result_is_not_remembered() -> None:
    natives = [*agui.text("m", "hm"), agui.call("c", parentMessageId="m"), agui.call("d"), *agui.arguments("d", "{}")]
    assert kept(*natives) == [USER, {"id": "m", "role": "assistant", "content": "hm"}]


def test_a_call_that_somebody_is_asked_about_is_remembered() -> None:
    asked = [Interrupt(id="i", tool_call_id="c")]
    remembered = kept(agui.call("c"), *agui.arguments("c", "{}"), questions=asked)
    assert [call["id"] for message in remembered for call in message.get("toolCalls", ())] == ["c"]


def test_a_seal_of_a_call_stays_with_the_call() -> None:
    seal = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c", "encryptedValue": "x"}
    kind = {"encryptedValueType": "google.thought"}
    remembered = kept(agui.call("c"), seal | kind, agui.result("c"), seal | {"entityId": "nobody"})
    assert remembered[1]["toolCalls"][0].items() >= {"encryptedValue": "x", **kind}.items()


def remembering(*asked: Interrupt) -> AguiHistory:
    """A conversation whose last run has stopped to ask this."""
    before = AguiHistory()
    question(before, "before")
    return AguiHistory(before.encode(list(asked)))


def test_what_a_run_has_stopped_to_ask_is_answered_by_what_is_said_next() -> None:
    asked = question(remembering(Interrupt(id="i", message="Which Springfield?")), "the one in Oregon")
    assert asked["resume"] == [{"interruptId": "i", "status": "resolved", "payload": "the one in Oregon"}]
    assert [message["content"] for message in asked["messages"]] == ["before"]


def test_what_a_graph_has_stopped_to_ask_is_answered_as_graphs_want_it() -> None:
    asked = question(remembering(Interrupt(id="", message="Which Springfield?")), "the one in Oregon")
    assert asked["forwardedProps"] == {"command": {"resume": "the one in Oregon"}}
    assert "resume" not in asked


def test_leave_for_a_call_is_never_given_by_the_way() -> None:
    transcript = remembering(Interrupt(id="i", tool_call_id="c"))
    asked = question(transcript, "yes")
    assert asked["resume"] == [{"interruptId": "i", "status": "cancelled"}]
    assert [message["content"] for message in asked["messages"]] == ["before", "yes"]
    assert "resume" not in question(transcript, "and now?")


@pytest.mark.parametrize("garbage", [b"{", b"7", b'{"messages": 7}', b"\xff", b""])
def test_what_cannot_be_read_is_forgotten(garbage: bytes) -> None:
    assert question(AguiHistory(garbage))["messages"] == [USER]
    asked = VercelHistory(garbage).request_body("q", chat_id="c", message_id="u", answer_id="a")
    assert asked["messages"] == [UI_USER]


def test_garbage_is_not_remembered() -> None:
    strange = {"type": "MESSAGES_SNAPSHOT", "messages": [USER, {"id": "m", "role": "assistant", "toolCalls": [7, {}]}]}
    assert kept(*agui.GARBAGE, strange, {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"}) == [USER]
    assert parts(*vercel.GARBAGE) == []


# The AI SDK


@pytest.mark.parametrize("recording", ["vercel5_ui_tool", "vercel6_ui_tool", "vercel7_ui_tool"])
def test_an_answer_is_remembered_in_its_parts(recording: str) -> None:
    assert parts(*vercel.natives_of(recording)) == [
        {"type": "step-start"},
        {
            "type": "reasoning",
            "text": "I should run a tool.",
            "state": "done",
            "providerMetadata": {"anthropic": {"signature": "c2lnLTE="}},
        },
        {"type": "text", "text": "Let me check.", "state": "done"},
        {
            "type": "tool-get_weather",
            "toolCallId": "call_1",
            "state": "output-available",
            "input": {"city": "Oslo"},
            "output": "sunny in Oslo",
        },
        {"type": "step-start"},
        {
            "type": "reasoning",
            "text": "",
            "state": "done",
            "providerMetadata": {"anthropic": {"redactedData": "ZW5j"}},
        },
        {"type": "text", "text": "It is sunny.", "state": "done"},
    ]


@pytest.mark.parametrize("recording", vercel.SNAPSHOTS)
def test_an_answer_is_remembered_as_the_sdks_own_client_would(recording: str) -> None:
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
    snapshot = lines_of(recording)[-1]["snapshot"]
    told = [{name: value for name, value in part.items() if name != "id"} for part in snapshot["parts"]]
    assert parts(*natives) == told


def test_the_ends_of_calls_are_remembered_and_calls_without_one_are_not() -> None:
    remembered = parts(*vercel.natives_of("vercel5_ui_parallel"), vercel.called("open"), vercel.output("nobody"))
    calls = [part for part in remembered if part["type"].startswith("tool-")]
    assert [(call["toolCallId"], call["state"]) for call in calls] == [
        ("call_a", "output-available"),
        ("call_b", "output-available"),
        ("call_c", "output-error"),
        ("call_d", "output-error"),
    ]
    assert calls[3]["errorText"].startswith("masked: Invalid input")


def test_what_a_tool_said_on_its_way_is_not_remembered() -> None:
    remembered = parts(*vercel.natives_of("vercel5_ui_prelim"))
    assert [part["output"] for part in remembered if "output" in part] == [{"status": "done"}]
    assert parts(vercel.called("c"), vercel.output("c", preliminary=True)) == []


def test_a_step_that_was_reset_is_not_remembered() -> None:
    natives = [vercel.STEP, *vercel.text("0", "a"), vercel.STEP, *vercel.text("0", "b"), {"type": "reset-step"}]
    assert [part.get("text") for part in parts(*natives, *vercel.text("0", "c"))] == [None, "a", None, "c"]


def test_files_are_remembered_and_what_is_only_shown_is_not() -> None:
    file = {"type": "file", "url": "https://x/y.png", "mediaType": "image/png"}
    assert parts(*vercel.natives_of("vercel6_custom_data"), file) == [
        {"type": "text", "text": "hi", "state": "done"},
        file,
    ]


def test_what_only_newer_versions_say_to_a_model_is_remembered_whole() -> None:
    natives = [
        {"type": "custom", "kind": "openai.compaction", "providerMetadata": {"openai": {"itemId": "i"}}},
        {"type": "reasoning-file", "url": "data:,x", "mediaType": "text/plain"},
        {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "rather not"}]},
    ]
    assert parts(*natives, {"type": "custom"}, {"type": "file", "url": "x"}) == natives


@pytest.mark.parametrize("how", [{"isAutomatic": True}, {}])
def test_a_call_that_was_denied_is_remembered_with_who_denied_it(how: dict[str, bool]) -> None:
    asked = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c", **how}
    answered = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "Nobody may."}
    denied = {"type": "tool-output-denied", "toolCallId": "c"}
    (call,) = parts(vercel.called("c"), asked, answered, denied)
    assert call["state"] == "output-denied"
    assert call["approval"] == {"id": "a", "approved": False, "reason": "Nobody may.", **how}
    assert parts(vercel.called("c"), denied) == [], "a model must be told who denied it"


def test_a_seal_of_a_result_stays_with_the_result() -> None:
    seals = [{"openai": {"itemId": item}} for item in ("called", "done")]
    natives = [vercel.called("c") | {"providerMetadata": seals[0]}, vercel.output("c") | {"providerMetadata": seals[1]}]
    (call,) = parts(*natives)
    assert [call["callProviderMetadata"], call["resultProviderMetadata"]] == seals


def test_a_step_of_which_nothing_is_left_is_not_remembered() -> None:
    nothing = [vercel.STEP, *vercel.text("0", ""), vercel.called("open")]
    natives = [*nothing, vercel.STEP, *vercel.text("1", "said"), *nothing]
    assert [part["type"] for part in parts(*natives)] == ["step-start", "text"]
    assert parts(*nothing) == []


def test_the_next_question_goes_with_the_answer_before() -> None:
    transcript = VercelHistory()
    transcript.request_body("q", chat_id="c", message_id="u", answer_id="a")
    for native in [{"type": "start", "messageId": "theirs"}, *vercel.text("0", "hi ", "there")]:
        transcript.feed(native)
    asked = VercelHistory(transcript.encode()).request_body("q2", chat_id="c", message_id="u2", answer_id="a2")
    assert [(message["id"], message["parts"][0]["text"]) for message in asked["messages"]] == [
        ("u", "q"),
        ("theirs", "hi there"),
        ("u2", "q2"),
    ]
