"""How far a command has come with many things: a bar on a terminal, a count now and then anywhere else."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress, TaskID

_FEW = 20
_EVERY = 1000


class Tally:
    """Counts on standard error while a block runs. A few things are not worth a count."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._total: int | None = None
        self._count = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and (self._total is None or self._total > _FEW):
            from rich.console import Console  # noqa: PLC0415 -- only people at a terminal need it
            from rich.progress import Progress  # noqa: PLC0415 -- as above

            # What is printed stands above the bar where both are seen by the same person, and goes its way otherwise.
            both = sys.stdout.isatty()
            self._bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=both)
            self._task = self._bar.add_task(self._doing, total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """There are so many, said before the block begins."""
        self._total = total

    def advance(self, by: int = 1) -> None:
        """So many more are done."""
        before, self._count = self._count, self._count + by
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=by)
        elif self._count // _EVERY > before // _EVERY:
            of = f" of {self._total}" if self._total is not None else ""
            self.say(f"{self._doing}: {self._count}{of}")

    def say(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        with suppress(OSError, ValueError):
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
