"""Runs one turn of an agent: translates its messages, answers its requests, and cancels a turn that is closed early.

`approvals` decides what the agent may do; this module writes the answer in the protocol's form.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.events import Event, Notice
from tailrace.runtimes.acp.agent import CANCELLED, PERMISSION, AgentFault, RpcMessage
from tailrace.runtimes.approvals import Approvals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from tailrace.runtimes.acp.agent import AcpAgent
    from tailrace.runtimes.acp.translator import AcpTranslator
    from tailrace.runtimes.permissions import Approver, Choice, Policy

# How long tools that still run at the end of a turn may take to report their results.
_LATE_RESULTS_S = 1.0


class AcpTurn:
    """One turn of an agent whose session is open. `is_reusable` says whether the agent can be used for another turn."""

    def __init__(
        self, agent: AcpAgent, translator: AcpTranslator, *, permissions: Policy, approver: Approver | None = None
    ) -> None:
        self.is_reusable = False
        self._agent = agent
        self._translator = translator
        self._approvals = Approvals(permissions, approver)
        self._unanswered: list[RpcMessage] = []
        self._is_finished = False

    async def run(self, text: str) -> AsyncGenerator[Event, None]:
        """The events of the turn; closing this iterator cancels the turn.

        Raises `AgentFault` if the agent ended before its first message.
        """
        self._agent.may_be_silent = lambda: self._approvals.is_waiting or self._translator.turn.has_open_calls()
        await self._agent.prompt(text)
        try:
            first = await self._agent.receive()
            if first is None:
                raise AgentFault(self._agent.end_text)
            for event in await self._handle(first):
                yield event
            while not self._is_finished:
                for event in await self._handle(await self._agent.receive()):
                    yield event
            deadline = asyncio.get_running_loop().time() + _LATE_RESULTS_S
            while (
                self._translator.turn.has_open_calls() and (message := await self._receive_until(deadline)) is not None
            ):
                for event in await self._handle(message):
                    yield event
        finally:
            await self._leave()

    async def _receive_until(self, deadline: float) -> RpcMessage | bytes | None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                return await self._agent.receive()
        return None

    async def _handle(self, message: RpcMessage | bytes | None) -> list[Event]:
        events = self._as_notices(self._approvals.notices())
        match message:
            case None:
                self._is_finished = True
                events += self._translator.agent_lost(self._agent.end_text)
            case bytes():
                events += self._translator.invalid_line(message)  # some agents print their log between the messages
            case RpcMessage(method=None, error=None):
                self._is_finished = self.is_reusable = True
                events += self._translator.prompt_result(message.result)
            case RpcMessage(method=None):
                self._is_finished = True
                events += self._translator.prompt_error(message.error, login_hint=self._agent.login_hint)
            case RpcMessage() if message.method == PERMISSION:
                events += await self._permission_requested(message)
            case _:
                events += self._translator.update(message.params, asyncio.get_running_loop().time())
        return events

    async def _leave(self) -> None:
        """Cancel the open requests of the agent. If the agent still works on the prompt, tell it to stop."""
        self._approvals.withdraw()
        unanswered, self._unanswered = self._unanswered, []
        await self._agent.cancel_requests(unanswered)
        if not self._is_finished and self._agent.is_running:
            await self._agent.cancel()
        self._agent.end_turn()

    # Permissions

    async def _permission_requested(self, request: RpcMessage) -> list[Event]:
        events, question = self._translator.permission_request(request.params)
        if question is None or self._is_finished:
            await self._agent.respond(request, CANCELLED)
            return events
        self._unanswered.append(request)

        async def respond(choice: Choice | None) -> None:
            """Respond with the choice, or with "cancelled" if there is none."""
            if request not in self._unanswered:
                return
            self._unanswered.remove(request)
            outcome = {"outcome": {"outcome": "selected", "optionId": choice.id}} if choice is not None else CANCELLED
            await self._agent.respond(request, outcome)

        return [*events, *self._as_notices(await self._approvals.decide(question, respond))]

    def _as_notices(self, events: Iterable[Event]) -> list[Event]:
        """Pass notices through the translator, so that they do not come in the middle of the agent's text."""
        return [
            events
            for event in events
            for events in (self._translator.notice(event.text) if isinstance(event, Notice) else [event])
        ]
