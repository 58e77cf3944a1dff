"""The tables of `tailrace.toml` as structs: each field is a key, with its type and its default.

docs/settings.md describes the keys. The keys of a channel type are in the struct of that type.
"""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated, Literal, TypeAlias

import msgspec

from tailrace.config.timing import interval_seconds, next_cron_time
from tailrace.listen_address import listen_address
from tailrace.projector import Presentation

Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0, lt=2**31)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, lt=2**31)]


def _check_cron(text: str) -> None:
    next_cron_time(text, time())


def _check_address(text: str) -> None:
    if text:
        listen_address(text)


def _check_object_path(text: str) -> None:
    module, _, name = text.partition(":")
    if not module or not name:
        raise ValueError("expected module:function, such as my_app:add_name")


# A field with "check" is a text that this function accepts; the function raises ValueError for any other.
_Interval: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"check": interval_seconds}, extra_json_schema={"pattern": "^[0-9]+[smhd]$"})
]
_Cron: TypeAlias = Annotated[str, msgspec.Meta(extra={"check": _check_cron})]
_Address: TypeAlias = Annotated[str, msgspec.Meta(extra={"check": _check_address})]
_ObjectPath: TypeAlias = Annotated[
    str, msgspec.Meta(extra={"check": _check_object_path}, extra_json_schema={"pattern": "^[^:]+:.+$"})
]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[gateway]`.

    `data_dir` is the directory of the ledger; None means the user's data directory. `control` is the path of the
    control socket; None means a socket in `data_dir`.
    """

    data_dir: Path | None = None
    max_queue_size: Positive = 100
    processing_update_interval_ms: Positive = 5000
    session_timeout_s: Seconds = 1800
    drain_s: Seconds = 15
    extensions: Path = msgspec.field(default_factory=lambda: Path("extensions"))
    health: _Address = "127.0.0.1:8766"
    control: Path | None = None

    @property
    def health_address(self) -> tuple[str, int] | None:
        """Host and port of the health pages; None if there are none."""
        return listen_address(self.health) if self.health else None


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A table `[agents.NAME]`. `use` names the agent in the same way as a command line: `claude`, `module:object`."""

    use: str
    permissions: Literal["ask", "allow", "deny"] = "ask"
    middleware: _ObjectPath | None = None
    presentation: Presentation | None = None


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that every table `[channels.NAME]` has."""

    agent: str | None = None
    presentation: Presentation | None = None
    allow: tuple[str, ...] = ()
    groups: Literal["addressed", "all", "none"] = "addressed"
    busy: Literal["queue", "interrupt", "merge"] = "queue"
    on_unknown: Literal["hold", "resend"] = "hold"
    max_age_s: Positive = 86_400
    streaming_enabled: bool = True
    stream_edit_interval_ms: Positive = 500
    stream_min_chunk_chars: Positive = 20


class LiveShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[shadow]`: which share of the turns is also presented in this other way."""

    presentation: Presentation
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1


class ScheduleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A table `[schedule.NAME]`. It has either `every` or `cron`."""

    prompt: str
    channel: str
    to: str
    every: _Interval | None = None
    cron: _Cron | None = None
    agent: str | None = None

    def next_run(self, after: float) -> float:
        """The first time after `after` at which the schedule runs. Both are in seconds since 1970.

        With `every`, the interval is counted from `after`.
        """
        if self.every is not None:
            return after + interval_seconds(self.every)
        assert self.cron is not None, "a schedule has every or cron"
        return next_cron_time(self.cron, after)


def presentation_of(channel: ChannelSettings, agent: AgentSettings | None) -> Presentation | None:
    """The presentation of the answers in a channel; None means the presentation of the channel type.

    The agent's setting wins over the channel's. A channel with `streaming_enabled = false` has the presentation
    `final`.
    """
    if agent is not None and agent.presentation is not None:
        return agent.presentation
    return channel.presentation if channel.streaming_enabled else "final"
