"""Any agent of the Agent Client Protocol as a runtime: `AcpRuntime("claude-agent-acp")`, in commands `acp:COMMAND`.

Owns which agent a conversation has. It is kept for a while after its turn, since it takes seconds to start and some
remember nothing else; a few are kept, and not for long. A turn that fails or is left ends the agent with all of its
process group, and the next one takes the session up again.
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

_KEPT_AT_MOST = 8


class AcpRuntime:
    """An agent's command as a runtime; `permissions` say what becomes of what it must ask for.

    With `ask` the person is asked by `approver`; without one nothing is allowed.
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
        self._command = _words(command)
        self._permissions = permissions
        self._approver = approver
        self._options = options or AcpOptions()
        self._kept: dict[str, tuple[AcpAgent, asyncio.TimerHandle]] = {}

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """One turn; closing this cancels it, and returns when nothing of the agent is left."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if (kept := self._take(session_of(prompt))) is not None:
            # It may have exited since, which then is no failure of this turn.
            with suppress(AgentFault):
                async with aclosing(self._turn(kept, prompt)) as events:
                    async for event in events:
                        yield event
                return
        agent = AcpAgent(
            self._command,
            env=self._options.env,
            cwd=self._options.cwd,
            silence_timeout_s=self._options.silence_timeout_s,
        )
        try:
            async with aclosing(self._turn(agent, prompt)) as events:
                async for event in events:
                    yield event
        except (AgentFault, AgentNotFound) as fault:
            code = fault.code if isinstance(fault, AgentFault) else "not_found"
            for event in AcpTranslator(self.name).lost(str(fault), code=code):
                yield event

    async def _turn(self, agent: AcpAgent, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """The turn with this agent. Raises `AgentFault` where it came to nothing, before anything was said."""
        session = session_of(prompt)
        turn: AcpTurn | None = None
        try:
            remarks = [] if agent.session_id else await open_session(agent, self._options, session)
            translator = AcpTranslator(self.name, agent=agent.name)
            turn = AcpTurn(agent, translator, permissions=self._permissions, approver=self._approver)
            for event in (event for remark in remarks for event in translator.remark(remark)):
                yield event
            async with aclosing(turn.run(prompt.text)) as events:
                async for event in events:
                    yield event
        finally:
            if turn is not None and turn.is_sound and session and self._options.retention_s > 0:
                self._keep(session, agent)
            else:
                await agent.close()

    async def aclose(self) -> None:
        """End the agents that are kept."""
        kept, self._kept = self._kept, {}
        for agent, timer in kept.values():
            timer.cancel()
            await agent.close()

    # The agent of a conversation

    def _take(self, session: str) -> AcpAgent | None:
        """The agent that was kept, if it still runs."""
        agent, timer = self._kept.pop(session, (None, None))
        if timer is not None:
            timer.cancel()
        return agent if agent is not None and agent.runs else None

    def _keep(self, session: str, agent: AcpAgent) -> None:
        self._dismiss(session)
        timer = asyncio.get_running_loop().call_later(self._options.retention_s, self._dismiss, session)
        self._kept[session] = (agent, timer)
        if len(self._kept) > _KEPT_AT_MOST:
            self._dismiss(next(iter(self._kept)))

    def _dismiss(self, session: str) -> None:
        agent, timer = self._kept.pop(session, (None, None))
        if agent is not None and timer is not None:
            timer.cancel()
            agent.dismiss()


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    """A command as a shell would take it apart."""
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise AgentNotFound(f"acp:{command} is no command: {error}.") from error
    if not words:
        raise AgentNotFound("acp: names no command. Write acp:COMMAND, for example acp:claude-agent-acp.")
    return words
