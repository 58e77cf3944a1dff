"""Running an agent of Pydantic AI: one run per turn, and what each session remembers of them.

Owns the run, its end however it comes, and the memory, which the SDK leaves to its users. What the run's events mean is
the translator's; the SDK's objects become plain values here and go no further.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import Event, TurnStarted
from tailrace.runtimes.pydantic_ai.translator import PydanticAITranslator
from tailrace.runtimes.sdk import failure_of, load_sdk, plain
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt


class PydanticAIRuntime:
    """A `pydantic_ai.Agent` as a runtime. `options` go to `run_stream_events` as they are: `deps`, `usage_limits`, …

    A session remembers the runs that were completed, in a file of this user; without `remembers` none is kept.
    """

    name = "pydantic-ai"

    def __init__(self, agent: Any, *, remembers: bool = True, **options: Any) -> None:
        self._agent = agent
        self._remembers = remembers
        self._options = options

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """One run of the agent; closing this cancels it, and returns when nothing of it is left."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        translator = PydanticAITranslator()
        try:
            async with aclosing(self._events(prompt)) as events:
                async for native in events:
                    for event in translator.feed(native):
                        yield event
        except Exception as error:  # noqa: BLE001  # the agent's own code, whose failure is the turn's
            for event in translator.raised(failure_of(error)):
                yield event
        for event in translator.close():
            yield event

    async def _events(self, prompt: Prompt) -> AsyncGenerator[Any, None]:
        """What the run says, as plain values; when it is complete its session remembers it."""
        session = session_of(prompt) if self._remembers else ""
        memory = SessionFiles(sessions_directory() / "pydantic-ai")
        kept = await asyncio.to_thread(memory.load, session) if session else None
        history = {} if kept is None else {"message_history": _messages(kept)}
        async with self._agent.run_stream_events(prompt.text, **self._options, **history) as events:
            async for native in events:
                if native.event_kind != "agent_run_result":
                    yield plain(native)
                    continue
                if session:
                    await asyncio.to_thread(memory.keep, session, native.result.all_messages_json())
                yield _plain_result(native)


def _messages(kept: bytes) -> Any:
    """What was said before. Calls that nobody has approved were never made, and the SDK wants to be told so."""
    messages = load_sdk("pydantic_ai.messages", extra="pydantic-ai")
    return messages.repair_messages(messages.ModelMessagesTypeAdapter.validate_json(kept))


def _plain_result(native: Any) -> Any:
    """The end of a run: its output and cost, without the state that the SDK keeps behind them."""
    result = native.result
    return {"event_kind": native.event_kind, "output": plain(result.output), "usage": plain(result.usage)}
