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


class SenderContext:
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
def desk() -> Iterator[SenderContext]:
    desk = SenderContext()
    yield desk
    os.close(desk.person)
    os.close(desk.terminal)


def test_the_choices_are_shown_by_number_and_one_is_chosen(desk: SenderContext) -> None:
    async def run() -> tuple[Choice | None, str]:
        asking = asyncio.create_task(desk.approver.ask(question()))
        shown = await desk.sees(PROMPT)
        desk.type(b"2\n")
        return await asking, shown

    assert asyncio.run(run()) == (NO, f"? rm -rf build\n  1  Yes, once\n  2  No\n{PROMPT}")
    assert desk.is_as_before()


@pytest.mark.parametrize("nonsense", [b"\n", b"sure\n", b"0\n", b"3\n", b"-1\n", b"\xff\n", b"9999999\n"])
def test_what_is_no_choice_is_asked_again(desk: SenderContext, nonsense: bytes) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.type(nonsense)
        assert (await desk.sees(PROMPT)).endswith(f"  That is no answer to this.\n{PROMPT}")
        desk.type(b"1\n")
        return await asking

    assert asyncio.run(run()) == YES


@pytest.mark.parametrize(
    ("keys", "choice"), [(b"y\n", YES), (b" Yes\n", YES), (b"1\n", YES), (b"n\n", NO), (b"NO\n", NO), (b"2\n", NO)]
)
def test_a_choice_is_named_by_its_number_or_by_yes_and_no(desk: SenderContext, keys: bytes, choice: Choice) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.type(keys)
        return await asking

    assert asyncio.run(run()) == choice


def test_an_answer_from_before_the_question_is_none(desk: SenderContext) -> None:
    async def run() -> Choice | None:
        desk.type(b"1\n1")
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.type(b"2\n")
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
def test_it_says_what_it_is_about_unless_the_title_does(desk: SenderContext, arguments: Any, lines: list[str]) -> None:
    async def run() -> str:
        asking = asyncio.create_task(desk.approver.ask(question(arguments=arguments)))
        shown = await desk.sees(PROMPT)
        desk.type(CTRL_D)
        await asking
        return shown

    assert asyncio.run(run()).split("\n")[1:-3] == lines


def test_nobody_else_writes_until_it_is_answered_and_room_is_made_first(desk: SenderContext) -> None:
    made: list[str] = []
    approver = TerminalApprovals(os.ttyname(desk.terminal), make_room=lambda: made.append("room"))

    async def run() -> None:
        await approver.settled()
        asking = asyncio.create_task(approver.ask(question()))
        await desk.sees(PROMPT)
        assert made == ["room"]
        waiting = asyncio.create_task(approver.settled())
        await asyncio.sleep(0)
        assert not waiting.done()
        desk.type(b"y\n")
        await asking
        await waiting

    asyncio.run(run())


def test_a_question_of_a_turn_that_is_over_is_taken_away(desk: SenderContext) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.approver.withdraw()
        answer = await asking
        await desk.sees("\n")
        return answer

    assert asyncio.run(run()) is None


def test_what_is_typed_can_be_seen_while_the_question_stands(desk: SenderContext) -> None:
    async def run() -> str:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.type(b"1")
        shown = await desk.sees("1")
        desk.type(b"\n")
        await asking
        return shown

    assert asyncio.run(run()) == "1"


def test_the_end_of_input_allows_nothing(desk: SenderContext) -> None:
    async def run() -> Choice | None:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        desk.type(CTRL_D)
        return await asking

    assert asyncio.run(run()) is None


def test_a_question_that_is_withdrawn_leaves_the_terminal_as_it_was(desk: SenderContext) -> None:
    async def run() -> None:
        asking = asyncio.create_task(desk.approver.ask(question()))
        await desk.sees(PROMPT)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()

    asyncio.run(run())
    assert desk.is_as_before()


def test_questions_are_put_one_after_the_other(desk: SenderContext) -> None:
    async def run() -> list[Choice | None]:
        asking = [asyncio.create_task(desk.approver.ask(question(title))) for title in ("first", "second")]
        shown = await desk.sees(PROMPT)
        desk.type(b"1\n")
        later = await desk.sees(PROMPT)
        desk.type(b"2\n")
        assert ("second" in shown, "second" in later) == (False, True)
        return [await each for each in asking]

    assert asyncio.run(run()) == [YES, NO]


def test_an_agent_has_no_power_over_the_terminal(desk: SenderContext) -> None:
    async def run() -> str:
        asking = asyncio.create_task(desk.approver.ask(question("\x1b[2Jls\x07\u202e")))
        shown = await desk.sees(PROMPT)
        desk.type(CTRL_D)
        await asking
        return shown

    assert asyncio.run(run()).startswith("? �[2Jls��\n")


def test_without_a_terminal_nobody_is_asked() -> None:
    assert asyncio.run(TerminalApprovals("/dev/no-such-terminal").ask(question())) is None
