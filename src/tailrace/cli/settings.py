"""The options of commands that read settings, and the channels and functions that these settings name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tailrace.config import FILE_NAME, read_settings
from tailrace.errors import PluginNotFound
from tailrace.plugins import channel_settings, make_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.config import ConfiguredChannel, Settings
    from tailrace.ports import Channel

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help=f"The settings file. Default: {FILE_NAME} in this directory."),
]
Middleware: TypeAlias = Callable[[str, str | None], Awaitable[str]]
"""An async function that takes a prompt and the name of the agent, and returns the prompt to use."""
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, such as channels.telegram.polling_timeout=60; repeat it for more.",
    ),
]


def open_settings(path: Path | None = None, assignments: Sequence[str] | None = None) -> Settings:
    """Read the settings from `path`, from `--set` and from the environment. Raises `UsageError`.

    Without a path, the file is `tailrace.toml` in the working directory, if there is one.
    """
    return read_settings(path, assignments or (), os.environ)


def configured_channel(settings: Settings, name: str) -> ConfiguredChannel:
    """The settings of a channel. Raises `UsageError` if they are wrong or its type is not installed."""
    try:
        return settings.channel(name, channel_settings)
    except PluginNotFound as error:
        if name not in settings.channels():
            raise  # the person named it on the command line
        hint = f'If {name!r} is a name of your own, set its type, such as type = "telegram".'
        raise PluginNotFound(f"channels.{name}: {error} {hint}", known=error.known) from error


def create_channel(configured: ConfiguredChannel) -> Channel:
    """Create the channel with these settings; it is not started. Raises `UsageError` if that is not possible."""
    return make_channel(configured.type, configured.name, configured.options)
