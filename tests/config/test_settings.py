"""The settings: which source wins, what is refused and how, and that no secret is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tailrace.config import (
    ENVIRONMENT,
    AgentSettings,
    ConfiguredChannel,
    LiveShadowSettings,
    Positive,
    ScheduleSettings,
    Settings,
    presentation_of,
    read_settings,
)
from tailrace.errors import UsageError
from tailrace.secret import Secret, SecretText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.projector import Presentation

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


@pytest.mark.parametrize("typed", ["12345", "+1", "007", "1e3", "2026-01-01", "true", "nan"])
def test_a_key_that_is_a_text_takes_what_looks_like_a_number(typed: str) -> None:
    found = settings(BOT + SCHEDULE, f"schedule.a.to={typed}", f"channels.telegram.token={typed}")
    assert found.schedules()["a"].to == typed
    token = telegram(found).options["token"]
    assert isinstance(token, Secret)
    assert token.reveal() == typed
    with pytest.raises(UsageError, match=r"--set: channels\.telegram\.token: expected `str`, got `int`"):
        telegram(settings("", "channels.telegram={token=1}"))


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


ALL_TABLES = """
[gateway]
max_queue_size = 20
session_timeout_s = 0.5
health = ""
control = "run/control.sock"

[agents.main]
use = "my_app:agent"
permissions = "allow"
middleware = "my_app.prompts:add_date"

[agents.coder]
use = "claude"
presentation = "processing"

[channels.telegram]
token = "env:BOT"
agent = "main"

[channels.terminal]
agent = "coder"

[shadow]
presentation = "live"
share = 1

[schedule.morning]
cron = "0 8 * * *"
prompt = "What is new?"
channel = "telegram"
to = "12345"
agent = "main"

[schedule.often]
every = "5m"
prompt = "Look."
channel = "terminal"
to = "me"
agent = "coder"
"""
ONE_AGENT = '[agents.main]\nuse = "demo"\n'
SCHEDULE = '[schedule.a]\nprompt = "x"\nchannel = "telegram"\nto = "1"\nevery = "1d"\n'


def test_every_table_is_decoded(folder: Path) -> None:
    found = settings(ALL_TABLES)
    assert (found.gateway.max_queue_size, found.gateway.session_timeout_s) == (20, 0.5)
    assert (found.gateway.health_address, found.gateway.control) == (None, folder / "run" / "control.sock")
    assert found.agents() == {
        "main": AgentSettings(use="my_app:agent", permissions="allow", middleware="my_app.prompts:add_date"),
        "coder": AgentSettings(use="claude", presentation="processing"),
    }
    assert found.shadow == LiveShadowSettings(presentation="live", share=1)
    schedules = found.schedules()
    assert schedules["often"] == ScheduleSettings(
        prompt="Look.", channel="terminal", to="me", every="5m", agent="coder"
    )
    assert schedules["often"].next_run(1000.0) == 1300.0
    assert 0 < schedules["morning"].next_run(1000.0) - 1000.0 <= 86_400
    assert {value.key.rpartition(".")[0] for value in found.explained()} == {
        *("gateway", "agents.main", "agents.coder", "shadow", "schedule.morning", "schedule.often")
    }


def test_the_defaults_of_the_gateway_say_whether_they_were_set(folder: Path) -> None:
    found = settings("")
    assert found.gateway.health_address == ("127.0.0.1", 8766)
    assert found.gateway.extensions == folder / "extensions"
    assert not found.is_set("gateway.health")
    found = settings("", "gateway.health=[::1]:0", "gateway.extensions=mine")
    assert (found.gateway.health_address, found.is_set("gateway.health")) == (("::1", 0), True)
    assert found.gateway.extensions == Path("mine")
    assert read_settings(None, ["gateway.control="], {}).gateway.control is None


def test_the_only_agent_need_not_be_named() -> None:
    found = settings(ONE_AGENT + BOT + SCHEDULE)
    assert (found.agent_of("channels.telegram"), found.agent_of("schedule.a")) == ("main", "main")
    assert settings(BOT, "agents.other.use=demo").agent_of("channels.telegram") == "other"
    with pytest.raises(UsageError, match=re.escape("there is no agent: add the table [agents.main] with use")):
        settings(BOT).agent_of("channels.telegram")
    assert telegram(settings(f'{BOT}agent = "named by the program"')).settings.agent == "named by the program"
    several = settings(ONE_AGENT + BOT, "agents.other.use=demo")
    with pytest.raises(UsageError, match=r"channels\.telegram\.agent is missing: choose one of main, other"):
        several.agent_of("channels.telegram")


@pytest.mark.parametrize(
    ("keys", "of_agent", "expected"),
    [
        ("", None, None),
        ('presentation = "parts"', None, "parts"),
        ('presentation = "parts"\nstreaming_enabled = false', None, "final"),
        ('presentation = "parts"\nstreaming_enabled = false', "live", "live"),
        ("", "blocks", "blocks"),
    ],
)
def test_the_agent_decides_on_the_presentation_before_the_channel(
    keys: str, of_agent: Presentation | None, expected: str | None
) -> None:
    agent = AgentSettings(use="demo", presentation=of_agent)
    assert presentation_of(telegram(settings(BOT + keys)).settings, agent) == expected
    if of_agent is None:
        assert presentation_of(telegram(settings(BOT + keys)).settings, None) == expected


def use_all(toml: str) -> None:
    found = settings(toml)
    found.schedules()
    telegram(found)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[agents.main]", "agents.main.use is missing: set it in tailrace.toml, or with --set agents.main.use=VALUE"),
        ("[agents]\nuse = 'demo'", "tailrace.toml: agents.use must be a table, such as [agents.use]"),
        ("[agents.'a.b']", "tailrace.toml: agents.'a.b': use letters, digits, - and _ in a name"),
        (ONE_AGENT + "model = 'x'", "tailrace.toml: agents.main.model is not a setting. Settings: use, permissions, "),
        (ONE_AGENT + "permissions = 'yes'", "agents.main.permissions: choose one of ask, allow, deny"),
        (ONE_AGENT + "middleware = 'my_app'", "agents.main.middleware: expected module:function, such as my_app:"),
        (ONE_AGENT + BOT + "agent = 'maim'", "channels.telegram.agent: there is no agent 'maim'. Did you mean 'main'?"),
        (ONE_AGENT + BOT + "agent = 'x'", "tailrace.toml: channels.telegram.agent: there is no agent 'x'. Add the tab"),
        (BOT + SCHEDULE + "cron = '0 8 * * *'", "schedule.a: set either every (an interval such as 1d) or cron"),
        (BOT + SCHEDULE.replace('every = "1d"', ""), "schedule.a: set either every (an interval such as 1d) or cron"),
        (BOT + SCHEDULE.replace("1d", "1 day"), "tailrace.toml: schedule.a.every: expected a number above 0 with s, m"),
        (
            BOT + SCHEDULE.replace('every = "1d"', "cron = '* *'"),
            "tailrace.toml: schedule.a.cron: expected five fields",
        ),
        (BOT + SCHEDULE.replace('to = "1"', "to = 1"), "schedule.a.to: expected `str`, got `int`; write it in quotes"),
        (BOT + SCHEDULE.replace('to = "1"', ""), "schedule.a.to is missing: set it in tailrace.toml, or with --set"),
        (
            SCHEDULE,
            "tailrace.toml: schedule.a.channel: there is no channel 'telegram'. Add the table [channels.telegra",
        ),
        (ONE_AGENT + BOT + SCHEDULE + "agent = 'x'", "tailrace.toml: schedule.a.agent: there is no agent 'x'."),
        ("[shadow]", "shadow.presentation is missing: set it in tailrace.toml"),
        ("[shadow]\npresentation = 'live'\nshare = 0", "tailrace.toml: shadow.share: expected `float` > 0.0"),
        ("[shadow]\npresentation = 'live'\nshare = 1.1", "tailrace.toml: shadow.share: expected `float` <= 1.0"),
        ("[gateway]\nmax_queue_size = 0", "tailrace.toml: gateway.max_queue_size: expected `int` >= 1"),
        ("[gateway]\ndrain_s = 0", "tailrace.toml: gateway.drain_s: expected `float` > 0.0"),
        ("[gateway]\nsession_timeout_s = nan", "tailrace.toml: gateway.session_timeout_s: expected `float` > 0.0"),
        ("[gateway]\nsession_timeout_s = inf", "tailrace.toml: gateway.session_timeout_s: expected `float` < 2147483"),
        ("[gateway]\nhealth = '8766'", "gateway.health: expected host:port, such as 127.0.0.1:8766"),
        ("[gateway]\nhealth = '127.0.0.1:99999'", "gateway.health: expected host:port, such as 127.0.0.1:8766"),
        ("[gateway]\nledger = 'postgresql://u:secret@h/d'", "tailrace.toml: gateway.ledger is not built yet. Leave it"),
        ("[gateway]\nlive = 'nats://h'", "tailrace.toml: gateway.live is not built yet."),
        ("[gateway]\nlease_s = 30", "tailrace.toml: gateway.lease_s is not built yet."),
    ],
)
def test_a_wrong_table_says_what_is_expected(toml: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        use_all(toml)
    assert "secret" not in str(caught.value)


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
        (BOT + "allow = [1]", "", "tailrace.toml: channels.telegram.allow[0]: expected `str`, got `int`; write"),
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
