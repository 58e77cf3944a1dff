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
from tailrace.cli.commands import app
from tailrace.plugins import known

DOCS = (Path(__file__).parent.parent.parent / "docs" / "commands.md").read_text()
COMMAND = typer.main.get_command(app)
NAMES = sorted(COMMAND.commands)  # type: ignore[attr-defined]  # what typer makes of several commands has them
GROUPS = {name: sorted(COMMAND.commands[name].commands) for name in ("access", "deliveries")}  # type: ignore[attr-defined]  # as above
IN_GROUPS = [(group, name) for group, names in GROUPS.items() for name in names]


def section(command: str) -> str:
    found = re.search(rf"^## `tailrace {command}\b.*?(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/commands.md has no section on {command}"
    return found[0]


def options_of(*command: str) -> set[str]:
    lines = re.findall(r"^  (?:-h, )?(--.*?)(?:  |$)", run_here(*command, "--help").out, re.MULTILINE)
    return {option for line in lines for option in re.findall(r"--[a-z][a-z-]*", line)}


@pytest.mark.parametrize("command", sorted({*NAMES} - GROUPS.keys()))
def test_every_option_of_a_command_is_documented(command: str) -> None:
    options = options_of(command)
    assert "--help" in options
    assert {option for option in options if f"`{option}`" not in section(command)} == set()
    assert set(re.findall(r"^\| `(--[a-z-]+)`", section(command), re.MULTILINE)) <= options


@pytest.mark.parametrize("group", GROUPS)
def test_the_section_on_a_group_has_all_options_of_its_commands(group: str) -> None:
    documented = set(re.findall(r"^\| `(--[a-z-]+)`", section(group), re.MULTILINE))
    assert documented == {option for command in GROUPS[group] for option in options_of(group, command)}


@pytest.mark.parametrize(("group", "command"), IN_GROUPS)
def test_every_command_of_a_group_has_a_section_with_its_own_options(group: str, command: str) -> None:
    own_section = rf"^### `tailrace {group} {command}\b.*?(?=^##|\Z)"
    found = re.search(own_section, section(group), re.MULTILINE | re.DOTALL)
    assert found is not None
    own = set(re.findall(r"^\| `(--[a-z-]+)`", found[0], re.MULTILINE))
    shared = set(re.findall(r"^\| `(--[a-z-]+)`", section(group).partition("\n### ")[0], re.MULTILINE))
    assert options_of(group, command) - shared == own


@pytest.mark.parametrize("command", ["", *NAMES, *(f"{group} {name}" for group, name in IN_GROUPS)])
def test_h_shows_the_help_and_a_wrong_option_names_it(command: str) -> None:
    words = command.split()
    assert run_here(*words, "-h").out.startswith(f"Usage: {' '.join(['tailrace', *words])} ")
    meant = [command, "list"] if command in GROUPS else words  # without a command it lists
    done = run_here(*words, "--qqq")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err == f"tailrace: no such option: --qqq. For help: {' '.join(['tailrace', *meant])} --help\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("chatt", "no such command 'chatt'. Did you mean 'chat'? For help: tailrace --help"),
        ("deliveries lst", "no such command 'lst'. Did you mean 'list'? For help: tailrace deliveries --help"),
        ("preview", "missing argument 'FILE'. For help: tailrace preview --help"),
        ("schema", "missing argument 'NAME'. Choose from: events, chunks, config. For help: tailrace schema --help"),
        (
            "schema x",
            (
                "invalid value for 'NAME': 'x' is not one of 'events', 'chunks', 'config'. "
                "For help: tailrace schema --help"
            ),
        ),
        ("shadow", "missing option '--replay'. For help: tailrace shadow --help"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_type(words: str, error: str) -> None:
    done = run_here(*words.split())
    assert (done.exit_code, done.out, done.err) == (2, "", f"tailrace: {error}\n")


def test_help_of_chat_names_every_runtime() -> None:
    agents = run_here("chat", "--help").out.partition("AGENT is one of these:")[2]
    with_arguments = {"langgraph", "openai-agents", "pydantic-ai"}
    named = set(re.findall(r"[\w-]+", agents))
    assert {"demo", *known("runtime")} - with_arguments - named == set()


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
    frameworks = {"aiogram", "aiohttp", "slack_sdk", "discord", "nio", "starlette", "uvicorn", "asyncpg", "nats"}
    assert loaded.isdisjoint(frameworks)
    assert "sqlite3" not in re.findall(r"\| +([a-z_0-9]+)\n", done.stderr)
