"""What runtimes do when the preferred way to run their command is missing, and what only one of them does."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from command_agents import ACP_AGENT, Person, notes, play, runtime_of, text_of
from msgspec.structs import replace

from tailrace.events import BlockFinal, Event, Status, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt
from tailrace.runtimes.gemini import GeminiRuntime

if TYPE_CHECKING:
    from pathlib import Path

EXEC = ["exec", "--json", "--skip-git-repo-check"]
EXEC_THREAD = "01a1e052-1001-7d12-b3b2-99b490d8d2a5"
RUN = ["run", "--format", "json", "--thinking"]


@pytest.mark.parametrize(
    ("agent", "status", "blocks", "arguments"),
    [
        (
            "codex",
            "This codex has no app-server: its answer comes block by block.",
            ["Hello from the fake model."],
            [[*EXEC, "-"], [*EXEC, "resume", EXEC_THREAD, "-"]],
        ),
        (
            "opencode",
            "This opencode cannot run as a server: its answer comes block by block.",
            ["Let me check.", "The tool said hi."],
            [RUN, [*RUN, "--session", "ses_e1fab52b1ffeERd15J6vDynwpb"]],
        ),
    ],
    ids=["codex exec", "opencode run"],
)
def test_without_a_server_the_command_runs_once_per_turn(
    agent: str, status: str, blocks: list[str], arguments: list[list[str]], tmp_path: Path
) -> None:
    events = play(runtime_of(agent, tmp_path, "old"), "say hello", session_id="one")
    assert Status(text=status) in events
    assert [event.text for event in events if isinstance(event, BlockFinal)] == blocks
    assert isinstance(events[-1], TurnCompleted)
    play(runtime_of(agent, tmp_path, "old"), "--help", session_id="one")
    assert [note["arguments"] for note in notes(tmp_path)] == arguments
    assert [note["prompt"] for note in notes(tmp_path)] == ["say hello\n", "--help\n"]


def test_codex_that_refuses_to_start_is_not_started_another_way(tmp_path: Path) -> None:
    *_, failed = play(runtime_of("codex", tmp_path, "misconfigured"))
    assert isinstance(failed, TurnFailed)
    assert failed.message.endswith("exited with code 1: Error: approval_policy is not understood")
    assert not (tmp_path / "asked").exists()


def test_codex_gets_its_working_folder(tmp_path: Path) -> None:
    play(runtime_of("codex", tmp_path, "codex_app_tool", cwd=str(tmp_path)))
    initialize, _, start, _ = notes(tmp_path)
    assert initialize["params"]["clientInfo"]["name"] == "tailrace"
    assert start["params"] == {"cwd": str(tmp_path)}


def test_gemini_asks_over_acp_if_it_can_be_allowed_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    person = Person("allow_once")
    command = (sys.executable, "-I", "-S", str(ACP_AGENT))
    runtime = GeminiRuntime(command, approver=person, env={"STORE": str(tmp_path)})
    events = play(runtime, "permission", session_id="one")
    assert events[0] == TurnStarted(turn_id="t", runtime="gemini", session_id="one")
    assert text_of(events) == "{'outcome': 'selected', 'optionId': 'yes'}"
    assert [question.title for question in person.questions] == ["rm -rf 0"]
    assert isinstance(events[-1], TurnCompleted)


def test_gemini_without_acp_prints_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    runtime = runtime_of("gemini", tmp_path, "old", permissions="allow")
    status = Status(text="This gemini cannot ask: it does only what its approval mode allows.")
    for expected in ([status], []):
        events = play(runtime)
        assert [event for event in events if isinstance(event, Status)] == expected
        assert isinstance(events[-1], TurnCompleted)


def test_opencode_server_that_prints_much_is_not_blocked(tmp_path: Path) -> None:
    assert isinstance(play(runtime_of("opencode", tmp_path, "chatters"))[-1], TurnCompleted)


def test_opencode_server_that_only_sends_heartbeats_is_given_up(tmp_path: Path) -> None:
    runtime = runtime_of("opencode", tmp_path, "idles")

    async def turn() -> list[Event]:
        received: list[Event] = []
        async with aclosing(runtime.run(Prompt(text="hello"))) as events:
            async for event in events:
                received.append(event)
                if isinstance(event, TextDelta):  # its start may take longer than this
                    runtime.timeouts = replace(runtime.timeouts, silence_timeout_s=0.1)
        return received

    *_, failed = asyncio.run(turn())
    assert failed == TurnFailed(message="opencode was silent for 0.1 seconds and was stopped.", code="cut_off")
