"""How the session of a conversation is opened: the agent is greeted, logged in to, and given its session and its mode.

A conversation's session is remembered in a file of this user. It is resumed or loaded, if the agent can do either, and
begun anew if not, which the person is told.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.acp.agent import AgentFault, RequestRefused
from tailrace.runtimes.acp.shapes import within
from tailrace.runtimes.process import SILENCE_TIMEOUT_S
from tailrace.runtimes.sessions import SessionFiles, sessions_directory

if TYPE_CHECKING:
    from tailrace.runtimes.acp.agent import AcpAgent

_PROTOCOL = 1
# Files and terminals are the agent's own business. With notices codex-acp keeps its warnings out of the answer.
_CAPABILITIES = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "session": {"notices": {}},
}


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is run.

    `env` is added to our environment. `mode` and `auth` are ids of the agent's own, like `plan` and `gemini-api-key`.
    `retention_s` is how long an agent is kept for the next turn of its conversation, 0 for not at all.
    `silence_timeout_s` is how long it may say nothing at a prompt, while no tool is at work.
    """

    cwd: str | None = None
    env: dict[str, str] | None = None
    mode: str | None = None
    auth: str | None = None
    retention_s: float = 300.0
    silence_timeout_s: float = SILENCE_TIMEOUT_S


async def open_session(agent: AcpAgent, options: AcpOptions, session: str) -> list[str]:
    """Start the agent and open the session; what the person is to be told about it.

    Raises `AgentNotFound` where the agent cannot be started, and an `AgentFault` where there is no session to be had.
    """
    await agent.start()
    hello = await _greet(agent)
    try:
        if options.auth:
            await agent.call("authenticate", methodId=options.auth)
        remarks = await _find_session(agent, session, within(hello, "agentCapabilities"))
        if options.mode:
            await agent.call("session/set_mode", sessionId=agent.session_id, modeId=options.mode)
    except RequestRefused as refused:
        if refused.code != "auth_required":
            raise
        said = str(refused).rstrip(". ")
        raise AgentFault(f"{said}. {agent.login}", code=refused.code) from refused
    return remarks


async def _greet(agent: AcpAgent) -> Any:
    """Agree on the protocol; what the agent says of itself."""
    hello = await agent.call(
        "initialize",
        protocolVersion=_PROTOCOL,
        clientCapabilities=_CAPABILITIES,
        clientInfo={"name": "tailrace", "version": version("tailrace")},
    )
    spoken = within(hello, "protocolVersion")
    if spoken != _PROTOCOL:
        raise AgentFault(f"{agent.label} speaks version {spoken} of the protocol, not {_PROTOCOL}", code="malformed")
    agent.name = str(within(hello, "agentInfo", "name") or "")
    agent.label = str(within(hello, "agentInfo", "title") or agent.name or agent.label)
    agent.login = _ways_to_log_in(hello)
    return hello


def _ways_to_log_in(hello: Any) -> str:
    methods = within(hello, "authMethods")
    ways = [str(within(method, "id")) for method in methods] if isinstance(methods, list) else []
    advice = "Log in with its own command first"
    return f"{advice}, or choose a way with auth: {', '.join(ways)}" if ways else f"{advice}."


class _Memory:
    """Which session of this command, in this directory, a conversation has; `session` is empty where it has none."""

    def __init__(self, agent: AcpAgent, session: str) -> None:
        self._files = SessionFiles(sessions_directory() / "acp")
        self._name = "\n".join((*agent.command, agent.cwd, session)) if session else ""

    async def load(self) -> str:
        """The session, or nothing."""
        kept = await asyncio.to_thread(self._files.load, self._name) if self._name else None
        return kept.decode(errors="replace") if kept is not None else ""

    async def keep(self, session_id: str) -> None:
        """Remember the session. Raises OSError where that cannot be."""
        if self._name:
            await asyncio.to_thread(self._files.keep, self._name, session_id.encode())


async def _find_session(agent: AcpAgent, session: str, capabilities: Any) -> list[str]:
    """Take up the conversation's session, or begin one."""
    memory = _Memory(agent, session)
    place = {"cwd": agent.cwd, "mcpServers": []}
    remarks = []
    if earlier := await memory.load():
        can_resume = within(capabilities, "sessionCapabilities", "resume") is not None
        try:
            if can_resume or within(capabilities, "loadSession"):
                method = "session/resume" if can_resume else "session/load"
                await agent.call(method, sessionId=earlier, **place)
                if not can_resume:
                    await agent.hear_out()
                agent.session_id = earlier
                return []
            why = f"{agent.label} cannot take up a session again"
        except RequestRefused as refused:
            why = " ".join(str(refused).split())
        remarks = [f"The conversation with the agent begins anew: {why}"]
    begun = within(await agent.call("session/new", **place), "sessionId")
    if not isinstance(begun, str) or not begun:
        raise AgentFault(f"{agent.label} gave no session", code="malformed")
    agent.session_id = begun
    try:
        await memory.keep(begun)
    except OSError as error:
        remarks.append(f"The conversation cannot be remembered: {error}")
    return remarks
