"""codex as a runtime: a process of `codex app-server` per turn, or of `codex exec` where there is no such server.

Owns the processes and the conversations. What is said to the server is `dialogue`'s, what it says the translator's.

codex runs commands in sessions of their own, which no signal to its process group reaches. It ends them itself when it
is interrupted and its input ends, so it is given the time for that.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Notice, Status, TurnFailed, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.codex.dialogue import Asked, CodexDialogue
from tailrace.runtimes.codex.translator import CodexExecTranslator
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.process import SILENCE_TIMEOUT_S, AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy

_MISSING = "Install codex with: npm install -g @openai/codex"
# One that does not know the command says so, or takes it for a prompt and misses a terminal.
_UNKNOWN_COMMAND = re.compile(r"unrecognized subcommand|unexpected argument|not a terminal")
_GONE = "no rollout found"
_FAREWELL_S = 3.0
_UNSERVED = "This codex has no app-server: its answer comes block by block."


class CodexRuntime:
    """codex. `command` may carry options of its own (`-c model="…"`, `-c sandbox_mode="workspace-write"`).

    `env` is added to our environment, `cwd` is where the agent works. What codex may do without asking is its own
    `approval_policy`; what it asks for is decided by `permissions`, and `approver` is who is asked. `sessions` is the
    folder where it is kept which conversation is whose. `silence_timeout_s` is how long it may say nothing while no
    tool is at work.
    """

    name = "codex"
    silence_timeout_s = SILENCE_TIMEOUT_S

    def __init__(
        self,
        command: Sequence[str] = ("codex",),
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
        self._permissions = permissions
        self._approver = approver
        self._conversations = Conversations(self.name, sessions)
        self._warned: set[str] = set()

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask codex, in the conversation of the prompt's session; closing this interrupts it and ends its processes."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        thread = self._conversations.of(prompt)
        dialogue = CodexDialogue(prompt.text, thread_id=thread, cwd=self._cwd, warned=self._warned)
        try:
            async with aclosing(self._served(prompt, dialogue)) as events:
                async for event in events:
                    yield event
            if not dialogue.translator.is_over:
                yield Status(text=_UNSERVED)
                async with aclosing(self._executed(prompt)) as events:
                    async for event in events:
                        yield event
        except AgentNotFound as error:
            yield TurnFailed(message=str(error), code="not_found")

    def _process(self, *arguments: str) -> AgentProcess:
        command = (*self._command, *arguments)
        return AgentProcess(
            command, env=self._env, cwd=self._cwd, missing=_MISSING, silence_timeout_s=self.silence_timeout_s
        )

    async def _served(self, prompt: Prompt, dialogue: CodexDialogue) -> AsyncGenerator[Event, None]:
        """A turn of `codex app-server`; where there is no such command, nothing at all and no end."""
        translator = dialogue.translator
        async with self._process("app-server") as process, _farewell(process, dialogue):
            async with Approvals(self._permissions, self._approver) as approvals, aclosing(process.lines()) as lines:
                process.is_excused = lambda: translator.is_at_work or approvals.is_waiting
                await _send(process, dialogue)
                async for line in lines:
                    told = with_login_hint(self.name, dialogue.feed(line))
                    remembered = self._conversations.remember(prompt, translator.thread_id or "")
                    for event in (*approvals.notices(), *remembered, *told):
                        yield event
                    for asked in dialogue.questions():
                        for event in await approvals.decide(asked.question, _answering(process, dialogue, asked)):
                            yield event
                    await _send(process, dialogue)
                    if translator.is_over:
                        return
            remark = await process.last_words()
            if dialogue.has_answered or not _UNKNOWN_COMMAND.search(remark):
                for event in with_login_hint(self.name, translator.close(remark)):
                    yield event

    async def _executed(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """A turn of `codex exec`, which asks nobody: what is not allowed it does not do."""
        thread = self._conversations.of(prompt)
        while True:
            translator = CodexExecTranslator()
            resumed = ("resume", thread) if thread else ()
            async with self._process("exec", "--json", "--skip-git-repo-check", *resumed, "-") as process:
                await process.write(prompt.text.encode(errors="replace"))
                process.close_input()
                process.is_excused = partial(_works, translator)
                async with aclosing(process.lines()) as lines:
                    async for line in lines:
                        told = with_login_hint(self.name, translator.feed(line))
                        for event in (*self._conversations.remember(prompt, translator.thread_id or ""), *told):
                            yield event
                remark = await process.last_words()
            if not (thread and _GONE in remark):
                break
            thread = ""
            yield Notice(text="codex begins a new conversation: the earlier one cannot be found.")
        for event in with_login_hint(self.name, translator.close(remark)):
            yield event


def _works(translator: CodexExecTranslator) -> bool:
    return translator.is_at_work


async def _send(process: AgentProcess, dialogue: CodexDialogue) -> None:
    for line in dialogue.outgoing():
        await process.write(line)


def _answering(
    process: AgentProcess, dialogue: CodexDialogue, asked: Asked
) -> Callable[[Choice | None], Awaitable[None]]:
    async def answer(choice: Choice | None) -> None:
        dialogue.answer(asked, choice)
        await _send(process, dialogue)

    return answer


@asynccontextmanager
async def _farewell(process: AgentProcess, dialogue: CodexDialogue) -> AsyncGenerator[None, None]:
    """Leave the server in good order, however one leaves: interrupted, if it is at work, and with its input ended."""
    try:
        yield
    finally:
        dialogue.interrupt()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await _send(process, dialogue)
                process.close_input()
                await process.wait()
