"""A person at a real pseudo-terminal answers what an agent may do."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import termios
from typing import TYPE_CHECKING, Any

import pytest

from pseudo_terminal import DEADLINE_S
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.terminal_approvals import TerminalApprovals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

YES = Choice(id="1", name="Yes, once", kind="allow_once")
NO = Choice(id="2", name="No", kind="reject_once")
CTRL_D = b"\x04"
PROMPT = "  1-2, y, n: "


def question(title: str = "rm -rf build", arguments: Any = None) -> Question:
    return Question(title=title, arguments=arguments, choices=(YES, NO))


class Screen:
    """A terminal, and the person before it: what they type, and what they see."""

    def __init__(self) -> None:
        self.person, self.terminal = pty.openpty()
        self.approver = TerminalApprovals(os.ttyname(self.terminal))
        self.modes = self._without_echo()

    def _without_echo(self) -> list[object]:
        """As it is while an answer is streamed."""
        modes = termios.tcgetattr(self.terminal)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        return termios.tcgetattr(self.terminal)

    def type(self, keys: bytes) -> None:
        os.write(self.person, keys)

    async def sees(self, text: str) -> str:
        """All that is shown until it ends with the text."""
        shown = ""
        async with asyncio.timeout(DEADLINE_S):
            while not shown.endswith(text):
                await asyncio.to_thread(select.select, [self.person], [], [], DEADLINE_S)
                shown += os.read(self.person, 1024).decode(errors="replace")
        return shown.replace("\r\n", "\n")

    def answer(self, *keys: bytes, asked: Question | None = None) -> tuple[Choice | None, list[str]]:
        """Ask, and type the keys one after the other; the answer, and what was shown before each."""

        async def person() -> list[str]:
            shown = []
            for typed in keys:
                shown.append(await self.sees(PROMPT))
                self.type(typed)
            return shown

        return self.ask(person, asked)

    def ask(
        self, person: Callable[[], Awaitable[list[str]]], asked: Question | None = None
    ) -> tuple[Choice | None, list[str]]:
        async def run() -> tuple[Choice | None, list[str]]:
            asking = asyncio.create_task(self.approver.ask(asked or question()))
            shown = await person()
            return await asking, shown

        answered = asyncio.run(run())
        assert termios.tcgetattr(self.terminal) == self.modes
        return answered


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    os.close(screen.person)
    os.close(screen.terminal)


def test_choices_are_shown_by_number_and_one_is_chosen(screen: Screen) -> None:
    assert screen.answer(b"2\n") == (NO, [f"? rm -rf build\n  1  Yes, once\n  2  No\n{PROMPT}"])


@pytest.mark.parametrize("nonsense", [b"\n", b"sure\n", b"0\n", b"3\n", b"-1\n", b"\xff\n", b"9999999\n"])
def test_invalid_answer_is_asked_again(screen: Screen, nonsense: bytes) -> None:
    choice, (_, again) = screen.answer(nonsense, b"1\n")
    assert choice == YES
    assert again.endswith(f"  That is not one of the answers.\n{PROMPT}")


@pytest.mark.parametrize(
    ("keys", "choice"),
    [
        *((keys, YES) for keys in (b"y\n", b" Yes\n", b"1\n")),
        *((keys, NO) for keys in (b"n\n", b"NO\n", b"2\n")),
        (CTRL_D, None),
    ],
)
def test_choice_is_typed_by_number_or_by_yes_and_no(screen: Screen, keys: bytes, choice: Choice | None) -> None:
    assert screen.answer(keys)[0] == choice


def test_keys_typed_before_the_question_do_not_answer_it(screen: Screen) -> None:
    screen.type(b"1\n1")
    assert screen.answer(b"2\n")[0] == NO


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"command": "rm -rf build"}, []),
        ({"command": "echo a\necho b", "description": "x"}, ["    echo a", "    echo b"]),
        ({"command": ["git", "push"]}, ["    git push"]),
        ({"file_path": "notes.md", "content": "a\nb"}, ["    notes.md", "    a", "    b"]),
        ({"file_path": "notes.md", "old_string": "x", "new_string": "y"}, ["    notes.md", "    y"]),
        ({"threadId": "t", "itemId": "i", "reason": None}, []),
        ({"count": 3}, ['    {"count":3}']),
        ({"command": "x\n" * 20}, ["    x"] * 12 + ["    … and 17 characters more"]),
        (None, []),
    ],
)
def test_arguments_are_shown_unless_the_title_says_them(screen: Screen, arguments: Any, lines: list[str]) -> None:
    _, [shown] = screen.answer(CTRL_D, asked=question(arguments=arguments))
    assert shown.split("\n")[1:-3] == lines


def test_other_writers_wait_until_the_question_is_answered(screen: Screen) -> None:
    made: list[str] = []
    approver = screen.approver = TerminalApprovals(os.ttyname(screen.terminal), make_room=lambda: made.append("room"))

    async def person() -> list[str]:
        await screen.sees(PROMPT)
        assert made == ["room"]
        waiting = asyncio.create_task(approver.wait_until_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        screen.type(b"y\n")
        await waiting
        return []

    asyncio.run(approver.wait_until_idle())
    assert screen.ask(person)[0] == YES


def test_question_of_a_finished_turn_is_withdrawn(screen: Screen) -> None:
    async def person() -> list[str]:
        await screen.sees(PROMPT)
        screen.approver.withdraw()
        return [await screen.sees("\n")]

    assert screen.ask(person)[0] is None


def test_typed_keys_are_shown_while_the_question_is_open(screen: Screen) -> None:
    async def person() -> list[str]:
        await screen.sees(PROMPT)
        screen.type(b"1")
        shown = await screen.sees("1")
        screen.type(b"\n")
        return [shown]

    assert screen.ask(person) == (YES, ["1"])


def test_cancelled_question_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    async def run() -> None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()

    asyncio.run(run())
    assert termios.tcgetattr(screen.terminal) == screen.modes


def test_questions_are_asked_one_after_the_other(screen: Screen) -> None:
    async def run() -> list[Choice | None]:
        asking = [asyncio.create_task(screen.approver.ask(question(title))) for title in ("first", "second")]
        shown = await screen.sees(PROMPT)
        screen.type(b"1\n")
        later = await screen.sees(PROMPT)
        screen.type(b"2\n")
        assert ("second" in shown, "second" in later) == (False, True)
        return [await each for each in asking]

    assert asyncio.run(run()) == [YES, NO]


def test_agent_cannot_control_the_terminal(screen: Screen) -> None:
    _, [shown] = screen.answer(CTRL_D, asked=question("\x1b[2Jls\x07\u202e"))
    assert shown.startswith("? �[2Jls��\n")


def test_without_a_terminal_nobody_is_asked() -> None:
    assert asyncio.run(TerminalApprovals("/dev/no-such-terminal").ask(question())) is None
