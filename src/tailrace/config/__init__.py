"""The settings: the file `tailrace.toml`, the environment and `--set`, decoded strictly, each value with its origin."""

from tailrace.config.decoding import ExplainedValue
from tailrace.config.descriptions import DESCRIPTIONS
from tailrace.config.settings import ConfiguredChannel, Settings, read_settings
from tailrace.config.sources import ENVIRONMENT, FILE_NAME
from tailrace.config.tables import (
    AgentSettings,
    ChannelSettings,
    GatewaySettings,
    LiveShadowSettings,
    Positive,
    ScheduleSettings,
    presentation_of,
)

__all__ = [
    "DESCRIPTIONS",
    "ENVIRONMENT",
    "FILE_NAME",
    "AgentSettings",
    "ChannelSettings",
    "ConfiguredChannel",
    "ExplainedValue",
    "GatewaySettings",
    "LiveShadowSettings",
    "Positive",
    "ScheduleSettings",
    "Settings",
    "presentation_of",
    "read_settings",
]
