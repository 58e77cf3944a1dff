"""Claude Code as an agent: `claude -p`, one process per turn.

Owns the process of a turn. What the command prints is `translator`'s to tell, what it asks is `control`'s. Where nobody
is asked and nothing more is allowed, it is not told how to ask, and denies by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Notice, TurnFailed
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.claude.control import asked_in, decision, is_settled, questions_of, response, spoken
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.process import SILENCE_TIMEOUT_S, AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.claude.control import Asked
    from tailrace.runtimes.permissions import Approver, Choice, Policy

_FLAGS = ("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
_ASKING = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")
# How long Claude may take to go on by itself with what a subagent found, after which its input is ended.
_GOES_ON_S = 10.0
_MISSING = "Install Claude Code with: npm install -g @anthropic-ai/claude-code"
_GONE = "No conversation found"
NOBODY_ANSWERED = Notice(text="Claude asked a question that nobody could answer.")


class ClaudeRuntime:
    """Claude Code. `command` may carry options of its own (`--model`, `--allowedTools`); the prompt goes by stdin.

    `env` is added to our environment, `cwd` is where the agent works. Conversations belong to that directory: in
    another one Claude begins anew. What it may do without asking is in its own settings; what it asks for is decided
    by `permissions`, and `approver` is who is asked. `sessions` is the folder where it is kept which conversation is
    whose. `silence_timeout_s` is how long it may say nothing while no tool is at work.
    """

    name = "claude"
    silence_timeout_s = SILENCE_TIMEOUT_S

    def __init__(
        self,
        command: Sequence[str] = ("claude",),
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
        self._is_asked = may_allow(permissions, approver)  # what nobody allows Claude denies by itself
        self._conversations = Conversations(self.name, sessions)

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask Claude, in the conversation of the prompt's session; closing this ends the process and its group."""
        resumed = self._conversations.of(prompt)
        while True:
            translator = ClaudeTranslator(self.name)
            remark = _Remark()
            try:
                async with aclosing(self._told(prompt, resumed, translator, remark)) as events:
                    async for event in events:
                        yield event
            except AgentNotFound as error:
                yield TurnFailed(message=str(error), code="not_found")
                return
            if not (resumed and is_gone(translator)):
                break
            resumed = ""
        for event in with_login_hint(self.name, translator.end(remark.text)):
            yield event

    def _process(self, flags: Sequence[str]) -> AgentProcess:
        command = (*self._command, *flags)
        return AgentProcess(
            command, env=self._env, cwd=self._cwd, missing=_MISSING, silence_timeout_s=self.silence_timeout_s
        )

    async def _told(
        self, prompt: Prompt, resumed: str, translator: ClaudeTranslator, remark: _Remark
    ) -> AsyncGenerator[Event, None]:
        """What one process says; `remark` is told how it ended."""
        flags = (*_FLAGS, *(_ASKING if self._is_asked else ()), *(("--resume", resumed) if resumed else ()))
        async with (
            self._process(flags) as process,
            Approvals(self._permissions, self._approver) as approvals,
        ):
            process.is_excused = lambda: translator.is_at_work or approvals.is_waiting
            text = prompt.text.encode(errors="replace")
            await process.write(msgspec.json.encode(spoken(text.decode())) if self._is_asked else text)
            ending = InputEnd(process.close_input)
            if not self._is_asked:
                process.close_input()
            async with aclosing(process.lines()) as lines:
                async for line in lines:
                    asked = asked_in(line)
                    told = (
                        translator.feed(line)
                        if asked is None
                        else translator.aside(await _decided(asked, process, approvals))
                    )
                    remembered = self._conversations.remember(prompt, translator.session_id)
                    told += translator.aside([*approvals.notices(), *remembered])
                    for event in told:
                        yield event
                    ending.look(translator)
            remark.text = await process.last_words()


class _Remark:
    """How a process ended, in words; empty where it ended well."""

    text = ""


class InputEnd:
    """Ends a process's input when Claude has answered: at once, or, with work in the background, when that is over."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._timer: asyncio.TimerHandle | None = None

    def look(self, translator: ClaudeTranslator) -> None:
        """A line was heard."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if translator.is_at_rest == "for good":
            self._close()
        elif translator.is_at_rest == "for now":
            self._timer = asyncio.get_running_loop().call_later(_GOES_ON_S, self._close)


async def _decided(asked: Asked, process: AgentProcess, approvals: Approvals) -> list[Event]:
    """See to it that what Claude asks is answered; what is to be said of that."""
    tool = asked.tool
    if tool is None:
        await process.write(response(asked.id, None))
        return []
    questions = questions_of(tool, has_person=approvals.asks_person)
    if not questions:
        await process.write(response(asked.id, decision(tool, ())))
        return [NOBODY_ANSWERED]
    choices: list[Choice | None] = []

    async def answer(choice: Choice | None) -> None:
        choices.append(choice)
        if is_settled(questions, choices):
            await process.write(response(asked.id, decision(tool, choices)))
        else:
            await approvals.decide(questions[len(choices)], answer)

    return await approvals.decide(questions[0], answer)


def is_gone(translator: ClaudeTranslator) -> bool:
    """Whether nothing was begun because the conversation to go on with is not there any more."""
    return not translator.session_id and _GONE in translator.complaint
