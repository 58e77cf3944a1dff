"""gemini-cli as a runtime: a process per turn, or one that speaks the Agent Client Protocol where there is much to ask.

Owns the processes and the conversations, which gemini keeps for each directory under ids of its own. What it prints is
the translator's to tell. On its own gemini asks nobody; with `--acp` it asks, and that is `acp`'s to carry.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Notice, Status, TurnFailed, TurnStarted
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.process import SILENCE_TIMEOUT_S, AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Policy

_UNKNOWN_OPTION = re.compile(r"(?i)unknown (argument|option)")
_UNASKED = "This gemini cannot ask: what its approval mode does not allow it does not do."
_GONE = "Error resuming session"
_FAREWELL_S = 3.0
# Asked to stop it leaves the command that it runs behind; killed at once, that is found and ended with it.
_GRACE_S = 0.0
_MISSING = "Install gemini-cli with: npm install -g @google/gemini-cli"


class GeminiRuntime:
    """gemini-cli. `command` may carry options of its own (`-m MODEL`, `--approval-mode yolo`).

    `env` is added to our environment, `cwd` is where the agent works. Conversations belong to that directory: in
    another one gemini begins anew. `sessions` is the folder where it is kept which conversation is whose.
    `silence_timeout_s` is how long it may say nothing while no tool is at work.

    What its approval mode does not allow is decided by `permissions`, and `approver` is who is asked: it runs as
    `gemini --acp` then. Where nobody is asked and nothing more is allowed it does not do it, and prints `stream-json`.
    """

    name = "gemini"
    silence_timeout_s = SILENCE_TIMEOUT_S

    def __init__(
        self,
        command: Sequence[str] = ("gemini",),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._conversations = Conversations(self.name, sessions)
        self._permissions = permissions
        self._approver = approver
        self._is_asked = may_allow(permissions, approver)
        self._asking: AcpRuntime | None = None

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask gemini, in the conversation of the prompt's session; closing this ends it and what it runs."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if self._is_asked:
            async with aclosing(self._asked(prompt)) as events:
                async for event in events:
                    yield event
        if self._is_asked:
            return
        async with aclosing(self._printed(prompt)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """End the agents that are kept for their next turn."""
        if self._asking is not None:
            await self._asking.aclose()

    def _acp(self) -> AcpRuntime:
        if self._asking is None:
            options = AcpOptions(cwd=self._cwd, env=dict(self._env or {}), silence_timeout_s=self.silence_timeout_s)
            command = (*self._command, "--acp")
            self._asking = AcpRuntime(command, permissions=self._permissions, approver=self._approver, options=options)
            self._asking.name = self.name
        return self._asking

    async def _asked(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """A turn of `gemini --acp`; one that does not know the option is not asked that way again."""
        async with aclosing(self._acp().run(prompt)) as events:
            async for event in events:
                if isinstance(event, TurnFailed) and _UNKNOWN_OPTION.search(event.message):
                    self._is_asked = False
                    yield Status(text=_UNASKED)
                    return
                if isinstance(event, TurnFailed) and event.code == "not_found":
                    yield TurnFailed(message=f"{event.message} {_MISSING}", code=event.code)
                elif not isinstance(event, TurnStarted):
                    for told in with_login_hint(self.name, [event]):
                        yield told

    async def _printed(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """A turn of gemini alone, which prints what it does."""
        resumed = self._conversations.of(prompt)
        while True:
            translator = GeminiTranslator()
            try:
                async with self._process(resumed) as process:
                    process.is_excused = partial(_works, translator)
                    await process.write(prompt.text.encode(errors="replace"))
                    process.close_input()
                    async with aclosing(process.lines()) as lines:
                        async for line in lines:
                            told = with_login_hint(self.name, translator.feed(line))
                            for event in (*self._conversations.remember(prompt, translator.session_id), *told):
                                yield event
                            if translator.is_over:
                                break
                    remark = await _end_of(process)
            except AgentNotFound as error:
                yield TurnFailed(message=str(error), code="not_found")
                return
            if not (resumed and _GONE in remark):
                break
            resumed = ""
            yield Notice(text="gemini begins a new conversation: the earlier one cannot be found.")
        for event in with_login_hint(self.name, translator.close(remark)):
            yield event

    def _process(self, resumed: str) -> AgentProcess:
        command = (*self._command, "--output-format", "stream-json", *(("--resume", resumed) if resumed else ()))
        return AgentProcess(
            command,
            env=self._env,
            cwd=self._cwd,
            missing=_MISSING,
            grace_s=_GRACE_S,
            silence_timeout_s=self.silence_timeout_s,
        )


def _works(translator: GeminiTranslator) -> bool:
    return translator.is_at_work


async def _end_of(process: AgentProcess) -> str:
    """How it ended; it is given the time to keep the conversation, and no more."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            return await process.last_words()
    return ""
