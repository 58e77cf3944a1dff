"""`tailrace chat` with agents that are commands, in a pseudo-terminal: subagents, stops and permissions.

Commands that play recordings and scenes take the place of the agents.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pseudo_terminal import CTRL_C, CTRL_D, DEADLINE_S, TAILRACE, Person

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTS = Path(__file__).parent.parent / "agents"
CLAUDE = Path(__file__).parent.parent / "runtimes" / "stand_ins" / "claude_command.py"
ACP = f"acp:{sys.executable} -I -S {AGENTS / 'acp_agent.py'}"
QUESTION = ["? rm -rf 0", "  1  Always", "  2  Yes", "  3  No", "  1-3, y, n:"]


@pytest.fixture
def chat(tmp_path: Path) -> Callable[..., Person]:
    """Start a chat with an agent. `scene` is what the command `claude` plays."""

    def start(agent: str, *options: str, scene: str = "", columns: int = 100) -> Person:
        command = tmp_path / "claude"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {CLAUDE} {tmp_path} {scene} "$@"\n')
        command.chmod(0o755)
        env = {"XDG_DATA_HOME": str(tmp_path / "data"), "STORE": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return Person(TAILRACE, "chat", agent, *options, cwd=tmp_path, env=env, columns=columns, rows=40)

    return start


def outcome(option: str) -> str:
    return f"{{'outcome': 'selected', 'optionId': '{option}'}}"


def test_a_subagent_is_shown_under_its_call(chat: Callable[..., Person]) -> None:
    with chat("claude", "--permissions", "deny", scene="claude_cli_subagent") as person:
        person.says("go")
        person.until(lambda: "> go" in person.all_text(), "what was typed")
        person.is_prompted()
        lines = person.lines()
    assert [re.sub(r"\(\d+\.\ds\)", "(T)", line) for line in lines[lines.index("> go") + 1 : -2]] == [
        "Delegating.",
        "",
        "◌ Agent: child task",
        "",
        "Parent done.",
        "",
        "↳ Agent: child task",
        "  │ Child speaking.",
        "  ✓ Bash: echo from-child (T)",
        "  │ Child result.",
        "✓ Agent: child task (T)",
        "",
        "Parent done.",
    ]


def test_a_stopped_turn_shows_no_tool_as_running(chat: Callable[..., Person]) -> None:
    with chat("claude", "--permissions", "deny", scene="stalls") as person:
        person.says("go")
        person.until(lambda: any(line.startswith(("◌", "Let me")) for line in person.lines()), "a tool, or a text")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.is_prompted()
        assert "◌" not in "".join(person.lines()[-4:])
        assert "Traceback" not in person.all_text()


@pytest.mark.parametrize(("keys", "option"), [("1\r", "always"), (CTRL_D, "no")])
def test_the_turn_continues_with_the_answer_of_the_person(chat: Callable[..., Person], keys: str, option: str) -> None:
    with chat(ACP) as person:
        person.says("permission")
        person.sees("1-3, y, n:")
        assert person.lines()[-5:] == QUESTION
        person.type(keys)
        person.sees(outcome(option))
        person.is_prompted()
        assert "Waiting for permission" not in person.all_text(), "the question has replaced this status"
        person.says("hello")
        person.sees("Hello, wörld")
        assert person.quits() == 0


def test_a_question_is_broken_between_words_in_a_narrow_window(chat: Callable[..., Person]) -> None:
    with chat("claude", scene="asks", columns=26) as person:
        person.says("go")
        person.sees("1-3, y, n:")
        assert person.lines()[-7:] == [
            "? Claude wants to use Bash",
            "    touch made.txt",
            "  1  Allow",
            "  2  Always allow",
            "     Bash(touch made.txt)",
            "  3  Deny",
            "  1-3, y, n:",
        ]


def test_nothing_is_written_over_an_open_question(chat: Callable[..., Person], tmp_path: Path) -> None:
    with chat(ACP) as person:
        person.says("talkative")
        person.sees("1-3, y, n:")
        (tmp_path / "asked").touch()
        end = time.monotonic() + DEADLINE_S
        while not (tmp_path / "talked").exists():
            assert time.monotonic() < end, "the agent never wrote more"
            time.sleep(0.01)
        person.type("n")
        person.until(lambda: person.lines()[-1].endswith(": n"), "what is typed")
        assert person.lines()[-5:] == [*QUESTION[:-1], "  1-3, y, n: n"]
        person.type("\r")
        person.sees("blah blah")
        person.sees(outcome("no"))
        assert person.all_text().index("n: n") < person.all_text().index("blah")


def test_ctrl_c_at_a_question_stops_the_turn_and_the_session_goes_on(chat: Callable[..., Person]) -> None:
    with chat(ACP) as person:
        person.says("permission")
        person.sees("1-3, y, n:")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.says("hello")
        person.sees("Hello, wörld")
        assert person.quits() == 0
        assert "Traceback" not in person.all_text()


@pytest.mark.parametrize(("options", "option"), [((), "no"), (("--permissions", "allow"), "yes")])
def test_in_a_pipe_everything_is_denied_by_default(tmp_path: Path, options: tuple[str, ...], option: str) -> None:
    done = subprocess.run(
        [TAILRACE, "chat", ACP, *options],
        input="permission\n",
        capture_output=True,
        text=True,
        check=True,
        env={"XDG_DATA_HOME": str(tmp_path), "STORE": str(tmp_path)},
    )
    assert outcome(option) in done.stdout
