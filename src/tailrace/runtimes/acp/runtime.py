"""Runs any agent that speaks the Agent Client Protocol: `AcpRuntime("claude-agent-acp")`; in a terminal `acp:COMMAND`.

This module decides which process serves a conversation. A process is kept for some time after its turn, because a start
takes seconds and some agents lose their memory with the process; only a few are kept. If a turn fails or is closed
early, the process and its process group are ended, and the next turn resumes the session.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, TurnStarted
from tailrace.runtimes.acp.agent import AcpAgent, AgentFault
from tailrace.runtimes.acp.opening import AcpOptions, open_session
from tailrace.runtimes.acp.translator import AcpTranslator
from tailrace.runtimes.acp.turn import AcpTurn
from tailrace.runtimes.sessions import session_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Policy

_MAX_KEPT = 8


class AcpRuntime:
    """Runs turns with an agent that is started by a command and speaks the Agent Client Protocol.

    `permissions` decides on the agent's requests for permission. With `ask`, the `approver` asks a person; without an
    `approver` nothing is allowed.
    """

    name = "acp"

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        permissions: Policy = "deny",
        approver: Approver | None = None,
        options: AcpOptions | None = None,
    ) -> None:
        self._command = _split_command(command)
        self._permissions = permissions
        self._approver = approver
        self._options = options or AcpOptions()
        self._kept: dict[str, tuple[AcpAgent, asyncio.TimerHandle]] = {}

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run one turn. Closing this iterator cancels the turn and waits until all the agent's processes have ended."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if (kept := self._take_kept(session_of(prompt))) is not None:
            # If the kept agent has exited, a new one is started: that is no failure of this turn.
            with suppress(AgentFault):
                async with aclosing(self._run_turn(kept, prompt)) as events:
                    async for event in events:
                        yield event
                return
        agent = AcpAgent(
            self._command,
            env=self._options.env,
            cwd=self._options.cwd,
            silence_timeout_s=self._options.silence_timeout_s,
            exit_timeout_s=self._options.exit_timeout_s,
        )
        try:
            async with aclosing(self._run_turn(agent, prompt)) as events:
                async for event in events:
                    yield event
        except (AgentFault, AgentNotFound) as failure:
            code = failure.code if isinstance(failure, AgentFault) else "not_found"
            for event in AcpTranslator(self.name).agent_lost(str(failure), code=code):
                yield event

    async def _run_turn(self, agent: AcpAgent, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run the turn with this agent. Raises `AgentFault` if the agent ended before its first message."""
        session = session_of(prompt)
        turn: AcpTurn | None = None
        try:
            notices = [] if agent.session_id else await open_session(agent, self._options, session)
            translator = AcpTranslator(self.name, agent=agent.name)
            turn = AcpTurn(agent, translator, permissions=self._permissions, approver=self._approver)
            for event in (event for notice in notices for event in translator.notice(notice)):
                yield event
            async with aclosing(turn.run(prompt.text)) as events:
                async for event in events:
                    yield event
        finally:
            if turn is not None and turn.is_reusable and session and self._options.retention_s > 0:
                self._keep(session, agent)
            else:
                await agent.close()

    async def aclose(self) -> None:
        """End the idle agents that are kept for the next turn of their conversations."""
        kept, self._kept = self._kept, {}
        for agent, timer in kept.values():
            timer.cancel()
            await agent.close()

    # The agent of a conversation

    def _take_kept(self, session: str) -> AcpAgent | None:
        """Take the agent that was kept for this session; None if there is none or it has ended."""
        agent, timer = self._kept.pop(session, (None, None))
        if timer is not None:
            timer.cancel()
        return agent if agent is not None and agent.is_running else None

    def _keep(self, session: str, agent: AcpAgent) -> None:
        self._dismiss(session)
        timer = asyncio.get_running_loop().call_later(self._options.retention_s, self._dismiss, session)
        self._kept[session] = (agent, timer)
        if len(self._kept) > _MAX_KEPT:
            self._dismiss(next(iter(self._kept)))

    def _dismiss(self, session: str) -> None:
        agent, timer = self._kept.pop(session, (None, None))
        if agent is not None and timer is not None:
            timer.cancel()
            agent.terminate()


def _split_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """Split a command as a shell would."""
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise AgentNotFound(f"acp:{command} is not a valid command: {error}.") from error
    if not words:
        raise AgentNotFound("acp: names no command. Write acp:COMMAND, for example acp:claude-agent-acp.")
    return words
