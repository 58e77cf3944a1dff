"""All settings of a process: the tables of all sources, decoded, and who refers to what.

A later source wins: defaults, the file, the environment, `--set KEY=VALUE`. The table of a channel has the keys that
all channels have (`ChannelSettings`), and the keys of its channel type. The keys of a type are the fields of a struct
that the caller looks up, because this package imports no plugin. The table of a channel is decoded when the channel is
used, because some types import a large SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tailrace.config.decoding import ExplainedValue, converted, decoded, explained, origin_of, refuse_unknown
from tailrace.config.sources import FILE_NAME, Layers, Table, read_layers
from tailrace.config.tables import AgentSettings, ChannelSettings, GatewaySettings, LiveShadowSettings, ScheduleSettings
from tailrace.errors import UsageError, did_you_mean

_StructT = TypeVar("_StructT", bound=msgspec.Struct)
_NOT_BUILT = ("ledger", "live", "lease_s")


class ConfiguredChannel(NamedTuple):
    """The settings of one channel: `settings` are those that all channels have, `options` those of its type.

    `options` has only the values that were set. They are passed to the channel's constructor as keyword arguments. A
    secret in them is a `Secret`, which was not read yet. `explained` has all values, for people.
    """

    name: str
    type: str
    settings: ChannelSettings
    options: dict[str, object]
    explained: list[ExplainedValue]


class Settings:
    """All settings of a process. Use `read_settings` to create them. Raises `UsageError` if a table is wrong."""

    def __init__(self, layers: Layers) -> None:
        self.has_file = layers.has_file
        self._layers = layers
        self._explained: list[ExplainedValue] = []
        gateway = layers.table("gateway")
        for name in gateway.keys() & _NOT_BUILT:
            raise UsageError(
                f"{origin_of(name, gateway)}: gateway.{name} is not built yet. Leave it out: the ledger is SQLite in "
                "data_dir, and one process serves it."
            )
        self.gateway = self._read(GatewaySettings, "gateway", extensions=layers.folder / "extensions")
        self._agents = {name: self._read(AgentSettings, f"agents.{name}") for name in self._names("agents")}
        self.shadow = self._read(LiveShadowSettings, "shadow") if "shadow" in layers.table_keys() else None
        self._schedules = {name: self._read(ScheduleSettings, f"schedule.{name}") for name in self._names("schedule")}
        for name, schedule in self._schedules.items():
            if (schedule.every is None) == (schedule.cron is None):
                raise UsageError(
                    f"schedule.{name}: set either every (an interval such as 1d) or cron (such as 0 8 * * *)"
                )

    def channels(self) -> list[str]:
        """The names of the configured channels, from the file and `--set`.

        If there is no file, channels that have an environment variable, such as `TELEGRAM_BOT_TOKEN`, are included.
        """
        return self._names("channels")

    def agents(self) -> dict[str, AgentSettings]:
        """The settings of each agent: the tables `[agents.NAME]` by their names."""
        return dict(self._agents)

    def schedules(self) -> dict[str, ScheduleSettings]:
        """The settings of each schedule: the tables `[schedule.NAME]` by their names.

        Raises `UsageError` if a schedule names a channel or an agent that has no table.
        """
        for name, schedule in self._schedules.items():
            if schedule.channel not in self.channels():
                origin = origin_of("channel", self._layers.table(f"schedule.{name}"))
                raise UsageError(
                    f"{origin}: schedule.{name}.channel: {_no_table('channel', schedule.channel, self.channels())}"
                )
            if self._agents:
                self.agent_of(f"schedule.{name}")
        return dict(self._schedules)

    def channel(self, name: str, settings_of: Callable[[str], type[msgspec.Struct]]) -> ConfiguredChannel:
        """The settings of a channel. If the channel has no table, these are the defaults and the environment.

        `settings_of` takes the name of a channel type and returns the struct with the keys of that type.
        """
        prefix = f"channels.{name}"
        table = self._layers.table(prefix)
        kind = converted(table["type"], str, f"{prefix}.type") if "type" in table else name
        own = settings_of(kind)
        refuse_unknown(prefix, table, ChannelSettings, own, others=("type",))
        options, shared = decoded(own, prefix, table), decoded(ChannelSettings, prefix, table)
        values = [ExplainedValue(f"{prefix}.type", kind, origin_of("type", table))]
        values += explained(own, options, prefix, table)
        values += explained(ChannelSettings, shared, prefix, table)
        settings = ChannelSettings(**shared)
        if settings.agent is not None and self._agents:
            self.agent_of(prefix)
        return ConfiguredChannel(name, kind, settings, options, values)

    def agent_of(self, key: str) -> str:
        """The name of the agent that a table such as `channels.telegram` or `schedule.morning` uses.

        If there is only one agent, the table need not name it. Raises `UsageError` if there is no such agent.
        """
        table = self._layers.table(key)
        if "agent" in table:
            name: str = converted(table["agent"], str, f"{key}.agent")
            if name not in self._agents:
                problem = _no_table("agent", name, list(self._agents))
                raise UsageError(f"{origin_of('agent', table)}: {key}.agent: {problem}")
            return name
        match list(self._agents):
            case [only]:
                return only
            case []:
                raise UsageError(f'there is no agent: add the table [agents.main] with use = "AGENT" to {FILE_NAME}')
            case several:
                raise UsageError(f"{key}.agent is missing: choose one of {', '.join(several)}")

    def is_set(self, key: str) -> bool:
        """Whether a source sets this key, such as `gateway.health`. A default does not count."""
        table, _, name = key.rpartition(".")
        return name in self._layers.table(table)

    def explained(self) -> list[ExplainedValue]:
        """The settings outside the tables of the channels, each with its origin."""
        return list(self._explained)

    def _names(self, section: str) -> list[str]:
        prefix = f"{section}."
        return [key.removeprefix(prefix) for key in self._layers.table_keys() if key.startswith(prefix)]

    def _read(self, kind: type[_StructT], key: str, **defaults: object) -> _StructT:
        table: Table = self._layers.table(key)
        refuse_unknown(key, table, kind)
        values = {**defaults, **decoded(kind, key, table)}
        self._explained += explained(kind, values, key, table)
        return kind(**values)


def read_settings(path: Path | None, assignments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read all settings from this file, these assignments `KEY=VALUE` and these environment variables.

    If `path` is None, the file is `tailrace.toml` in the working directory, if that exists. Raises `UsageError`.
    """
    return Settings(read_layers(path, assignments, environment))


def _no_table(kind: str, name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known) or f" Add the table [{kind}s.{name}]."
    return f"there is no {kind} {name!r}.{hint}"
