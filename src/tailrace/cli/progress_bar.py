"""How far a command is with many things: a bar on a terminal, a count now and then anywhere else."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress, TaskID

_FEW = 20
_EVERY = 1000


class ProgressBar:
    """Counts on standard error while a block runs. Few things get no bar."""

    def __init__(self, action: str) -> None:
        self._action = action
        self._total: int | None = None
        self._count = 0
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and (self._total is None or self._total > _FEW):
            from rich.console import Console  # noqa: PLC0415 -- only people at a terminal need it
            from rich.progress import Progress  # noqa: PLC0415 -- as above

            # If both streams go to the same terminal, what is printed appears above the bar.
            bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
            self._bar = bar, bar.add_task(self._action, total=self._total)
            bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def of(self, total: int) -> Self:
        """The same, with a total that became known before the block begins."""
        self._total = total
        return self

    def advance(self, by: int = 1) -> None:
        """Count more that are done."""
        before, self._count = self._count, self._count + by
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, advance=by)
        elif self._count // _EVERY > before // _EVERY:
            of = f" of {self._total}" if self._total is not None else ""
            self.write_line(f"{self._action}: {self._count}{of}")

    def write_line(self, text: str) -> None:
        """Write a line that stays, above the bar if there is one."""
        with suppress(OSError, ValueError):
            if self._bar is not None:
                self._bar[0].console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
