"""codex as a runtime: one process per turn, of `codex app-server`, or of `codex exec` if codex has no such server.

This module owns the processes and the conversations. `client` talks to the server, the translators read the output.

codex runs commands in POSIX sessions of their own, so a signal to its process group does not reach them. codex stops
them itself when it is interrupted and its input ends, so it gets time for that.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Status, TurnFailed, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.codex.client import ApprovalRequest, CodexClient
from tailrace.runtimes.codex.translator import CodexExecTranslator
from tailrace.runtimes.command_runtime import CommandRuntime
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Choice

_MISSING = "Install codex with: npm install -g @openai/codex"
# A codex without `app-server` says so, or reads the word as a prompt and complains that there is no terminal.
_UNKNOWN_COMMAND = re.compile(r"unrecognized subcommand|unexpected argument|not a terminal")
_THREAD_GONE = "no rollout found"
_NO_APP_SERVER = "This codex has no app-server: its answer comes block by block."


class CodexRuntime(CommandRuntime):
    """Runs turns with codex. Options in `command` may be `-c model="…"` or `-c sandbox_mode="workspace-write"`.

    The `approval_policy` of codex says what it may do without permission.
    """

    name = "codex"
    _missing = _MISSING

    @cached_property
    def _warned(self) -> set[str]:
        return set()

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn in the conversation of the session. Closing this iterator interrupts codex and ends it."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        thread = self._conversations.get(prompt)
        client = CodexClient(prompt.text, thread_id=thread, cwd=self._cwd, warned=self._warned)
        try:
            async with aclosing(self._run_app_server(prompt, client)) as events:
                async for event in events:
                    yield event
            if not client.translator.turn.is_finished:
                yield Status(text=_NO_APP_SERVER)
                exec_turn = self._run_without_approvals(prompt, CodexExecTranslator, _THREAD_GONE, self._exec_process)
                async with aclosing(exec_turn) as events:
                    async for event in events:
                        yield event
        except AgentNotFound as error:
            yield TurnFailed(message=str(error), code="not_found")

    async def _run_app_server(self, prompt: Prompt, client: CodexClient) -> AsyncGenerator[Event, None]:
        """Run a turn with `codex app-server`. Yields nothing at all if codex is too old to have that command."""
        translator = client.translator
        async with self._process("app-server") as process, _shut_down(process, client, self.timeouts):
            async with Approvals(self._permissions, self._approver) as approvals, aclosing(process.lines()) as lines:
                process.may_be_silent = lambda: translator.turn.has_open_calls() or approvals.is_waiting
                await _send(process, client)
                async for line in lines:
                    events = with_login_hint(self.name, client.feed(line))
                    notices = self._conversations.remember(prompt, translator.thread_id or "")
                    for event in (*approvals.notices(), *notices, *events):
                        yield event
                    for request in client.take_approval_requests():
                        for event in await approvals.decide(request.question, _answerer(process, client, request)):
                            yield event
                    await _send(process, client)
                    if translator.turn.is_finished:
                        return
            exit_error = await process.exit_error()
            if client.has_responded or not _UNKNOWN_COMMAND.search(exit_error):
                for event in with_login_hint(self.name, translator.close(exit_error)):
                    yield event

    def _exec_process(self, thread: str) -> AgentProcess:
        resumed = ("resume", thread) if thread else ()
        return self._process("exec", "--json", "--skip-git-repo-check", *resumed, "-")


async def _send(process: AgentProcess, client: CodexClient) -> None:
    for line in client.take_outgoing():
        await process.write(line)


def _answerer(
    process: AgentProcess, client: CodexClient, request: ApprovalRequest
) -> Callable[[Choice | None], Awaitable[None]]:
    async def answer(choice: Choice | None) -> None:
        client.answer(request, choice)
        await _send(process, client)

    return answer


@asynccontextmanager
async def _shut_down(
    process: AgentProcess, client: CodexClient, timeouts: ProcessTimeouts
) -> AsyncGenerator[None, None]:
    """Shut the server down at the end of the block: interrupt the turn, close the input, and wait for the exit."""
    try:
        yield
    finally:
        client.interrupt()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeouts.exit_timeout_s):
                await _send(process, client)
                process.close_input()
                await process.wait()
