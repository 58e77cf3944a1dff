"""`tailrace deliveries resume`: finish deliveries and turns that an earlier process left open."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tailrace.cli.deliveries.operating import OperatedLedger, SendReport, operate
from tailrace.cli.deliveries.selection import JsonOption
from tailrace.cli.delivery_format import format_time, one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, ledger_exists, ledger_place, no_ledger
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.deliveries import FINAL, Delivery, OpenConversation, State
from tailrace.delivery.operator import Resume
from tailrace.plugins import load

_MAX_LISTED = 20


def resume(
    *,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            "--channel", metavar="NAME", help="Only on this channel; repeat it for more. Default: all that are needed."
        ),
    ] = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Finish deliveries and turns that an earlier process left open, and exit.

    Sends open deliveries. Closes interrupted turns: sends the remaining text, and a line that says that the answer was
    interrupted. Waits about a minute for retries, then reports the deliveries that still wait.
    """
    with errors_in_one_line(debug=debug):
        for name in channel or ():
            load("channel", name)  # raises an error if no such channel is installed
        place = ledger_place(ledger, config, assignments)
        if not ledger_exists(place.path):
            typer.echo(no_ledger(place.path), err=True)
            return
        report = SendReport(as_json=json)
        verb = Resume(channels=tuple(channel or ()))

        def on_change(delivery: Delivery) -> None:
            if delivery.state in FINAL and delivery.state is not State.SUPERSEDED:
                report.write_state(delivery, one_line(delivery.id))
            else:
                report.write_wait(delivery)

        left_open = asyncio.run(
            operate(
                OperatedLedger(place, on_change=on_change),
                report,
                lambda operator: operator.resume(verb),
                lambda client: client.ask(
                    verb, list[OpenConversation], progress=Delivery, report=on_change, within_s=None
                ),
                debug=debug,
            )
        )
        for line in _summary(left_open):
            report.status.write(line)
    raise typer.Exit(FAILED if left_open or report.status.is_reader_gone else DONE)


def _summary(left_open: list[OpenConversation]) -> list[str]:
    """Lines that say which conversations still have open deliveries, and what to do about it."""
    if not left_open:
        return ["nothing is left open"]
    lines = [_line(left) for left in left_open[:_MAX_LISTED]]
    if more := len(left_open) - len(lines):
        lines.append(f"and {more} more")
    which = "1 conversation is" if len(left_open) == 1 else f"{len(left_open)} conversations are"
    return [*lines, f"tailrace: {which} not finished; the same command goes on later"]


def _line(left: OpenConversation) -> str:
    name = one_line(left.name)
    if left.state == "running":
        return f"{name} has an interrupted turn"
    until = f" until {format_time(left.not_before)}" if left.not_before is not None else ""
    return f"{name} still waits{until}, as {left.state}"
