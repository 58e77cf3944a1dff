"""Claude through its Python SDK (`claude-agent-sdk`), for agents with hooks and tools written in Python.

The SDK runs the same command and hands over what it prints as objects; here they become its lines again, for
`translator` to tell. No object of the SDK leaves this file.
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
from tailrace.runtimes.claude.control import ToolRequest, decision, is_for_a_person, is_settled, questions_of, spoken
from tailrace.runtimes.claude.runtime import NOBODY_ANSWERED, is_gone
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.conversations import Conversations
from tailrace.runtimes.login_hints import with_login_hint
from tailrace.runtimes.permissions import may_allow
from tailrace.runtimes.process import SILENCE_TIMEOUT_S
from tailrace.runtimes.sdk import json_value, load_sdk, wrong_agent_type

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy

# What is to be told: lines for the translator, and events of our own; None when there is no more.
_Lines: TypeAlias = "asyncio.Queue[dict[str, Any] | Event | None]"

# At a terminal Ctrl-C reaches the command as well, which then may not answer any more.
_INTERRUPT_S = 0.5
_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class ClaudeSdkRuntime:
    """Claude with `ClaudeAgentOptions` of one's own; `sessions` is where it is kept which conversation is whose.

    What Claude asks for is decided by `permissions`, and `approver` is who is asked, unless the options say otherwise.
    `silence_timeout_s` is how long it may say nothing while no tool is at work.
    """

    name = "claude-sdk"
    silence_timeout_s = SILENCE_TIMEOUT_S

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
        self._conversations = Conversations("claude", sessions)  # which are the command's, however it is run

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask Claude, in the conversation of the prompt's session; closing this interrupts it and ends its process."""
        wanted, kind = "options of the Claude Agent SDK", self._sdk.ClaudeAgentOptions
        if (failed := wrong_agent_type(self._options, runtime=self.name, wanted=wanted, kind=kind)) is not None:
            yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
            yield failed
            return
        resumed = self._conversations.of(prompt)
        while True:
            translator, approvals = ClaudeTranslator(self.name), Approvals(self._permissions, self._approver)
            lines: _Lines = asyncio.Queue()
            # The SDK must be left in the task that entered it, and whoever closes this may be in another.
            playing = asyncio.create_task(self._play(prompt.text, resumed, lines, approvals))
            try:
                while (line := await self._next(lines, translator, approvals)) is not None:
                    told = translator.feed(line) if isinstance(line, dict) else translator.aside([line])
                    told += translator.aside(self._conversations.remember(prompt, translator.session_id))
                    for event in told:
                        yield event
                remark = await playing
            except RuntimeFault as fault:
                remark = str(fault)
            finally:
                playing.cancel()
                await asyncio.wait({playing})
            if not (resumed and is_gone(translator)):
                break
            resumed = ""
        for event in with_login_hint(self.name, translator.end(remark)):
            yield event

    async def _next(self, lines: _Lines, translator: ClaudeTranslator, approvals: Approvals) -> Any:
        """The next line; raises `RuntimeFault` when none came for too long without a reason."""
        while True:
            try:
                async with asyncio.timeout(self.silence_timeout_s):
                    return await lines.get()
            except TimeoutError:
                if not (translator.is_at_work or approvals.is_waiting):
                    said = f"claude has said nothing for {self.silence_timeout_s:g} seconds and was stopped."
                    raise RuntimeFault(said) from None

    async def _play(self, text: str, resumed: str, lines: _Lines, approvals: Approvals) -> str:
        """Run one turn and hand over its lines, None at last; returns what the SDK raised, in words."""
        try:
            async with approvals:
                await self._connected(text, resumed, lines, approvals)
        except Exception as error:  # noqa: BLE001  # the SDK's own code, whose failure is the turn's
            return str(error) or type(error).__name__
        else:
            return ""
        finally:
            lines.put_nowait(None)

    async def _connected(self, text: str, resumed: str, lines: _Lines, approvals: Approvals) -> None:
        options = dataclasses.replace(
            self._options, include_partial_messages=True, resume=resumed or None, **self._deciding(lines, approvals)
        )
        client = self._sdk.ClaudeSDKClient(options)
        answered = asyncio.Event()
        try:
            await client.connect(_spoken(text, answered))
            async for message in client.receive_messages():
                line = line_of(message)
                lines.put_nowait(line)
                if line.get("type") == "result":
                    answered.set()
        except asyncio.CancelledError:
            approvals.withdraw()  # Claude is not to be interrupted while it waits for an answer
            with suppress(Exception):
                async with asyncio.timeout(_INTERRUPT_S):
                    await client.interrupt()
            raise
        finally:
            await client.disconnect()

    def _deciding(self, lines: _Lines, approvals: Approvals) -> dict[str, Any]:
        """The option by which Claude asks; none where the options have one, or nothing is to be decided here."""
        given = (getattr(self._options, name, None) for name in ("can_use_tool", "permission_prompt_tool_name"))
        if not may_allow(self._permissions, self._approver) or any(option is not None for option in given):
            return {}

        async def can_use_tool(name: str, arguments: dict[str, Any], context: Any) -> Any:
            suggestions = [suggestion.to_dict() for suggestion in context.suggestions]
            tool = ToolRequest(
                tool_name=name,
                input=arguments,
                permission_suggestions=suggestions,
                title=getattr(context, "title", None),
            )
            decided = decision(tool, await _choices(tool, lines, approvals))
            if decided["behavior"] == "deny":
                return self._sdk.PermissionResultDeny(message=decided["message"])
            kept = context.suggestions if "updatedPermissions" in decided else ()
            rules = [rule for rule in kept if rule.to_dict() in decided["updatedPermissions"]]
            updated = decided["updatedInput"] if is_for_a_person(tool) else None
            return self._sdk.PermissionResultAllow(updated_input=updated, updated_permissions=rules or None)

        return {"can_use_tool": can_use_tool}


async def _choices(tool: ToolRequest, lines: _Lines, approvals: Approvals) -> list[Choice | None]:
    """What is chosen for the tool; what is to be said of it goes among the lines."""
    choices: list[Choice | None] = []
    questions = questions_of(tool, has_person=approvals.asks_person)
    if not questions:
        lines.put_nowait(NOBODY_ANSWERED)
        return choices
    while not choices or not is_settled(questions, choices):
        events, chosen = await approvals.ask(questions[len(choices)])
        for event in events:
            lines.put_nowait(event)
        choices.append(await chosen)
        for event in approvals.notices():
            lines.put_nowait(event)
    return choices


async def _spoken(text: str, answered: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
    """What the person says. Until it is answered the line stays open, by which Claude can be interrupted."""
    yield spoken(text)
    await answered.wait()


def line_of(message: object) -> dict[str, Any]:
    """The line that a message of the SDK was made of; what the SDK left out of it is lost."""
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
    """How a line names what the SDK names by a class: `ToolUseBlock` is a `tool_use`."""
    return _INNER_CAPITAL.sub("_", type(value).__name__.removesuffix(suffix)).lower()
