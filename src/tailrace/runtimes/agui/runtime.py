"""Asking an AG-UI agent: one run per turn, over HTTP or of a function in this process.

Owns the run and its end however it comes, and where conversations are kept. What the events mean is the translator's,
and what is sent along the transcript's.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.agui.transcript import Transcript
from tailrace.runtimes.agui.translator import AguiTranslator
from tailrace.runtimes.endpoint import Endpoint, frame_value
from tailrace.runtimes.http import READ_TIMEOUT_S, HttpFault
from tailrace.runtimes.sdk import failure_from
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory
from tailrace.runtimes.sse import FrameDecoder

if TYPE_CHECKING:
    from tailrace.ports import Prompt

Agent: TypeAlias = Callable[[dict[str, Any]], AsyncGenerator[Any, None]]


class AguiRuntime:
    """An AG-UI agent as a runtime: the address that answers to a POST, or an async generator function.

    A function is given a `RunAgentInput` as a plain dictionary, and yields events: those of `ag_ui.core`, dictionaries,
    or what an encoder made of them. `headers` and `read_timeout_s` are for an address (see `Endpoint`).

    A session remembers the runs that were completed, in a file of this user; without `remembers` none is kept.
    """

    name = "agui"

    def __init__(
        self,
        agent: str | Agent,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        remembers: bool = True,
    ) -> None:
        if isinstance(agent, str):
            self._ask: Agent = Endpoint(agent, headers=headers, read_timeout_s=read_timeout_s).post
            self._known_as = agent
        else:
            self._ask = partial(_plain, agent)
            self._known_as = f"{getattr(agent, '__module__', '')}:{getattr(agent, '__qualname__', '')}"
        self._remembers = remembers

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """One run of the agent; closing this closes the connection, or the function, and so cancels it."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        session = session_of(prompt) if self._remembers else ""
        memory, place = SessionFiles(sessions_directory() / "agui"), f"{self._known_as}\n{session}"
        transcript = Transcript(await asyncio.to_thread(memory.load, place) if session else None)
        run_id = uuid.uuid4().hex
        question = transcript.ask(
            prompt.text, thread_id=session or uuid.uuid4().hex, run_id=run_id, message_id=uuid.uuid4().hex
        )
        translator = AguiTranslator(run_id, transcript.tools)
        try:
            async with aclosing(self._ask(question)) as said:
                async for native in said:
                    transcript.feed(native)
                    for event in translator.feed(native):
                        yield event
                    if translator.is_done:
                        break
        except HttpFault as fault:
            translator.broke(str(fault), code=fault.code, status_code=fault.status_code)
        except Exception as error:  # noqa: BLE001  # the agent's own code, whose failure is the turn's
            failure = failure_from(error)
            translator.broke(failure.message, code="runtime_raised", status_code=failure.status_code)
        if session and translator.is_complete:
            try:
                await asyncio.to_thread(memory.save, place, transcript.keep(translator.questions))
            except (OSError, ValueError, TypeError) as error:
                yield Notice(text=f"This will not be remembered: {error}")
        for event in translator.close():
            yield event


async def _plain(agent: Agent, question: dict[str, Any]) -> AsyncGenerator[Any, None]:
    """What a function yields, as plain values: models as AG-UI writes them, and the events of an encoded stream."""
    decoder = FrameDecoder()
    async with aclosing(agent(question)) as said:
        async for item in said:
            match item:
                case str() | bytes():
                    for frame in decoder.feed(item.encode() if isinstance(item, str) else item):
                        yield frame_value(frame.data)
                case _ if hasattr(item, "model_dump"):
                    yield item.model_dump(mode="json", by_alias=True, exclude_none=True)
                case _:
                    yield item
