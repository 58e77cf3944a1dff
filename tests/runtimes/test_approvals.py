"""Who decides what an agent may do, however the person is asked and whenever the turn is left."""

from __future__ import annotations

import asyncio

from tailrace.events import Notice, Status
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.permissions import Choice, Question, approval_question

QUESTION = approval_question("The agent", "delete_all", {"path": "/"})


class Unreachable:
    """Cannot be asked."""

    async def ask(self, question: Question) -> Choice | None:
        raise ConnectionError(f"no line to ask about {question.title}")


class NeverAnswers:
    """Never answers, and notes that it was withdrawn."""

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


def test_question_that_cannot_be_asked_is_denied() -> None:
    async def decide() -> None:
        async with Approvals("ask", Unreachable()) as approvals:
            events, chosen = await approvals.ask(QUESTION)
            assert events == [Status(text="Waiting for permission: The agent wants to call delete_all")]
            assert await chosen == QUESTION.denying()
            why = "no line to ask about The agent wants to call delete_all"
            text = f"Not allowed, because the question could not be asked: The agent wants to call delete_all ({why})"
            assert approvals.notices() == [Notice(text=text)]
            assert approvals.notices() == []

    asyncio.run(decide())


def test_withdrawn_question_has_no_choice() -> None:
    async def decide() -> None:
        person = NeverAnswers()
        async with Approvals("ask", person) as approvals:
            _, chosen = await approvals.ask(QUESTION)
            await person.began.wait()
            assert approvals.is_waiting
        assert await chosen is None
        await person.was_withdrawn.wait()

    asyncio.run(decide())


def test_policy_decides_at_once_and_says_once_how_to_allow_more() -> None:
    async def decide() -> None:
        async with Approvals("deny", Unreachable()) as approvals:
            answers = [await approvals.ask(QUESTION) for _ in range(2)]
            assert [await chosen for _, chosen in answers] == [QUESTION.denying()] * 2
            hints = [str(events).count("--permissions ask") for events, _ in answers]
            assert hints == [1, 0]
        async with Approvals("allow", None) as approvals:
            events, chosen = await approvals.ask(QUESTION)
            assert (events, await chosen) == ([], QUESTION.allowing())

    asyncio.run(decide())
