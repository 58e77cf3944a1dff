"""gemini-cli as a runtime: a process per turn.

Owns the processes and the conversations, which gemini keeps for each directory under ids of its own. What it prints is
the translator's to tell.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Notice, TurnFailed, TurnStarted
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.process import AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt

_GONE = "Error resuming session"
_FAREWELL_S = 3.0
# Asked to stop it leaves the command that it runs behind; killed at once, that is found and ended with it.
_GRACE_S = 0.0
_MISSING = "Install gemini-cli with: npm install -g @google/gemini-cli"


class GeminiRuntime:
    """gemini-cli. `command` may carry options of its own (`-m MODEL`, `--approval-mode yolo`); it asks nobody: what its
    approval mode does not allow it does not do.

    `env` is added to our environment, `cwd` is where the agent works. Conversations belong to that directory: in
    another one gemini begins anew. `sessions` is the folder where it is kept which conversation is whose.
    """

    name = "gemini"

    def __init__(
        self,
        command: Sequence[str] = ("gemini",),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._conversations = Conversations(self.name, sessions)

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask gemini, in the conversation of the prompt's session; closing this ends it and what it runs."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        resumed = self._conversations.of(prompt)
        while True:
            translator = GeminiTranslator()
            try:
                async with self._process(resumed) as process:
                    await process.write(prompt.text.encode(errors="replace"))
                    process.close_input()
                    async with aclosing(process.lines()) as lines:
                        async for line in lines:
                            for event in translator.feed(line):
                                yield event
                            self._conversations.remember(prompt, translator.session_id)
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
        for event in translator.close(remark):
            yield event

    def _process(self, resumed: str) -> AgentProcess:
        command = (*self._command, "--output-format", "stream-json", *(("--resume", resumed) if resumed else ()))
        return AgentProcess(command, env=self._env, cwd=self._cwd, missing=_MISSING, grace_s=_GRACE_S)


async def _end_of(process: AgentProcess) -> str:
    """How it ended; it is given the time to keep the conversation, and no more."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            return await process.last_words()
    return ""
