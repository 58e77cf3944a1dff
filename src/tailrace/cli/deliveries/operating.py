"""Runs a method of `Operator`, such as resend, on a ledger that no other process has open, and reports what is sent."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tailrace.cli.delivery_format import format_time, format_wait, json_line, one_line, result_record
from tailrace.cli.failures import warnings_in_one_line
from tailrace.cli.ledgers import no_answer
from tailrace.cli.sending import EXIT_AFTER_S, load_channel, open_courier
from tailrace.cli.status_line import StatusLine
from tailrace.deliveries import OPEN, State
from tailrace.delivery import CourierSettings
from tailrace.delivery.operator import Operator
from tailrace.errors import ChannelFault, GatewayNotRunning, LedgerInUse, UsageError
from tailrace.gateway.control import ControlClient
from tailrace.signals import stops_on_signals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from tailrace.cli.ledgers import LedgerPlace
    from tailrace.deliveries import Delivery

Result = TypeVar("Result")
_LAST_WORDS = "ended at once; the same command goes on with what is left"


class SendReport:
    """Reports what happened to deliveries, as text or as JSON.

    In text, deliveries that arrived are on standard output, all others on standard error.

    `problems` are the errors of channels that could not be connected. They were reported already.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.status = StatusLine(output=sys.stdout)
        self.problems: set[str] = set()
        self.as_json = as_json
        self._began_at = time.time()

    def write(self, delivery: Delivery, text: str, again_of: str = "", *, is_result: bool = False) -> None:
        """Write the text, or with `--json` the delivery.

        `again_of` is the id of the delivery that this one sends again.
        """
        if self.as_json:
            record = result_record(delivery) | ({"again_of": again_of} if again_of else {})
            self.status.print(json_line(record).rstrip())
        elif is_result:
            self.status.print(text)
        else:
            self.status.write(text)

    def write_state(self, delivery: Delivery, name: str, again_of: str = "") -> None:
        """Write in which state a delivery is after it was sent. `name` is what the text calls the delivery."""
        why = f": {one_line(delivery.error)}" if delivery.error else ""
        if delivery.state is State.DELIVERED and delivery.receipt is not None:
            text = f"sent {name} (message {one_line(delivery.receipt.message_id)})"
        elif delivery.state in OPEN:
            until = f" until {format_time(delivery.not_before)}" if delivery.not_before is not None else ""
            text = f"{one_line(delivery.id)} still waits{until}, as {delivery.state}{why}"
        else:
            text = f"tried to send {name}, which is {delivery.state}{why}"
        self.write(delivery, text, again_of, is_result=delivery.state is State.DELIVERED)

    def write_wait(self, delivery: Delivery) -> None:
        """Write why and how long a delivery waits, if this command has tried to send it and the wait is long."""
        wait = format_wait(one_line(delivery.id), delivery)
        if wait is not None and (delivery.last_try_at or 0.0) >= self._began_at:
            self.status.write(wait)


class OperatedLedger(NamedTuple):
    """The ledger that a command works on. `on_change` gets each delivery that this command changes."""

    place: LedgerPlace
    on_change: Callable[[Delivery], None] = lambda _: None
    adopt_restored: bool = False


async def operate(
    operated: OperatedLedger,
    report: SendReport,
    here: Callable[[Operator], Coroutine[Any, Any, Result]],
    in_gateway: Callable[[ControlClient], Awaitable[Result]],
    *,
    debug: bool,
) -> Result:
    """Open the ledger and do the work `here`. If a gateway has it open, let that gateway do the work."""
    try:
        return await _operate_here(operated, report, here, debug=debug)
    except LedgerInUse as in_use:
        try:
            return await in_gateway(ControlClient(operated.place.control))
        except GatewayNotRunning:
            raise no_answer(operated.place, in_use) from None
        finally:
            report.status.clear()


async def _operate_here(
    operated: OperatedLedger,
    report: SendReport,
    work: Callable[[Operator], Coroutine[Any, Any, Result]],
    *,
    debug: bool,
) -> Result:
    """Open the ledger, run `work` with an operator, and close the ledger. Returns what `work` returns.

    After a signal, deliveries that are being sent are finished, and no new ones begin.
    """
    path, settings = operated.place.path, operated.place.settings
    with (
        # Text that a channel prints must not appear between the lines of JSON.
        redirect_stdout(sys.stderr) if report.as_json else nullcontext(),
        warnings_in_one_line(report.status.write, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=_LAST_WORDS) as stop,
    ):
        async with open_courier(
            path, CourierSettings(), operated.on_change, adopt_restored=operated.adopt_restored
        ) as connections:

            async def connect(name: str) -> str:
                try:
                    await connections.connect(load_channel(name, settings))
                except (ChannelFault, UsageError) as error:
                    report.problems.add(str(error))
                    report.status.write(f"tailrace: {error}")
                    return str(error)
                return ""

            operator = Operator(connections.courier, connect)
            working = asyncio.create_task(work(operator))
            try:
                await connections.finish_or_drain(working, stop, report.status, operator.stop)
                return await working
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
                report.status.clear()
