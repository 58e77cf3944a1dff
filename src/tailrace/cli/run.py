"""`tailrace run` and `tailrace serve`: put agents on channels, until a signal."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from msgspec.structs import replace

from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import LedgerOption, ledger_path
from tailrace.cli.settings import ConfigOption, SetOption, open_settings
from tailrace.config import FILE_NAME
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tailrace.config import Settings
    from tailrace.gateway.plan import GatewayPlan


LogOption: TypeAlias = Annotated[bool, typer.Option("--debug", help="Log everything, also texts of messages.")]


def run(  # noqa: PLR0913 -- one for each option of the command
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that answers.")],
    *,
    channel: Annotated[list[str], typer.Option("--channel", help="The channel, such as telegram; repeat it for more.")],
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="ID", help="Who may talk to the agent, as the platform names them; * for all."),
    ] = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    debug: LogOption = False,
) -> None:
    """Put an agent on a channel. Answers what people write there, until Ctrl-C.

    Nobody is let in by default: a person who writes gets a code, and `tailrace access approve CODE`
    lets that person in.

    For example: tailrace run demo --channel telegram
    """
    with errors_in_one_line(debug=debug), _logs(debug=debug):
        from tailrace.gateway.plan import plan_of_settings  # noqa: PLC0415 -- other commands need no gateway

        settings = open_settings(config, assignments)
        path = ledger_path(ledger, settings)
        control = _control(ledger, settings)
        _run(plan_of_settings(settings, ledger=path, control=control, channels=channel, agent=agent, allow=allow or ()))


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The settings file.", show_default=FILE_NAME)
    ] = None,
    *,
    assignments: SetOption = None,
    debug: LogOption = False,
) -> None:
    """Serve all agents and channels of a settings file, until Ctrl-C.

    `tailrace init` writes such a file, and `tailrace check` proves it. On SIGHUP the file is read
    again: a change of `allow` counts at once.
    """
    with errors_in_one_line(debug=debug), _logs(debug=debug):
        from tailrace.gateway.plan import plan_of_settings  # noqa: PLC0415 -- other commands need no gateway

        settings = open_settings(file, assignments)
        if not settings.has_file:
            raise UsageError(f"there is no settings file {FILE_NAME} here: `tailrace init` writes one, or name a file")
        path = ledger_path(None, settings)
        plan = plan_of_settings(settings, ledger=path, control=_control(None, settings))
        _run(replace(plan, read_again=partial(open_settings, file, assignments)))


def _control(ledger: Path | None, settings: Settings) -> Path:
    from tailrace.gateway.control import control_path  # noqa: PLC0415 -- other commands need no gateway

    return control_path(ledger=ledger, data_dir=settings.gateway.data_dir, control=settings.gateway.control)


def _logs(*, debug: bool) -> AbstractContextManager[None]:
    from tailrace.cli.logs import logging_to  # noqa: PLC0415 -- other commands need no structlog

    return logging_to(debug=debug)


def _run(plan: GatewayPlan) -> None:
    from tailrace.gateway.gateway import GatewayProcess  # noqa: PLC0415 -- other commands need no gateway

    asyncio.run(GatewayProcess(plan).run())
