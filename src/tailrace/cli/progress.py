"""How a turn's deliveries are told while they happen: a line that changes on a terminal, a line each anywhere else.

Everything goes to standard error but the JSON that was asked for. Whoever reads may leave at any time: the deliveries
go on, and that nobody read of them is told by the exit code.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from tailrace.channels.terminal.lines import DIM, Line, Lines
from tailrace.cli.delivery_format import json_line, one_line, outcome, wait_of
from tailrace.deliveries import FINAL, NOTICE_ORDINAL, State

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery

_VERDICTS = {
    State.DELIVERED: "sent",
    State.FAILED: "refused",
    State.DEAD: "given up",
    State.UNKNOWN: "may be there, or not",
    State.CANCELLED: "left out",
    State.SUPERSEDED: "said by another message",
}


class Progress:
    """What becomes of the parts of one turn, and of what goes with them.

    `json` is where each ended delivery is written as an object. `quiet` leaves out what went well and changes no line:
    for messages that are seen on this very terminal. `latest` is every delivery as it was last heard of.
    """

    def __init__(self, turn_id: str, *, json: TextIO | None = None, quiet: bool = False) -> None:
        self.latest: dict[str, Delivery] = {}
        self.is_unread = False
        self._turn_id = turn_id
        self._json = json
        self._quiet = quiet
        self._lines = Lines(sys.stderr)
        self._lines.in_place = self._lines.in_place and not quiet
        self._waits: Delivery | None = None
        self._ended: set[str] = set()

    def tell(self, delivery: Delivery) -> None:
        """A delivery has changed."""
        is_old = delivery.id not in self.latest
        self.latest[delivery.id] = delivery
        if delivery.state in FINAL:
            self._waits = None
            self._end(delivery, is_old=is_old)
        elif delivery.not_before is not None and delivery.state is not State.SENDING:
            self._waits = delivery
            if self._lines.in_place:
                self.redraw()
            elif (wait := wait_of(self.name(delivery), delivery)) is not None:
                self.say(wait)
        elif delivery.state is State.SENDING:
            self._waits = None
            self._live(f"{self.name(delivery)} is being sent…")

    def redraw(self) -> None:
        """Show how long is still waited."""
        if self._waits is not None:
            self._live(wait_of(self.name(self._waits), self._waits, at_least_s=0.0) or "")

    async def tick(self) -> None:
        """Redraw each second until cancelled."""
        while True:
            await asyncio.sleep(1)
            self.redraw()

    def say(self, text: str) -> None:
        """A line that stays."""
        with suppress(OSError, ValueError):
            self._lines.withdraw("progress")
            self._lines.space(1)
            self._lines.write(f"{text}\n")

    def conclude(self, text: str, parts: list[Delivery]) -> None:
        """The last line of a turn that went well."""
        self.report(parts)
        self.say(text)

    def report(self, parts: list[Delivery]) -> None:
        """See to it that each of these was written as JSON, also those that ended before, or not at all."""
        for delivery in parts:
            if delivery.id not in self._ended:
                self._write(delivery)

    def name(self, delivery: Delivery) -> str:
        """What people call it."""
        if delivery.turn_id != self._turn_id:
            return f"{one_line(delivery.id)} (from before)"
        if delivery.ordinal == NOTICE_ORDINAL:
            return "the line that a part is missing"
        return f"part {abs(delivery.ordinal)}"

    def _end(self, delivery: Delivery, *, is_old: bool) -> None:
        if delivery.id in self._ended:
            return
        self._write(delivery)
        verdict = _VERDICTS[delivery.state] + (" earlier" if is_old else "")
        if delivery.may_be_double:
            verdict += " again, may be there twice"
        if delivery.state is not State.DELIVERED:
            why = f": {one_line(delivery.error)}" if delivery.error else ""
            self.say(f"{self.name(delivery)} {verdict}{why}")
        elif self._lines.in_place:
            self._live(f"{self.name(delivery)} {verdict}…")
        elif not self._quiet and self._json is None:
            self.say(f"{self.name(delivery)} {verdict}")

    def _live(self, text: str) -> None:
        if self._lines.in_place:
            with suppress(OSError, ValueError):
                line = Line(text)
                if not self._lines.renew("progress", line, style=DIM):
                    self._lines.add("progress", line, style=DIM)

    def _write(self, delivery: Delivery) -> None:
        self._ended.add(delivery.id)
        self.put(outcome(delivery))

    def put(self, record: dict[str, Any]) -> None:
        """Write an object where JSON was asked for."""
        if self._json is None:
            return
        try:
            self._json.write(json_line(record))
            self._json.flush()
        except BrokenPipeError:
            self.is_unread = True
            # Nothing may be flushed into the pipe when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._json.fileno())
