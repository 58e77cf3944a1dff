"""Every agent that is a command, in every way commands go wrong: a clear failure, no process left, and a next turn."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from command_agents import ACP_AGENT, RUNTIMES, STAND_INS, is_running, stand_in
from msgspec.structs import replace

from tailrace.contract import checked
from tailrace.events import Notice, TurnCompleted, TurnFailed
from tailrace.ports import Prompt
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.command_runtime import CommandRuntime
from tailrace.runtimes.gemini import GeminiRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.ports import Runtime

LONG_S, SHORT_S, EXIT_S, DRAIN_S = 60.0, 0.2, 0.3, 0.1
RECORDINGS = {
    "claude": "claude_cli_hello",
    "codex": "codex_app_tool",
    "gemini": "gemini_cli_tool",
    "opencode": "opencode_serve_tool",
}
AGENTS = (*RECORDINGS, "gemini --acp", "acp")
every_agent = pytest.mark.parametrize("name", AGENTS)


class BadCommands:
    """Commands that misbehave until they are `well`; all of their processes are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.silence_timeout_s = LONG_S

    def runtime(self, name: str, fault: str) -> Any:
        """The runtime of an agent whose command has this fault, and behind it the stand-in."""
        bad = (sys.executable, str(STAND_INS / "misbehaving_command.py"), str(self.folder), fault, "--")
        env = {"STORE": str(self.folder), "PIDS": str(self.folder)}
        acp = (*bad, sys.executable, "-I", "-S", str(ACP_AGENT))
        if name == "acp":
            options = AcpOptions(env=env, silence_timeout_s=self.silence_timeout_s, exit_timeout_s=EXIT_S)
            return AcpRuntime(acp, options=options)
        sessions = self.folder / "sessions"
        if name == "gemini --acp":
            runtime = GeminiRuntime(acp, permissions="allow", env=env, sessions=sessions)
        else:
            runtime = RUNTIMES[name]((*bad, *stand_in(name, self.folder, RECORDINGS[name])), sessions=sessions)
        runtime.timeouts = replace(
            runtime.timeouts, silence_timeout_s=self.silence_timeout_s, exit_timeout_s=EXIT_S, drain_timeout_s=DRAIN_S
        )
        return runtime

    def well(self) -> None:
        (self.folder / "well").touch()

    def left(self) -> list[int]:
        """Those of their processes that still run."""
        pids = self.folder / "pids"
        started = pids.read_text(encoding="utf-8").split() if pids.exists() else []
        return [int(process) for process in started if is_running(int(process))]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BadCommands]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "place"
    folder.mkdir()
    made = BadCommands(folder)
    yield made
    assert made.left() == []


async def play(runtime: Runtime, text: str = "hello") -> list[Event]:
    prompt = Prompt(text=text, session_id="s")
    return [event async for event in checked(runtime.run(prompt), turn_id="t")]


def failed_and_recovered(commands: BadCommands, runtime: Runtime) -> TurnFailed:
    """How the first turn failed. No process of the command is left then, and the second turn completes."""

    async def turns() -> tuple[Event, list[Event]]:
        *_, failed = await play(runtime)
        assert commands.left() == []
        commands.well()
        if isinstance(runtime, CommandRuntime):
            runtime.timeouts = replace(runtime.timeouts, silence_timeout_s=LONG_S)
        return failed, await play(runtime)

    failed, events = asyncio.run(turns())
    assert isinstance(failed, TurnFailed)
    assert isinstance(events[-1], TurnCompleted), events[-1]
    return failed


@every_agent
@pytest.mark.parametrize("fault", ["garbage", "half_a_line", "fork", "closed", "flood"])
def test_output_without_an_answer_fails_the_turn(commands: BadCommands, name: str, fault: str) -> None:
    failed = failed_and_recovered(commands, commands.runtime(name, fault))
    assert 0 < len(failed.message) < 10_000
    assert fault != "closed" or failed.code == "cut_off"
    assert fault != "flood" or failed.message.rstrip(".").endswith("the last words")


@pytest.mark.parametrize(("name", "fault"), [*((name, "silence") for name in RECORDINGS), ("gemini", "deaf")])
def test_silent_command_is_given_up(commands: BadCommands, name: str, fault: str) -> None:
    commands.silence_timeout_s = SHORT_S
    failed = failed_and_recovered(commands, commands.runtime(name, fault))
    assert "was silent for" in failed.message


@pytest.mark.parametrize("name", ["acp", "gemini --acp"])
def test_acp_agent_that_is_silent_at_a_prompt_is_given_up(commands: BadCommands, name: str) -> None:
    commands.well()
    commands.silence_timeout_s = SHORT_S

    async def turns() -> list[Event]:
        runtime = commands.runtime(name, "none")
        return [(await play(runtime, scene))[-1] for scene in ("unheard-of", "hello")]

    failed, completed = asyncio.run(turns())
    assert isinstance(failed, TurnFailed)
    assert "was silent for 0.2 seconds and was stopped." in failed.message
    assert isinstance(completed, TurnCompleted)


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "acp"])
def test_old_version_gets_the_advice_to_update(commands: BadCommands, name: str) -> None:
    runtime = commands.runtime(name, "old")
    failed = failed_and_recovered(commands, runtime)
    assert "does not know it. Update with npm install -g" in failed.message
    assert runtime.name in failed.message
    assert failed.code == "unknown_version"


LOG_IN = {
    "claude": "claude is not logged in. Run claude once and log in with /login, or set ANTHROPIC_API_KEY.",
    "codex": "codex is not logged in. Log in with: codex login, or set the key that its settings name.",
    "gemini": "gemini is not logged in. Run gemini once and log in, or set GEMINI_API_KEY.",
    "opencode": "opencode is not logged in. Log in with: opencode auth login, or name a provider in opencode.json.",
}


@pytest.mark.parametrize("name", sorted(LOG_IN))
def test_missing_login_says_how_to_log_in(commands: BadCommands, name: str) -> None:
    failed = failed_and_recovered(commands, commands.runtime(name, f"locked_out {name}"))
    assert failed.message.endswith(LOG_IN[name])
    assert failed.code == "not_logged_in"


INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "gemini": "npm install -g @google/gemini-cli",
    "gemini --acp": "npm install -g @google/gemini-cli",
    "opencode": "npm install -g opencode-ai",
}


@pytest.mark.parametrize("name", INSTALL)
def test_missing_command_says_how_to_install_it(name: str) -> None:
    options: dict[str, Any] = {"permissions": "allow"} if name == "gemini --acp" else {}
    runtime = RUNTIMES[name.split(" ", maxsplit=1)[0]](("no-such-command",), **options)
    *_, failed = asyncio.run(play(runtime))
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith("there is no command 'no-such-command'.")
    assert failed.message.endswith(INSTALL[name])
    assert failed.code == "not_found"


def test_missing_acp_command_is_named() -> None:
    *_, failed = asyncio.run(play(AcpRuntime("no-such-command --stdio")))
    message = "there is no command 'no-such-command'. Install it, or name it by its path."
    assert failed == TurnFailed(message=message, code="not_found")


@pytest.mark.parametrize("name", RECORDINGS)
def test_conversation_that_cannot_be_stored_is_reported_once(commands: BadCommands, name: str) -> None:
    (commands.folder / "sessions").write_text("a file, where a folder is wanted", encoding="utf-8")
    commands.well()
    runtime = commands.runtime(name, "silence")

    async def turns() -> list[list[Event]]:
        return [await play(runtime), await play(runtime)]

    first, second = asyncio.run(turns())
    assert isinstance(first[-1], TurnCompleted)
    assert isinstance(second[-1], TurnCompleted)
    for events, count in ((first, 1), (second, 0)):
        notices = [event for event in events if isinstance(event, Notice) and "cannot be remembered" in event.text]
        assert len(notices) == count
