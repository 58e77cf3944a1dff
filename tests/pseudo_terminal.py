"""A person at a terminal: a program in a real pseudo-terminal, what they type, and what they see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DEADLINE_S = 30.0
TAILRACE = str(Path(sys.executable).with_name("tailrace"))
CTRL_C, CTRL_D = "\x03", "\x04"


@contextmanager
def default_sigint() -> Iterator[None]:
    """Programs that are started in this block obey SIGINT, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Screen(pyte.HistoryScreen):
    """A screen that also knows dim text, as characters of the colour `dim`."""

    def select_graphic_rendition(self, *attributes: int, **kwargs: bool) -> None:
        super().select_graphic_rendition(*attributes, **kwargs)
        if 2 in attributes:
            self.cursor.attrs = self.cursor.attrs._replace(fg="dim")


class Person:
    """Starts a program in a terminal of a given size, types, waits until the screen shows something."""

    def __init__(
        self,
        *command: str,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.screen = Screen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        ours, theirs = pty.openpty()
        self._terminal = ours
        self._set_size(columns, rows)
        # COLUMNS and LINES, which test runners set, would count more than the size of this terminal.
        inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        environment = {**inherited, "TERM": "xterm-256color", "NO_COLOR": "", **(env or {})}
        with default_sigint():
            self.process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                cwd=cwd,
                start_new_session=True,
                # Ctrl-C is for the program whose terminal this is, and only it can make it its own.
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- tests start no threads
            )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        self.type_bytes(text.encode())

    def type_bytes(self, data: bytes) -> None:
        os.write(self._terminal, data)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)

    def sees(self, text: str, times: int = 1) -> None:
        """Read until the text is so often on the screen or above it."""
        self.until(lambda: self.all_text().count(text) >= times, f"{times} x {text!r}")

    def is_prompted(self) -> None:
        """Read until the last line is an empty prompt."""
        self.until(lambda: self.lines()[-1:] == [">"] and self.screen.cursor.x == 2, "an empty prompt")

    def says(self, text: str) -> None:
        """Wait for the prompt, then type this and press Enter."""
        self.is_prompted()
        self.type(f"{text}\r")

    def quits(self) -> int:
        """Wait for the prompt, then leave with Ctrl-D; returns the exit code."""
        self.is_prompted()
        self.type(CTRL_D)
        return self.leaves()

    def clears_line(self) -> None:
        """Press Ctrl-C until the prompt is empty: Python's `input` misses one that comes while it shows a key."""
        for _ in range(10):
            self.type(CTRL_C)
            end = time.monotonic() + DEADLINE_S / 10
            while self._read(end):
                if self.lines()[-1:] == [">"]:
                    return
        raise AssertionError(f"the line was not cleared; the screen:\n{self.all_text()}")

    def until(self, happened: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not happened():
            assert self._read(end), f"never saw {what}; the screen:\n{self.all_text()}"

    def leaves(self) -> int:
        """Read until the program has ended; returns its exit code."""
        end = time.monotonic() + DEADLINE_S
        while self._read(end):
            pass
        return self.process.wait(timeout=max(end - time.monotonic(), 0.1))

    def lines(self) -> list[str]:
        """The lines on the screen now, without empty ones at the end."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def all_text(self) -> str:
        """Everything, with what has left the screen at the top."""
        columns = range(self.screen.columns)
        above = ["".join(row[x].data for x in columns).rstrip() for row in self.screen.history.top]
        return "\n".join([*above, *self.lines()])

    def _read(self, end: float) -> bool:
        """Take in what the program writes next; False when there is no more, or not in time."""
        ready, _, _ = select.select([self._terminal], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # Linux's way to say that the other end has closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
