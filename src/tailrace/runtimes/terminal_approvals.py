"""A person at the terminal is asked what an agent may do; an `Approver` for every runtime that takes one.

Owns the question as it stands on the screen and what is typed at it. Whoever else writes to the same screen waits for
`settled` first, so that nothing is written over a question; `make_room` is called before one is shown. What was typed
before it was shown is no answer to it, and is forgotten.
"""

from __future__ import annotations

import asyncio
import os
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.runtimes.permissions import Choice, Question

_LOCAL_MODES = 3
_LONGEST_LINE = 4096
_MOST_LINES = 12
_LONGEST_SHOWN = 1000
_YES, _NO = {"y", "yes"}, {"n", "no"}


class TerminalApprovals:
    """Asks at the terminal this process was started from, wherever its input and output lead. POSIX only."""

    def __init__(self, terminal: str = "/dev/tty", *, make_room: Callable[[], None] = lambda: None) -> None:
        self._terminal = terminal
        self._make_room = make_room
        self._one_at_a_time = asyncio.Lock()
        self._nobody_asks = asyncio.Event()
        self._nobody_asks.set()
        self._withdrawn = asyncio.Event()

    async def ask(self, question: Question) -> Choice | None:
        """Show the question with its choices by number, until one is chosen; the end of input denies it."""
        async with self._one_at_a_time:
            try:
                terminal = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY)
            except OSError:
                return None
            self._nobody_asks.clear()
            self._withdrawn.clear()
            try:
                with _echoing(terminal):
                    return await self._ask(terminal, question)
            finally:
                os.close(terminal)
                self._nobody_asks.set()

    @property
    def is_asking(self) -> bool:
        """Whether a question stands on the screen."""
        return not self._nobody_asks.is_set()

    async def settled(self) -> None:
        """Wait until no question stands on the screen."""
        await self._nobody_asks.wait()

    def withdraw(self) -> None:
        """Nobody needs an answer any more to what stands on the screen."""
        self._withdrawn.set()

    async def _ask(self, terminal: int, question: Question) -> Choice | None:
        import termios  # noqa: PLC0415 -- not every platform has it

        self._make_room()
        termios.tcflush(terminal, termios.TCIFLUSH)
        _say(terminal, f"{shown(question, _columns(terminal))}{_prompt(question)}")
        try:
            while True:
                line = await self._line(terminal)
                if not line:
                    return None
                if (choice := chosen(question, line.strip())) is not None:
                    return choice
                _say(terminal, f"  That is no answer to this.\n{_prompt(question)}")
        finally:
            # After an answer the cursor is at the beginning of a line; after anything else it is not.
            _say(terminal, "" if self._has_line else "\n")

    async def _line(self, terminal: int) -> str:
        """What is typed until the line ends; empty at the end of input. Waiting for it can be cancelled."""
        self._has_line = False
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(terminal, readable.set)
        waiting = [asyncio.create_task(event.wait()) for event in (readable, self._withdrawn)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(terminal)
            for each in waiting:
                each.cancel()
        try:
            line = os.read(terminal, _LONGEST_LINE) if readable.is_set() else b""
        except OSError:
            line = b""  # the terminal is gone
        self._has_line = line.endswith(b"\n")
        return line.decode(errors="replace")


def shown(question: Question, columns: int | None = None) -> str:
    """The question as it is put: what the agent wants, what that is about, and the choices by number.

    Where `columns` are known no line is longer, and what a line goes on in stands under its beginning.
    """
    lines = [("? ", _short(question.title)), *(("    ", line) for line in _excerpt(question.subject))]
    lines += [(f"  {number}  ", _short(choice.name)) for number, choice in enumerate(question.choices, 1)]
    return "".join(f"{line}\n" for lead, text in lines for line in _set_in(lead, text, columns))


def _set_in(lead: str, text: str, columns: int | None) -> list[str]:
    """The text behind its lead, in as many lines as it needs."""
    if columns is None or len(lead) + len(text) <= columns or columns <= 2 * len(lead):
        return [f"{lead}{text}"]
    wrapper = textwrap.TextWrapper(columns - len(lead), expand_tabs=False, replace_whitespace=False)
    wrapper.break_on_hyphens = False
    first, *others = wrapper.wrap(text) or [text]
    return [f"{lead}{first}", *(f"{' ' * len(lead)}{line}" for line in others)]


def chosen(question: Question, said: str) -> Choice | None:
    """The choice that is meant: by its number, or the one that allows or denies the least."""
    if said.lower() in _YES:
        return question.allowing()
    if said.lower() in _NO:
        return question.denying()
    is_number = said.isascii() and said.isdecimal() and len(said) < 4
    return question.choices[int(said) - 1] if is_number and 1 <= int(said) <= len(question.choices) else None


def _prompt(question: Question) -> str:
    count = len(question.choices)
    ways = [f"1-{count}" if count > 1 else "1"] if count else []
    ways += [letter for letter, way in (("y", question.allowing()), ("n", question.denying())) if way is not None]
    return f"  {', '.join(ways)}: " if ways else "  Ctrl-D goes on without it: "


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_SHOWN]


def _excerpt(text: str) -> list[str]:
    """What fits a question: as many lines as can be looked over, and how much there is beyond them."""
    lines = text[:_LONGEST_SHOWN].splitlines()[:_MOST_LINES]
    left_out = len(text) - len("\n".join(lines))
    return [*lines, f"… and {left_out} characters more"] if left_out > len(lines) else lines


def _columns(terminal: int) -> int | None:
    """How wide the window is now."""
    try:
        return os.get_terminal_size(terminal).columns or None
    except OSError:
        return None


def _say(terminal: int, text: str) -> None:
    """Show the text; what an agent writes has no power over the terminal."""
    signs = "".join(character if character.isprintable() or character == "\n" else "�" for character in text)
    os.write(terminal, signs.encode(errors="replace"))


@contextmanager
def _echoing(terminal: int) -> Iterator[None]:
    """Let the terminal show what is typed, also while an answer runs."""
    import termios  # noqa: PLC0415 -- as above

    before = termios.tcgetattr(terminal)
    echoing = [*before]
    echoing[_LOCAL_MODES] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(terminal, termios.TCSADRAIN, echoing)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
