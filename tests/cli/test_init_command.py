"""`tailrace init`: three questions at a terminal, none elsewhere, and a file that works."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from command_runs import run_here
from pseudo_terminal import CTRL_C, CTRL_D, TAILRACE, Person
from tailrace.config import read_settings
from tailrace.plugins import channel_settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN", raising=False)
    return tmp_path


@pytest.fixture
def person(folder: Path) -> Iterator[Person]:
    with Person(TAILRACE, "init", cwd=folder) as person:
        yield person


def written() -> dict[str, Any]:
    return tomllib.loads(Path("tailrace.toml").read_text(encoding="utf-8"))


def test_in_a_pipe_it_asks_nothing_and_writes_the_defaults() -> None:
    done = run_here("init")
    assert (done.exit_code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "wrote tailrace.toml; now:",
        "  export TELEGRAM_BOT_TOKEN=…",
        "  tailrace check",
        "  tailrace serve",
        "  tailrace access approve CODE  # the bot gives each new person a code",
        "To try it without an account: tailrace simulate telegram",
    ]
    assert written() == {
        "agents": {"main": {"use": "demo"}},
        "channels": {"telegram": {"token": "env:TELEGRAM_BOT_TOKEN", "allow": []}},
    }


def test_every_line_that_is_commented_out_is_a_default() -> None:
    run_here("init")
    path = Path("tailrace.toml")
    before = read_settings(path, (), {})
    text = path.read_text(encoding="utf-8")
    all_keys = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    assert all_keys.count("\n# ") == text.count("\n# ") - 4
    path.write_text(all_keys, encoding="utf-8")
    after = read_settings(path, (), {})
    assert after.agents() == before.agents()
    settings = after.channel("telegram", channel_settings).settings
    assert settings.presentation == "live"
    assert settings == replace(before.channel("telegram", channel_settings).settings, presentation="live")


def test_options_are_written_as_they_are_and_nothing_is_asked() -> None:
    agent = 'acp:run "it" \\ é\x7f\n'
    done = run_here("init", "--agent", agent, "--allow", "5", "--allow", "6,7", env={"TELEGRAM_BOT_TOKEN": "1:a"})
    assert done.out.splitlines() == ["wrote tailrace.toml; now:", "  tailrace check", "  tailrace serve"]
    assert written()["agents"]["main"]["use"] == agent
    assert written()["channels"]["telegram"]["allow"] == ["5", "6", "7"]
    Path("tailrace.toml").unlink()
    assert run_here("init", "--channel", "terminal").exit_code == 0
    assert written()["channels"] == {"terminal": {"allow": []}}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--channel", "telegam"), "there is no channel 'telegam'. Did you mean 'telegram'? Installed: "),
        (("--agent", "clade"), "there is no agent 'clade'. Did you mean 'claude'? "),
        (("--agent", "langgraph"), "'langgraph' alone names no agent: "),
    ],
)
def test_a_wrong_answer_writes_nothing_and_exits_with_2(options: tuple[str, ...], error: str) -> None:
    done = run_here("init", *options)
    assert (done.exit_code, done.out, done.err.startswith(f"tailrace: {error}")) == (2, "", True), done.err
    assert not Path("tailrace.toml").exists()


def test_an_existing_file_is_never_changed() -> None:
    Path("tailrace.toml").write_text("mine")
    done = run_here("init", "--allow", "5")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("tailrace: there is a tailrace.toml here already, and it is not changed.")
    assert Path("tailrace.toml").read_text() == "mine"


def test_a_link_to_nowhere_is_not_followed(folder: Path) -> None:
    (folder / "tailrace.toml").symlink_to(folder / "no such folder" / "x")
    done = run_here("init")
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1)


def test_at_a_terminal_it_asks_three_questions(person: Person) -> None:
    person.sees("Which channel? One of slack, telegram [telegram]:")
    person.type("telegam\r")
    person.sees("Did you mean 'telegram'?")
    person.sees("[telegram]:", times=2)
    person.type("\r")
    person.sees("Which agent? [demo]:")
    person.type("my_app:agent\r")
    person.sees("new people get a code that you approve:")
    person.type("12345, 67\r")
    assert person.leaves() == 0
    assert written() == {
        "agents": {"main": {"use": "my_app:agent"}},
        "channels": {"telegram": {"token": "env:TELEGRAM_BOT_TOKEN", "allow": ["12345", "67"]}},
    }


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_leaving_writes_nothing(person: Person, key: str) -> None:
    person.sees("Which channel?")
    person.type("\r")
    person.sees("Which agent?")
    person.type(key)
    assert person.leaves() == 1
    assert not Path("tailrace.toml").exists()
