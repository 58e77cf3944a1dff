"""Every agent that is a command, in every way commands go wrong: said clearly, nobody left, and the next turn works."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_streams import is_running
from msgspec.structs import replace

from tailrace.contract import checked
from tailrace.events import Notice, TurnCompleted, TurnFailed
from tailrace.ports import Prompt
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.codex import CodexRuntime
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.opencode import OpencodeRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.events import Event
    from tailrace.ports import Runtime

STAND_INS = Path(__file__).parent / "stand_ins"
ACP_AGENT = Path(__file__).parent.parent / "agents" / "acp_agent.py"
PATIENT_S, IMPATIENT_S = 60.0, 0.2
RUNTIMES = ("claude", "codex", "gemini", "gemini --acp", "opencode", "acp")


class Place:
    """Where a command misbehaves, until it is well; all of its processes are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.silence_timeout_s = PATIENT_S

    def runtime(self, name: str, fault: str) -> Runtime:
        """The runtime, whose command goes wrong in this way."""
        return self._made(name, (sys.executable, str(STAND_INS / "misbehaving_command.py"), str(self.folder), fault))

    def well(self) -> None:
        (self.folder / "well").touch()

    def left(self) -> list[int]:
        """Those who still run."""
        pids = self.folder / "pids"
        started = pids.read_text(encoding="utf-8").split() if pids.exists() else []
        return [int(process) for process in started if is_running(int(process))]

    def _made(self, name: str, command: tuple[str, ...]) -> Runtime:
        sessions = self.folder / "sessions"
        runtime: ClaudeRuntime | CodexRuntime | GeminiRuntime | OpencodeRuntime
        match name:
            case "acp":
                return AcpRuntime((*command, "--", *self._acp()), options=self._options())
            case "gemini --acp":
                env = {"STORE": str(self.folder), "PIDS": str(self.folder)}
                runtime = GeminiRuntime((*command, "--", *self._acp()), permissions="allow", sessions=sessions, env=env)
            case "claude":
                runtime = ClaudeRuntime((*command, "--", *self._stand_in(name, "claude_cli_hello")), sessions=sessions)
            case "codex":
                runtime = CodexRuntime((*command, "--", *self._stand_in(name, "codex_app_tool")), sessions=sessions)
            case "gemini":
                runtime = GeminiRuntime((*command, "--", *self._stand_in(name, "gemini_cli_tool")), sessions=sessions)
            case _:
                behind = self._stand_in(name, "opencode_serve_tool")
                runtime = OpencodeRuntime((*command, "--", *behind), sessions=sessions)
        runtime.timeouts = replace(runtime.timeouts, silence_timeout_s=self.silence_timeout_s, exit_timeout_s=0.3)
        return runtime

    def _stand_in(self, name: str, deed: str) -> tuple[str, ...]:
        return (sys.executable, str(STAND_INS / f"{name}_command.py"), str(self.folder), deed)

    def _acp(self) -> tuple[str, ...]:
        return (sys.executable, "-I", "-S", str(ACP_AGENT))

    def _options(self) -> AcpOptions:
        return AcpOptions(
            env={"STORE": str(self.folder), "PIDS": str(self.folder)},
            silence_timeout_s=self.silence_timeout_s,
            exit_timeout_s=0.3,
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "place"
    folder.mkdir()
    made = Place(folder)
    yield made
    assert made.left() == []


async def play(runtime: Runtime, text: str = "hello") -> list[Event]:
    prompt = Prompt(text=text, session_id="s")
    return [event async for event in checked(runtime.run(prompt), turn_id="t")]


def failed_and_went_on(place: Place, runtime: Runtime) -> TurnFailed:
    """How the first turn failed; of the command nobody is left then, and the second turn is as it should be."""

    async def turns() -> tuple[Event, list[Event]]:
        *_, failed = await play(runtime)
        assert place.left() == []
        place.well()
        if isinstance(runtime, ClaudeRuntime | CodexRuntime | GeminiRuntime | OpencodeRuntime):
            runtime.timeouts = replace(runtime.timeouts, silence_timeout_s=PATIENT_S)
        return failed, await play(runtime)

    failed, events = asyncio.run(turns())
    assert isinstance(failed, TurnFailed)
    assert isinstance(events[-1], TurnCompleted), events[-1]
    return failed


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("fault", ["garbage", "half_a_line", "fork"])
def test_what_is_no_answer_is_a_failed_turn(place: Place, name: str, fault: str) -> None:
    failed = failed_and_went_on(place, place.runtime(name, fault))
    assert failed.message


@pytest.mark.parametrize("name", RUNTIMES)
def test_one_that_closes_its_output_and_lives_on_is_not_waited_for(place: Place, name: str) -> None:
    failed = failed_and_went_on(place, place.runtime(name, "closed"))
    assert failed.code == "cut_off"


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_flood_of_complaints_ends_with_the_last_of_them(place: Place, name: str) -> None:
    failed = failed_and_went_on(place, place.runtime(name, "flood"))
    assert failed.message.rstrip(".").endswith("the last words")
    assert len(failed.message) < 10_000


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_one_that_says_nothing_is_given_up(place: Place, name: str) -> None:
    place.silence_timeout_s = IMPATIENT_S
    failed = failed_and_went_on(place, place.runtime(name, "silence"))
    assert "was silent for" in failed.message


@pytest.mark.parametrize("name", ["acp", "gemini --acp"])
def test_an_agent_of_the_protocol_that_says_nothing_to_a_prompt_is_given_up(place: Place, name: str) -> None:
    place.well()
    place.silence_timeout_s = IMPATIENT_S

    async def turns() -> list[Event]:
        runtime = place.runtime(name, "none")
        return [(await play(runtime, scene))[-1] for scene in ("unheard-of", "hello")]

    failed, completed = asyncio.run(turns())
    assert isinstance(failed, TurnFailed)
    assert "was silent for 0.2 seconds and was stopped." in failed.message
    assert isinstance(completed, TurnCompleted)


def test_one_that_is_deaf_to_every_signal_is_ended_all_the_same(place: Place) -> None:
    place.silence_timeout_s = IMPATIENT_S
    failed = failed_and_went_on(place, place.runtime("gemini", "deaf"))
    assert "was silent for" in failed.message


@pytest.mark.parametrize("name", [name for name in RUNTIMES if name != "acp"])
def test_one_of_a_version_that_knows_too_little_is_to_be_brought_up_to_date(place: Place, name: str) -> None:
    runtime = place.runtime(name, "old")
    failed = failed_and_went_on(place, runtime)
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
def test_one_that_nobody_is_logged_in_to_says_how_to(place: Place, name: str) -> None:
    failed = failed_and_went_on(place, place.runtime(name, f"locked_out {name}"))
    assert failed.message.endswith(LOG_IN[name])
    assert failed.code == "not_logged_in"


MAKERS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "claude": (ClaudeRuntime, {}, "npm install -g @anthropic-ai/claude-code"),
    "codex": (CodexRuntime, {}, "npm install -g @openai/codex"),
    "gemini": (GeminiRuntime, {}, "npm install -g @google/gemini-cli"),
    "gemini --acp": (GeminiRuntime, {"permissions": "allow"}, "npm install -g @google/gemini-cli"),
    "opencode": (OpencodeRuntime, {}, "npm install -g opencode-ai"),
}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_one_that_is_not_installed_says_how_to(name: str) -> None:
    make, options, install = MAKERS[name]
    *_, failed = asyncio.run(play(make(("no-such-command",), **options)))
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith("there is no command 'no-such-command'.")
    assert failed.message.endswith(install)
    assert failed.code == "not_found"


def test_an_agent_of_the_protocol_that_is_not_installed_is_told_by_its_name() -> None:
    *_, failed = asyncio.run(play(AcpRuntime("no-such-command --stdio")))
    message = "there is no command 'no-such-command'. Install it, or name it by its path."
    assert failed == TurnFailed(message=message, code="not_found")


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_a_conversation_that_cannot_be_remembered_is_said_so_and_goes_on_all_the_same(place: Place, name: str) -> None:
    (place.folder / "sessions").write_text("a file, where a folder is wanted", encoding="utf-8")
    place.well()
    runtime = place.runtime(name, "silence")

    async def turns() -> list[list[Event]]:
        return [await play(runtime), await play(runtime)]

    first, second = asyncio.run(turns())
    assert isinstance(first[-1], TurnCompleted)
    assert isinstance(second[-1], TurnCompleted)
    told = [event.text for event in first if isinstance(event, Notice) and "cannot be remembered" in event.text]
    assert len(told) == 1
    assert not [event for event in second if isinstance(event, Notice) and "cannot be remembered" in event.text]
