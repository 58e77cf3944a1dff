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
    """Chat with a stand-in for the command of that name, which plays a recording or a scene."""

    def start(name: str, deed: str) -> Person:
        command = tmp_path / name
        stand_in = STAND_INS / f"{name}_command.py"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} {tmp_path} {deed} "$@"\n')
        command.chmod(0o755)
        env = {"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        return Person(TAILRACE, "chat", name, "--permissions", "deny", cwd=tmp_path, env=env, columns=100, rows=40)

    return start


def answer(person: Person) -> list[str]:
    """The lines between the two prompts, without their times."""
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
def test_subagent_is_shown_under_its_call(
    chat: Callable[[str, str], Person], name: str, recording: str, shown: list[str]
) -> None:
    shell = "Bash" if name == "claude" else "bash"
    with chat(name, recording) as person:
        assert answer(person) == [line.format(shell=shell) for line in shown]


def test_repeated_text_is_below_the_line_that_withdraws_it(chat: Callable[[str, str], Person]) -> None:
    with chat("codex", "codex_app_errmid") as person:
        lines = answer(person)
        said = [number for number, line in enumerate(lines) if line == "This will break"]
        withdrawn = [number for number, line in enumerate(lines) if line.startswith("↩ the last text is withdrawn")]
        assert len(said) == len(withdrawn) + 1 > 1
        assert all(one < taken < other for one, taken, other in zip(said, withdrawn, said[1:], strict=False))


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_stopped_turn_shows_what_was_not_finished(chat: Callable[[str, str], Person], name: str) -> None:
    with chat(name, "stalls") as person:
        person.is_prompted()
        person.type("go\r")
        person.until(lambda: any(line.startswith(("◌", "Let me")) for line in person.lines()), "a tool, or a text")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.is_prompted()
        assert "◌" not in "".join(person.lines()[-4:])
        assert "Traceback" not in person.all_text()
