"""The base of runtimes that start an agent by a command: the options that they share, and the start of the command."""

from __future__ import annotations

import os
from contextlib import aclosing
from shutil import which
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.events import Event, Notice
from tailrace.ports import Finding
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Policy
    from tailrace.runtimes.turn_translation import TurnTranslation


class _LineTranslator(Protocol):
    """Translates the lines that a command prints in one turn. `session_id` is empty until a line has named it."""

    session_id: str
    turn: TurnTranslation

    def feed(self, line: bytes, /) -> list[Event]: ...

    def close(self, exit_error: str = "") -> list[Event]: ...


class CommandRuntime:
    """Runs turns with an agent's command. `command` may contain options; by default it is the runtime's `name`.

    `env` is added to our environment, `cwd` is the agent's working directory. `permissions` decides on the agent's
    requests; with `ask`, the `approver` asks a person. `sessions` is the folder that stores which conversation belongs
    to which session. The attribute `timeouts` says how long to wait for the command.
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

    async def check(self) -> list[Finding]:
        """Whether the command is installed. It is not run."""
        name = self._command[0]
        if which(name, path={**os.environ, **self._env}.get("PATH")) is None:
            return [Finding(ok=False, text=f"there is no command {name!r}. {self._missing}".rstrip())]
        return [Finding(ok=True, text=f"the command {name} is installed")]

    def _process(self, *arguments: str, env: Mapping[str, str] | None = None, **settings: Any) -> AgentProcess:
        command, env = (*self._command, *arguments), {**self._env, **(env or {})}
        settings = {"timeouts": self.timeouts, "grace_s": self._grace_s, **settings}
        return AgentProcess(command, env=env, cwd=self._cwd, missing=self._missing, **settings)

    async def _run_without_approvals(
        self,
        prompt: Prompt,
        make_translator: Callable[[], _LineTranslator],
        gone: str,
        start: Callable[[str], AgentProcess],
    ) -> AsyncGenerator[Event, None]:
        """Run a command that reads the prompt from stdin, prints lines and asks no questions.

        `start` gets the id of the conversation to resume. If the command fails with an error that contains `gone`, that
        conversation no longer exists, and the command is started again with a new one.
        """
        resumed = self._conversations.get(prompt)
        while True:
            translator = make_translator()
            async with start(resumed) as process:
                process.may_be_silent = translator.turn.has_open_calls
                await process.write(prompt.text.encode(errors="replace"))
                process.close_input()
                async with aclosing(process.lines()) as lines:
                    async for line in lines:
                        events = with_login_hint(self.name, translator.feed(line))
                        for event in (*self._conversations.remember(prompt, translator.session_id), *events):
                            yield event
                        if translator.turn.is_finished:
                            break
                exit_error = await process.exit_error()
            if not (resumed and gone in exit_error):
                break
            resumed = ""
            yield Notice(text=f"{self.name} starts a new conversation: the earlier one cannot be found.")
        for event in with_login_hint(self.name, translator.close(exit_error)):
            yield event
