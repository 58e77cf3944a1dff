"""Who decides what an agent may do, however the person is asked and whenever the turn is left."""

from __future__ import annotations

import asyncio

from tailrace.events import Notice, Status
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.permissions import Choice, Question, approval_question

QUESTION = approval_question("The agent", "delete_all", {"path": "/"})


class Unreachable:
    """Somebody to whom there is no line."""

    async def ask(self, question: Question) -> Choice | None:
        raise ConnectionError(f"no line to ask about {question.title}")


class Thinking:
    """Somebody who thinks for ever, and is told when nobody waits for it any more."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.was_withdrawn = asyncio.Event()

    async def ask(self, _question: Question) -> Choice | None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_withdrawn.set()
        return None


def test_what_nobody_could_be_asked_about_is_denied_and_that_is_said_once() -> None:
    async def decide() -> None:
        async with Approvals("ask", Unreachable()) as approvals:
            told, chosen = await approvals.ask(QUESTION)
            assert told == [Status(text="Waiting for permission: The agent wants to call delete_all")]
            assert await chosen == QUESTION.denying()
            why = "no line to ask about The agent wants to call delete_all"
            said = f"Not allowed, because nobody could be asked: The agent wants to call delete_all ({why})"
            assert approvals.notices() == [Notice(text=said)]
            assert approvals.notices() == []

    asyncio.run(decide())


def test_whoever_waits_for_a_choice_has_none_once_it_is_withdrawn() -> None:
    async def decide() -> None:
        person = Thinking()
        async with Approvals("ask", person) as approvals:
            _, chosen = await approvals.ask(QUESTION)
            await person.began.wait()
            assert approvals.is_waiting
        assert await chosen is None
        await person.was_withdrawn.wait()

    asyncio.run(decide())


def test_a_policy_decides_at_once_and_says_only_once_how_to_allow_more() -> None:
    async def decide() -> None:
        async with Approvals("deny", Unreachable()) as approvals:
            told = [await approvals.ask(QUESTION) for _ in range(2)]
            assert [await chosen for _, chosen in told] == [QUESTION.denying()] * 2
            hints = [str(events).count("--permissions ask") for events, _ in told]
            assert hints == [1, 0]
        async with Approvals("allow", None) as approvals:
            told_of, chosen = await approvals.ask(QUESTION)
            assert (told_of, await chosen) == ([], QUESTION.allowing())

    asyncio.run(decide())
