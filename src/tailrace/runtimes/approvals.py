"""Decides what an agent may do while its turn runs, for agents that ask in the middle of a turn.

With `allow` and `deny` the answer is given at once: the choice that allows or denies the least. With `ask`, a person is
asked while the turn continues. `permissions` owns the questions and choices; each runtime sends the answer to its
agent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice, Status
from tailrace.runtimes.permissions import HOW_TO_ALLOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question


class Approvals:
    """Decides on the questions of an agent during a turn. Leaving the `async with` block cancels the open questions."""

    def __init__(self, permissions: Policy, approver: Approver | None) -> None:
        self._permissions = permissions
        self._approver = approver
        self._open: set[asyncio.Task[None]] = set()
        self._waiting_for_choice: set[asyncio.Future[Choice | None]] = set()
        self._notices: list[Event] = []
        self._hint_given = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.withdraw()

    def withdraw(self) -> None:
        """Cancel the open questions. A caller that waits for a choice gets None."""
        for task in self._open:
            task.cancel()
        for chosen in self._waiting_for_choice:
            if not chosen.done():
                chosen.set_result(None)

    @property
    def is_waiting(self) -> bool:
        """Whether a person is being asked now."""
        return bool(self._open)

    @property
    def can_decide(self) -> bool:
        """Whether there is a rule or a person to decide. If not, tool calls that need approval keep waiting."""
        return self._permissions != "ask" or self._approver is not None

    @property
    def asks_person(self) -> bool:
        """Whether a person decides, and not a fixed rule."""
        return self._permissions == "ask" and self._approver is not None

    async def decide(self, question: Question, answer: Callable[[Choice | None], Awaitable[None]]) -> list[Event]:
        """Call `answer` with the choice, now or when the person has chosen. Returns events for the turn."""
        if self._permissions == "ask" and self._approver is not None:
            task = asyncio.create_task(self._ask(self._approver, question, answer))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
            wanted = "an answer" if question.allowing() is None else "permission"
            return [Status(text=f"Waiting for {wanted}: {question.title}")]
        choice = question.allowing() if self._permissions == "allow" else question.denying()
        await answer(choice)
        if choice is not None and choice == question.allowing():
            return []
        hint, self._hint_given = "" if self._hint_given else f" {HOW_TO_ALLOW}", True
        return [Notice(text=f"Not allowed: {question.title}.{hint}")]

    async def ask(self, question: Question) -> tuple[list[Event], asyncio.Future[Choice | None]]:
        """Ask a question. Returns events to emit in the turn, and a future that gets the choice.

        This is `decide` for a caller that awaits the choice.
        """
        chosen: asyncio.Future[Choice | None] = asyncio.get_running_loop().create_future()
        self._waiting_for_choice.add(chosen)
        chosen.add_done_callback(self._waiting_for_choice.discard)

        async def answer(choice: Choice | None) -> None:
            if not chosen.done():
                chosen.set_result(choice)

        return await self.decide(question, answer), chosen

    def notices(self) -> list[Event]:
        """Return notices about questions that could not be asked, since the last call of this method."""
        notices, self._notices = self._notices, []
        return notices

    async def _ask(
        self, approver: Approver, question: Question, answer: Callable[[Choice | None], Awaitable[None]]
    ) -> None:
        try:
            choice = await approver.ask(question)
        except Exception as error:  # noqa: BLE001  # the approver failed: the person was not asked, and a notice says so
            text = f"Not allowed, because the question could not be asked: {question.title} ({error})"
            self._notices.append(Notice(text=text))
            choice = None
        await answer(choice if choice in question.choices else question.denying())
