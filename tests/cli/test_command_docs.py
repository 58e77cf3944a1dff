"""Every command and every option is in docs/commands.md, under its command."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer.main

from command_runs import run_here
from pseudo_terminal import TAILRACE
from tailrace import __version__
from tailrace.cli import app
from tailrace.plugins import known

DOCS = (Path(__file__).parent.parent.parent / "docs" / "commands.md").read_text()
COMMAND = typer.main.get_command(app)
NAMES = sorted(COMMAND.commands)  # type: ignore[attr-defined]  # what typer makes of several commands has them
OF_DELIVERIES = sorted(COMMAND.commands["deliveries"].commands)  # type: ignore[attr-defined]  # as above


def section(command: str) -> str:
    found = re.search(rf"^## `tailrace {command}\b.*?(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/commands.md has no section on {command}"
    return found[0]


def options_of(*command: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", run_here(*command, "--help").out))


@pytest.mark.parametrize("command", sorted({*NAMES} - {"deliveries"}))
def test_every_option_of_a_command_is_documented(command: str) -> None:
    options = options_of(command)
    assert "--help" in options
    assert {option for option in options if f"`{option}`" not in section(command)} == set()
    assert set(re.findall(r"^\| `(--[a-z-]+)`", section(command), re.MULTILINE)) <= options


def test_the_section_on_deliveries_has_all_options_of_its_commands() -> None:
    documented = set(re.findall(r"^\| `(--[a-z-]+)`", section("deliveries"), re.MULTILINE))
    assert documented == {option for command in OF_DELIVERIES for option in options_of("deliveries", command)}


@pytest.mark.parametrize("command", OF_DELIVERIES)
def test_every_command_of_deliveries_has_a_section_with_its_own_options(command: str) -> None:
    own_section = rf"^### `tailrace deliveries {command}\b.*?(?=^##|\Z)"
    found = re.search(own_section, section("deliveries"), re.MULTILINE | re.DOTALL)
    assert found is not None
    own = set(re.findall(r"^\| `(--[a-z-]+)`", found[0], re.MULTILINE))
    shared = set(re.findall(r"^\| `(--[a-z-]+)`", section("deliveries").partition("\n### ")[0], re.MULTILINE))
    assert options_of("deliveries", command) - shared == own


@pytest.mark.parametrize("command", ["", *NAMES, *(f"deliveries {name}" for name in OF_DELIVERIES)])
def test_h_is_help_and_wrong_options_are_one_line(command: str) -> None:
    words = command.split()
    helped = subprocess.run([TAILRACE, *words, "-h"], capture_output=True, text=True, check=True)
    assert f"Usage: {' '.join(['tailrace', *words])} " in helped.stdout
    wrong = subprocess.run([TAILRACE, *words, "--qqq"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    command = "deliveries list" if command == "deliveries" else command  # which is meant without a command
    assert (
        wrong.stderr
        == f"tailrace: no such option: --qqq. For help: {' '.join(['tailrace', *command.split()])} --help\n"
    )


def test_the_agents_that_have_a_name_are_in_the_help_of_chat() -> None:
    text = " ".join((COMMAND.commands["chat"].help or "").split())  # type: ignore[attr-defined]  # as above
    with_arguments = {"acp", "agui", "vercel", "langgraph", "openai-agents", "pydantic-ai"}
    *names, last = ["demo", *sorted({*known("runtime")} - with_arguments - {"demo"})]
    assert f"AGENT is {', '.join(names)} or {last};" in text


def test_the_options_of_the_program_itself_are_documented() -> None:
    assert all(f"| `{option}` |" in DOCS for option in options_of())


def test_the_version_is_printed() -> None:
    assert run_here("--version").out == f"tailrace {__version__}\n"


def test_help_loads_no_platform_and_no_web_framework() -> None:
    done = subprocess.run(
        [TAILRACE, "--help"], capture_output=True, text=True, check=True, env={"PYTHONPROFILEIMPORTTIME": "1"}
    )
    loaded = set(re.findall(r"\| +([a-z_]+)\n", done.stderr))
    assert "typer" in loaded
    assert loaded.isdisjoint({"aiogram", "slack_sdk", "discord", "nio", "starlette", "uvicorn", "asyncpg", "nats"})
    assert "sqlite3" not in re.findall(r"\| +([a-z_0-9]+)\n", done.stderr)
