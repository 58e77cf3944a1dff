"""Performs many turns on the stage and holds each to the laws.

    make search [SEARCH="--runs 100000 --seed 0 --presentation live --channel slack"]
    make search SEARCH="--runs 1 --seed 4711"

Each run has a number, and everything in it follows from that: what the agent says, where, how it is shown, and what
goes wrong. Ends with 1 where a law is broken, with an account of the first such run and how to see it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table

from random_turns.expected import Account
from random_turns.judge import verdict
from random_turns.scenes import PRESENTATIONS
from random_turns.stage import perform
from tailrace.capabilities import CHANNELS

if TYPE_CHECKING:
    from random_turns.stage import Performance

_EVERY = 1000
_COLUMNS = ("runs", "channels", "operations", "refused", "not_now", "ambiguous", "rebuilt", "violations")
_LONGEST = 400  # of a line in an account


class Sum(msgspec.Struct, kw_only=True):
    """What the runs of one presentation come to."""

    runs: int = 0
    seen: set[str] = msgspec.field(default_factory=set)
    operations: int = 0
    refused: int = 0
    not_now: int = 0
    ambiguous: int = 0
    rebuilt: int = 0
    violations: int = 0

    @property
    def channels(self) -> int:
        """On how many channels they were."""
        return len(self.seen)

    def add(self, performance: Performance, *, is_broken: bool) -> None:
        """Count one more."""
        counts = performance.trouble.counts
        self.runs += 1
        self.seen.add(performance.scene.channel)
        self.operations += counts["operations"]
        self.refused += counts["refused"]
        self.not_now += counts["not_now"]
        self.ambiguous += counts["ambiguous"]
        self.rebuilt += performance.lives - 1
        self.violations += is_broken

    def join(self, other: Sum) -> None:
        """Count what the other counted."""
        for name in _COLUMNS:
            if name != "channels":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seen |= other.seen


class Progress:
    """Says how far it is and what went wrong first, on a console, and keeps the sums."""

    def __init__(self, console: Console) -> None:
        self.sums = {presentation: Sum() for presentation in PRESENTATIONS}
        self._console = console
        self._began = time.monotonic()

    def add(self, performance: Performance) -> None:
        """One more run is over."""
        breaches = verdict(performance)
        if breaches:
            account = account_of(performance, breaches)
            self._console.print("\n".join(account[-2:] if self.violations else account), markup=False, highlight=False)
        self.sums[performance.scene.presentation].add(performance, is_broken=bool(breaches))
        runs = sum(found.runs for found in self.sums.values())
        if runs % _EVERY == 0:
            self._console.print(f"{runs} runs, {self.violations} violations, {self._seconds()}")

    @property
    def violations(self) -> int:
        """How many runs broke a law."""
        return sum(found.violations for found in self.sums.values())

    def table(self) -> Table:
        """All sums, and their sum."""
        table = Table(title=f"turns on the stage, in {self._seconds()}")
        table.add_column("presentation")
        for column in _COLUMNS:
            table.add_column(column, justify="right")
        everything = Sum()
        for presentation, found in self.sums.items():
            if found.runs:
                table.add_row(presentation, *(str(getattr(found, column)) for column in _COLUMNS))
                everything.join(found)
        table.add_section()
        table.add_row("all", *(str(getattr(everything, column)) for column in _COLUMNS))
        return table

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"


def account_of(performance: Performance, breaches: list[str]) -> list[str]:
    """What happened in a run, line by line: the place, each moment, what people read, and what is wrong with it."""
    scene = performance.scene
    lines = [
        f"{scene.presentation} on {scene.channel}, group: {scene.target.group}, thread: {scene.target.thread}",
        f"{scene.look}",
        f"{scene.capabilities}",
        f"{scene.settings}",
        f"{scene.weather}",
    ]
    for moment in performance.moments:
        value = str(moment.value).replace(f"target={scene.target}, ", "").replace(f"target={scene.target}", "")
        lines.append(f"{moment.at:10.2f} {moment.what:8} {value[:_LONGEST]}")
    lines.append("people read:")
    lines += [
        f"    {message.message_id}{' (beside)' * message.is_processing}: {message.url} {message.text!r}"
        for message in performance.chat.seen
    ]
    lines.append("the turn says:")
    account = Account(usage=scene.settings.usage)
    for _, event in scene.events:
        account.feed(event)
    account.close()
    lines += [f"    {item.kind}: {item.url} {item.text!r}" for item in account.items]
    lines += [f"broken: {breach}" for breach in breaches]
    options = f"--runs 1 --seed {performance.seed} --presentation {scene.presentation} --channel {scene.channel}"
    return [*lines, f'again with: make search SEARCH="{options}"']


def main() -> int:
    """The command; 1 where a law was broken."""
    parser = argparse.ArgumentParser(prog="make search")
    parser.add_argument("--runs", type=int, default=100_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first")
    parser.add_argument("--presentation", choices=PRESENTATIONS, help="only this one")
    parser.add_argument("--channel", choices=list(CHANNELS), help="only this one")
    asked = parser.parse_args()
    console = Console(width=120)
    progress = Progress(console)
    for seed in range(asked.seed, asked.seed + asked.runs):
        progress.add(perform(seed, asked.presentation, asked.channel))
    console.print(progress.table())
    return 1 if progress.violations else 0


if __name__ == "__main__":
    sys.exit(main())
