"""`tailrace deliveries resend`: finish what is open, and send again what may be missing.

What is final stays as it is: to send it again is a new delivery, `{turn}/resend.{ordinal}`, so that the same command a
second time sends nothing a third time. Conversations are sent at the same time, each in its order.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from msgspec.structs import replace

from tailrace.cli.deliveries.resender import Resender, Resent
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
from tailrace.cli.delivery_format import format_wait, json_line, one_line, result_record
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, all_deliveries, existing_ledger, ledger_argument
from tailrace.cli.progress_bar import ProgressBar
from tailrace.cli.sending import DRAIN_S, EXIT_AFTER_S, load_channel, open_courier
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query
from tailrace.delivery import CourierSettings
from tailrace.delivery.stopping import stops_on_signals
from tailrace.errors import ChannelFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TextIO

    from tailrace.cli.sending import Connections
    from tailrace.deliveries import Delivery
    from tailrace.ports import Ledger

_MAX_CONVERSATIONS = 16


def resend(  # noqa: PLR0913 -- one for each option of the command
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The deliveries, as listed.")] = None,
    *,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    older_than: OlderOption = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Use a ledger that was restored from a backup, and finish what is open.")
    ] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send again what may be missing, and finish what is open.

    Name deliveries by ID, or choose them by at least one option. Without --state the options choose among those that
    are open, unknown, dead or failed.
    """
    with errors_in_one_line(debug=debug):
        query = selected(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        if adopt and not ids and query == Query():
            query = Query(states=OPEN)
        if bool(ids) == (query != Query()):
            raise UsageError(
                "say what to send again: either deliveries by ID, or options such as --state open or --turn ID"
            )
        options = _Options(
            path=existing_ledger(ledger),
            ids=tuple(ids or ()),
            query=query,
            adopts_restored=adopt,
            json=sys.stdout if json else None,
            ledger_argument=ledger_argument(ledger),
        )
        # A channel that prints must not come between lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            exit_code = asyncio.run(_resend(options, debug=debug))
    raise typer.Exit(exit_code)


class _Options(NamedTuple):
    path: Path
    ids: tuple[str, ...]
    query: Query
    adopts_restored: bool
    json: TextIO | None
    ledger_argument: str


async def _resend(options: _Options, *, debug: bool) -> int:
    bar = ProgressBar("sending")
    last_words = "ended at once; the same command sends what is left"
    with (
        warnings_in_one_line(bar.write_line, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        async with open_courier(
            options.path, CourierSettings(), _reports_waits(bar), adopt_restored=options.adopts_restored
        ) as connections:
            if options.adopts_restored:
                bar.write_line(f"{options.path} can be used again; what was open in it counts as maybe sent")
            chosen = await _choose(connections.courier.ledger, options)
            if not chosen:
                bar.write_line("no delivery matches: nothing was sent")
                return DONE
            with bar.of(len(chosen)):
                return await _ResendCommand(options, connections, bar, stop).run(chosen)


async def _choose(ledger: Ledger, options: _Options) -> list[Delivery]:
    """The deliveries that are meant, oldest first. A line about a missing part is sent again only by its id."""
    if options.ids:
        found = {delivery_id: await delivery_by_id(ledger, delivery_id) for delivery_id in options.ids}
        return sorted(found.values(), key=lambda delivery: delivery.position)
    query = options.query if options.query.states else replace(options.query, states=OPEN | UNDELIVERED)
    found_by_query = [found async for found in all_deliveries(ledger, query)]
    return [found for found in found_by_query[::-1] if found.ordinal != NOTICE_ORDINAL or found.state in OPEN]


def _reports_waits(bar: ProgressBar) -> Callable[[Delivery], None]:
    """Say what a delivery waits for after a try of this command, if that takes long."""
    began_at = time.time()

    def report(delivery: Delivery) -> None:
        wait = format_wait(one_line(delivery.id), delivery)
        if wait is not None and (delivery.last_try_at or 0.0) >= began_at:
            bar.write_line(wait)

    return report


class _ResendCommand:
    """All that was chosen, sent conversation by conversation."""

    def __init__(self, options: _Options, connections: Connections, bar: ProgressBar, stop: asyncio.Event) -> None:
        self._options = options
        self._connections = connections
        self._bar = bar
        self._stop = stop
        self._resender = Resender(connections.courier)
        self._slots = asyncio.Semaphore(_MAX_CONVERSATIONS)
        self._missed = 0

    async def run(self, chosen: list[Delivery]) -> int:
        """Send them. Returns the exit code."""
        unreachable = await self._connect({delivery.channel for delivery in chosen})
        conversations: dict[str, list[Delivery]] = {}
        for delivery in chosen:
            if delivery.channel in unreachable:
                self._missed += 1
            else:
                conversations.setdefault(delivery.conversation, []).append(delivery)
        sending = asyncio.create_task(self._send_all(conversations))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self._bar.write_line("stopping: an answer to what is being sent may take some seconds")
            await self._connections.courier.drain(DRAIN_S)
        stopping.cancel()
        await sending
        if self._missed:
            self._bar.write_line(f"tailrace: {self._missed} of {len(chosen)} did not surely arrive")
        return FAILED if self._missed else DONE

    async def _connect(self, names: set[str]) -> set[str]:
        """Connect the channels that are needed. Returns those that cannot be connected."""
        unreachable = set()
        for name in sorted(names):
            try:
                await self._connections.connect(load_channel(name))
            except (ChannelFault, UsageError) as error:
                self._bar.write_line(f"tailrace: {error}")
                unreachable.add(name)
        return unreachable

    async def _send_all(self, conversations: dict[str, list[Delivery]]) -> None:
        async with asyncio.TaskGroup() as group:
            for name, chosen in conversations.items():
                group.create_task(self._send(name, chosen))

    async def _send(self, conversation: str, chosen: list[Delivery]) -> None:
        async with self._slots:
            if any(delivery.state in OPEN for delivery in chosen) and not self._stop.is_set():
                await self._resender.resume(conversation)
            for delivery in chosen:
                if self._stop.is_set():
                    self._missed += 1
                    continue
                self._report(await self._resender.resend(delivery))
                self._bar.advance()

    def _report(self, resent: Resent) -> None:
        if not resent.arrived:
            self._missed += 1
        if self._options.json is not None and resent.now is not None:
            again_of = {} if resent.now.id == resent.before.id else {"again_of": resent.before.id}
            self._options.json.write(json_line({**result_record(resent.now), **again_of}))
            self._options.json.flush()
        elif resent.arrived and not resent.was_known:
            typer.echo(resent.describe(self._options.ledger_argument))
        else:
            self._bar.write_line(resent.describe(self._options.ledger_argument))
