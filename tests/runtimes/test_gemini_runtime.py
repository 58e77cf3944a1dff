"""gemini-cli as a process: what it is asked, what it remembers, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_streams import is_running

from tailrace.contract import checked
from tailrace.events import Event, Notice, Status, TextDelta, ToolStarted, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.gemini import GeminiRuntime

if TYPE_CHECKING:
    from tailrace.runtimes.permissions import Choice, Question

COMMAND = Path(__file__).parent / "stand_ins" / "gemini_command.py"
SESSION = "cf20d1bd-d87a-4019-83d2-b7ea454bc738"
FLAGS = ["--output-format", "stream-json"]


def gemini(folder: Path, deed: str, **options: Any) -> GeminiRuntime:
    command = (sys.executable, str(COMMAND), str(folder), deed)
    return GeminiRuntime(command, sessions=folder / "sessions", **options)


def play(runtime: Runtime, text: str = "hello", **fields: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text=text, **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked").read_text(encoding="utf-8").splitlines()]


def resumed(folder: Path) -> list[list[str]]:
    """What each run was told beyond what every run is told."""
    return [run["arguments"][len(FLAGS) :] for run in asked(folder)]


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_answer_comes_piece_by_piece_and_the_turn_completes(tmp_path: Path) -> None:
    events = play(gemini(tmp_path, "gemini_cli_tool"), session_id="one")
    assert events[0] == TurnStarted(turn_id="t", runtime="gemini", session_id="one")
    assert said(events) == "Let me check.The tool said hi."
    assert isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize("text", ["hello", "", "--help", "two\nlines\n", "日本語 " * 30_000, "\ud800 alone"])
def test_any_prompt_is_given_as_it_is_and_never_as_an_option(text: str, tmp_path: Path) -> None:
    play(gemini(tmp_path, "gemini_cli_tool", env={"MOOD": "good"}), text)
    heard = text.replace("\ud800", "?") + "\n"
    assert asked(tmp_path) == [{"arguments": FLAGS, "prompt": heard, "mood": "good"}]


def test_a_session_goes_on_with_its_conversation_also_after_a_restart(tmp_path: Path) -> None:
    for session in ("one", "one", "two", ""):
        play(gemini(tmp_path, "gemini_cli_tool"), session_id=session)
    assert resumed(tmp_path) == [[], ["--resume", SESSION], [], []]


def test_a_conversation_that_is_not_there_any_more_is_begun_anew_and_that_is_said(tmp_path: Path) -> None:
    play(gemini(tmp_path, "gemini_cli_tool"), session_id="one")
    events = play(gemini(tmp_path, "forgets"), session_id="one")
    assert Notice(text="gemini starts a new conversation: the earlier one cannot be found.") in events
    assert isinstance(events[-1], TurnCompleted)
    assert resumed(tmp_path) == [[], ["--resume", SESSION], []]


def test_one_that_refuses_to_start_says_why_and_is_not_started_twice(tmp_path: Path) -> None:
    play(gemini(tmp_path, "gemini_cli_tool"), session_id="one")
    failed = play(gemini(tmp_path, "refuses"), session_id="one")[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.message.endswith(
        "exited with code 41: Please set an Auth method. gemini is not logged in. Run gemini once and log in, or set "
        "GEMINI_API_KEY."
    )
    assert failed.code == "not_logged_in"
    assert len(asked(tmp_path)) == 2


def test_one_that_dies_leaves_what_it_said(tmp_path: Path) -> None:
    events = play(gemini(tmp_path, "dies"))
    assert said(events) == "Let me check."
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].message.endswith("was ended by signal 9")


def test_a_command_that_is_not_installed_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    message = "there is no command 'no-such-gemini'. Install gemini-cli with: npm install -g @google/gemini-cli"
    events = play(GeminiRuntime(("no-such-gemini",), sessions=tmp_path))
    assert events[1:] == [TurnFailed(message=message, code="not_found")]


def test_leaving_in_the_middle_ends_it_and_the_command_that_it_runs(tmp_path: Path) -> None:
    async def leave() -> None:
        async with aclosing(gemini(tmp_path, "stalls").run(Prompt(text="hello", session_id="one"))) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break

    asyncio.run(leave())
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))
    play(gemini(tmp_path, "gemini_cli_tool"), session_id="one")
    assert resumed(tmp_path)[-1][0] == "--resume", "what was stopped can be gone on with"


ACP_AGENT = Path(__file__).parent.parent / "agents" / "acp_agent.py"


class Person:
    """Says yes, and remembers to what."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Choice | None:
        self.asked.append(question.title)
        return question.allowing()


def test_where_somebody_is_asked_it_speaks_the_protocol_by_which_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    person = Person()
    command = (sys.executable, "-I", "-S", str(ACP_AGENT))
    runtime = GeminiRuntime(command, approver=person, env={"STORE": str(tmp_path)})
    events = play(runtime, "permission", session_id="one")
    assert events[0] == TurnStarted(turn_id="t", runtime="gemini", session_id="one")
    assert said(events) == "{'outcome': 'selected', 'optionId': 'yes'}"
    assert person.asked == ["rm -rf 0"]
    assert isinstance(events[-1], TurnCompleted)


def test_one_that_does_not_know_the_protocol_is_heard_without_it_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    runtime = gemini(tmp_path, "old", permissions="allow")
    status = Status(text="This gemini cannot ask: it does only what its approval mode allows.")
    for expected in ([status], []):
        events = play(runtime)
        assert [event for event in events if isinstance(event, Status)] == expected
        assert isinstance(events[-1], TurnCompleted)
