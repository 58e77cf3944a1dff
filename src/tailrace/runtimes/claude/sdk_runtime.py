"""Claude through its Python SDK (`claude-agent-sdk`), for agents with hooks and tools written in Python.

The SDK runs the command `claude` and converts its output lines to objects. This module converts the objects back to
lines for `translator`. No SDK object leaves this file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.errors import RuntimeFault
from tailrace.events import Event, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.claude.control import (
    ToolRequest,
    is_decided,
    needs_person,
    permission_result,
    questions_of,
    user_message,
)
from tailrace.runtimes.claude.runtime import QUESTION_UNANSWERED, is_conversation_gone
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.sdk import json_value, load_sdk, wrong_agent_type

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy

# Lines for the translator and our own events; None at the end.
_LineQueue: TypeAlias = "asyncio.Queue[dict[str, Any] | Event | None]"

# At a terminal, Ctrl-C also reaches the command. It may then not respond to an interruption any more.
_INTERRUPT_TIMEOUT_S = 0.5
_SILENCE_TIMEOUT_S = 600.0
_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class ClaudeSdkRuntime:
    """Runs turns with Claude and your own `ClaudeAgentOptions`.

    `sessions` is the folder that stores which conversation belongs to which session. `permissions` decides on Claude's
    requests, unless the options decide. With `ask`, the `approver` asks a person. `silence_timeout_s` is how long
    Claude may be silent while no tool runs.
    """

    name = "claude-sdk"
    silence_timeout_s = _SILENCE_TIMEOUT_S

    def __init__(
        self,
        options: Any = None,
        *,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        sessions: Path | None = None,
    ) -> None:
        self._sdk = load_sdk("claude_agent_sdk", extra="claude")
        self._permissions = permissions
        self._approver = approver
        self._options = options if options is not None else self._sdk.ClaudeAgentOptions()
        self._conversations = Conversations("claude", sessions)  # shared with ClaudeRuntime: both run the same command

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run a turn in the conversation of the session. Closing this iterator interrupts and ends Claude."""
        wanted, kind = "options of the Claude Agent SDK", self._sdk.ClaudeAgentOptions
        if (failed := wrong_agent_type(self._options, runtime=self.name, wanted=wanted, kind=kind)) is not None:
            yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
            yield failed
            return
        resumed = self._conversations.get(prompt)
        while True:
            translator, approvals = ClaudeTranslator(self.name), Approvals(self._permissions, self._approver)
            lines: _LineQueue = asyncio.Queue()
            # The SDK must be left in the task that entered it, but another task may close this generator. So the SDK
            # runs in a task of its own.
            running = asyncio.create_task(self._run_sdk(prompt.text, resumed, lines, approvals))
            try:
                while (line := await self._next(lines, translator, approvals)) is not None:
                    events = translator.feed(line) if isinstance(line, dict) else translator.add_events([line])
                    events += translator.add_events(self._conversations.remember(prompt, translator.session_id))
                    for event in events:
                        yield event
                exit_error = await running
            except RuntimeFault as fault:
                exit_error = str(fault)
            finally:
                running.cancel()
                await asyncio.wait({running})
            if not (resumed and is_conversation_gone(translator)):
                break
            resumed = ""
        for event in with_login_hint(self.name, translator.end(exit_error)):
            yield event

    async def _next(self, lines: _LineQueue, translator: ClaudeTranslator, approvals: Approvals) -> Any:
        """Return the next line. Raises `RuntimeFault` if Claude is silent for too long without a reason."""
        while True:
            try:
                async with asyncio.timeout(self.silence_timeout_s):
                    return await lines.get()
            except TimeoutError:
                if not (translator.turn.has_open_calls() or approvals.is_waiting):
                    message = f"claude was silent for {self.silence_timeout_s:g} seconds and was stopped."
                    raise RuntimeFault(message) from None

    async def _run_sdk(self, text: str, resumed: str, lines: _LineQueue, approvals: Approvals) -> str:
        """Run one turn and put its lines into the queue, then None. Returns the text of the SDK's exception, or ""."""
        try:
            async with approvals:
                await self._run_client(text, resumed, lines, approvals)
        except Exception as error:  # noqa: BLE001  # code of the SDK failed, so the turn fails
            return str(error) or type(error).__name__
        else:
            return ""
        finally:
            lines.put_nowait(None)

    async def _run_client(self, text: str, resumed: str, lines: _LineQueue, approvals: Approvals) -> None:
        options = dataclasses.replace(
            self._options,
            include_partial_messages=True,
            resume=resumed or None,
            **self._permission_options(lines, approvals),
        )
        client = self._sdk.ClaudeSDKClient(options)
        is_answered = asyncio.Event()
        try:
            await client.connect(_prompt_stream(text, is_answered))
            async for message in client.receive_messages():
                line = line_from_message(message)
                lines.put_nowait(line)
                if line.get("type") == "result":
                    is_answered.set()
        except asyncio.CancelledError:
            approvals.withdraw()  # first, because Claude must not be interrupted while it waits for a choice
            with suppress(Exception):
                async with asyncio.timeout(_INTERRUPT_TIMEOUT_S):
                    await client.interrupt()
            raise
        finally:
            await client.disconnect()

    def _permission_options(self, lines: _LineQueue, approvals: Approvals) -> dict[str, Any]:
        """The SDK option with which Claude asks for permission.

        Empty if the user has set it, or if nothing can be allowed.
        """
        own_options = (getattr(self._options, name, None) for name in ("can_use_tool", "permission_prompt_tool_name"))
        if not may_allow(self._permissions, self._approver) or any(option is not None for option in own_options):
            return {}

        async def can_use_tool(name: str, arguments: dict[str, Any], context: Any) -> Any:
            suggestions = [suggestion.to_dict() for suggestion in context.suggestions]
            tool = ToolRequest(
                tool_name=name,
                input=arguments,
                permission_suggestions=suggestions,
                title=getattr(context, "title", None),
            )
            result = permission_result(tool, await _choices(tool, lines, approvals))
            if result["behavior"] == "deny":
                return self._sdk.PermissionResultDeny(message=result["message"])
            kept = context.suggestions if "updatedPermissions" in result else ()
            rules = [rule for rule in kept if rule.to_dict() in result["updatedPermissions"]]
            updated = result["updatedInput"] if needs_person(tool) else None
            return self._sdk.PermissionResultAllow(updated_input=updated, updated_permissions=rules or None)

        return {"can_use_tool": can_use_tool}


async def _choices(tool: ToolRequest, lines: _LineQueue, approvals: Approvals) -> list[Choice | None]:
    """Ask the questions of a tool request, one after the other.

    Events to emit in the turn are put into the queue `lines`.
    """
    choices: list[Choice | None] = []
    questions = questions_of(tool, has_person=approvals.asks_person)
    if not questions:
        lines.put_nowait(QUESTION_UNANSWERED)
        return choices
    while not choices or not is_decided(questions, choices):
        events, chosen = await approvals.ask(questions[len(choices)])
        for event in events:
            lines.put_nowait(event)
        choices.append(await chosen)
        for event in approvals.notices():
            lines.put_nowait(event)
    return choices


async def _prompt_stream(text: str, is_answered: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
    """The prompt as a stream for the SDK.

    It stays open until `is_answered`, because an interruption also goes through it.
    """
    yield user_message(text)
    await is_answered.wait()


def line_from_message(message: object) -> dict[str, Any]:
    """Convert an SDK message back to the output line it was made from. Fields that the SDK has dropped are missing."""
    fields = dict(vars(message))
    if "data" in fields:
        line = fields["data"]
    else:
        line = {"type": _tag(message, "Message"), **fields}
        content = fields.get("content")
        if isinstance(content, list):
            content = [{"type": _tag(block, "Block"), **vars(block)} for block in content]
        if content is not None:
            line["message"] = {"id": fields.get("message_id") or "", "content": content}
    made: dict[str, Any] = json_value(line)
    return made


def _tag(value: object, suffix: str) -> str:
    """Convert the name of an SDK class to the tag that lines have: `ToolUseBlock` to `tool_use`."""
    return _INNER_CAPITAL.sub("_", type(value).__name__.removesuffix(suffix)).lower()
