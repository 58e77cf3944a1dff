"""`tailrace check`: the settings with their origins, and what each channel says of its account."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from command_runs import COMPLETED, lines, text
from installed_ferry import TOKEN, FerryFolder

if TYPE_CHECKING:
    from pathlib import Path

FERRY = '[channels.ferry]\ntoken = "env:FERRY_TOKEN"\n'
SECOND = '[channels.second]\ntype = "ferry"\ntoken = "env:FERRY_TOKEN"\nharbour = "strict"\n'


@pytest.fixture
def folder(tmp_path: Path) -> FerryFolder:
    return FerryFolder(tmp_path)


def test_accounts_that_work_exit_with_0(folder: FerryFolder) -> None:
    folder.write(f"{FERRY}[channels.terminal]\n")
    done = folder.run("check")
    assert (done.exit_code, done.err) == (0, "stopped ferry\n")
    assert done.out.splitlines() == [
        "✓ ferry: the token is valid in the harbour north",
        "✓ terminal: this channel has no account to check",
    ]


def test_what_is_missing_is_said_without_the_token_and_exits_with_1(folder: FerryFolder) -> None:
    folder.write(FERRY + SECOND)
    done = folder.run("check", "--json")
    assert (done.exit_code, done.err) == (1, "stopped ferry\nstopped second\n")
    assert done.objects == [
        {"channel": "ferry", "ok": True, "text": "the token is valid in the harbour north"},
        {"channel": "second", "ok": True, "text": "the token is valid in the harbour strict"},
        {"channel": "second", "ok": False, "text": "the right to post is missing: switch it on for [redacted]"},
    ]


@pytest.mark.parametrize(
    ("harbour", "line"),
    [
        ("revoked", "✗ ferry: the token was revoked: get a new one"),
        ("broken", "✗ ferry: the check failed: KeyError: '[redacted]'"),
    ],
)
def test_a_check_that_fails_is_a_finding(folder: FerryFolder, harbour: str, line: str) -> None:
    folder.write(FERRY)
    done = folder.run("check", "--set", f"channels.ferry.harbour={harbour}")
    assert (done.exit_code, done.out.splitlines(), done.err) == (1, [line], "stopped ferry\n")


def test_explain_shows_each_value_with_its_origin(folder: FerryFolder) -> None:
    (folder.folder / "other.toml").write_text(f'[gateway]\ndata_dir = "state"\n{FERRY}')
    done = folder.run("check", "other.toml", "--explain", "--set", "channels.ferry.max_age_s=60")
    values = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert values[0] == ["gateway.data_dir", json.dumps(str(folder.folder / "state")), "(other.toml)"]
    assert ["gateway.extensions", json.dumps(str(folder.folder / "extensions")), "(default)"] in values
    first = values.index(["channels.ferry.type", '"ferry"', "(default)"])
    assert values[first : first + 3] == [
        ["channels.ferry.type", '"ferry"', "(default)"],
        ["channels.ferry.token", '"env:FERRY_TOKEN"', "(other.toml)"],
        ["channels.ferry.harbour", '"north"', "(default)"],
    ]
    assert ["channels.ferry.agent", "-", "(default)"] in values
    assert ["channels.ferry.max_age_s", "60", "(--set)"] in values
    as_json = folder.run("check", "other.toml", "--explain", "--json").objects
    assert {"key": "channels.ferry.token", "value": "env:FERRY_TOKEN", "origin": "other.toml"} in as_json
    assert as_json[-1]["ok"]


AGENTS = """
[agents.main]
use = "my_app:agent"
presentation = "parts"

[agents.other]
use = "my_app:none"
middleware = "my_app:add_date"

[agents.broken]
use = "my_app:agent"
middleware = "my_app:TEXT"

[agents.command]
use = "claude"
"""
MODULE = """
TEXT = "x"

async def agent(prompt):
    yield "Hello."

async def add_date(prompt, agent_id):
    return prompt
"""


def test_each_agent_is_found_but_not_run(folder: FerryFolder) -> None:
    (folder.folder / "my_app.py").write_text(MODULE)
    folder.write(f'{AGENTS}{FERRY}agent = "main"\n')
    folder.environment["PATH"] = str(folder.folder)
    done = folder.run("check")
    assert (done.exit_code, done.err) == (1, "stopped ferry\n")
    assert done.out.splitlines()[1:] == [
        "✓ agent main: my_app:agent, an async generator function",
        "✗ agent other: my_app has no 'none'. Its agents are: agent.",
        "✓ agent broken: my_app:agent, an async generator function",
        (
            "✗ agent broken: the middleware my_app:TEXT is not an async function; it looks like this: "
            "async def add(prompt, agent_id): return prompt"
        ),
        (
            "✗ agent command: there is no command 'claude'. "
            "Install Claude Code with: npm install -g @anthropic-ai/claude-code"
        ),
    ]
    command = folder.folder / "claude"
    command.write_text("#!/bin/sh\nexit 1\n")
    command.chmod(0o700)
    found = {"agent": "command", "ok": True, "text": "the command claude is installed"}
    assert folder.run("check", "--json").objects[-1] == found


def test_each_schedule_shows_its_next_run(folder: FerryFolder) -> None:
    folder.write(f'{FERRY}[schedule.morning]\ncron = "0 8 1 1 *"\nprompt = "x"\nchannel = "ferry"\nto = "me"\n')
    done = folder.run("check")
    assert done.exit_code == 0
    assert re.fullmatch(
        r"✓ schedule morning: the next run is at \d{4}-01-01 08:00 \S+, in ferry", done.out.splitlines()[-1]
    )


def test_each_extension_is_imported_but_not_created(folder: FerryFolder) -> None:
    folder.write('[agents.main]\nuse = "demo"\n')
    source = "class Own:\n    def __init__(self):\n        raise RuntimeError\n"
    for name, key in (("good", "name"), ("wrong", "nmae")):
        extension = folder.folder / "extensions" / name
        extension.mkdir(parents=True)
        (extension / "manifest.yaml").write_text(f"{key}: {name}\nentry: main:Own\n")
        (extension / "main.py").write_text(source)
    done = folder.run("check")
    path = folder.folder / "extensions" / "wrong" / "manifest.yaml"
    assert done.exit_code == 1
    assert done.out.splitlines()[-2:] == [
        "✓ extension good: it can be imported",
        f"✗ extension wrong: {path}: nmae is not a key of a manifest. Did you mean 'name'?",
    ]
    assert folder.run("check", "--json").objects[-2] == {"extension": "good", "ok": True, "text": "it can be imported"}
    none = folder.run("check", "--set", "gateway.extensions=nowhere")
    assert (none.exit_code, none.err) == (2, "tailrace: gateway.extensions: there is no folder nowhere\n")


def test_explain_shows_the_presentation_in_use_and_the_key_that_decided(folder: FerryFolder) -> None:
    folder.write(f'[agents.main]\nuse = "demo"\n{FERRY}presentation = "blocks"\n')

    def presentation(*assignments: str) -> tuple[object, str]:
        options = [part for assignment in assignments for part in ("--set", assignment)]
        values = {
            row["key"]: row for row in folder.run("check", "--explain", "--json", *options).objects if "key" in row
        }
        row = values["channels.ferry.presentation"]
        return row["value"], row["origin"]

    whole, of_agent = "channels.ferry.streaming_enabled=false", "agents.main.presentation=processing"
    assert presentation() == ("blocks", "tailrace.toml")
    assert presentation(whole) == ("final", "--set, channels.ferry.streaming_enabled")
    assert presentation(whole, of_agent) == ("processing", "--set, agents.main.presentation")
    folder.write(FERRY)
    assert presentation() == ("live", "default")  # that of the channel type


@pytest.mark.parametrize(
    ("toml", "arguments", "error"),
    [
        ("", ("other.toml",), "there is no settings file other.toml"),
        (AGENTS + FERRY, (), "channels.ferry.agent is missing: choose one of main, other, broken, command"),
        (FERRY + "harbor = 'x'", (), "tailrace.toml: channels.ferry.harbor is not a setting. Did you mean 'harbour'?"),
        (
            "[channels.boat]",
            (),
            "channels.boat: there is no channel 'boat'. Installed: ",
        ),
        (
            FERRY.replace("FERRY_", "OTHER_"),
            (),
            "channels.ferry.token: the environment variable OTHER_TOKEN is empty or not set; it must hold the secret",
        ),
        (
            FERRY,
            ("--set", "channels.ferry.harbour=closed"),
            "the channel 'ferry' cannot be created: ValueError: no such harbour for [redacted]",
        ),
    ],
)
def test_wrong_settings_are_one_line_and_exit_with_2(
    folder: FerryFolder, toml: str, arguments: tuple[str, ...], error: str
) -> None:
    folder.write(toml)
    done = folder.run("check", *arguments)
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"tailrace: {error}")


def test_no_traceback_shows_the_token(folder: FerryFolder) -> None:
    folder.write(FERRY)
    done = folder.run("check", "--debug", "--set", "channels.ferry.harbour=closed")
    assert "Traceback" in done.err
    assert "canary" not in done.err


def test_without_a_file_there_must_be_a_channel_from_elsewhere(folder: FerryFolder) -> None:
    folder.environment["DISCORD_TOKEN"] = TOKEN  # of a channel that is not installed
    done = folder.run("check")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("tailrace: there is no settings file tailrace.toml here")
    assert folder.run("check", "--set", f"channels.ferry.token={TOKEN}").exit_code == 0
    folder.write("")
    done = folder.run("check")
    assert (done.exit_code, done.out, done.err) == (0, "", "tailrace.toml is valid; it has no channels\n")


def test_deliver_uses_the_settings_of_its_channel(folder: FerryFolder) -> None:
    folder.write(f'[gateway]\ndata_dir = "state"\n{SECOND}')
    given = lines(text("Hello."), COMPLETED).decode()
    done = folder.run("deliver", "--channel", "second", "--to", "me", given=given)
    assert (done.exit_code, done.out) == (0, "second at strict got Hello.\n")
    assert "canary" not in done.err
    ledger = folder.folder / "state" / "ledger.db"
    assert b"canary" not in b"".join(path.read_bytes() for path in ledger.parent.iterdir())
    assert [row["text"] for row in folder.run("deliveries", "--json").objects] == ["Hello."]
    missing = folder.run("deliver", "--channel", "ferry", "--to", "me", given=given)
    assert (missing.exit_code, missing.out) == (2, "")
    assert missing.err.startswith("tailrace: channels.ferry.token is missing: set it in tailrace.toml")


def test_the_schema_of_the_settings_has_every_installed_channel(folder: FerryFolder) -> None:
    channels = json.loads(folder.run("schema", "config").out)["properties"]["channels"]
    ferry = channels["properties"]["ferry"]
    assert {"token", "harbour", "allow", "max_age_s", "type"} <= ferry["properties"].keys()
    assert (ferry["properties"]["type"]["const"], ferry["additionalProperties"]) == ("ferry", False)
    assert {**ferry, "required": ["type"]} in channels["additionalProperties"]["anyOf"]
