"""Subagents and stops as people see them: recordings of real agents, played to `tailrace chat` in a pseudo-terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pseudo_terminal import CTRL_C, TAILRACE, Person

if TYPE_CHECKING:
    from collections.abc import Callable

STAND_INS = Path(__file__).parent.parent / "runtimes" / "stand_ins"
NESTED = ["  │ Child speaking.", "  ✓ {shell}: echo from-child (T)", "  │ Child result."]


@pytest.fixture
def chat(tmp_path: Path) -> Callable[[str, str], Person]:
    """Chat with a command of that name, which does what its stand-in is told."""

    def start(name: str, deed: str) -> Person:
        command = tmp_path / name
        stand_in = STAND_INS / f"{name}_command.py"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} {tmp_path} {deed} "$@"\n')
        command.chmod(0o755)
        env = {"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return Person(TAILRACE, "chat", name, "--permissions", "deny", cwd=tmp_path, env=env, columns=100, rows=40)

    return start


def answer(person: Person) -> list[str]:
    """What stands between the two prompts, with all times alike."""
    person.is_prompted()
    person.type("go\r")
    person.until(lambda: "> go" in person.all_text(), "what was typed")
    person.is_prompted()
    lines = person.lines()
    return [re.sub(r"\(\d+\.\ds\)", "(T)", line) for line in lines[lines.index("> go") + 1 : -2]]


@pytest.mark.parametrize(
    ("name", "recording", "shown"),
    [
        (
            "claude",
            "claude_cli_subagent",
            [
                "Delegating.",
                "",
                "◌ Agent: child task",
                "",
                "Parent done.",
                "",
                "↳ Agent: child task",
                *NESTED,
                "✓ Agent: child task (T)",
                "",
                "Parent done.",
            ],
        ),
        (
            "claude",
            "claude_cli_subagent_forwarded",
            ["Delegating.", "", "◌ Agent: child task", *NESTED, "✓ Agent: child task (T)", "", "Parent done."],
        ),
        (
            "opencode",
            "opencode_serve_subagent",
            ["Delegating.", "", "◌ task: child task", *NESTED, "✓ task: child task (T)", "", "Parent done."],
        ),
    ],
)
def test_a_subagent_stands_under_its_call(
    chat: Callable[[str, str], Person], name: str, recording: str, shown: list[str]
) -> None:
    shell = "Bash" if name == "claude" else "bash"
    with chat(name, recording) as person:
        assert answer(person) == [line.format(shell=shell) for line in shown]


def test_why_a_tool_was_not_allowed_is_said_once(chat: Callable[[str, str], Person]) -> None:
    with chat("claude", "claude_cli_denied") as person:
        lines = answer(person)
        assert "· Bash was not allowed: A variable in this command can't be checked before it runs" in lines
        assert "\n".join(lines).count("can't be checked") == 1


def test_what_is_said_again_stands_below_the_line_that_takes_it_back(chat: Callable[[str, str], Person]) -> None:
    with chat("codex", "codex_app_errmid") as person:
        lines = answer(person)
        said = [number for number, line in enumerate(lines) if line == "This will break"]
        withdrawn = [number for number, line in enumerate(lines) if line.startswith("↩ the last text is withdrawn")]
        assert len(said) == len(withdrawn) + 1 > 1
        assert all(one < taken < other for one, taken, other in zip(said, withdrawn, said[1:], strict=False))


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_a_stop_is_shown_and_so_is_what_it_left_unfinished(chat: Callable[[str, str], Person], name: str) -> None:
    with chat(name, "stalls") as person:
        person.is_prompted()
        person.type("go\r")
        person.until(lambda: any(line.startswith(("◌", "Let me")) for line in person.lines()), "a tool, or a text")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.is_prompted()
        assert "◌" not in "".join(person.lines()[-4:])
        assert "Traceback" not in person.all_text()
