"""`tailrace deliveries resend`: go on with what is open, and send again what may be missing.

What is over stays as it is: sending it again is a delivery of its own, `{turn}/resend.{ordinal}`, so that the same
command a second time sends nothing a third time. Conversations go side by side, each in its order.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tailrace.cli.deliveries.resender import Resender, Sent
from tailrace.cli.deliveries.selection import (
    ChannelOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    found_by_id,
    query_of,
)
from tailrace.cli.delivery_format import json_line, one_line, outcome, wait_of
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, each, is_there, ledger_path, naming, nothing_there
from tailrace.cli.progress_bar import Tally
from tailrace.cli.sending import DRAIN_S, EXIT_AFTER_S, dispatch, made_channel
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query
from tailrace.delivery import CourierSettings
from tailrace.delivery.stopping import stops_on_signals
from tailrace.errors import ChannelFault, UsageError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from tailrace.cli.sending import Dispatch
    from tailrace.deliveries import Delivery
    from tailrace.ports import Ledger

_SIDE_BY_SIDE = 16


def resend(  # noqa: PLR0913 -- one for each option of the command
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The deliveries, as listed.")] = None,
    *,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    older_than: OlderOption = None,
    ledger: LedgerOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Send again what may be missing, and go on with what is open.

    Name deliveries, or say which with options; without --state these mean all that is open, unknown, dead or failed.
    """
    with errors_in_one_line(debug=debug):
        query = query_of(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        if bool(ids) == (query != Query()):
            raise UsageError("say what to send again: deliveries by their ids, or options such as --state unknown")
        path = ledger_path(ledger)
        if not is_there(path):
            raise UsageError(nothing_there(path))
        asked = _Asked(path, tuple(ids or ()), query, json=sys.stdout if json else None, ledger=naming(ledger))
        # A channel that prints must not come between lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            exit_code = asyncio.run(_resend(asked, debug=debug))
    raise typer.Exit(exit_code)


class _Asked(NamedTuple):
    path: Path
    ids: tuple[str, ...]
    query: Query
    json: TextIO | None
    ledger: str


async def _resend(asked: _Asked, *, debug: bool) -> int:
    tally = Tally("sending")
    waits = _Waits(tally)
    last_words = "ended at once; the same command goes on with what is left"
    with (
        warnings_in_one_line(tally.say, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        async with dispatch(asked.path, CourierSettings(), waits.tell) as at_work:
            chosen = await _chosen(at_work.courier.ledger, asked)
            if not chosen:
                tally.say("no delivery is as you asked: nothing was sent")
                return DONE
            tally.expect(len(chosen))
            with tally:
                return await _Round(asked, at_work, tally, stop).run(chosen)


async def _chosen(ledger: Ledger, asked: _Asked) -> list[Delivery]:
    """Those that are meant, oldest first. What people were told of a missing part is sent again only by its name."""
    if asked.ids:
        found = {delivery_id: await found_by_id(ledger, delivery_id) for delivery_id in asked.ids}
        return sorted(found.values(), key=lambda delivery: delivery.position)
    states = OPEN | UNDELIVERED if asked.query.states is None else asked.query.states
    query = Query(
        states=states,
        turn_id=asked.query.turn_id,
        conversation=asked.query.conversation,
        channel=asked.query.channel,
        before=asked.query.before,
    )
    meant = [found async for found in each(ledger, query) if found.ordinal != NOTICE_ORDINAL or found.state in OPEN]
    return meant[::-1]


class _Waits:
    """Says what is waited for after a try of this command, where that takes long."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._began_at = time.time()

    def tell(self, delivery: Delivery) -> None:
        """A delivery has changed."""
        wait = wait_of(one_line(delivery.id), delivery)
        if wait is not None and (delivery.last_try_at or 0.0) >= self._began_at:
            self._tally.say(wait)


class _Round:
    """All that was chosen, sent conversation by conversation."""

    def __init__(self, asked: _Asked, at_work: Dispatch, tally: Tally, stop: asyncio.Event) -> None:
        self._asked = asked
        self._at_work = at_work
        self._tally = tally
        self._stop = stop
        self._again = Resender(at_work.courier)
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._missed = 0

    async def run(self, chosen: list[Delivery]) -> int:
        """Send them; the exit code."""
        out_of_reach = await self._connect({delivery.channel for delivery in chosen})
        conversations: dict[str, list[Delivery]] = {}
        for delivery in chosen:
            if delivery.channel in out_of_reach:
                self._missed += 1
            else:
                conversations.setdefault(delivery.conversation, []).append(delivery)
        work = asyncio.create_task(self._serve_all(conversations))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._tally.say("stopping: what is being sent may take some seconds to be answered")
            await self._at_work.courier.drain(DRAIN_S)
        stopping.cancel()
        await work
        if self._missed:
            self._tally.say(f"tailrace: {self._missed} of {len(chosen)} did not surely arrive")
        return FAILED if self._missed else DONE

    async def _connect(self, names: set[str]) -> set[str]:
        """Start the channels that are needed; those that cannot be."""
        out_of_reach = set()
        for name in sorted(names):
            try:
                await self._at_work.connect(made_channel(name))
            except (ChannelFault, UsageError) as error:
                self._tally.say(f"tailrace: {error}")
                out_of_reach.add(name)
        return out_of_reach

    async def _serve_all(self, conversations: dict[str, list[Delivery]]) -> None:
        async with asyncio.TaskGroup() as group:
            for name, waiting in conversations.items():
                group.create_task(self._serve(name, waiting))

    async def _serve(self, conversation: str, chosen: list[Delivery]) -> None:
        async with self._places:
            if any(delivery.state in OPEN for delivery in chosen) and not self._stop.is_set():
                await self._again.go_on(conversation)
            for delivery in chosen:
                if self._stop.is_set():
                    self._missed += 1
                    continue
                self._report(await self._again.send(delivery))
                self._tally.advance()

    def _report(self, sent: Sent) -> None:
        if not sent.arrived:
            self._missed += 1
        if self._asked.json is not None and sent.now is not None:
            again_of = {} if sent.now.id == sent.before.id else {"again_of": sent.before.id}
            self._asked.json.write(json_line({**outcome(sent.now), **again_of}))
            self._asked.json.flush()
        elif sent.arrived and not sent.was_there:
            typer.echo(sent.words(self._asked.ledger))
        else:
            self._tally.say(sent.words(self._asked.ledger))
