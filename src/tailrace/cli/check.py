"""`tailrace check`: read the settings, find the agents, and ask each platform whether the bot's account works."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from tailrace.cli.delivery_format import json_line, one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.settings import SetOption, configured_channel, create_channel, open_settings
from tailrace.config import FILE_NAME, ExplainedValue, presentation_of
from tailrace.errors import TailraceError, UsageError
from tailrace.plugins import find_agent, known, load_middleware
from tailrace.ports import Checks, Finding
from tailrace.redaction import Redaction, redact
from tailrace.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.config import AgentSettings, ConfiguredChannel, ScheduleSettings, Settings
    from tailrace.ports import Channel

_DEADLINE_S = 30.0


class _CheckedChannel(NamedTuple):
    """A channel of the settings, and the name of its agent; None if the settings have no agents."""

    configured: ConfiguredChannel
    channel: Channel
    agent: str | None


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
    """Check the settings, find each agent and extension, and prove the account of each channel against its platform.

    Nothing is sent and no agent is run. The exit code is 1 if something is missing, and 2 if the settings are wrong.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        settings = open_settings(file, assignments)
        # All channels are created before the first one is asked, so that wrong settings are found at once.
        channels = _channels(settings)
        schedules = settings.schedules()
        if explain:
            _explain(settings, channels, json=json)
        is_good = True
        for one in channels:
            for finding in asyncio.run(_findings(one.channel)):
                is_good = is_good and finding.ok
                text = _redaction(one.configured).text(finding.text)
                _write("channel", one.configured.name, Finding(ok=finding.ok, text=text), json=json)
        for name, agent in settings.agents().items():
            for finding in _agent_findings(agent):
                is_good = is_good and finding.ok
                _write("agent", name, finding, json=json)
        for name, schedule in schedules.items():
            _write("schedule", name, _next_run(schedule), json=json)
        for name, finding in _extension_findings(settings):
            is_good = is_good and finding.ok
            _write("extension", name, finding, json=json)
        if not channels:
            typer.echo(f"{file or FILE_NAME} is valid; it has no channels", err=True)
    raise typer.Exit(DONE if is_good else FAILED)


def _channels(settings: Settings) -> list[_CheckedChannel]:
    configured = [configured_channel(settings, name) for name in _names(settings)]
    agents = [settings.agent_of(f"channels.{one.name}") if settings.agents() else None for one in configured]
    created = [create_channel(one) for one in configured]
    return [_CheckedChannel(*parts) for parts in zip(configured, created, agents, strict=True)]


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


def _explain(settings: Settings, channels: list[_CheckedChannel], *, json: bool) -> None:
    values = [*settings.explained(), *(value for one in channels for value in one.configured.explained)]
    resolved = {value.key: value for one in channels for value in _presentation(one, settings, values)}
    values = [resolved.get(value.key, value) for value in values]
    width = max(len(value.key) for value in values)
    for value in values:
        shown = "-" if value.value is None else one_line(msgspec.json.encode(value.value).decode())
        line = f"{value.key:{width}}  {shown}  ({value.origin})\n"
        typer.echo(json_line(value._asdict()) if json else line, nl=False)


def _presentation(
    checked: _CheckedChannel, settings: Settings, values: list[ExplainedValue]
) -> Iterator[ExplainedValue]:
    """The presentation that the channel really uses. If another key decided on it, the origin names that key."""
    prefix = f"channels.{checked.configured.name}"
    agent = settings.agents().get(checked.agent or "")
    used = presentation_of(checked.configured.settings, agent)
    if used is None:
        yield ExplainedValue(f"{prefix}.presentation", checked.channel.capabilities.presentation, "default")
        return
    origins = {value.key: value.origin for value in values}
    if agent is not None and agent.presentation is not None:
        key = f"agents.{checked.agent}.presentation"
    elif not checked.configured.settings.streaming_enabled:
        key = f"{prefix}.streaming_enabled"
    else:
        return
    yield ExplainedValue(f"{prefix}.presentation", used, f"{origins[key]}, {key}")


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


def _agent_findings(agent: AgentSettings) -> list[Finding]:
    """Whether the agent and its middleware can be found. The agent is not run."""
    findings: list[Finding] = []
    try:
        found = find_agent(agent.use)
        if isinstance(found.runtime, Checks):
            findings += asyncio.run(found.runtime.check())
        else:
            about = f", {found.description}" if found.description else ""
            findings.append(Finding(ok=True, text=f"{agent.use}{about}"))
        if agent.middleware is not None:
            load_middleware(agent.middleware)
    except TailraceError as error:
        findings.append(Finding(ok=False, text=str(error)))
    except Exception as error:  # noqa: BLE001 -- the code of the agent: its failure is a finding
        findings.append(Finding(ok=False, text=f"{agent.use} cannot be used: {type(error).__name__}: {error}"))
    return findings


def _extension_findings(settings: Settings) -> Iterator[tuple[str, Finding]]:
    """Whether each extension can be imported. Its object is not created."""
    from tailrace.gateway.extensions import BrokenExtension, configured_extensions  # noqa: PLC0415 -- it is large

    for extension in configured_extensions(settings):
        problem = extension.problem if isinstance(extension, BrokenExtension) else ""
        yield extension.name, Finding(ok=not problem, text=problem or "it can be imported")


def _next_run(schedule: ScheduleSettings) -> Finding:
    local = datetime.fromtimestamp(schedule.next_run(time())).astimezone()
    return Finding(ok=True, text=f"the next run is at {local:%Y-%m-%d %H:%M %Z}, in {schedule.channel}")


def _redaction(configured: ConfiguredChannel) -> Redaction:
    options = configured.options.items()
    return Redaction({f"secret {key}": value.reveal() for key, value in options if isinstance(value, Secret)})


def _write(kind: str, name: str, finding: Finding, *, json: bool) -> None:
    text = one_line(redact(finding.text))
    if json:
        typer.echo(json_line({kind: name, "ok": finding.ok, "text": text}), nl=False)
    else:
        shown = name if kind == "channel" else f"{kind} {name}"
        typer.echo(f"{'✓' if finding.ok else '✗'} {shown}: {text}")
