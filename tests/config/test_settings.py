"""The settings: which source wins, what is refused and how, and that no secret is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tailrace.config import ENVIRONMENT, ConfiguredChannel, Positive, Settings, read_settings
from tailrace.errors import UsageError
from tailrace.secret import Secret, SecretText

if TYPE_CHECKING:
    from collections.abc import Mapping

CANARY = "123456789:canary-that-must-not-be-shown-any"


class BotKeys(msgspec.Struct, frozen=True, kw_only=True):
    token: SecretText
    api_base: str = "https://bots.example.org"
    polling_timeout: Positive = 30
    certificate: Path | None = None
    secret: SecretText = ""


class NoKeys(msgspec.Struct):
    pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(toml: str, *assignments: str, environment: Mapping[str, str] | None = None) -> Settings:
    Path("tailrace.toml").write_text(toml, encoding="utf-8")
    return read_settings(None, assignments, environment or {})


def telegram(found: Settings, name: str = "telegram") -> ConfiguredChannel:
    types: dict[str, type[msgspec.Struct]] = {"telegram": BotKeys, "terminal": NoKeys}
    return found.channel(name, types.__getitem__)


def explained(configured: ConfiguredChannel) -> dict[str, tuple[object, str]]:
    return {key.rpartition(".")[2]: (value, origin) for key, value, origin in configured.explained}


BOT = '[channels.telegram]\ntoken = "env:BOT"\n'


def test_without_anything_there_are_only_defaults() -> None:
    found = read_settings(None, (), {})
    assert (found.has_file, found.channels(), found.gateway.data_dir) == (False, [], None)
    assert {value.origin for value in found.explained()} == {"default"}
    assert (found.agents(), found.schedules(), found.shadow) == ({}, {}, None)
    terminal = telegram(found, "terminal")
    assert (terminal.type, terminal.options, terminal.settings.busy) == ("terminal", {}, "queue")


def test_a_later_source_wins_and_each_value_says_where_it_comes_from() -> None:
    toml = BOT + 'api_base = "http://file"\npolling_timeout = 5\nallow = ["1", "2"]\n'
    environment = {"TELEGRAM_API_BASE": "http://environment", "TELEGRAM_BOT_TOKEN": CANARY}
    found = telegram(
        settings(toml, "channels.telegram.polling_timeout=7", "channels.telegram.allow=[]", environment=environment)
    )
    assert explained(found) == {
        "type": ("telegram", "default"),
        "token": ("(secret)", "env"),
        "api_base": ("http://environment", "env"),
        "polling_timeout": (7, "--set"),
        "certificate": (None, "default"),
        "secret": ("", "default"),
        "agent": (None, "default"),
        "presentation": (None, "default"),
        "allow": ((), "--set"),
        "groups": ("addressed", "default"),
        "busy": ("queue", "default"),
        "on_unknown": ("hold", "default"),
        "max_age_s": (86_400, "default"),
        "streaming_enabled": (True, "default"),
        "stream_edit_interval_ms": (500, "default"),
        "stream_min_chunk_chars": (20, "default"),
    }
    assert explained(telegram(settings(toml)))["api_base"] == ("http://file", "tailrace.toml")
    assert found.options.keys() == {"token", "api_base", "polling_timeout"}  # what was set; the rest is the channel's


def test_set_takes_toml_where_it_can_and_otherwise_text() -> None:
    prefix = "channels.telegram."
    given = {"allow": '["a"]', "streaming_enabled": "false", "agent": "2026-01-01x", "presentation": "live"}
    found = telegram(settings(BOT, *(f"{prefix}{key}={value}" for key, value in given.items())))
    values = found.settings
    assert (values.allow, values.streaming_enabled, values.agent, values.presentation) == (
        ("a",),
        False,
        "2026-01-01x",
        "live",
    )
    injected = telegram(settings(BOT, f'{prefix}agent="a"\nbusy = "merge"'))
    assert (injected.settings.agent, injected.settings.busy) == ('"a"\nbusy = "merge"', "queue")


def test_two_bots_are_two_tables_and_the_environment_sets_only_the_first() -> None:
    toml = BOT + '[channels.support]\ntype = "telegram"\ntoken = "env:SUPPORT"\n'
    found = settings(toml, environment={"TELEGRAM_BOT_TOKEN": CANARY, "TELEGRAM_API_BASE": "http://here"})
    assert found.channels() == ["telegram", "support"]
    support = telegram(found, "support")
    assert (support.name, support.type) == ("support", "telegram")
    assert explained(support)["token"] == ("env:SUPPORT", "tailrace.toml")
    assert explained(support)["api_base"] == ("https://bots.example.org", "default")


@pytest.mark.parametrize("variable", ENVIRONMENT)
def test_a_channel_without_a_table_comes_from_the_environment(variable: str) -> None:
    channel, key = ENVIRONMENT[variable]
    found = read_settings(None, (), {variable: "text"})
    assert found.channels() == [channel]
    kind = msgspec.defstruct("Own", [(key, str)])
    assert found.channel(channel, lambda _: kind).options == {key: "text"}
    assert settings("[channels.terminal]", environment={variable: "text"}).channels() == ["terminal"]


def test_paths_start_at_the_folder_of_the_file(folder: Path) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / "bot.toml").write_text(
        '[gateway]\ndata_dir = "state"\n[channels.telegram]\ntoken = "file:bot.token"\ncertificate = "a.pem"\n'
    )
    (folder / "etc" / "bot.token").write_text(f"{CANARY}\n")
    found = read_settings(Path("etc/bot.toml"), (), {})
    assert found.gateway.data_dir == folder / "etc" / "state"
    options = telegram(found).options
    assert options["certificate"] == folder / "etc" / "a.pem"
    assert isinstance(options["token"], Secret)
    assert options["token"].reveal() == CANARY
    assert read_settings(Path("etc/bot.toml"), ["gateway.data_dir=x"], {}).gateway.data_dir == Path("x")


@pytest.mark.parametrize(
    ("toml", "assignment", "message"),
    [
        ("x = 1", "", "tailrace.toml: x is not a setting. Tables: gateway, agents, channels, shadow, schedule."),
        ("[chanels.a]", "", "tailrace.toml: chanels is not a setting. Did you mean 'channels'?"),
        ("gateway = 1", "", "tailrace.toml: gateway must be a table, such as [gateway]"),
        ("[channels]\ntelegram = 1", "", "tailrace.toml: channels.telegram must be a table"),
        ('[channels."a b"]', "", "channels.'a b': use letters, digits, - and _ in a name"),
        ("[gateway]\nx = 1", "", "tailrace.toml: gateway.x is not a setting. Settings: data_dir, max_queue_size, "),
        ("[gateway]\ndata_dir = 1", "", "tailrace.toml: gateway.data_dir: expected `str`, got `int`"),
        (BOT + "polling_timeot = 1", "", "telegram.polling_timeot is not a setting. Did you mean 'polling_timeout'?"),
        (BOT + "polling_timeout = 0", "", "tailrace.toml: channels.telegram.polling_timeout: expected `int` >= 1"),
        (BOT + "max_age_s = -1", "", "tailrace.toml: channels.telegram.max_age_s: expected `int` >= 1"),
        (BOT + "allow = [1]", "", "tailrace.toml: channels.telegram.allow[0]: expected `str`, got `int`"),
        (BOT + "busy = 'wait'", "", "channels.telegram.busy: choose one of queue, interrupt, merge"),
        (BOT + "presentation = 'x'", "", "channels.telegram.presentation: choose one of tokens, live, native, "),
        (BOT + "secret = 1", "", "tailrace.toml: channels.telegram.secret: expected `str`, got `int`"),
        ("[channels.telegram]", "", "channels.telegram.token is missing: set it in tailrace.toml, in the environment "),
        ("[channels.telegram\n", "", "tailrace.toml is not valid TOML: Expected"),
        (f"x = {'[' * 5000}", "", "tailrace.toml is not valid TOML: "),
        (BOT, "channels.telegram.bussy=1", "--set: channels.telegram.bussy is not a setting. Did you mean 'busy'?"),
        (BOT, "channels.telegram.max_age_s=x", "--set: channels.telegram.max_age_s: expected `int`, got `str`"),
        (BOT, "channels.telegram.certificate=~no_such_user/x", "--set: channels.telegram.certificate: could not"),
        (BOT, "token=x", "--set needs KEY=VALUE, such as --set channels.telegram.polling_timeout=60"),
        (BOT, "channels.telegram.token", "--set needs KEY=VALUE"),
    ],
)
def test_wrong_settings_say_where_and_what_is_expected(toml: str, assignment: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        telegram(settings(toml, *filter(None, [assignment])))


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no settings file other\.toml"):
        read_settings(Path("other.toml"), (), {})
    with pytest.raises(UsageError, match=r"the settings file .* cannot be read: Is a directory"):
        read_settings(folder, (), {})
    (folder / "latin.toml").write_bytes(b"[gateway]\ndata_dir = 'caf\xe9'\n")
    with pytest.raises(UsageError, match=r"latin\.toml is not valid TOML: it is not text in UTF-8"):
        read_settings(Path("latin.toml"), (), {})


@pytest.mark.parametrize(
    ("reference", "content", "message"),
    [
        ("env:NO_SUCH_VARIABLE", b"", "the environment variable NO_SUCH_VARIABLE is empty or not set"),
        ("file:bot.token", b" \n", "bot.token is empty or not set"),
        ("file:other.token", b"", "other.token cannot be read: No such file or directory"),
        ("file:bot.token", b"\xff", "bot.token cannot be read: it is not text in UTF-8"),
        ("  ", b"", "the text is empty or not set"),
    ],
)
def test_a_secret_that_cannot_be_read_says_where_it_should_be(
    folder: Path, reference: str, content: bytes, message: str
) -> None:
    (folder / "bot.token").write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(message)):
        Secret(reference, folder).reveal()


@pytest.mark.parametrize("reference", [CANARY, f"env:{CANARY}"])
def test_no_secret_is_shown(reference: str) -> None:
    """Not in a representation, not by explaining, and not in the error for any other key, nor for the secret itself."""
    shown: list[object] = []
    toml = f'[channels.telegram]\ntoken = "{reference}"\n'
    for assignment in ("channels.telegram.max_age_s=0", "channels.telegram.x=1", f"token {CANARY}", ""):
        try:
            configured = telegram(settings(toml, *filter(None, [assignment])))
            shown += [configured, str(configured.options["token"])]
        except UsageError as error:
            shown += [error, error.__cause__]
    assert len(shown) == 8
    assert "canary" not in repr(shown)
