"""Opens the session of a conversation: initialize, log in, resume or create the session, and set its mode.

A file of this user stores which session belongs to which conversation. If the agent can resume or load sessions, that
session is used again. If not, a new session is created, and a notice says so.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.acp.agent import AgentFault, RequestRefused
from tailrace.runtimes.acp.shapes import at_path
from tailrace.runtimes.sessions import SessionFile

if TYPE_CHECKING:
    from tailrace.runtimes.acp.agent import AcpAgent

_PROTOCOL = 1
# Agents use their own files and terminals. With `notices` codex-acp keeps its warnings out of the answer.
_CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False, "session": {"notices": {}}}


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for running an agent.

    `env` is added to our environment. `mode` and `auth` are ids that each agent defines, like `plan` and
    `gemini-api-key`. `retention_s` is how long an idle agent is kept for the next turn of its conversation; with 0 it
    ends after each turn. `silence_timeout_s` is how long the agent may be silent during a prompt while no tool runs.
    `exit_timeout_s` is how long the agent may take to exit after it has closed its output.
    """

    cwd: str | None = None
    env: dict[str, str] | None = None
    mode: str | None = None
    auth: str | None = None
    retention_s: float = 300.0
    silence_timeout_s: float = 600.0
    exit_timeout_s: float = 2.0


async def open_session(agent: AcpAgent, options: AcpOptions, session: str) -> list[str]:
    """Start the agent and open the session. Returns notices for the person.

    Raises `AgentNotFound` if the agent cannot be started, and `AgentFault` if the agent opens no session.
    """
    await agent.start()
    info = await _initialize(agent)
    try:
        if options.auth:
            await agent.request("authenticate", methodId=options.auth)
        notices = await _resume_or_create(agent, session, at_path(info, "agentCapabilities"))
        if options.mode:
            await agent.request("session/set_mode", sessionId=agent.session_id, modeId=options.mode)
    except RequestRefused as refused:
        if refused.code != "auth_required":
            raise
        message = str(refused).rstrip(". ")
        raise AgentFault(f"{message}. {agent.login_hint}", code=refused.code) from refused
    return notices


async def _initialize(agent: AcpAgent) -> Any:
    """Agree with the agent on the protocol version. Returns the agent's description of itself."""
    info = await agent.request(
        "initialize",
        protocolVersion=_PROTOCOL,
        clientCapabilities=_CAPABILITIES,
        clientInfo={"name": "tailrace", "version": version("tailrace")},
    )
    protocol = at_path(info, "protocolVersion")
    if protocol != _PROTOCOL:
        raise AgentFault(f"{agent.label} speaks version {protocol} of the protocol, not {_PROTOCOL}", code="malformed")
    agent.name = str(at_path(info, "agentInfo", "name") or "")
    agent.label = str(at_path(info, "agentInfo", "title") or agent.name or agent.label)
    agent.login_hint = _login_hint(info)
    return info


def _login_hint(info: Any) -> str:
    methods = at_path(info, "authMethods")
    ids = [str(at_path(method, "id")) for method in methods] if isinstance(methods, list) else []
    hint = "Log in with its own command first"
    return f"{hint}, or choose a way with auth: {', '.join(ids)}" if ids else f"{hint}."


async def _resume_or_create(agent: AcpAgent, session: str, capabilities: Any) -> list[str]:
    """Resume the session of the conversation, or create a new one. Returns notices for the person."""
    stored = SessionFile("acp", session, *agent.command, agent.cwd)
    parameters = {"cwd": agent.cwd, "mcpServers": []}
    notices = []
    if stored_id := (await stored.load() or b"").decode(errors="replace"):
        can_resume = at_path(capabilities, "sessionCapabilities", "resume") is not None
        try:
            if can_resume or at_path(capabilities, "loadSession"):
                method = "session/resume" if can_resume else "session/load"
                await agent.request(method, sessionId=stored_id, **parameters)
                if not can_resume:
                    await agent.skip_history()
                agent.session_id = stored_id
                return []
            reason = f"{agent.label} cannot resume sessions"
        except RequestRefused as refused:
            reason = " ".join(str(refused).split())
        notices = [f"The agent starts a new conversation: {reason}"]
    session_id = at_path(await agent.request("session/new", **parameters), "sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise AgentFault(f"{agent.label} returned no session", code="malformed")
    agent.session_id = session_id
    if error := await stored.save(session_id.encode):
        notices.append(f"The conversation cannot be remembered: {error}")
    return notices
