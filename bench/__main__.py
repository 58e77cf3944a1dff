"""Runs every area in its own process and prints one table. Exits with 1 if a required ratio is missed."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.own_process import measured_in_own_process
from bench.rows import Row

AREAS = (
    *("deltas", "cutting", "competitors", "translating", "projecting", "delivering", "many_rows", "importing"),
    *("telegram", "telegram_calls", "gateway", "idle_gateway"),
)
_BREACHES = "breaches: over limit · broken fences · headless tables · cut graphemes · lost text"


def main() -> int:
    """Measure and print, in the order of `AREAS`."""
    table = Table(title="tailrace, measured in one run", caption=_BREACHES, title_justify="left")
    table.add_column("what", overflow="fold")
    for heading in ("ours", "baseline", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met", justify="center")
    table.add_column("breaches", justify="right", no_wrap=True)
    missed = 0
    # Rich assumes 80 columns for a pipe; the rows would not be readable.
    console = Console(width=None if sys.stdout.isatty() else 160)
    progress = Console(stderr=True)
    with progress.status("measuring") as status:
        for area in AREAS:
            for row in measured_in_own_process(area):
                status.update(f"measuring: after {row.name}")
                _add(table, row)
                missed += row.met is False
            table.add_section()
    console.print(table)
    return 1 if missed else 0


def _add(table: Table, row: Row) -> None:
    met = {True: Text("yes", "green"), False: Text("NO", "bold red"), None: Text("")}[row.met]
    table.add_row(row.name, row.ours, row.baseline, row.ratio, row.target, met, row.breaches)


if __name__ == "__main__":
    sys.exit(main())
