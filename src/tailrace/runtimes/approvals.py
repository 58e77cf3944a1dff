"""Deciding what an agent may do while it is still heard, for the runtimes whose agents ask in the middle of a turn.

`allow` and `deny` answer at once, with the choice that reaches least far; for `ask` a person is asked beside the turn.
The words of it are `permissions`'; how an answer gets back to the agent is for its runtime.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice, Status
from tailrace.runtimes.permissions import HOW_TO_ALLOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question


class Approvals:
    """Decides for one turn; leaving it withdraws the questions that nobody has answered."""

    def __init__(self, permissions: Policy, approver: Approver | None) -> None:
        self._permissions = permissions
        self._approver = approver
        self._open: set[asyncio.Task[None]] = set()
        self._awaited: set[asyncio.Future[Choice | None]] = set()
        self._notices: list[Event] = []
        self._told_how = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.withdraw()

    def withdraw(self) -> None:
        """Nobody needs an answer any more; whoever still waits for a choice has none."""
        for asking in self._open:
            asking.cancel()
        for chosen in self._awaited:
            if not chosen.done():
                chosen.set_result(None)

    @property
    def is_waiting(self) -> bool:
        """Whether somebody is being asked."""
        return bool(self._open)

    @property
    def can_decide(self) -> bool:
        """Whether anything is decided here; where nobody can be asked, what waits for a person goes on waiting."""
        return self._permissions != "ask" or self._approver is not None

    @property
    def asks_person(self) -> bool:
        """Whether what is decided is decided by a person."""
        return self._permissions == "ask" and self._approver is not None

    async def decide(self, question: Question, answer: Callable[[Choice | None], Awaitable[None]]) -> list[Event]:
        """See to it that `answer` is called, now or when the person has chosen; returns what is to be said of it."""
        if self._permissions == "ask" and self._approver is not None:
            asking = asyncio.create_task(self._ask(self._approver, question, answer))
            self._open.add(asking)
            asking.add_done_callback(self._open.discard)
            awaited = "an answer" if question.allowing() is None else "permission"
            return [Status(text=f"Waiting for {awaited}: {question.title}")]
        choice = question.allowing() if self._permissions == "allow" else question.denying()
        await answer(choice)
        if choice is not None and choice == question.allowing():
            return []
        hint, self._told_how = "" if self._told_how else f" {HOW_TO_ALLOW}", True
        return [Notice(text=f"Not allowed: {question.title}.{hint}")]

    async def ask(self, question: Question) -> tuple[list[Event], asyncio.Future[Choice | None]]:
        """The same for whoever waits for the choice: what is to be said of it first, and what will be chosen."""
        chosen: asyncio.Future[Choice | None] = asyncio.get_running_loop().create_future()
        self._awaited.add(chosen)
        chosen.add_done_callback(self._awaited.discard)

        async def answer(choice: Choice | None) -> None:
            if not chosen.done():
                chosen.set_result(choice)

        return await self.decide(question, answer), chosen

    def notices(self) -> list[Event]:
        """What is to be said of those who were asked since: why they could not be."""
        remarks, self._notices = self._notices, []
        return remarks

    async def _ask(
        self, approver: Approver, question: Question, answer: Callable[[Choice | None], Awaitable[None]]
    ) -> None:
        try:
            choice = await approver.ask(question)
        except Exception as error:  # noqa: BLE001  # somebody else's code; nobody was asked, and that is told
            told = f"Not allowed, because nobody could be asked: {question.title} ({error})"
            self._notices.append(Notice(text=told))
            choice = None
        await answer(choice if choice in question.choices else question.denying())
