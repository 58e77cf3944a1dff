"""`tailrace deliveries resend`: finish what is open, and send again what may be missing.

A final delivery is never changed. It is sent again as a new delivery, `{turn}/resend.{ordinal}`, so running the same
command twice sends it only once more. Conversations are sent at the same time, each in its own order.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import typer
from msgspec.structs import replace

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
from tailrace.cli.delivery_format import format_time, format_wait, json_line, one_line, result_record
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, all_deliveries, existing_ledger, ledger_argument
from tailrace.cli.sending import EXIT_AFTER_S, finish_or_drain, load_channel, open_courier
from tailrace.cli.status_line import StatusLine
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query, State, Turn, TurnState, fingerprint_of, plan
from tailrace.delivery import CourierSettings
from tailrace.delivery.stopping import stops_on_signals
from tailrace.errors import ChannelFault, UsageError
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.cli.sending import Connections
    from tailrace.deliveries import Delivery
    from tailrace.operations import Durable
    from tailrace.ports import Ledger

_MAX_CONVERSATIONS = 16


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
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Send again what may be missing, and send what is still open.

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
        # Text that a channel prints must not get between the lines of JSON.
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
    status = StatusLine()
    last_words = "ended at once; the same command sends what is left"
    with (
        warnings_in_one_line(status.write, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        async with open_courier(
            options.path, CourierSettings(), _reports_waits(status), adopt_restored=options.adopts_restored
        ) as connections:
            if options.adopts_restored:
                status.write(f"{options.path} can be used again; its open deliveries may have been sent")
            chosen = await _choose(connections.courier.ledger, options)
            if not chosen:
                status.write("no delivery matches: nothing was sent")
                return DONE
            return await _ResendCommand(options, connections, status, stop).run(chosen)


async def _choose(ledger: Ledger, options: _Options) -> list[Delivery]:
    """The deliveries to send, oldest first. A final notice about a missing part is only sent again by its id."""
    if options.ids:
        found = {delivery_id: await delivery_by_id(ledger, delivery_id) for delivery_id in options.ids}
        return sorted(found.values(), key=lambda delivery: delivery.position)
    query = options.query if options.query.states else replace(options.query, states=OPEN | UNDELIVERED)
    found_by_query = [found async for found in all_deliveries(ledger, query)]
    return [found for found in found_by_query[::-1] if found.ordinal != NOTICE_ORDINAL or found.state in OPEN]


def _reports_waits(status: StatusLine) -> Callable[[Delivery], None]:
    """Returns a callback that writes what a delivery waits for, if this command tried it and the wait is long."""
    began_at = time.time()

    def report(delivery: Delivery) -> None:
        wait = format_wait(one_line(delivery.id), delivery)
        if wait is not None and (delivery.last_try_at or 0.0) >= began_at:
            status.write(wait)

    return report


class _ResendCommand:
    """Sends the chosen deliveries, grouped by conversation."""

    def __init__(self, options: _Options, connections: Connections, status: StatusLine, stop: asyncio.Event) -> None:
        self._options = options
        self._connections = connections
        self._courier = connections.courier
        self._ledger = connections.courier.ledger
        self._status = status
        self._stop = stop
        self._slots = asyncio.Semaphore(_MAX_CONVERSATIONS)
        self._done = 0
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
        sending = asyncio.create_task(self._send_all(conversations, total=len(chosen)))
        await finish_or_drain(sending, self._courier, self._stop, self._status)
        await sending
        self._status.clear()
        if self._missed:
            self._status.write(f"tailrace: {self._missed} of {len(chosen)} may not have arrived")
        return FAILED if self._missed else DONE

    async def _connect(self, names: set[str]) -> set[str]:
        """Connect the channels that are needed. Returns those that cannot be connected."""
        unreachable = set()
        for name in sorted(names):
            try:
                await self._connections.connect(load_channel(name))
            except (ChannelFault, UsageError) as error:
                self._status.write(f"tailrace: {error}")
                unreachable.add(name)
        return unreachable

    async def _send_all(self, conversations: dict[str, list[Delivery]], *, total: int) -> None:
        async with asyncio.TaskGroup() as group:
            for name, chosen in conversations.items():
                group.create_task(self._send(name, chosen, total=total))

    async def _send(self, conversation: str, chosen: list[Delivery], *, total: int) -> None:
        async with self._slots:
            if any(delivery.state in OPEN for delivery in chosen) and not self._stop.is_set():
                await self._finish_open(conversation)
            for delivery in chosen:
                if self._stop.is_set():
                    self._missed += 1
                    continue
                await self._resend(delivery)
                self._done += 1
                self._status.count("sent", self._done, f" of {total}")

    async def _finish_open(self, conversation: str) -> None:
        """Send all open deliveries of a conversation. Stops when a round changes nothing."""
        open_ids = await self._open_in(conversation)
        while open_ids and (work := self._courier.resume(conversation)) is not None:
            await work
            before, open_ids = open_ids, await self._open_in(conversation)
            if before == open_ids:
                return

    async def _resend(self, delivery: Delivery) -> None:
        """Send a final delivery again. An open one was sent by `_finish_open`: only report its state."""
        before = one_line(delivery.id)
        if delivery.state in OPEN:
            self._report(before, await self._find(delivery.turn_id, delivery.ordinal) or delivery)
            return
        turn_id = f"{delivery.turn_id}/resend"
        known = await self._find(turn_id, delivery.ordinal)
        if known is not None and known.state not in OPEN:
            command = f"`tailrace deliveries resend {shlex.quote(known.id)}{self._options.ledger_argument}`"
            text = f"{before} was sent again already, as {one_line(known.id)}, which is {known.state}"
            self._write(known, f"{text}; {command} sends it once more", again_of=delivery.id)
        elif why := _why_not(delivery):
            self._missed += 1
            self._status.write(f"{before} cannot be sent again: {why}")
        else:
            sent = await self._send_as(turn_id, delivery)
            self._report(f"{before} again, as {one_line(sent.id)}", sent, again_of=delivery.id)

    async def _send_as(self, turn_id: str, delivery: Delivery) -> Delivery:
        target = delivery.operation.target
        new = plan(
            _operation(delivery),
            turn_id=turn_id,
            ordinal=delivery.ordinal,
            policy=self._courier.policy(target),
            now=self._courier.clock.wall(),
        )
        if self._courier.spool is not None:
            new = await self._courier.spool.copy_file(new)
        # The turn is recorded as done at once, so that it never counts as interrupted.
        [ended] = await self._courier.deliver(Turn(turn_id=turn_id, target=target, state=TurnState.DONE), [new])
        return await self._find(turn_id, delivery.ordinal) or ended

    def _report(self, name: str, sent: Delivery, *, again_of: str | None = None) -> None:
        """Report the result of a delivery that was sent. `name` is how to refer to it."""
        why = f": {one_line(sent.error)}" if sent.error else ""
        if sent.state is State.DELIVERED and sent.receipt is not None:
            text = f"sent {name} (message {one_line(sent.receipt.message_id)})"
        elif sent.state in OPEN:
            until = f" until {format_time(sent.not_before)}" if sent.not_before is not None else ""
            text = f"{one_line(sent.id)} still waits{until}, as {sent.state}{why}"
        else:
            text = f"tried to send {name}, which is {sent.state}{why}"
        is_good = sent.state is State.DELIVERED and self._options.json is None
        self._write(sent, text, again_of=again_of, prints=is_good)

    def _write(self, sent: Delivery, text: str, *, again_of: str | None, prints: bool = False) -> None:
        self._missed += sent.state is not State.DELIVERED
        if self._options.json is not None:
            record = result_record(sent) if again_of is None else {**result_record(sent), "again_of": again_of}
            self._options.json.write(json_line(record))
            self._options.json.flush()
        elif prints:
            self._status.print(text)
        else:
            self._status.write(text)

    async def _find(self, turn_id: str, ordinal: int) -> Delivery | None:
        async for delivery in all_deliveries(self._ledger, Query(turn_id=turn_id)):
            if delivery.ordinal == ordinal:
                return delivery
        return None

    async def _open_in(self, conversation: str) -> set[str]:
        query = Query(conversation=conversation, states=OPEN)
        return {delivery.id async for delivery in all_deliveries(self._ledger, query)}


def _why_not(delivery: Delivery) -> str:
    """Why the delivery cannot be sent again; empty if it can."""
    if fingerprint_of(delivery.operation) != delivery.fingerprint:
        return "its text was deleted (tailrace deliveries purge --bodies)"
    media = delivery.operation
    if isinstance(media, PostMedia) and not media.url and not (media.path and Path(media.path).exists()):
        return "the copy of its file is not kept once a delivery is finished"
    return ""


def _operation(delivery: Delivery) -> Durable:
    """The operation to repeat. A stream becomes a message, because nothing would end the stream."""
    operation = delivery.operation
    return Post(target=operation.target, body=operation.body) if isinstance(operation, OpenStream) else operation
