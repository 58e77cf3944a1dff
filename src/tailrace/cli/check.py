"""`tailrace check`: read the settings, and ask each platform whether the account of its channel works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tailrace.cli.delivery_format import json_line, one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.settings import SetOption, configured_channel, create_channel, open_settings
from tailrace.config import FILE_NAME
from tailrace.errors import TailraceError, UsageError
from tailrace.plugins import known
from tailrace.ports import Checks, Finding
from tailrace.redaction import Redaction
from tailrace.secret import Secret

if TYPE_CHECKING:
    from tailrace.config import ConfiguredChannel, Settings
    from tailrace.ports import Channel

_DEADLINE_S = 30.0


def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The settings file.", show_default=FILE_NAME)
    ] = None,
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Show each value and where it comes from.")] = False,
    assignments: SetOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write each line as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Check the settings, and prove the account of each channel against its platform. Nothing is sent.

    The exit code is 1 if an account lacks something, and 2 if the settings are wrong.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        settings = open_settings(file, assignments)
        configured = [configured_channel(settings, name) for name in _names(settings)]
        # All channels are created before the first one is asked, so that wrong settings are found at once.
        channels = [create_channel(one) for one in configured]
        if explain:
            _explain(settings, configured, json=json)
        is_good = True
        for one, channel in zip(configured, channels, strict=True):
            for finding in asyncio.run(_findings(channel)):
                is_good = is_good and finding.ok
                _write(one, finding, json=json)
        if not configured:
            typer.echo(f"{file or FILE_NAME} is valid; it has no channels", err=True)
    raise typer.Exit(DONE if is_good else FAILED)


def _names(settings: Settings) -> list[str]:
    """The names of the channels to check."""
    if settings.has_file:
        return settings.channels()
    # A variable such as DISCORD_TOKEN may be for another program, so one of a channel that is not installed is ignored.
    names = [name for name in settings.channels() if name in known("channel")]
    if not names:
        raise UsageError(
            f"there is no settings file {FILE_NAME} here, and no token in the environment: name a file, or set a token"
        )
    return names


def _explain(settings: Settings, configured: list[ConfiguredChannel], *, json: bool) -> None:
    values = [*settings.explained(), *(value for one in configured for value in one.explained)]
    width = max(len(value.key) for value in values)
    for value in values:
        shown = "-" if value.value is None else one_line(msgspec.json.encode(value.value).decode())
        line = f"{value.key:{width}}  {shown}  ({value.origin})\n"
        typer.echo(json_line(value._asdict()) if json else line, nl=False)


async def _findings(channel: Channel) -> list[Finding]:
    """Let the channel check its account. If that raises an error, the error is the finding."""
    if not isinstance(channel, Checks):
        return [Finding(ok=True, text="this channel has no account to check")]
    try:
        async with asyncio.timeout(_DEADLINE_S):
            try:
                found = [Finding(ok=finding.ok, text=finding.text) for finding in await channel.check()]
            finally:
                await channel.stop()
    except TimeoutError:
        return [Finding(ok=False, text=f"the platform did not answer within {_DEADLINE_S:.0f} seconds")]
    except (TailraceError, OSError) as error:
        return [Finding(ok=False, text=str(error))]
    except Exception as error:  # noqa: BLE001 -- a plugin's code: its failure is a finding, and the others are checked
        return [Finding(ok=False, text=f"the check failed: {type(error).__name__}: {error}")]
    return found or [Finding(ok=True, text="nothing is missing")]


def _write(configured: ConfiguredChannel, finding: Finding, *, json: bool) -> None:
    secrets = {key: value.reveal() for key, value in configured.options.items() if isinstance(value, Secret)}
    text = one_line(Redaction({f"secret {key}": secret for key, secret in secrets.items()}).text(finding.text))
    if json:
        typer.echo(json_line({"channel": configured.name, "ok": finding.ok, "text": text}), nl=False)
    else:
        typer.echo(f"{'✓' if finding.ok else '✗'} {configured.name}: {text}")
