"""Reports the deliveries of a turn while they are sent: in a status line on a terminal, as lines anywhere else.

All reports go to standard error, except the JSON of `--json`. If the program that reads the JSON closes the pipe, the
deliveries are still sent, and the exit code reports a failure.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TextIO

from tailrace.cli.delivery_format import format_wait, json_line, one_line, result_record
from tailrace.cli.status_line import StatusLine
from tailrace.deliveries import FINAL, NOTICE_ORDINAL, OPEN, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Delivery

_VERDICTS = {
    State.DELIVERED: "sent",
    State.FAILED: "refused",
    State.DEAD: "given up",
    State.UNKNOWN: "may have arrived, or not",
    State.CANCELLED: "left out",
    State.SUPERSEDED: "replaced by another message",
}


class Progress:
    """Reports the deliveries of one turn, and those of earlier turns that are sent before it in the same chat.

    `turn_id` is set as soon as it is known. Each delivery that is final is written to `json` as an object. With
    `quiet`, only problems are reported and there is no status line, because the messages themselves appear on this
    terminal.
    """

    def __init__(self, *, json: TextIO | None = None, quiet: bool = False) -> None:
        self.turn_id = ""
        self._is_json = json is not None
        self._quiet = quiet
        self.status = StatusLine(is_live=not quiet, output=json)
        self._latest: dict[str, Delivery] = {}
        self._waiting: Delivery | None = None
        self._reported: set[str] = set()

    @property
    def parts(self) -> list[Delivery]:
        """The deliveries of this turn in order, without notices and replaced ones, each in its last reported state."""
        own = [delivery for delivery in self._latest.values() if delivery.turn_id == self.turn_id]
        parts = [part for part in own if part.ordinal != NOTICE_ORDINAL and part.state is not State.SUPERSEDED]
        return sorted(parts, key=lambda part: abs(part.ordinal))

    @property
    def unfinished(self) -> list[Delivery]:
        """All reported deliveries that are not final yet."""
        return [delivery for delivery in self._latest.values() if delivery.state in OPEN]

    def add_earlier(self, deliveries: Sequence[Delivery]) -> None:
        """Report deliveries that were read from the ledger. A newer state that `update` has reported stays."""
        for delivery in deliveries:
            if delivery.id not in self._latest and delivery.ordinal != NOTICE_ORDINAL:
                self.update(delivery)

    def update(self, delivery: Delivery) -> None:
        """Report a delivery that was recorded or has changed."""
        is_old = delivery.id not in self._latest
        self._latest[delivery.id] = delivery
        if delivery.state in FINAL:
            self._waiting = None
            self._report(delivery, is_old=is_old)
        elif delivery.not_before is not None and delivery.state is not State.SENDING:
            self._waiting = delivery
            if self.status.is_live:
                self._show_wait()
            elif (wait := format_wait(self._name(delivery), delivery)) is not None:
                self.status.write(wait)
        elif delivery.state is State.SENDING:
            self._waiting = None
            self.status.show(f"{self._name(delivery)} is being sent…")

    async def tick(self) -> None:
        """Update the remaining time of a wait in the status line every second. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(1)
            self._show_wait()

    def write_json_of_parts(self) -> None:
        """Write the parts of the turn that are not final yet as JSON.

        The final ones were written when they became final.
        """
        for part in self.parts:
            if part.id not in self._reported:
                self._write_json(part)

    def _name(self, delivery: Delivery) -> str:
        if delivery.turn_id != self.turn_id:
            turn_id, _, kind = delivery.turn_id.rpartition("/")
            if kind == "interrupted":
                return f"the line about the interrupted turn {one_line(turn_id)}"
            return f"{one_line(delivery.id)} (from before)"
        if delivery.ordinal == NOTICE_ORDINAL:
            return "the line about a missing part"
        return f"part {abs(delivery.ordinal)}"

    def _report(self, delivery: Delivery, *, is_old: bool) -> None:
        if delivery.id in self._reported:
            return
        self._write_json(delivery)
        text = f"{self._name(delivery)} {_VERDICTS[delivery.state]}" + (" earlier" if is_old else "")
        if delivery.may_be_double:
            text += " again, may be there twice"
        if delivery.state is not State.DELIVERED:
            self.status.write(f"{text}: {one_line(delivery.error)}" if delivery.error else text)
        elif self.status.is_live:
            self.status.show(f"{text}…")
        elif not self._quiet and not self._is_json:
            self.status.write(text)

    def _show_wait(self) -> None:
        if self._waiting is not None:
            self.status.show(format_wait(self._name(self._waiting), self._waiting, at_least_s=0.0) or "")

    def _write_json(self, delivery: Delivery) -> None:
        self._reported.add(delivery.id)
        if self._is_json:
            self.status.print(json_line(result_record(delivery)).rstrip())
