"""Claude Code as an agent: `claude -p`, one process per turn.

This module owns the process of a turn. `translator` reads its output, `control` its requests. If the settings allow no
request, Claude gets no option to ask for permission, and then denies by itself what needs permission.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Notice, TurnFailed
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.claude.control import (
    control_response,
    is_decided,
    parse_request,
    permission_result,
    questions_of,
    user_message,
)
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.command_runtime import CommandRuntime
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.process import AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from tailrace.ports import Prompt
    from tailrace.runtimes.claude.control import ControlRequest
    from tailrace.runtimes.permissions import Choice

_FLAGS = ("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
_PERMISSION_FLAGS = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")
# How long Claude may take to continue with the result of a subagent before its input is closed.
_CONTINUE_TIMEOUT_S = 10.0
_MISSING = "Install Claude Code with: npm install -g @anthropic-ai/claude-code"
_CONVERSATION_GONE = "No conversation found"
QUESTION_UNANSWERED = Notice(text="Claude asked a question that could not be answered here.")


class ClaudeRuntime(CommandRuntime):
    """Runs turns with Claude Code. Options in `command` may be `--model` or `--allowedTools`; the prompt goes to stdin.

    Claude stores conversations per directory: in another directory it starts a new conversation. Claude's own settings
    say what it may do without permission.
    """

    name = "claude"
    _missing = _MISSING

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn in the conversation of the prompt's session. Closing this iterator ends the process group."""
        resumed = self._conversations.get(prompt)
        while True:
            translator = ClaudeTranslator(self.name)
            end = _ProcessEnd()
            try:
                async with aclosing(self._run_once(prompt, resumed, translator, end)) as events:
                    async for event in events:
                        yield event
            except AgentNotFound as error:
                yield TurnFailed(message=str(error), code="not_found")
                return
            if not (resumed and is_conversation_gone(translator)):
                break
            resumed = ""
        for event in with_login_hint(self.name, translator.end(end.error)):
            yield event

    async def _run_once(
        self, prompt: Prompt, resumed: str, translator: ClaudeTranslator, end: _ProcessEnd
    ) -> AsyncGenerator[Event, None]:
        """Run one process that resumes the conversation `resumed`.

        The error with which the process ends is stored in `end`.
        """
        asks = may_allow(self._permissions, self._approver)  # otherwise Claude denies by itself
        flags = (*_FLAGS, *(_PERMISSION_FLAGS if asks else ()), *(("--resume", resumed) if resumed else ()))
        async with self._process(*flags) as process, Approvals(self._permissions, self._approver) as approvals:
            process.may_be_silent = lambda: translator.turn.has_open_calls() or approvals.is_waiting
            text = prompt.text.encode(errors="replace")
            await process.write(msgspec.json.encode(user_message(text.decode())) if asks else text)
            input_closer = InputCloser(process.close_input)
            if not asks:
                process.close_input()
            async with aclosing(process.lines()) as lines:
                async for line in lines:
                    request = parse_request(line)
                    events = (
                        translator.feed(line)
                        if request is None
                        else translator.add_events(await _handle_request(request, process, approvals))
                    )
                    notices = self._conversations.remember(prompt, translator.session_id)
                    events += translator.add_events([*approvals.notices(), *notices])
                    for event in events:
                        yield event
                    input_closer.update(translator)
            end.error = await process.exit_error()


class _ProcessEnd:
    """The error with which a process ended; empty if it succeeded."""

    error = ""


class InputCloser:
    """Closes the input of a process, so that it exits, when Claude has answered and its background work has ended."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._timer: asyncio.TimerHandle | None = None

    def update(self, translator: ClaudeTranslator) -> None:
        """Close the input if it is time. Call this after each line of output."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if translator.answer_state == "done":
            self._close()
        elif translator.answer_state == "may continue":
            self._timer = asyncio.get_running_loop().call_later(_CONTINUE_TIMEOUT_S, self._close)


async def _handle_request(request: ControlRequest, process: AgentProcess, approvals: Approvals) -> list[Event]:
    """Answer Claude's request, now or when a person has chosen. Returns events to emit in the turn."""
    tool = request.tool
    if tool is None:
        await process.write(control_response(request.id, None))
        return []
    questions = questions_of(tool, has_person=approvals.asks_person)
    if not questions:
        await process.write(control_response(request.id, permission_result(tool, ())))
        return [QUESTION_UNANSWERED]
    choices: list[Choice | None] = []

    async def answer(choice: Choice | None) -> None:
        choices.append(choice)
        if is_decided(questions, choices):
            await process.write(control_response(request.id, permission_result(tool, choices)))
        else:
            await approvals.decide(questions[len(choices)], answer)

    return await approvals.decide(questions[0], answer)


def is_conversation_gone(translator: ClaudeTranslator) -> bool:
    """Whether the turn did not start because the conversation to resume no longer exists."""
    return not translator.session_id and _CONVERSATION_GONE in translator.error_text
