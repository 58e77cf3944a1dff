"""The documents are true: their examples run, their links are not broken, their commands exist."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import fields

from tailrace.config import (
    DESCRIPTIONS,
    ENVIRONMENT,
    AgentSettings,
    ChannelSettings,
    GatewaySettings,
    LiveShadowSettings,
    ScheduleSettings,
    read_settings,
)
from tailrace.deliveries import State
from tailrace.delivery import CourierSettings, RecoverySettings
from tailrace.plugins import channel_settings, known
from tailrace.projector import ProjectorSettings
from tailrace.projector.presentation import PRESENTATIONS
from tailrace.testing.runtime_contract import RuntimeContract
from tailrace.testing.runtime_scenarios import Player

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


@every_document
def test_python_sessions_run_as_shown(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    sessions = [code for _fence, code in re.findall(r"(?ms)^(`{3,})pycon\n(.*?)^\1$", text)]
    session = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, document.name, str(document), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(session, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted or document.name != "markdown.md"


@every_document
def test_links_within_the_tree_are_not_broken(document: Path) -> None:
    links = re.findall(r"\]\((?!\w+://|#)([^)#]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@every_document
def test_targets_of_make_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z]+):", makefile))
    named = set(re.findall(r"(?m)(?:^|`)make (?:\w+=(?:'[^']*'|\S+) )?([a-z]+)", document.read_text(encoding="utf-8")))
    assert named <= targets


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def program_of(name: str) -> str:
    """The one program of a page."""
    [program] = re.findall(r"(?ms)^```python\n(.*?)^```$", page(name))
    return str(program)


def printed_by(name: str) -> list[str]:
    """The lines that the program of a page prints."""
    done = subprocess.run([sys.executable, "-c", program_of(name)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_programs_of_the_pages_print_what_they_should() -> None:
    assert printed_by("delivery") == ["First part.", "", "Last part."]
    kinds = [line.split()[1] for line in printed_by("presentations")]
    assert kinds == ["Post", "Edit", "Edit"]


def test_every_setting_state_and_presentation_is_documented() -> None:
    settings = {*CourierSettings.__struct_fields__, *RecoverySettings.__struct_fields__}
    assert {name for name in settings if f"| `{name}` |" not in page("delivery")} == set()
    assert {state for state in State if str(state) not in page("delivery")} == set()
    presentations = (set(PRESENTATIONS) - {"drafts", "streams"}) | {"native"}
    settings = {*ProjectorSettings.__struct_fields__, *presentations}
    assert {name for name in settings if f"| `{name}` |" not in page("presentations")} == set()


SETTING_ROW = r"(?m)^\| `(\w+)` \| (.*) \| (.*) \| `(.*)` \|$"


def documented_settings(section: str, struct: type[msgspec.Struct]) -> dict[str, str]:
    """The example of each key in a section of the page on settings, which has all keys with their defaults."""
    [found] = re.findall(rf"(?ms)^#+ {re.escape(section)}$.*?(?=^#|\Z)", page("settings"))
    rows = {key: (default, example) for key, _, default, example in re.findall(SETTING_ROW, found) if key != "type"}
    assert list(rows) == list(struct.__struct_fields__)
    for field in fields(struct):
        if field.default not in (None, msgspec.NODEFAULT):
            assert rows[field.name][0] == f"`{msgspec.json.encode(field.default).decode()}`"
    return {key: example for key, (_, example) in rows.items()}


def test_editors_show_the_descriptions_of_the_page_on_settings() -> None:
    for table, descriptions in DESCRIPTIONS.items():
        [found] = re.findall(rf"(?ms)^## `\[{table}(?:\.NAME)?\]`$.*?(?=^#|\Z)", page("settings"))
        rows = re.findall(SETTING_ROW, found)
        plain = {key: re.sub(r", see \[.*?\)|; needed|`", "", meaning) for key, meaning, *_ in rows}
        assert plain == descriptions


def assignments(table: str, examples: dict[str, str]) -> list[str]:
    return [f"{table}.{key}={example}" for key, example in examples.items()]


def test_every_setting_is_documented_with_its_default_and_an_example_that_works() -> None:
    shared = assignments("gateway", documented_settings("`[gateway]`", GatewaySettings))
    shared += assignments("agents.main", documented_settings("`[agents.NAME]`", AgentSettings))
    shared += assignments("shadow", documented_settings("`[shadow]`", LiveShadowSettings))
    schedule = documented_settings("`[schedule.NAME]`", ScheduleSettings)
    every, cron = schedule.pop("every"), schedule.pop("cron")
    shared += assignments("schedule.a", schedule | {"every": every})
    shared += assignments("schedule.b", schedule | {"cron": cron})
    of_channels = documented_settings("`[channels.NAME]`", ChannelSettings)
    for kind in known("channel"):
        own = channel_settings(kind)
        keys = of_channels | (documented_settings(f'`type = "{kind}"`', own) if own.__struct_fields__ else {})
        examples = [*shared, *assignments(f"channels.{kind}", keys), "channels.telegram.type=telegram"]
        settings = read_settings(None, examples, {})
        assert settings.schedules().keys() == {"a", "b"}
        explained = [*settings.explained(), *settings.channel(kind, channel_settings).explained]
        not_set = {value.key for value in explained if value.origin != "--set"} - {f"channels.{kind}.type"}
        assert not_set == {"schedule.a.cron", "schedule.b.every"}


def test_every_environment_variable_is_documented() -> None:
    rows = {f"| `{name}` | `channels.{channel}.{key}` |" for name, (channel, key) in ENVIRONMENT.items()}
    assert {row for row in rows if row not in page("settings")} == set()


def test_the_file_and_the_channel_on_the_page_of_settings_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [toml] = re.findall(r"(?ms)^```toml\n(.*?)^```$", page("settings"))
    (tmp_path / "tailrace.toml").write_text(toml, encoding="utf-8")
    settings = read_settings(tmp_path / "tailrace.toml", ["channels.telegram.harbour=south"], {})
    (tmp_path / "channel_of_the_page.py").write_text(program_of("settings"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    ferry = import_module("channel_of_the_page").FerryChannel
    configured = {name: settings.channel(name, lambda _: ferry.Settings) for name in settings.channels()}
    assert {name: found.type for name, found in configured.items()} == {"telegram": "telegram", "support": "telegram"}
    assert {settings.agent_of(f"channels.{name}") for name in configured} == set(settings.agents())
    assert settings.schedules()["morning"].to == "12345"
    assert ferry(**configured["telegram"].options).harbour == "south"


def test_runtime_of_the_contract_page_passes_the_contract(tmp_path: Path) -> None:
    (tmp_path / "test_my_runtime.py").write_text(program_of("runtime-contract"), encoding="utf-8")
    options = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, "test_my_runtime.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    tests = [name for name in vars(RuntimeContract) if name.startswith("test_")]
    assert f"{len(tests)} passed" in done.stdout, done.stdout
    methods = {name for name in vars(Player) if not name.startswith("_")}
    assert {name for name in methods if f"`{name}" not in page("runtime-contract")} == set()


def test_every_document_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS} - {"README.md"}
    found = {name for name in names if f"({name})" in readme}
    found |= {f"docs/{link}" for link in re.findall(r"\]\((runtimes/[^)#]+)", (ROOT / "docs/runtimes.md").read_text())}
    assert names - found == set()
