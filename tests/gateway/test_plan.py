"""The plan of a gateway from its settings: which extensions and schedules it runs, and with which agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.config import Settings, read_settings
from tailrace.errors import UsageError
from tailrace.gateway.extensions import BrokenExtension, Extension
from tailrace.gateway.plan import GatewayPlan, plan_of_settings

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = '[agents.main]\nuse = "demo"\n[agents.coder]\nuse = "demo"\npresentation = "parts"\n'
CHANNELS = '[channels.terminal]\nagent = "main"\n[channels.second]\ntype = "telegram"\ntoken = "1:a"\nagent = "main"\n'
SCHEDULES = """
[schedule.first]
every = "1h"
prompt = "x"
channel = "terminal"
to = "1"
agent = "coder"

[schedule.second]
cron = "0 8 * * *"
prompt = "x"
channel = "second"
to = "1"
agent = "main"
"""


def settings(folder: Path, toml: str, *assignments: str) -> Settings:
    (folder / "tailrace.toml").write_text(toml)
    return read_settings(folder / "tailrace.toml", assignments, {})


def write_extension(folder: Path, name: str, agent: str) -> None:
    (folder / "extensions" / name).mkdir(parents=True)
    (folder / "extensions" / name / "manifest.yaml").write_text(f"name: {name}\nentry: main:Own\nagent: {agent}\n")
    (folder / "extensions" / name / "main.py").write_text("class Own: pass\n")


def agents_of(plan: GatewayPlan) -> dict[str, str]:
    """The agents of the extensions and schedules, by their names."""
    extensions = [each for each in plan.extensions if isinstance(each, Extension)]
    schedules = {schedule.name: schedule.agent_id for schedule in plan.schedules}
    return {each.name: each.agent_id for each in extensions} | schedules


def test_extensions_and_schedules_have_their_agents(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", "coder")
    write_extension(tmp_path, "wrong", "nowhere")
    plan = plan_of_settings(settings(tmp_path, AGENTS + CHANNELS + SCHEDULES), ledger=tmp_path / "ledger.db")
    assert agents_of(plan) == {"good": "coder", "first": "coder", "second": "main"}
    assert [each.name for each in plan.extensions if isinstance(each, BrokenExtension)] == ["wrong"]


def test_the_agent_of_a_command_line_answers_everywhere(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", "nowhere")
    read = settings(tmp_path, AGENTS + CHANNELS + SCHEDULES)
    plan = plan_of_settings(read, ledger=tmp_path / "ledger.db", channels=["terminal"], agent="demo")
    assert agents_of(plan) == {"good": "main", "first": "main"}  # the channel `second` is not served
    assert plan.agents.keys() == {"main"}


def test_an_extension_alone_is_enough_to_serve(tmp_path: Path) -> None:
    read = settings(tmp_path, AGENTS)
    with pytest.raises(UsageError, match="there is no channel: add a table such as"):
        plan_of_settings(read, ledger=tmp_path / "ledger.db")
    write_extension(tmp_path, "good", "main")
    assert agents_of(plan_of_settings(read, ledger=tmp_path / "ledger.db")) == {"good": "main"}


def test_a_folder_that_is_named_must_exist(tmp_path: Path) -> None:
    read = settings(tmp_path, AGENTS + CHANNELS, "gateway.extensions=nowhere")
    with pytest.raises(UsageError, match=r"gateway\.extensions: there is no folder nowhere"):
        plan_of_settings(read, ledger=tmp_path / "ledger.db")
