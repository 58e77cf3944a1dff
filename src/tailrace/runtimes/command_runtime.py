"""The base of runtimes that run an agent's command: their options, and how the command is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tailrace.runtimes.permissions import Approver, Policy


class CommandRuntime:
    """A runtime that runs a command, by default the one called `name`. `command` may contain options, too.

    `env` is added to our environment, `cwd` is the agent's working directory. `permissions` decides on the agent's
    requests, with `ask` the `approver`. `sessions` is the folder that stores which conversation belongs to which
    session. The attribute `timeouts` says how long to wait for the command.
    """

    name = ""
    timeouts = ProcessTimeouts()
    _missing = ""
    _grace_s = 5.0

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._command = tuple(command) or (self.name,)
        self._env = dict(env or {})
        self._cwd = cwd
        self._permissions = permissions
        self._approver = approver
        self._conversations = Conversations(self.name, sessions)

    def _process(self, *arguments: str, env: Mapping[str, str] | None = None, **settings: Any) -> AgentProcess:
        command, env = (*self._command, *arguments), {**self._env, **(env or {})}
        settings = {"timeouts": self.timeouts, "grace_s": self._grace_s, **settings}
        return AgentProcess(command, env=env, cwd=self._cwd, missing=self._missing, **settings)
