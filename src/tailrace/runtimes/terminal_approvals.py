"""Asks a person at the terminal what an agent may do: an `Approver` for every runtime that takes one.

This module owns the question on the screen and the input that answers it. Other code that writes to the screen first
awaits `wait_until_idle`, so that it does not write over a question. `make_room` is called before a question is shown.
Input that was typed before the question was shown is discarded.
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
_MAX_LINE = 4096
_MAX_LINES = 12
_MAX_TEXT = 1000
_YES, _NO = {"y", "yes"}, {"n", "no"}


class TerminalApprovals:
    """Asks at the controlling terminal of this process, also when its input and output are redirected. POSIX only."""

    def __init__(self, terminal: str = "/dev/tty", *, make_room: Callable[[], None] = lambda: None) -> None:
        self._terminal = terminal
        self._make_room = make_room
        self._lock = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._withdrawn = asyncio.Event()

    async def ask(self, question: Question) -> Choice | None:
        """Show the question with numbered choices until the person has chosen one. The end of the input denies."""
        async with self._lock:
            try:
                terminal = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY)
            except OSError:
                return None
            self._idle.clear()
            self._withdrawn.clear()
            try:
                with _echo_on(terminal):
                    return await self._ask(terminal, question)
            finally:
                os.close(terminal)
                self._idle.set()

    @property
    def is_asking(self) -> bool:
        """Whether a question is on the screen."""
        return not self._idle.is_set()

    async def wait_until_idle(self) -> None:
        """Wait until no question is on the screen."""
        await self._idle.wait()

    def withdraw(self) -> None:
        """Cancel the question on the screen: its answer is no longer needed."""
        self._withdrawn.set()

    async def _ask(self, terminal: int, question: Question) -> Choice | None:
        import termios  # noqa: PLC0415 -- not every platform has it

        self._make_room()
        termios.tcflush(terminal, termios.TCIFLUSH)
        _write(terminal, f"{_question_text(question, _columns(terminal))}{_prompt(question)}")
        try:
            while True:
                line = await self._line(terminal)
                if not line:
                    return None
                if (choice := _parse_choice(question, line.strip())) is not None:
                    return choice
                _write(terminal, f"  That is not one of the answers.\n{_prompt(question)}")
        finally:
            # After a typed answer, the cursor is already at the start of a line. Otherwise end the line.
            _write(terminal, "" if self._line_ended else "\n")

    async def _line(self, terminal: int) -> str:
        """Read a line that the person types; empty at the end of the input. The wait can be cancelled."""
        self._line_ended = False
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
            line = os.read(terminal, _MAX_LINE) if readable.is_set() else b""
        except OSError:
            line = b""  # the terminal is gone: treat that as the end of the input
        self._line_ended = line.endswith(b"\n")
        return line.decode(errors="replace")


def _question_text(question: Question, columns: int | None = None) -> str:
    """The question as text for the screen: the title, the subject, and the numbered choices.

    With `columns`, lines are wrapped and indented to fit.
    """
    lines = [("? ", _one_line(question.title)), *(("    ", line) for line in _excerpt(question.subject))]
    lines += [(f"  {number}  ", _one_line(choice.name)) for number, choice in enumerate(question.choices, 1)]
    return "".join(f"{line}\n" for prefix, text in lines for line in _wrap(prefix, text, columns))


def _wrap(prefix: str, text: str, columns: int | None) -> list[str]:
    """Write the text after `prefix`, in as many lines as it needs; the further lines are indented."""
    if columns is None or len(prefix) + len(text) <= columns or columns <= 2 * len(prefix):
        return [f"{prefix}{text}"]
    wrapper = textwrap.TextWrapper(columns - len(prefix), expand_tabs=False, replace_whitespace=False)
    wrapper.break_on_hyphens = False
    first, *others = wrapper.wrap(text) or [text]
    return [f"{prefix}{first}", *(f"{' ' * len(prefix)}{line}" for line in others)]


def _parse_choice(question: Question, typed: str) -> Choice | None:
    """The choice that the person typed: its number, or yes or no.

    These mean the choice that allows or denies the least.
    """
    if typed.lower() in _YES:
        return question.allowing()
    if typed.lower() in _NO:
        return question.denying()
    is_number = typed.isascii() and typed.isdecimal() and len(typed) < 4
    return question.choices[int(typed) - 1] if is_number and 1 <= int(typed) <= len(question.choices) else None


def _prompt(question: Question) -> str:
    count = len(question.choices)
    answers = [f"1-{count}" if count > 1 else "1"] if count else []
    answers += [letter for letter, way in (("y", question.allowing()), ("n", question.denying())) if way is not None]
    return f"  {', '.join(answers)}: " if answers else "  Ctrl-D continues without it: "


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def _excerpt(text: str) -> list[str]:
    """The first lines of a long text, and a line that says how much is left out."""
    lines = text[:_MAX_TEXT].splitlines()[:_MAX_LINES]
    left_out = len(text) - len("\n".join(lines))
    return [*lines, f"… and {left_out} characters more"] if left_out > len(lines) else lines


def _columns(terminal: int) -> int | None:
    """The current width of the window; None if it is unknown."""
    try:
        return os.get_terminal_size(terminal).columns or None
    except OSError:
        return None


def _write(terminal: int, text: str) -> None:
    """Write the text; control characters in it are replaced, so an agent cannot control the terminal."""
    printable = "".join(character if character.isprintable() or character == "\n" else "�" for character in text)
    os.write(terminal, printable.encode(errors="replace"))


@contextmanager
def _echo_on(terminal: int) -> Iterator[None]:
    """Let the terminal show the characters that the person types, also while an answer is streamed."""
    import termios  # noqa: PLC0415 -- as above

    before = termios.tcgetattr(terminal)
    modes = [*before]
    modes[_LOCAL_MODES] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
