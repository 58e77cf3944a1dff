"""How the deliveries of a turn are reported while they happen: one changing line on a terminal, lines anywhere else.

Everything goes to standard error but the JSON that was asked for. If the reader of the JSON leaves, the deliveries go
on, and the exit code says that they were not read.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, TextIO

from tailrace.cli.delivery_format import format_wait, json_line, one_line, result_record
from tailrace.cli.status_line import StatusLine
from tailrace.deliveries import FINAL, NOTICE_ORDINAL, State

if TYPE_CHECKING:
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
    """The deliveries of one turn, and those that are sent before it in the same chat.

    `json` is where each final delivery is written as an object. `quiet` leaves out what went well and shows no changing
    line: for messages that appear on this very terminal.
    """

    def __init__(self, turn_id: str, *, json: TextIO | None = None, quiet: bool = False) -> None:
        self.is_reader_gone = False
        self._turn_id = turn_id
        self._json = json
        self._quiet = quiet
        self.status = StatusLine(is_live=not quiet)
        self._latest: dict[str, Delivery] = {}
        self._waiting: Delivery | None = None
        self._reported: set[str] = set()

    @property
    def parts(self) -> list[Delivery]:
        """The deliveries of the turn in their order, each as it was last seen."""
        own = [delivery for delivery in self._latest.values() if delivery.turn_id == self._turn_id]
        parts = [part for part in own if part.ordinal != NOTICE_ORDINAL and part.state is not State.SUPERSEDED]
        return sorted(parts, key=lambda part: abs(part.ordinal))

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
        """Show each second how long is still to wait, until cancelled."""
        while True:
            await asyncio.sleep(1)
            self._show_wait()

    def write_json_of_parts(self) -> None:
        """Write the parts as JSON that were not written yet because they are not final."""
        for part in self.parts:
            if part.id not in self._reported:
                self._write_json(part)

    def _name(self, delivery: Delivery) -> str:
        if delivery.turn_id != self._turn_id:
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
        elif not self._quiet and self._json is None:
            self.status.write(text)

    def _show_wait(self) -> None:
        if self._waiting is not None:
            self.status.show(format_wait(self._name(self._waiting), self._waiting, at_least_s=0.0) or "")

    def _write_json(self, delivery: Delivery) -> None:
        self._reported.add(delivery.id)
        if self._json is None:
            return
        try:
            self._json.write(json_line(result_record(delivery)))
            self._json.flush()
        except BrokenPipeError:
            self.is_reader_gone = True
            # Nothing may be flushed into the pipe when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._json.fileno())
