"""gemini-cli as a runtime: one process per turn.

This module owns the processes and the conversations, which gemini stores per directory under ids of its own. If gemini
may ask for permission, it runs with `--acp` and is handled by the package `acp`, because only then it can ask. If it
may not, it runs with `stream-json`, and `translator` reads its output.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Status, TurnFailed, TurnStarted
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.command_runtime import CommandRuntime
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.process import AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt

_FLAGS = ("--output-format", "stream-json")
_UNKNOWN_OPTION = re.compile(r"(?i)unknown (argument|option)")
_CANNOT_ASK = "This gemini cannot ask: it does only what its approval mode allows."
_SESSION_GONE = "Error resuming session"
_MISSING = "Install gemini-cli with: npm install -g @google/gemini-cli"


class GeminiRuntime(CommandRuntime):
    """Runs turns with gemini-cli. Options in `command` may be `-m MODEL` or `--approval-mode yolo`.

    gemini stores conversations per directory: in another directory it starts a new conversation. It runs as `gemini
    --acp`, and asks for permission if its approval mode does not allow an action. If no request can be allowed, it runs
    with `stream-json` instead and does only what the mode allows.
    """

    name = "gemini"
    _missing = _MISSING
    # If gemini is asked to stop, the command that it runs continues. If gemini is killed at once, both are killed.
    _grace_s = 0.0
    _acp_runtime: AcpRuntime | None = None
    _knows_acp = True

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn in the conversation of the session. Closing this iterator ends gemini and the commands it runs."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        uses_acp = may_allow(self._permissions, self._approver)
        if uses_acp and self._knows_acp:
            async with aclosing(self._run_acp(prompt)) as events:
                async for event in events:
                    yield event
        if not (uses_acp and self._knows_acp):
            turn = self._run_without_approvals(prompt, GeminiTranslator, _SESSION_GONE, self._stream_json_process)
            try:
                async with aclosing(turn) as events:
                    async for event in events:
                        yield event
            except AgentNotFound as error:
                yield TurnFailed(message=str(error), code="not_found")

    async def aclose(self) -> None:
        """End the idle agents that are kept for the next turn of their conversations."""
        if self._acp_runtime is not None:
            await self._acp_runtime.aclose()

    def _acp(self) -> AcpRuntime:
        if self._acp_runtime is None:
            options = AcpOptions(
                cwd=self._cwd,
                env=self._env,
                silence_timeout_s=self.timeouts.silence_timeout_s,
                exit_timeout_s=self.timeouts.exit_timeout_s,
            )
            command = (*self._command, "--acp")
            self._acp_runtime = AcpRuntime(
                command, permissions=self._permissions, approver=self._approver, options=options
            )
            self._acp_runtime.name = self.name
        return self._acp_runtime

    async def _run_acp(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn with `gemini --acp`. If gemini is too old for that option, later turns do not use it."""
        async with aclosing(self._acp().run(prompt)) as events:
            async for event in events:
                if isinstance(event, TurnFailed) and _UNKNOWN_OPTION.search(event.message):
                    self._knows_acp = False
                    yield Status(text=_CANNOT_ASK)
                    return
                if isinstance(event, TurnFailed) and event.code == "not_found":
                    yield TurnFailed(message=f"{event.message} {_MISSING}", code=event.code)
                elif not isinstance(event, TurnStarted):
                    for hinted in with_login_hint(self.name, [event]):
                        yield hinted

    def _stream_json_process(self, session: str) -> AgentProcess:
        return self._process(*_FLAGS, *(("--resume", session) if session else ()))
