"""A person at the terminal is asked what an agent may do; an `Asks` for every runtime that takes one."""

from __future__ import annotations

import asyncio
import os
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.runtimes.permissions import Choice, Question

_LOCAL_MODES = 3
_LONGEST_LINE = 4096


class TerminalAsks:
    """Asks at the terminal this process was started from, wherever its input and output lead. POSIX only."""

    def __init__(self, terminal: str = "/dev/tty") -> None:
        self._terminal = terminal
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: Question) -> Choice | None:
        """Show the question with its choices by number, until one is chosen; the end of input denies it."""
        async with self._one_at_a_time:
            return await self._ask(question)

    async def _ask(self, question: Question) -> Choice | None:
        try:
            terminal = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY)
        except OSError:
            return None
        try:
            with _echoing(terminal):
                _say(terminal, f"\n{question.title}\n")
                for number, choice in enumerate(question.choices, 1):
                    _say(terminal, f"  {number}  {choice.name}\n")
                while True:
                    _say(terminal, "? ")
                    line = await _line(terminal)
                    if not line:
                        return None
                    if (said := line.strip()).isdecimal() and 1 <= int(said) <= len(question.choices):
                        return question.choices[int(said) - 1]
        finally:
            os.close(terminal)


def _say(terminal: int, text: str) -> None:
    """Show the text; what an agent writes has no power over the terminal."""
    shown = "".join(character if character.isprintable() or character == "\n" else "�" for character in text)
    os.write(terminal, shown.encode(errors="replace"))


@contextmanager
def _echoing(terminal: int) -> Iterator[None]:
    """Let the terminal show what is typed, also while an answer runs."""
    before = termios.tcgetattr(terminal)
    echoing = [*before]
    echoing[_LOCAL_MODES] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(terminal, termios.TCSADRAIN, echoing)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _line(terminal: int) -> str:
    """What is typed until the line ends; empty at the end of input. Waiting for it can be cancelled."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(terminal)
    try:
        return os.read(terminal, _LONGEST_LINE).decode(errors="replace")
    except OSError:
        return ""  # the terminal is gone
