"""The ten rules of a turn, each over every runtime that it concerns.

A rule is a test, and below it are the native events of each agent that the rule is about. If a rule does not concern an
agent, `NOT_FOR` says why. What only one agent gets wrong is tested with that agent's recordings.
"""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import contract_commands as commands
import contract_streams as streams
import pytest
from contract_commands import line
from contract_streams import Native
from recorded_turns import sdk_object

from tailrace.events import (
    BlockFinal,
    Notice,
    ReasoningEnd,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.testing.runtime_scenarios import PROMPT, STALL, Player, ReceivedTurn, receive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PLAYERS: dict[str, Callable[[Path], Player]] = {
    "acp": commands.AcpPlayer,
    "agui": lambda _: streams.AguiPlayer(),
    "claude": commands.ClaudePlayer,
    "claude-sdk": streams.ClaudeSdkPlayer,
    "codex app-server": commands.CodexAppPlayer,
    "codex exec": commands.CodexExecPlayer,
    "gemini": commands.GeminiPlayer,
    "langgraph": lambda _: streams.LangGraphPlayer(),
    "openai-agents": lambda _: streams.OpenAIAgentsPlayer(),
    "opencode run": commands.OpencodeRunPlayer,
    "opencode serve": commands.OpencodeServePlayer,
    "pydantic-ai": lambda _: streams.PydanticAIPlayer(),
    "vercel": lambda _: streams.VercelPlayer(),
}
NOT_FOR = {
    (1, "acp"): "a block has no final text",
    (1, "vercel"): "a block has no final text",
    (4, "claude"): "nothing is a snapshot",
    (4, "claude-sdk"): "nothing is a snapshot",
    (4, "codex app-server"): "nothing is a snapshot",
    (4, "codex exec"): "nothing is a snapshot",
    (4, "gemini"): "nothing is a snapshot",
    (4, "openai-agents"): "nothing is a snapshot",
    (4, "opencode run"): "parts are reported when they are complete",
    (5, "agui"): "a retry of the model is not reported, and nothing else shows it",
    (8, "codex exec"): "subagents are not reported",
    (8, "gemini"): "subagents are not reported",
    (8, "opencode run"): "subagents are not reported",
    (8, "pydantic-ai"): "subagents are not reported",
    (8, "vercel"): "subagents are not reported",
    (9, "acp"): "metadata is not reported",
    (9, "codex app-server"): "metadata is not reported",
    (9, "codex exec"): "metadata is not reported",
    (9, "gemini"): "reasoning is not reported",
}
TRY, AGAIN, WHY, SIGNATURE = "This will break", "This will break and hold.", "out of luck", "c2lnLWZha2U="


def played(agent: str, folder: Path, native: Callable[[Any], list[Any]]) -> ReceivedTurn:
    """The turn of these native events, which must obey the grammar."""

    async def through() -> ReceivedTurn:
        player = PLAYERS[agent](folder)
        try:
            runtime = await player.runtime(native(player))
            return await receive(runtime.run(PROMPT), max_events=500, turn_timeout_s=30.0)
        finally:
            await player.close()

    result = asyncio.run(through())
    assert result.diagnostics == []
    return result


def completed(agent: str, folder: Path, native: Callable[[Any], list[Any]]) -> ReceivedTurn:
    """The turn of these native events and the agent's normal end."""
    result = played(agent, folder, lambda player: [*native(player), *player.ending()])
    assert isinstance(result.terminal, TurnCompleted), result.terminal
    return result


def deltas(result: ReceivedTurn) -> str:
    return "".join(event.text for event in result.events if isinstance(event, TextDelta))


def each_agent_of(rule: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", [agent for agent in PLAYERS if (rule, agent) not in NOT_FOR])


def test_every_rule_covers_every_runtime_or_says_why_not() -> None:
    tables: dict[int, Mapping[str, Any]] = {
        1: WHOLES,
        4: SNAPSHOTS,
        5: RETRIES,
        7: USAGE,
        8: SUBAGENTS,
        9: METADATA_EVENTS,
        10: UNKNOWN,
    }
    for rule, table in tables.items():
        assert table.keys() == {agent for agent in PLAYERS if (rule, agent) not in NOT_FOR}


# 1. Deltas win; the final of a streamed block is compared, not appended. Without deltas the final is emitted.


def claude_whole(player: Any) -> list[Any]:
    message = {"id": "m", "content": [{"type": "text", "text": "Hello."}]}
    return [player.line("assistant", message=message, parent_tool_use_id=None)]


OPENAI_MESSAGE = {"type": "message", "id": "__fake_id__", "content": [{"type": "output_text", "text": "Hello."}]}
WHOLES: dict[str, Callable[[Any], list[Any]]] = {
    "agui": lambda _: [
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [
                {"id": "0", "role": "user", "content": "Go on."},
                {"id": "1", "role": "assistant", "content": "Hello."},
            ],
        }
    ],
    "claude": claude_whole,
    "claude-sdk": claude_whole,
    "codex app-server": lambda player: [
        player.event("item/completed", item={"type": "agentMessage", "id": "m", "text": "Hello."})
    ],
    "codex exec": lambda player: player.text("Hello."),
    "gemini": lambda _: [line(type="message", role="assistant", content="Hello.")],
    "langgraph": lambda player: [player.event(type="ai", id="lc_run--1", content="Hello.")],
    "openai-agents": lambda player: [player.item("message_output_created", OPENAI_MESSAGE)],
    "opencode run": lambda player: player.text("Hello."),
    "opencode serve": lambda player: [player.part("text", text="Hello.", time={"start": 1, "end": 2})],
    "pydantic-ai": lambda _: [Native(event_kind="part_end", index=0, part={"part_kind": "text", "content": "Hello."})],
}


@each_agent_of(1)
def test_rule_1_deltas_win_and_a_final_alone_is_emitted(agent: str, tmp_path: Path) -> None:
    streamed = completed(agent, tmp_path, lambda player: player.text("Hel", "lo."))
    assert streamed.texts == ["Hello."]
    assert deltas(streamed) in {"Hello.", ""}
    (tmp_path / "whole").mkdir()
    assert completed(agent, tmp_path / "whole", WHOLES[agent]).texts == ["Hello."]


# 2. A block is known by its model call, its index and its kind, never by a provider's id alone.


@each_agent_of(2)
def test_rule_2_reused_id_is_another_block(agent: str, tmp_path: Path) -> None:
    def native(player: Any) -> list[Any]:
        player.numbers = itertools.repeat(0)
        first = [*player.text("One, ", "two"), *player.tool("call-1", "ok")]
        player.within = "msg_2"  # parts of opencode belong to a message
        second = player.text("One, ", "two again")
        player.within = "msg_1"
        return [*first, *second]

    assert completed(agent, tmp_path, native).texts == ["One, two", "One, two again"]


# 3. A tool is known by its call: its result may come after later text, without a beginning, and after the end.


@each_agent_of(3)
def test_rule_3_result_finds_its_call_whenever_it_comes(agent: str, tmp_path: Path) -> None:
    def late(player: Any) -> list[Any]:
        *begun, result = player.tool("call-1", "ok")
        return [*begun, *player.text("Meanwhile."), result]

    result = completed(agent, tmp_path, late)
    assert [event.id for event in result.events if isinstance(event, ToolStarted)] == ["call-1"]
    assert [event.id for event in result.events if isinstance(event, ToolFinished)] == ["call-1"]
    assert result.texts == ["Meanwhile."]
    (tmp_path / "alone").mkdir()
    alone = completed(agent, tmp_path / "alone", lambda player: player.tool("call-1", "ok")[-1:])
    assert len([event for event in alone.events if isinstance(event, ToolStarted)]) == 1
    assert len([event for event in alone.events if isinstance(event, ToolFinished)]) == 1


def test_rule_3_result_after_the_end_is_emitted(tmp_path: Path) -> None:
    def after_the_end(player: Any) -> list[Any]:
        *begun, result = player.tool("call-1", "ok")
        return [*begun, *player.ending(), result, {"answer": {"stopReason": "end_turn"}}]

    result = played("acp", tmp_path, after_the_end)
    assert [type(event) for event in result.events[-2:]] == [TurnCompleted, ToolFinished]


@pytest.mark.parametrize("agent", PLAYERS)
def test_rule_3_reused_id_is_another_call(agent: str, tmp_path: Path) -> None:
    def native(player: Any) -> list[Any]:
        return [*player.tool("0", "sunny"), *player.text("And now?"), *player.tool("0", "cloudy"), *player.text("So.")]

    result = completed(agent, tmp_path, native)
    assert [event.id for event in result.events if isinstance(event, ToolStarted)] == ["0", "0"]
    assert [event.result for event in result.events if isinstance(event, ToolFinished)] == ["sunny", "cloudy"]


# 4. Snapshots become differences; one that does not continue the text replaces it.


def growing_text(player: Any) -> list[Any]:
    wholes = ["Hel", "Hello", "Hullo, "]
    parts = [player.part("text", id="prt", text=whole, time={"start": 1}) for whole in wholes]
    return [*parts, player.part("text", id="prt", text="Hullo, you.", time={"start": 1, "end": 2})]


def growing_output(player: Any) -> list[Any]:
    def printed(text: str) -> Any:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        return player.update("tool_call_update", toolCallId="c", status="in_progress", content=content)

    begun, _, done = player.tool("c", "a\nb\n")
    return [begun, printed("a\n"), printed("a\nb\n"), done, *player.text("Hullo, you.")]


def langgraph_update(player: Any) -> list[Any]:
    native = player.text("Hello, ", "you.")
    return [
        *native[:-1],
        ((), "updates", {"model": {"messages": [{"type": "ai", "id": "lc_run--1", "content": "Hullo, you."}]}}),
    ]


def started_again(_: Any) -> list[Any]:
    def start(text: str) -> Any:
        part = {"part_kind": "text", "content": text}
        return Native(event_kind="part_start", index=0, part=part, previous_part_kind="thinking")

    return [start("Hello, "), start("Hullo, you.")]


SNAPSHOTS: dict[str, Callable[[Any], list[Any]]] = {
    "acp": growing_output,
    "agui": lambda player: [
        *player.text("Hullo, ", "you."),
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "9", "role": "assistant", "content": "Hullo, you."}]},
    ],
    "langgraph": langgraph_update,
    "opencode serve": growing_text,
    "pydantic-ai": started_again,
    "vercel": lambda player: [
        player.tool("c", "a\nb\n")[0],
        {"type": "tool-output-available", "toolCallId": "c", "output": "a\n", "preliminary": True},
        {"type": "tool-output-available", "toolCallId": "c", "output": "a\nb\n", "preliminary": True},
        player.tool("c", "a\nb\n")[1],
        *player.text("Hullo, you."),
    ],
}


@each_agent_of(4)
def test_rule_4_snapshot_repeats_nothing(agent: str, tmp_path: Path) -> None:
    result = completed(agent, tmp_path, SNAPSHOTS[agent])
    assert result.texts == ["Hullo, you."]
    printed = [event.data for event in result.events if isinstance(event, ToolOutput)]
    assert printed == (["a\n", "b\n"] if agent == "acp" else [])
    finished = [event.result for event in result.events if isinstance(event, ToolFinished)]
    assert finished == (["a\nb\n"] if agent in {"acp", "vercel"} else [])
    progress = [event.text for event in result.events if isinstance(event, ToolProgress)]
    assert progress == (["a\n", "a\nb\n"] if agent == "vercel" else [])


# 5. Text of a failed try is retracted before the next one.


def after_three_seconds(player: Any) -> list[Any]:
    player.second += 3
    return []


RETRIES: dict[str, Callable[[Any], list[Any]]] = {
    "acp": lambda player: [
        player.update("session_info_update", _meta={"codex": {"error": {"willRetry": True, "message": "again"}}})
    ],
    "claude": lambda player: [player.piece("message_stop")],
    "claude-sdk": lambda player: [player.piece("message_stop")],
    "codex app-server": lambda player: [player.event("error", error={"message": "again"}, willRetry=True)],
    "codex exec": lambda _: [line(type="error", message="Reconnecting... 1/5")],
    "gemini": after_three_seconds,
    "langgraph": lambda _: [],
    "openai-agents": lambda _: [],
    "opencode run": lambda player: [player.part("step_start", "step-start")],
    "opencode serve": lambda player: [player.event("session.status", status={"type": "retry", "message": "busy"})],
    "pydantic-ai": lambda _: [],
    "vercel": lambda _: [{"type": "reset-step"}],
}


@each_agent_of(5)
def test_rule_5_text_of_a_failed_try_is_retracted(agent: str, tmp_path: Path) -> None:
    def native(player: Any) -> list[Any]:
        return [*player.text(TRY, is_whole=False), *RETRIES[agent](player), *player.text(AGAIN)]

    assert completed(agent, tmp_path, native).texts == [AGAIN]


# 6. One end, by priority: a reported failure counts, also if success is reported after it.

FALSE_ENDS: dict[str, Callable[[Any], list[Any]]] = {
    "acp": lambda player: [
        player.update("session_info_update", _meta={"codex": {"threadStatus": {"type": "systemError"}}}),
        player.update("agent_message_chunk", content={"type": "text", "text": WHY}),
        *player.ending(),
    ],
    "claude": lambda player: player.failure(WHY),  # which calls itself a success
    "claude-sdk": lambda player: player.failure(WHY),
    "gemini": lambda player: [player.failure(WHY)[0], *player.ending()],
}


@each_agent_of(6)
def test_rule_6_failure_is_the_end_despite_success(agent: str, tmp_path: Path) -> None:
    def native(player: Any) -> list[Any]:
        ends = FALSE_ENDS.get(agent, lambda player: [*player.failure(WHY), *player.ending()])
        return [*player.text("So far."), *ends(player)]

    result = played(agent, tmp_path, native)
    assert isinstance(result.terminal, TurnFailed), result.terminal
    assert WHY in result.terminal.message
    assert result.texts == ["So far."]


UNREADABLE_ENDS = {
    "acp": {"answer": 7},
    "codex app-server": line(method="turn/completed", params={"threadId": "thread-1", "turn": 7}),
}


@pytest.mark.parametrize("agent", UNREADABLE_ENDS)
def test_rule_6_unreadable_end_is_a_failure(agent: str, tmp_path: Path) -> None:
    result = played(agent, tmp_path, lambda player: [*player.text("So far."), UNREADABLE_ENDS[agent], STALL])
    assert result.texts == ["So far."]
    assert isinstance(result.terminal, TurnFailed)
    assert result.terminal.code == "malformed"


# 7. Usage says whether it is of a request, of the turn or of the session; usage in blocks is stale.


def claude_usage(player: Any) -> list[Any]:
    tokens = {"input_tokens": 3, "output_tokens": 5}
    stale = {
        "id": "m",
        "content": [{"type": "text", "text": "Hello."}],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return [
        player.piece("message_start", message={"id": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}),
        player.line("assistant", message=stale, parent_tool_use_id=None),
        player.piece("message_delta", delta={"stop_reason": "end_turn"}, usage=tokens),
        player.piece("message_stop"),
        player.line("result", subtype="success", is_error=False, result="Hello.", usage=tokens),
    ]


def codex_usage(player: Any) -> list[Any]:
    last = {"totalTokens": 8, "inputTokens": 3, "outputTokens": 5}
    total = {"totalTokens": 800, "inputTokens": 300, "outputTokens": 500}
    return [player.event("thread/tokenUsage/updated", tokenUsage={"last": last, "total": total}), *player.ending()]


def pydantic_result(**usage: int) -> Any:
    return Native(event_kind="agent_run_result", result=SimpleNamespace(output="done", usage=usage))


TOKENS = {"input": 3, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
USAGE: dict[str, tuple[Callable[[Any], list[Any]], list[str]]] = {
    "acp": (
        lambda _: [{"answer": {"stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 5}}}],
        ["turn"],
    ),
    "agui": (
        lambda _: [
            {
                "type": "RUN_FINISHED",
                "threadId": "t",
                "runId": "r",
                "usage": [{"inputTokens": 3, "outputTokens": 5, "model": "m"}],
            }
        ],
        ["turn"],
    ),
    "claude": (claude_usage, ["request", "turn"]),
    "claude-sdk": (claude_usage, ["request", "turn"]),
    "codex app-server": (codex_usage, ["request"]),
    "codex exec": (lambda _: [line(type="turn.completed", usage={"input_tokens": 3, "output_tokens": 5})], ["session"]),
    "gemini": (
        lambda _: [line(type="result", status="success", stats={"input_tokens": 3, "output_tokens": 5})],
        ["turn"],
    ),
    "langgraph": (
        lambda player: [
            player.event(type="AIMessageChunk", id="lc_run--1", usage_metadata={"input_tokens": 3, "output_tokens": 5})
        ],
        ["request"],
    ),
    "openai-agents": (
        lambda player: [
            player.raw("created", response={}),
            player.raw("completed", response={"usage": {"input_tokens": 3, "output_tokens": 5}}),
            *player.ending(),
        ],
        ["request", "turn"],
    ),
    "opencode run": (
        lambda player: [player.part("step_finish", "step-finish", reason="stop", tokens=TOKENS)],
        ["request"],
    ),
    "opencode serve": (
        lambda player: [player.part("step-finish", reason="stop", tokens=TOKENS), player.event("session.idle")],
        ["request"],
    ),
    "pydantic-ai": (lambda _: [pydantic_result(input_tokens=3, output_tokens=5)], ["turn"]),
    "vercel": (
        lambda _: [{"type": "finish", "messageMetadata": {"usage": {"inputTokens": 3, "outputTokens": 5}}}, "[DONE]"],
        ["turn"],
    ),
}


@each_agent_of(7)
def test_rule_7_usage_has_its_scope(agent: str, tmp_path: Path) -> None:
    native, scopes = USAGE[agent]
    result = played(agent, tmp_path, native)
    assert isinstance(result.terminal, TurnCompleted), result.terminal
    usage = [event for event in result.events if isinstance(event, Usage)]
    assert [event.scope for event in usage] == scopes
    assert (usage[0].input_tokens, usage[0].output_tokens) == (3, 5)


# 8. A subagent speaks under the call that started it.


def claude_child(player: Any) -> list[Any]:
    message = {"id": "c", "content": [{"type": "text", "text": "Child."}]}
    *begun, done = player.tool("task", "done")
    return [*begun, player.line("assistant", message=message, parent_tool_use_id="task"), done]


def codex_child(player: Any) -> list[Any]:
    task = {"type": "collabAgentToolCall", "id": "task", "tool": "spawn", "receiverThreadIds": ["child"]}
    begun, done = player.event("item/started", item=task), player.event("item/completed", item=task)
    player.thread = "child"
    native = player.text("Chi", "ld.")
    player.thread = "thread-1"
    return [begun, *native, done]


def opencode_child(player: Any) -> list[Any]:
    def state(status: str) -> dict[str, Any]:
        return {"status": status, "input": {}, "metadata": {"sessionId": "child"}}

    begun, done = (
        player.part("tool", tool="task", callID="task", state=state(how)) for how in ("running", "completed")
    )
    born = {
        "type": "session.created",
        "properties": {"sessionID": "child", "info": {"id": "child", "parentID": "session-1"}},
    }
    native = [
        {**event, "properties": {**event["properties"], "sessionID": "child"}} for event in player.text("Chi", "ld.")
    ]
    return [born, begun, *native, done]


def acp_child(player: Any) -> list[Any]:
    begun, *_, done = player.tool("task", "done")
    under = {"_meta": {"claudeCode": {"parentToolUseId": "task"}}}
    return [begun, *({"update": {**native["update"], **under}} for native in player.text("Chi", "ld.")), done]


def langgraph_child(player: Any) -> list[Any]:
    call, result = player.tool("task", "done")
    made = {"type": "tool_call", "id": "task", "name": "look", "args": {}}
    within = {"langgraph_checkpoint_ns": "tools:task-2|model:task-3"}
    chunk = {"type": "AIMessageChunk", "id": "lc_run--child", "content": "Child.", "chunk_position": "last"}
    return [
        call,
        ((), "tasks", {"id": "task-2", "input": [made]}),
        (("tools:task-2",), "messages", [chunk, within]),
        result,
    ]


def openai_child(player: Any) -> list[Any]:
    *begun, result = player.tool("task", "done")
    return [*begun, *(streams.Nested("task", event) for event in player.text("Chi", "ld.")), result]


SUBAGENTS: dict[str, Callable[[Any], list[Any]]] = {
    "acp": acp_child,
    "agui": lambda player: [{**native, "subagentRunId": "task"} for native in player.text("Chi", "ld.")],
    "claude": claude_child,
    "claude-sdk": claude_child,
    "codex app-server": codex_child,
    "langgraph": langgraph_child,
    "openai-agents": openai_child,
    "opencode serve": opencode_child,
}


@each_agent_of(8)
def test_rule_8_subagent_speaks_under_its_call(agent: str, tmp_path: Path) -> None:
    result = completed(agent, tmp_path, lambda player: [*SUBAGENTS[agent](player), *player.text("Parent.")])
    native = [event for event in result.events if isinstance(event, TextDelta | BlockFinal) and event.text]
    own = "".join(event.text or "" for event in native if event.parent_tool_id is None)
    child = "".join(event.text or "" for event in native if event.parent_tool_id == "task")
    assert (own, child) == ("Parent.", "Child.")
    assert result.texts == ["Child.", "Parent."]


# 9. Metadata of the provider is passed on unchanged, wherever it comes.


def claude_thought(player: Any) -> list[Any]:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    pieces = [{"type": "thinking_delta", "thinking": "Hm."}, {"type": "signature_delta", "signature": SIGNATURE}]
    deltas = [player.piece("content_block_delta", index=0, delta=piece) for piece in pieces]
    return [*player.message(block, deltas, {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE})]


METADATA = {"anthropic": {"signature": SIGNATURE}}
THOUGHT = {"type": "reasoning", "id": "__fake_id__", "encrypted_content": SIGNATURE, "summary": [{"text": "Hm."}]}
METADATA_EVENTS: dict[str, tuple[Callable[[Any], list[Any]], Any]] = {
    "agui": (
        lambda _: [
            {"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"},
            {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "Hm."},
            {"type": "REASONING_MESSAGE_END", "messageId": "r"},
            {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r", "encryptedValue": SIGNATURE},
        ],
        SIGNATURE,
    ),
    "claude": (claude_thought, {"signature": SIGNATURE}),
    "claude-sdk": (claude_thought, {"signature": SIGNATURE}),
    "langgraph": (
        lambda player: [
            player.event(
                type="AIMessageChunk",
                id="lc_run--1",
                content=[{"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE, "index": 0}],
            )
        ],
        SIGNATURE,
    ),
    "openai-agents": (lambda player: [player.raw("output_item.done", item=THOUGHT, output_index=0)], SIGNATURE),
    "opencode run": (
        lambda player: [
            player.part("reasoning", "reasoning", text="Hm.", metadata=METADATA, time={"start": 1, "end": 2})
        ],
        METADATA,
    ),
    "opencode serve": (
        lambda player: [player.part("reasoning", text="Hm.", metadata=METADATA, time={"start": 1, "end": 2})],
        METADATA,
    ),
    "pydantic-ai": (
        lambda _: [
            Native(
                event_kind="part_start",
                index=0,
                part={"part_kind": "thinking", "content": "Hm."},
                previous_part_kind=None,
            ),
            Native(
                event_kind="part_end", index=0, part={"part_kind": "thinking", "content": "Hm.", "signature": SIGNATURE}
            ),
        ],
        SIGNATURE,
    ),
    "vercel": (
        lambda _: [
            {"type": "reasoning-start", "id": "r"},
            {"type": "reasoning-delta", "id": "r", "delta": "Hm."},
            {"type": "reasoning-end", "id": "r", "providerMetadata": METADATA},
        ],
        METADATA,
    ),
}


@each_agent_of(9)
def test_rule_9_metadata_of_the_provider_is_passed_on(agent: str, tmp_path: Path) -> None:
    native, metadata = METADATA_EVENTS[agent]
    result = completed(agent, tmp_path, lambda player: [*native(player), *player.text("Hello.")])
    assert metadata in [event.metadata for event in result.events if isinstance(event, ReasoningEnd)]


# 10. An unknown event is reported, and is no error.

UNKNOWN: dict[str, Callable[[Any], list[Any]]] = {
    "acp": lambda player: [player.update("from_the_future", x=1)],
    "agui": lambda _: [{"type": "FROM_THE_FUTURE", "x": 1}],
    "claude": lambda player: [player.line("from_the_future", x=1)],
    "claude-sdk": lambda _: [sdk_object({"__class__": "FromTheFuture", "x": 1})],
    "codex app-server": lambda player: [player.event("turn/fromTheFuture", x=1)],
    "codex exec": lambda _: [line(type="from.the.future", x=1)],
    "gemini": lambda _: [line(type="from_the_future", x=1)],
    "langgraph": lambda _: [((), "from_the_future", {"x": 1})],
    "openai-agents": lambda player: [player.item("from_the_future", {"type": "from_the_future"})],
    "opencode run": lambda _: [line(type="from_the_future", x=1)],
    "opencode serve": lambda player: [player.event("from.the.future", x=1)],
    "pydantic-ai": lambda _: [Native(event_kind="from_the_future", x=1)],
    "vercel": lambda _: [{"type": "from-the-future", "x": 1}],
}


@each_agent_of(10)
def test_rule_10_unknown_event_is_reported_once_and_is_no_error(agent: str, tmp_path: Path) -> None:
    def native(player: Any) -> list[Any]:
        return [*player.text("One."), *(UNKNOWN[agent](player) * 100), *player.text("Two.")]

    result = completed(agent, tmp_path, native)
    [notice] = [event.text for event in result.events if isinstance(event, Notice)]
    assert "future" in notice.lower()
    assert result.texts == ["One.", "Two."]
