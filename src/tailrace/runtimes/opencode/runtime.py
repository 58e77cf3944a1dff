"""opencode as a runtime: one server per turn, or one process of `opencode run` if this version has no server.

This module owns the processes, the password of the server, and the conversations. `server` sends the requests, the
translators read the events.

opencode runs commands in process groups of their own, so a signal to opencode's group does not reach them. The server
stops them when its session is aborted.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AgentNotFound, RuntimeFault
from tailrace.events import Event, Notice, Status, TurnFailed, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.command_runtime import CommandRuntime
from tailrace.runtimes.http import HttpFault
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.opencode.server import PASSWORD_VARIABLE, SERVE_COMMAND, OpencodeServer, parse_address
from tailrace.runtimes.opencode.translator import OpencodeRequest, OpencodeRunTranslator, OpencodeTranslator
from tailrace.runtimes.process import AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Choice

_MISSING = "Install opencode with: npm install -g opencode-ai"
_START_TIMEOUT_S = 60.0
_RUN_SILENCE_FACTOR = 6
_SESSION_GONE = "Session not found"
_NO_SERVER = "This opencode cannot run as a server: its answer comes block by block."
_NEW_CONVERSATION = "opencode starts a new conversation: the earlier one cannot be found."


class OpencodeRuntime(CommandRuntime):
    """Runs turns with opencode. Its file `opencode.json` names the model, and what it may do without permission."""

    name = "opencode"
    _missing = _MISSING
    _grace_s = 2.0

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn in the conversation of the session. Closing this iterator aborts the turn and ends opencode."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        password = secrets.token_urlsafe(24)
        try:
            async with self._server_process(password) as process, aclosing(process.lines()) as lines:
                if url := await _wait_for_address(lines):
                    served = self._run_server(prompt, OpencodeServer(url, password), process)
                    async with _discard_output(process, lines), aclosing(served) as events:
                        async for event in events:
                            yield event
                    return
            yield Status(text=_NO_SERVER)
            run_turn = self._run_without_approvals(prompt, OpencodeRunTranslator, _SESSION_GONE, self._run_process)
            async with aclosing(run_turn) as events:
                async for event in events:
                    yield event
        except AgentNotFound as error:
            yield TurnFailed(message=str(error), code="not_found")

    def _server_process(self, password: str) -> AgentProcess:
        return self._process(*SERVE_COMMAND, env={PASSWORD_VARIABLE: password})

    def _run_process(self, session: str) -> AgentProcess:
        # If `opencode run` is asked to stop, the command that it runs continues. If `opencode run` is killed at once,
        # both are killed. It reports a tool only when the tool has finished, so it may be silent for longer.
        silence_timeout_s = _RUN_SILENCE_FACTOR * self.timeouts.silence_timeout_s
        timeouts = msgspec.structs.replace(self.timeouts, silence_timeout_s=silence_timeout_s)
        resumed = ("--session", session) if session else ()
        return self._process("run", "--format", "json", "--thinking", *resumed, timeouts=timeouts, grace_s=0.0)

    async def _run_server(
        self, prompt: Prompt, server: OpencodeServer, process: AgentProcess
    ) -> AsyncGenerator[Event, None]:
        """Run a turn with `opencode serve`."""
        stored = self._conversations.get(prompt)
        try:
            session = await server.open_session(stored)
        except RuntimeFault as fault:
            message = await _failure_text(fault, process, self.timeouts.exit_timeout_s)
            for event in with_login_hint(self.name, [TurnFailed(message=message, code="cut_off")]):
                yield event
            return
        for event in self._conversations.remember(prompt, session):
            yield event
        if stored and session != stored:
            yield Notice(text=_NEW_CONVERSATION)
        translator = OpencodeTranslator(session)
        exit_error = ""
        try:
            async with (
                _abort_unless_finished(server, translator, self.timeouts.exit_timeout_s),
                aclosing(self._read_events(prompt, server, translator)) as events,
            ):
                async for event in events:
                    yield event
        except RuntimeFault as fault:
            exit_error = await _failure_text(fault, process, self.timeouts.exit_timeout_s)
        for event in with_login_hint(self.name, translator.close(exit_error)):
            yield event

    async def _read_events(
        self, prompt: Prompt, server: OpencodeServer, translator: OpencodeTranslator
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of the turn until it is finished."""
        async with Approvals(self._permissions, self._approver) as approvals, aclosing(server.events()) as events:
            await anext(events, None)  # from here on no event is missed
            await server.prompt(translator.session_id, prompt.text)
            clock = asyncio.get_running_loop().time
            last_event_at = clock()
            async for native in events:
                if not _is_heartbeat(native) or translator.turn.has_open_calls() or approvals.is_waiting:
                    last_event_at = clock()
                elif clock() - last_event_at >= (timeout_s := self.timeouts.silence_timeout_s):
                    raise RuntimeFault(f"opencode was silent for {timeout_s:g} seconds and was stopped.")
                for event in (*approvals.notices(), *with_login_hint(self.name, translator.feed(native))):
                    yield event
                for request in translator.take_requests():
                    for event in await _handle_request(request, server, approvals):
                        yield event
                if translator.turn.is_finished:
                    return


async def _failure_text(fault: RuntimeFault, process: AgentProcess, timeout_s: float) -> str:
    """Why the server cannot be reached any more: its exit error if it has exited, else the text of `fault`."""
    if not isinstance(fault, HttpFault):
        return str(fault)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            if error := await process.exit_error():
                return error
    return f"opencode: {fault}"


def _is_heartbeat(event: Any) -> bool:
    """Whether the event has no other meaning than that the server is alive."""
    return isinstance(event, dict) and event.get("type") == "server.heartbeat"


async def _wait_for_address(lines: AsyncGenerator[bytes, None]) -> str:
    """Wait until the server prints its address. Returns "" if it ends or takes too long before that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_START_TIMEOUT_S):
            async for line in lines:
                if url := parse_address(line):
                    return url
    return ""


@asynccontextmanager
async def _discard_output(process: AgentProcess, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[None, None]:
    """Read and discard the output of the server. Without a reader the server would block when the pipe is full."""

    async def read() -> None:
        async for _ in lines:
            pass

    process.may_be_silent = lambda: True  # the server's events show whether it is alive
    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _handle_request(request: OpencodeRequest, server: OpencodeServer, approvals: Approvals) -> list[Event]:
    """Answer the agent's request, now or when a person has chosen. Returns events to emit in the turn."""
    if request.question is None:
        await server.reject_question(request.id)
        return [Notice(text="opencode asked a question that could not be answered here.")]

    async def answer(choice: Choice | None) -> None:
        with suppress(RuntimeFault):  # if the server is gone the turn ends anyway
            await server.reply_permission(request.id, choice.id if choice is not None else "reject")

    return await approvals.decide(request.question, answer)


@asynccontextmanager
async def _abort_unless_finished(
    server: OpencodeServer, translator: OpencodeTranslator, timeout_s: float
) -> AsyncGenerator[None, None]:
    """Abort the turn if the block is left before the turn has ended."""
    try:
        yield
    finally:
        if not translator.turn.is_finished:
            with suppress(RuntimeFault, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await server.abort(translator.session_id)
