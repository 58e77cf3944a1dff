"""Claude Code as an agent: `claude -p`, one process per turn.

The command keeps the conversations itself, under ids of its own; which of them belongs to which session is kept here,
in a small file each, so that a restart forgets nothing. What the command prints is `translator`'s to tell.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from tailrace.errors import AgentNotFound
from tailrace.events import Event, TurnFailed
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.process import AgentProcess
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt

_FLAGS = ("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
_MISSING = "Install Claude Code with: npm install -g @anthropic-ai/claude-code"
_GONE = "No conversation found"


class ClaudeRuntime:
    """Claude Code. `command` may carry options of its own (`--model`, `--allowedTools`); the prompt goes by stdin.

    `env` is added to our environment, `cwd` is where the agent works. Conversations belong to that directory: in
    another one Claude begins anew. `sessions` is the folder where it is kept which conversation is whose.
    """

    name = "claude"

    def __init__(
        self,
        command: Sequence[str] = ("claude",),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._conversations = ClaudeConversations(sessions)

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask Claude, in the conversation of the prompt's session; closing this ends the process and its group."""
        resumed = self._conversations.of(prompt)
        while True:
            translator = ClaudeTranslator(self.name)
            command = (*self._command, *_FLAGS, *(("--resume", resumed) if resumed else ()))
            try:
                async with AgentProcess(command, env=self._env, cwd=self._cwd, missing=_MISSING) as process:
                    await process.write(prompt.text.encode(errors="replace"))
                    process.close_input()
                    async with aclosing(process.lines()) as lines:
                        async for line in lines:
                            for event in translator.feed(line):
                                yield event
                            self._conversations.remember(prompt, translator.session_id)
                    remark = await process.last_words()
            except AgentNotFound as error:
                yield TurnFailed(message=str(error), code="not_found")
                return
            if not (resumed and is_gone(translator)):
                break
            resumed = ""
        for event in translator.end(remark):
            yield event


class ClaudeConversations:
    """Which of Claude's conversations belongs to which session; a prompt of no session has none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._files = SessionFiles(folder or sessions_directory() / "claude")
        self._known: dict[str, str] = {}

    def of(self, prompt: Prompt) -> str:
        """The conversation to go on with; empty where there is none."""
        session = session_of(prompt)
        if session and session not in self._known:
            self._known[session] = (self._files.load(session) or b"").decode()
        return self._known.get(session, "")

    def remember(self, prompt: Prompt, conversation: str) -> None:
        """The conversation that the prompt's session is in from now on."""
        session = session_of(prompt)
        if session and conversation and self._known.get(session) != conversation:
            self._files.keep(session, conversation.encode())
            self._known[session] = conversation


def is_gone(translator: ClaudeTranslator) -> bool:
    """Whether nothing was begun because the conversation to go on with is not there any more."""
    return not translator.session_id and _GONE in translator.complaint
