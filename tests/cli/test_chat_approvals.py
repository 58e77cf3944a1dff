"""What an agent may do, decided by the person at a real pseudo-terminal, or by `--permissions`."""

from __future__ import annotations

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
STAND_INS = Path(__file__).parent.parent / "runtimes" / "stand_ins"
ACP = f"acp:{sys.executable} -I -S {AGENTS / 'acp_agent.py'}"
QUESTION = ["? rm -rf 0", "  1  Always", "  2  Yes", "  3  No", "  1-3, y, n:"]


@pytest.fixture
def chat(tmp_path: Path) -> Callable[..., Person]:
    def start(*arguments: str, **window: int) -> Person:
        env = {"XDG_DATA_HOME": str(tmp_path / "data"), "STORE": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return Person(TAILRACE, "chat", *arguments, cwd=AGENTS, env=env, columns=100, rows=40, **window)

    return start


def outcome(option: str) -> str:
    return f"{{'outcome': 'selected', 'optionId': '{option}'}}"


@pytest.mark.parametrize(("keys", "option"), [("1\r", "always"), (CTRL_D, "no")])
def test_person_is_asked_and_the_turn_continues_with_the_answer(
    chat: Callable[..., Person], keys: str, option: str
) -> None:
    with chat(ACP) as person:
        person.is_prompted()
        person.type("permission\r")
        person.sees("1-3, y, n:")
        assert person.lines()[-5:] == QUESTION
        person.type(keys)
        person.sees(outcome(option))
        person.is_prompted()
        assert "Waiting for permission" not in person.all_text(), "the question has replaced this status"
        person.type("hello\r")
        person.sees("Hello, wörld")
        person.is_prompted()
        person.type(CTRL_D)
        assert person.leaves() == 0


def test_question_of_claude_is_broken_between_words_in_a_narrow_window(
    chat: Callable[..., Person], tmp_path: Path
) -> None:
    claude = tmp_path / "claude"
    claude.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_INS / "claude_command.py"} {tmp_path} asks "$@"\n')
    claude.chmod(0o755)
    with chat("claude") as person:
        person.is_prompted()
        person.resize(26, 40)
        person.type("go\r")
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
        person.resize(100, 40)
        person.type("y\r")
        person.sees("The tool said hi.")
        person.is_prompted()
        assert any(line.startswith("✓ Bash: echo tool-says-hi") for line in person.lines())


def _wait_for(note: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while not note.exists():
        assert time.monotonic() < end, f"{note.name} was never written"
        time.sleep(0.01)


def test_nothing_is_written_over_an_open_question(chat: Callable[..., Person], tmp_path: Path) -> None:
    with chat(ACP) as person:
        person.is_prompted()
        person.type("talkative\r")
        person.sees("1-3, y, n:")
        (tmp_path / "asked").touch()
        _wait_for(tmp_path / "talked")
        person.type("n")
        person.until(lambda: person.lines()[-1].endswith(": n"), "what is typed")
        assert person.lines()[-5:] == [*QUESTION[:-1], "  1-3, y, n: n"]
        person.type("\r")
        person.sees("blah blah")
        person.sees(outcome("no"))
        assert person.all_text().index("n: n") < person.all_text().index("blah")


def test_ctrl_c_at_a_question_stops_the_turn_and_the_session_goes_on(chat: Callable[..., Person]) -> None:
    with chat(ACP) as person:
        person.is_prompted()
        person.type("permission\r")
        person.sees("1-3, y, n:")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.is_prompted()
        person.type("hello\r")
        person.sees("Hello, wörld")
        person.is_prompted()
        assert "Traceback" not in person.all_text()
        person.type(CTRL_D)
        assert person.leaves() == 0


def test_keys_typed_before_the_question_do_not_answer_it(chat: Callable[..., Person], tmp_path: Path) -> None:
    with chat(ACP) as person:
        person.is_prompted()
        person.type("later\r")
        person.sees("one moment")
        person.type("1\r1")
        (tmp_path / "asked").touch()
        person.sees("1-3, y, n:")
        person.type("3\r")
        person.sees(outcome("no"))


def test_permissions_allow_answers_instead_of_the_person(chat: Callable[..., Person]) -> None:
    with chat(ACP, "--permissions", "allow") as person:
        person.is_prompted()
        person.type("permission\r")
        person.sees(outcome("yes"))
        person.is_prompted()
        assert "y, n:" not in person.all_text()


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
