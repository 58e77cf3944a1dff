"""`tailrace deliveries resend`: send deliveries again that may be missing, and finish open ones."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from tailrace.cli.deliveries.operating import OperatedLedger, SendReport, operate
from tailrace.cli.deliveries.selection import (
    ChannelOption,
    JsonOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    delivery_by_id,
    selected,
)
from tailrace.cli.delivery_format import one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    all_deliveries,
    ledger_place,
    read_ledger,
)
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query, State
from tailrace.delivery.operator import Resend, Resent
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.cli.ledgers import LedgerPlace
    from tailrace.delivery.operator import Operator
    from tailrace.gateway.control import ControlClient


def resend(  # noqa: PLR0913 -- one for each option of the command
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The deliveries, as `list` shows them.")] = None,
    *,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    older_than: OlderOption = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Accept a ledger that was restored from a backup: its open deliveries may have been sent."
        ),
    ] = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send deliveries again that may be missing, and send open ones.

    Name deliveries by ID, or choose them by at least one option. Without --state the options choose only those that
    are open, unknown, dead or failed. To finish only open ones, run `tailrace deliveries resume`.
    """
    with errors_in_one_line(debug=debug):
        query = selected(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        if adopt and not ids and query == Query():
            query = Query(states=OPEN)
        if bool(ids) == (query != Query()):
            raise UsageError(
                "say what to send again: either deliveries by ID, or options such as --state open or --turn ID"
            )
        place = ledger_place(ledger, config, assignments).existing()
        chosen = asyncio.run(_choose(place.path, ids or [], query))
        command = _ResendCommand(chosen, place, SendReport(as_json=json), adopt=adopt)
        if chosen or adopt:
            asyncio.run(command.run(debug=debug))
        exit_code = command.summarize()
    raise typer.Exit(exit_code)


async def _choose(path: Path, ids: list[str], query: Query) -> list[str]:
    """The ids of the deliveries to send again, for the ids or the options that the person gave.

    Options do not choose the notices about a missing part, unless such a notice is still to be sent.
    """
    async with read_ledger(path) as reader:
        if ids:
            return list(dict.fromkeys([(await delivery_by_id(reader, delivery_id)).id for delivery_id in ids]))
        wanted = query if query.states else replace(query, states=OPEN | UNDELIVERED)
        found = [found async for found in all_deliveries(reader, wanted)]
        return [found.id for found in found if found.ordinal != NOTICE_ORDINAL or found.state in OPEN]


class _ResendCommand:
    """Sends the chosen deliveries again, and reports each.

    `adopt`: the ledger may be an older copy that was restored; the person accepted that with `--adopt`.
    """

    def __init__(self, chosen: list[str], place: LedgerPlace, report: SendReport, *, adopt: bool) -> None:
        self.report = report
        self._chosen = chosen
        self._place = place
        self._adopt = adopt
        self._delivered = 0

    async def run(self, *, debug: bool) -> None:
        """Send the chosen deliveries."""
        verb = Resend(ids=tuple(self._chosen))

        async def here(operator: Operator) -> None:
            if self._adopt:
                self.report.status.write(
                    f"{self._place.path} can be used again; its open deliveries may have been sent"
                )
            await operator.resend(verb, self._report)

        async def in_gateway(client: ControlClient) -> None:
            await client.ask(verb, list[Resent], progress=Resent, report=self._report, within_s=None)

        operated = OperatedLedger(self._place, on_change=self.report.write_wait, adopt_restored=self._adopt)
        await operate(operated, self.report, here, in_gateway, debug=debug)

    def summarize(self) -> int:
        """Tell the person how many deliveries may not have arrived. Returns the exit code."""
        status, missing = self.report.status, len(self._chosen) - self._delivered
        if not self._chosen:
            status.write("no delivery matches: nothing was sent")
        elif missing:
            status.write(f"tailrace: {missing} of {len(self._chosen)} may not have arrived")
        return FAILED if missing or status.is_reader_gone else DONE

    def _report(self, result: Resent) -> None:
        before, sent, report = one_line(result.id), result.delivery, self.report
        again_of = result.id if result.is_new else ""
        if sent is None:
            if result.problem not in report.problems:
                report.status.write(f"{before} cannot be sent again: {one_line(result.problem)}")
        elif result.was_sent_before:
            command = f"`tailrace deliveries resend {shlex.quote(sent.id)}{self._place.arguments}`"
            text = f"{before} was sent again already, as {one_line(sent.id)}, which is {sent.state}"
            report.write(sent, f"{text}; {command} sends it once more", again_of)
        else:
            report.write_state(sent, f"{before} again, as {one_line(sent.id)}" if result.is_new else before, again_of)
        self._delivered += sent is not None and sent.state is State.DELIVERED
