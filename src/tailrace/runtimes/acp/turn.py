"""One prompt to an agent: what it says becomes events, what it asks is answered, and a turn that is left is cancelled.

What the agent may do is `deciding`'s to find out; here it is put to the agent in the words of the protocol.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice
from tailrace.runtimes.acp.agent import CANCELLED, PERMISSION, AgentFault, Message
from tailrace.runtimes.approvals import Approvals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from tailrace.runtimes.acp.agent import AcpAgent
    from tailrace.runtimes.acp.translator import AcpTranslator
    from tailrace.runtimes.permissions import Approver, Choice, Policy

# How long tools that were left running at the end of a turn may still tell how they came out.
_LATE_S = 1.0


class AcpTurn:
    """A turn of an agent whose session is open; `is_sound` where the agent is fit for another one."""

    def __init__(
        self, agent: AcpAgent, translator: AcpTranslator, *, permissions: Policy, approver: Approver | None = None
    ) -> None:
        self.is_sound = False
        self._agent = agent
        self._translator = translator
        self._approvals = Approvals(permissions, approver)
        self._unanswered: list[Message] = []
        self._is_over = False

    async def run(self, text: str) -> AsyncGenerator[Event, None]:
        """The events of the turn; closing this cancels it. Raises `AgentFault` where nobody was there to hear it."""
        self._agent.is_excused = lambda: self._approvals.is_waiting or self._translator.awaits_tools
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
        events = self._told(self._approvals.notices())
        match message:
            case None:
                self._is_over = True
                events += self._translator.lost(self._agent.end)
            case bytes():
                events += self._translator.noise(message)  # some print their log there
            case Message(method=None, error=None):
                self._is_over = self.is_sound = True
                events += self._translator.answered(message.result)
            case Message(method=None):
                self._is_over = True
                events += self._translator.refused(message.error, login=self._agent.login)
            case Message() if message.method == PERMISSION:
                events += await self._asked(message)
            case _:
                events += self._translator.update(message.params, asyncio.get_running_loop().time())
        return events

    async def _leave(self) -> None:
        """Whatever was asked needs no answer any more; an agent that is still at work is told to stop."""
        self._approvals.withdraw()
        unanswered, self._unanswered = self._unanswered, []
        await self._agent.withdraw(unanswered)
        if not self._is_over and self._agent.runs:
            await self._agent.cancel()
        self._agent.rest()

    # What it may do

    async def _asked(self, request: Message) -> list[Event]:
        events, question = self._translator.asked(request.params)
        if question is None or self._is_over:
            await self._agent.answer(request, CANCELLED)
            return events
        self._unanswered.append(request)

        async def answer(choice: Choice | None) -> None:
            """Give the choice back; an agent that left none is told that its request was cancelled."""
            if request not in self._unanswered:
                return
            self._unanswered.remove(request)
            chosen = {"outcome": {"outcome": "selected", "optionId": choice.id}} if choice is not None else CANCELLED
            await self._agent.answer(request, chosen)

        return [*events, *self._told(await self._approvals.decide(question, answer))]

    def _told(self, events: Iterable[Event]) -> list[Event]:
        """What is to be said of it, in its place in what the agent says."""
        return [
            told
            for event in events
            for told in (self._translator.remark(event.text) if isinstance(event, Notice) else [event])
        ]
