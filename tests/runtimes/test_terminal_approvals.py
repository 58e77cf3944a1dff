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
    from collections.abc import Iterator

YES = Choice(id="1", name="Yes, once", kind="allow_once")
NO = Choice(id="2", name="No", kind="reject_once")
CTRL_D = b"\x04"
PROMPT = "  1-2, y, n: "


def question(title: str = "rm -rf build", arguments: Any = None) -> Question:
    return Question(title=title, arguments=arguments, choices=(YES, NO))


class Terminal:
    """A terminal, and the person before it: what they type, and what they see."""

    def __init__(self) -> None:
        self.person, self.terminal = pty.openpty()
        self.approver = TerminalApprovals(os.ttyname(self.terminal))
        self.modes = self._without_echo()

    def _without_echo(self) -> list[object]:
        """As it is while an answer runs."""
        modes = termios.tcgetattr(self.terminal)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        return termios.tcgetattr(self.terminal)

    def type(self, keys: bytes) -> None:
        os.write(self.person, keys)

    async def sees(self, text: str) -> str:
        """All that was shown, once it ends with the text."""
        shown = ""
        async with asyncio.timeout(DEADLINE_S):
            while not shown.endswith(text):
                await asyncio.to_thread(select.select, [self.person], [], [], DEADLINE_S)
                shown += os.read(self.person, 1024).decode(errors="replace")
        return shown.replace("\r\n", "\n")

    def is_as_before(self) -> bool:
        return bool(termios.tcgetattr(self.terminal) == self.modes)


@pytest.fixture
def screen() -> Iterator[Terminal]:
    screen = Terminal()
    yield screen
    os.close(screen.person)
    os.close(screen.terminal)


def test_the_choices_are_shown_by_number_and_one_is_chosen(screen: Terminal) -> None:
    async def run() -> tuple[Choice | None, str]:
        asking = asyncio.create_task(screen.approver.ask(question()))
        shown = await screen.sees(PROMPT)
        screen.type(b"2\n")
        return await asking, shown

    assert asyncio.run(run()) == (NO, f"? rm -rf build\n  1  Yes, once\n  2  No\n{PROMPT}")
    assert screen.is_as_before()


@pytest.mark.parametrize("nonsense", [b"\n", b"sure\n", b"0\n", b"3\n", b"-1\n", b"\xff\n", b"9999999\n"])
def test_what_is_no_choice_is_asked_again(screen: Terminal, nonsense: bytes) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.type(nonsense)
        assert (await screen.sees(PROMPT)).endswith(f"  That is not one of the answers.\n{PROMPT}")
        screen.type(b"1\n")
        return await asking

    assert asyncio.run(run()) == YES


@pytest.mark.parametrize(
    ("keys", "choice"), [(b"y\n", YES), (b" Yes\n", YES), (b"1\n", YES), (b"n\n", NO), (b"NO\n", NO), (b"2\n", NO)]
)
def test_a_choice_is_named_by_its_number_or_by_yes_and_no(screen: Terminal, keys: bytes, choice: Choice) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.type(keys)
        return await asking

    assert asyncio.run(run()) == choice


def test_an_answer_from_before_the_question_is_none(screen: Terminal) -> None:
    async def run() -> Choice | None:
        screen.type(b"1\n1")
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.type(b"2\n")
        return await asking

    assert asyncio.run(run()) == NO


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
def test_it_says_what_it_is_about_unless_the_title_does(screen: Terminal, arguments: Any, lines: list[str]) -> None:
    async def run() -> str:
        asking = asyncio.create_task(screen.approver.ask(question(arguments=arguments)))
        shown = await screen.sees(PROMPT)
        screen.type(CTRL_D)
        await asking
        return shown

    assert asyncio.run(run()).split("\n")[1:-3] == lines


def test_nobody_else_writes_until_it_is_answered_and_room_is_made_first(screen: Terminal) -> None:
    made: list[str] = []
    approver = TerminalApprovals(os.ttyname(screen.terminal), make_room=lambda: made.append("room"))

    async def run() -> None:
        await approver.wait_until_idle()
        asking = asyncio.create_task(approver.ask(question()))
        await screen.sees(PROMPT)
        assert made == ["room"]
        waiting = asyncio.create_task(approver.wait_until_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        screen.type(b"y\n")
        await asking
        await waiting

    asyncio.run(run())


def test_a_question_of_a_turn_that_is_over_is_taken_away(screen: Terminal) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.approver.withdraw()
        answer = await asking
        await screen.sees("\n")
        return answer

    assert asyncio.run(run()) is None


def test_what_is_typed_can_be_seen_while_the_question_stands(screen: Terminal) -> None:
    async def run() -> str:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.type(b"1")
        shown = await screen.sees("1")
        screen.type(b"\n")
        await asking
        return shown

    assert asyncio.run(run()) == "1"


def test_the_end_of_input_allows_nothing(screen: Terminal) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        screen.type(CTRL_D)
        return await asking

    assert asyncio.run(run()) is None


def test_a_question_that_is_withdrawn_leaves_the_screenas_it_was(screen: Terminal) -> None:
    async def run() -> None:
        asking = asyncio.create_task(screen.approver.ask(question()))
        await screen.sees(PROMPT)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()

    asyncio.run(run())
    assert screen.is_as_before()


def test_questions_are_put_one_after_the_other(screen: Terminal) -> None:
    async def run() -> list[Choice | None]:
        asking = [asyncio.create_task(screen.approver.ask(question(title))) for title in ("first", "second")]
        shown = await screen.sees(PROMPT)
        screen.type(b"1\n")
        later = await screen.sees(PROMPT)
        screen.type(b"2\n")
        assert ("second" in shown, "second" in later) == (False, True)
        return [await each for each in asking]

    assert asyncio.run(run()) == [YES, NO]


def test_an_agent_has_no_power_over_the_terminal(screen: Terminal) -> None:
    async def run() -> str:
        asking = asyncio.create_task(screen.approver.ask(question("\x1b[2Jls\x07\u202e")))
        shown = await screen.sees(PROMPT)
        screen.type(CTRL_D)
        await asking
        return shown

    assert asyncio.run(run()).startswith("? �[2Jls��\n")


def test_without_a_screennobody_is_asked() -> None:
    assert asyncio.run(TerminalApprovals("/dev/no-such-terminal").ask(question())) is None
