"""Stands in for the package `claude_agent_sdk`: the part of its client that is used, playing a recording.

As with the SDK, the messages end only when the input has, and a client that is connected must be disconnected.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recorded_turns import sdk_objects

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator


class SdkError(Exception):
    """What the SDK raises when the command fails."""


RULE = {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}


@dataclass
class PermissionUpdate:
    """A rule that the command suggests."""

    rule: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        return self.rule


@dataclass
class ToolPermissionContext:
    """What comes with a request for permission."""

    suggestions: list[PermissionUpdate]


@dataclass
class PermissionResultAllow:
    """It may."""

    updated_input: dict[str, Any] | None = None
    updated_permissions: list[PermissionUpdate] | None = None


@dataclass
class PermissionResultDeny:
    """It may not."""

    message: str = ""


@dataclass
class ClaudeAgentOptions:
    """Options: those that the runtime sets, and what to play, up to where, and what to raise then or where else to."""

    resume: str | None = None
    include_partial_messages: bool = False
    recording: str = "claude_sdk_tool"
    stalls_after: int | None = None
    ends_after: int | None = None
    raises: str = ""
    can_use_tool: Any = None
    permission_prompt_tool_name: str | None = None
    asks: str = ""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runs: list[ClaudeAgentOptions] = field(default_factory=list)
    decided: list[Any] = field(default_factory=list)


class ClaudeSDKClient:
    """A client that plays."""

    def __init__(self, options: ClaudeAgentOptions) -> None:
        if "refuses" in options.faults:
            raise SdkError("it refuses such options")
        self._options = options
        self._asking: asyncio.Task[Any] | None = None
        options.runs.append(options)

    async def connect(self, prompt: AsyncIterable[dict[str, Any]]) -> None:
        """Begin to read the prompt beside everything else."""
        self._task = asyncio.current_task()
        self._is_prompted = asyncio.Event()
        self._reading = asyncio.create_task(self._read(prompt))

    async def _read(self, prompt: AsyncIterable[dict[str, Any]]) -> None:
        async for message in prompt:
            self._options.notes.append(message["message"]["content"])
            self._is_prompted.set()

    async def receive_messages(self) -> AsyncIterator[object]:
        """The messages, up to where it stalls; the last one when the input has ended."""
        await self._is_prompted.wait()
        if self._options.asks and self._options.can_use_tool is not None:
            context = ToolPermissionContext([PermissionUpdate(RULE)])
            # As with the SDK, in a task of its own: the reader of the messages may be cancelled meanwhile.
            self._asking = asyncio.create_task(self._options.can_use_tool("Bash", {"command": "ls"}, context))
            self._options.decided.append(await asyncio.shield(self._asking))
        for nth, message in enumerate(sdk_objects(self._options.recording)[: self._options.ends_after]):
            if nth == self._options.stalls_after:
                await asyncio.Event().wait()
            yield message
        if self._options.raises:
            raise SdkError(self._options.raises)
        await self._reading

    async def interrupt(self) -> None:
        """Ask the command to stop."""
        if self._asking is not None and not self._asking.done():
            self._options.decided.append(await self._asking)
        self._options.notes.append("interrupted")

    async def disconnect(self) -> None:
        """End the command; like the SDK's, only for the task that connected."""
        assert asyncio.current_task() is self._task
        self._reading.cancel()
        self._options.notes.append("disconnected")
        if "parts badly" in self._options.faults:
            raise SdkError("it parts badly")
