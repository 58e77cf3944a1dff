"""opencode as a runtime: a server of its own per turn, or a process of `opencode run` where it cannot be a server.

Owns the processes, the password between us and the server, and the conversations. What is asked of the server is
`server`'s, what it tells the translator's.

opencode runs commands in process groups of their own, which no signal to its own reaches. The server ends them when its
session is aborted.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from tailrace.errors import AgentNotFound, RuntimeFault
from tailrace.events import Event, Notice, Status, TurnFailed, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.http import HttpFault
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.opencode.server import COMMAND, PASSWORD, OpencodeServer, address_in
from tailrace.runtimes.opencode.translator import Asked, OpencodeRunTranslator, OpencodeTranslator
from tailrace.runtimes.process import SILENCE_TIMEOUT_S, AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy

_MISSING = "Install opencode with: npm install -g opencode-ai"
_START_S = 60.0
_FAREWELL_S = 3.0
_GRACE_S = 2.0
# `run` that is asked to stop leaves the command that it runs behind; killed at once, that is found and ended with it.
_NO_GRACE_S = 0.0
_TOOLS_AT_MOST = 6
_GONE = "Session not found"
_UNSERVED = "opencode does not serve here: its answer comes block by block."
_ANEW = "opencode begins a new conversation: the earlier one cannot be found."


class OpencodeRuntime:
    """opencode. Its model and what it may do without asking are in its own `opencode.json`.

    `env` is added to our environment, `cwd` is where the agent works. What it asks for is decided by `permissions`, and
    `approver` is who is asked. `sessions` is the folder where it is kept which conversation is whose.
    `silence_timeout_s` is how long it may say nothing; `opencode run` is given more time, since it is silent while a
    tool is at work.
    """

    name = "opencode"
    silence_timeout_s = SILENCE_TIMEOUT_S

    def __init__(
        self,
        command: Sequence[str] = ("opencode",),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = dict(env or {})
        self._cwd = cwd
        self._permissions = permissions
        self._approver = approver
        self._conversations = Conversations(self.name, sessions)

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask opencode, in the conversation of the prompt's session; closing this aborts it and ends its processes."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        password = secrets.token_urlsafe(24)
        try:
            async with self._process(*COMMAND, password=password) as process, aclosing(process.lines()) as lines:
                if url := await _address(lines):
                    served = self._served(prompt, OpencodeServer(url, password), process)
                    async with _read_on(process, lines), aclosing(served) as events:
                        async for event in events:
                            yield event
                    return
            yield Status(text=_UNSERVED)
            async with aclosing(self._alone(prompt)) as events:
                async for event in events:
                    yield event
        except AgentNotFound as error:
            yield TurnFailed(message=str(error), code="not_found")

    def _process(self, *arguments: str, password: str = "") -> AgentProcess:
        env = {**self._env, **({PASSWORD: password} if password else {})}
        grace_s = _GRACE_S if password else _NO_GRACE_S
        # `run` tells of a tool when it has ended, and until then says nothing.
        silence_timeout_s = self.silence_timeout_s if password else _TOOLS_AT_MOST * self.silence_timeout_s
        return AgentProcess(
            (*self._command, *arguments),
            env=env,
            cwd=self._cwd,
            missing=_MISSING,
            grace_s=grace_s,
            silence_timeout_s=silence_timeout_s,
        )

    async def _served(
        self, prompt: Prompt, server: OpencodeServer, process: AgentProcess
    ) -> AsyncGenerator[Event, None]:
        """A turn of `opencode serve`."""
        known = self._conversations.of(prompt)
        try:
            session = await server.open_session(known)
        except RuntimeFault as fault:
            for event in with_login_hint(self.name, [TurnFailed(message=await _why(fault, process), code="cut_off")]):
                yield event
            return
        for event in self._conversations.remember(prompt, session):
            yield event
        if known and session != known:
            yield Notice(text=_ANEW)
        translator = OpencodeTranslator(session)
        remark = ""
        try:
            async with (
                _farewell(server, session, translator),
                aclosing(self._told(prompt, server, translator)) as events,
            ):
                async for event in events:
                    yield event
        except RuntimeFault as fault:
            remark = await _why(fault, process)
        for event in with_login_hint(self.name, translator.close(remark)):
            yield event

    async def _told(
        self, prompt: Prompt, server: OpencodeServer, translator: OpencodeTranslator
    ) -> AsyncGenerator[Event, None]:
        """What the server tells of the turn until it is over."""
        async with Approvals(self._permissions, self._approver) as approvals, aclosing(server.events()) as events:
            await anext(events, None)  # from now on nothing is missed
            await server.prompt(translator.session_id, prompt.text)
            clock = asyncio.get_running_loop().time
            heard_at = clock()
            async for native in events:
                if not _is_heartbeat(native) or translator.is_at_work or approvals.is_waiting:
                    heard_at = clock()
                elif clock() - heard_at >= self.silence_timeout_s:
                    raise RuntimeFault(
                        f"opencode has said nothing for {self.silence_timeout_s:g} seconds and was stopped."
                    )
                for event in (*approvals.notices(), *with_login_hint(self.name, translator.feed(native))):
                    yield event
                for asked in translator.asked():
                    for event in await _answered(asked, server, approvals):
                        yield event
                if translator.is_over:
                    return

    async def _alone(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """A turn of `opencode run`, which asks nobody: what is not allowed it does not do."""
        session = self._conversations.of(prompt)
        while True:
            translator = OpencodeRunTranslator()
            resumed = ("--session", session) if session else ()
            async with self._process("run", "--format", "json", "--thinking", *resumed) as process:
                await process.write(prompt.text.encode(errors="replace"))
                process.close_input()
                async with aclosing(process.lines()) as lines:
                    async for line in lines:
                        told = translator.feed(line)
                        for event in (*self._conversations.remember(prompt, translator.session_id), *told):
                            yield event
                remark = await process.last_words()
            if not (session and _GONE in remark):
                break
            session = ""
            yield Notice(text=_ANEW)
        for event in with_login_hint(self.name, translator.close(remark)):
            yield event


async def _why(fault: RuntimeFault, process: AgentProcess) -> str:
    """Why the server cannot be asked any more; one that is gone has said so itself."""
    if not isinstance(fault, HttpFault):
        return str(fault)
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            if words := await process.last_words():
                return words
    return f"opencode: {fault}"


def _is_heartbeat(native: Any) -> bool:
    """Whether the server only says that it is still there."""
    return isinstance(native, dict) and native.get("type") == "server.heartbeat"


async def _address(lines: AsyncGenerator[bytes, None]) -> str:
    """Where the server listens; empty where it ends, or takes too long, before it says so."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_START_S):
            async for line in lines:
                if url := address_in(line):
                    return url
    return ""


@asynccontextmanager
async def _read_on(process: AgentProcess, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[None, None]:
    """Read what the server prints beside its events, or it would wait for a reader; it is in nobody's way."""

    async def read() -> None:
        async for _ in lines:
            pass

    process.is_excused = lambda: True  # it is its events that tell whether it lives
    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _answered(asked: Asked, server: OpencodeServer, approvals: Approvals) -> list[Event]:
    """See to it that what the agent asks is answered; what is to be said of that."""
    if asked.question is None:
        await server.reject_question(asked.id)
        return [Notice(text="opencode asked a question that nobody could answer.")]

    async def answer(choice: Choice | None) -> None:
        with suppress(RuntimeFault):  # a server that is gone ends the turn by itself
            await server.permit(asked.id, choice.id if choice is not None else "reject")

    return await approvals.decide(asked.question, answer)


@asynccontextmanager
async def _farewell(server: OpencodeServer, session: str, translator: OpencodeTranslator) -> AsyncGenerator[None, None]:
    """Leaving in the middle of a turn aborts it."""
    try:
        yield
    finally:
        if not translator.is_over:
            with suppress(RuntimeFault, TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await server.abort(session)
