"""One prompt to an agent: what it says becomes events, what it asks is answered, and a turn that is left is cancelled.

What the agent may do is decided by the policy: `allow` and `deny` answer at once, with the choice that reaches least
far; for `ask` a person is asked, while the agent is still heard.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.events import Event, Status
from tailrace.runtimes.acp.agent import CANCELLED, PERMISSION, AgentFault, Message
from tailrace.runtimes.permissions import HOW_TO_ALLOW

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.runtimes.acp.agent import AcpAgent
    from tailrace.runtimes.acp.translator import AcpTranslator
    from tailrace.runtimes.permissions import Asks, Choice, Policy, Question

# How long tools that were left running at the end of a turn may still tell how they came out.
_LATE_S = 1.0


class AcpTurn:
    """A turn of an agent whose session is open; `is_sound` where the agent is fit for another one."""

    def __init__(
        self, agent: AcpAgent, translator: AcpTranslator, *, permissions: Policy, asks: Asks | None = None
    ) -> None:
        self.is_sound = False
        self._agent = agent
        self._translator = translator
        self._permissions = permissions
        self._asks = asks
        self._questions: dict[asyncio.Task[None], Message] = {}
        self._remarks: list[str] = []
        self._is_over = False
        self._told_of_noise = False
        self._told_how_to_allow = False

    async def run(self, text: str) -> AsyncGenerator[Event, None]:
        """The events of the turn; closing this cancels it. Raises `AgentFault` where nobody was there to hear it."""
        self._agent.is_excused = lambda: bool(self._questions) or self._translator.awaits_tools
        await self._agent.prompt(text)
        try:
            first = await self._agent.next()
            if first is None:
                raise AgentFault(self._agent.end)
            for event in await self._heard(first):
                yield event
            while not self._is_over:
                for event in await self._heard(await self._agent.next()):
                    yield event
            late = asyncio.get_running_loop().time() + _LATE_S
            while self._translator.awaits_tools and (message := await self._next_until(late)) is not None:
                for event in await self._heard(message):
                    yield event
        finally:
            await self._leave()

    async def _next_until(self, late: float) -> Message | bytes | None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(late):
                return await self._agent.next()
        return None

    async def _heard(self, message: Message | bytes | None) -> list[Event]:
        remarks, self._remarks = self._remarks, []
        events = [event for remark in remarks for event in self._translator.remark(remark)]
        match message:
            case None:
                self._is_over = True
                events += self._translator.lost(self._agent.end)
            case bytes():
                # Some print their log there; that is worth a line, and only one.
                events += [] if self._told_of_noise else self._translator.noise(message)
                self._told_of_noise = True
            case Message(method=None, error=None):
                self._is_over = self.is_sound = True
                events += self._translator.answered(message.result)
            case Message(method=None):
                self._is_over = True
                events += self._translator.refused(message.error)
            case Message() if message.method == PERMISSION:
                events += await self._asked(message)
            case _:
                events += self._translator.update(message.params, asyncio.get_running_loop().time())
        return events

    async def _leave(self) -> None:
        """Whatever was asked needs no answer any more; an agent that is still at work is told to stop."""
        for question, request in list(self._questions.items()):
            question.cancel()
            await self._agent.answer(request, CANCELLED)
        if not self._is_over and self._agent.runs:
            await self._agent.cancel()
        self._agent.rest()

    # What it may do

    async def _asked(self, request: Message) -> list[Event]:
        events, question = self._translator.asked(request.params)
        if question is None or self._is_over:
            await self._agent.answer(request, CANCELLED)
            return events
        if self._permissions == "ask" and self._asks is not None:
            asking = asyncio.create_task(self._ask(self._asks, request, question))
            self._questions[asking] = request
            asking.add_done_callback(lambda done: self._questions.pop(done, None))
            return [*events, Status(text=f"Waiting for permission: {question.title}")]
        choice = question.allowing() if self._permissions == "allow" else question.denying()
        await self._answer(request, choice)
        if choice is not None and choice == question.allowing():
            return events
        hint, self._told_how_to_allow = "" if self._told_how_to_allow else f" {HOW_TO_ALLOW}", True
        return [*events, *self._translator.remark(f"Not allowed: {question.title}.{hint}")]

    async def _ask(self, asks: Asks, request: Message, question: Question) -> None:
        try:
            choice = await asks.ask(question)
        except Exception as error:  # noqa: BLE001  # somebody else's code; nobody was asked, and that is told
            self._remarks.append(f"Not allowed, because nobody could be asked: {question.title} ({error})")
            choice = None
        await self._answer(request, choice if choice in question.choices else question.denying())

    async def _answer(self, request: Message, choice: Choice | None) -> None:
        """Give the choice back; an agent that left none is told that its request was cancelled."""
        chosen = {"outcome": {"outcome": "selected", "optionId": choice.id}} if choice is not None else CANCELLED
        await self._agent.answer(request, chosen)
