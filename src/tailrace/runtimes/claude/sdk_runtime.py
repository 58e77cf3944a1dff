"""Claude through its Python SDK (`claude-agent-sdk`), for agents with hooks and tools written in Python.

The SDK runs the same command and hands over what it prints as objects; here they become its lines again, for
`translator` to tell. No object of the SDK leaves this file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailrace.runtimes.claude.runtime import ClaudeConversations, is_gone
from tailrace.runtimes.claude.translator import ClaudeTranslator
from tailrace.runtimes.sdk import load_sdk, plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.ports import Prompt

_INTERRUPT_S = 2.0
_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class ClaudeSdkRuntime:
    """Claude with `ClaudeAgentOptions` of one's own; `sessions` is where it is kept which conversation is whose."""

    name = "claude-sdk"

    def __init__(self, options: Any = None, *, sessions: Path | None = None) -> None:
        self._sdk = load_sdk("claude_agent_sdk", extra="claude")
        self._options = options if options is not None else self._sdk.ClaudeAgentOptions()
        self._conversations = ClaudeConversations(sessions)

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Ask Claude, in the conversation of the prompt's session; closing this interrupts it and ends its process."""
        resumed = self._conversations.of(prompt)
        while True:
            translator = ClaudeTranslator(self.name)
            lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
            # The SDK must be left in the task that entered it, and whoever closes this may be in another.
            playing = asyncio.create_task(self._play(prompt.text, resumed, lines))
            try:
                while (line := await lines.get()) is not None:
                    for event in translator.feed(line):
                        yield event
                    self._conversations.remember(prompt, translator.session_id)
                remark = await playing
            finally:
                playing.cancel()
                await asyncio.wait({playing})
            if not (resumed and is_gone(translator)):
                break
            resumed = ""
        for event in translator.end(remark):
            yield event

    async def _play(self, text: str, resumed: str, lines: asyncio.Queue[dict[str, Any] | None]) -> str:
        """Run one turn and hand over its lines, None at last; returns what the SDK raised, in words."""
        options = dataclasses.replace(self._options, include_partial_messages=True, resume=resumed or None)
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
            with suppress(Exception):
                async with asyncio.timeout(_INTERRUPT_S):
                    await client.interrupt()
            raise
        except Exception as error:  # noqa: BLE001  # the SDK's own code, whose failure is the turn's
            return str(error) or type(error).__name__
        else:
            return ""
        finally:
            await client.disconnect()
            lines.put_nowait(None)


async def _spoken(text: str, answered: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
    """What the person says. Until it is answered the line stays open, by which Claude can be interrupted."""
    yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None, "session_id": ""}
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
    made: dict[str, Any] = plain(line)
    return made


def _tag(value: object, suffix: str) -> str:
    """How a line names what the SDK names by a class: `ToolUseBlock` is a `tool_use`."""
    return _INNER_CAPITAL.sub("_", type(value).__name__.removesuffix(suffix)).lower()
