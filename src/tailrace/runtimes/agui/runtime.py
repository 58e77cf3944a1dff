"""Runs an AG-UI agent: one run per turn, over HTTP or by calling a function in this process.

This module owns the request, all ways in which it can end, and the files in which histories are saved. The translator
knows what the events mean, and the history keeps the messages that are sent with a question.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.agui.history import AguiHistory
from tailrace.runtimes.agui.translator import AguiTranslator
from tailrace.runtimes.endpoint import Endpoint, frame_value
from tailrace.runtimes.http import READ_TIMEOUT_S, HttpFault
from tailrace.runtimes.sdk import failure_from
from tailrace.runtimes.sessions import SessionFile, session_of
from tailrace.runtimes.sse import FrameDecoder

if TYPE_CHECKING:
    from tailrace.ports import Prompt

_AgentFunction: TypeAlias = Callable[[dict[str, Any]], AsyncGenerator[Any, None]]


class AguiRuntime:
    """Runs turns with an AG-UI agent: a URL that accepts a POST, or an async generator function.

    The function gets a `RunAgentInput` as a dictionary. It yields events: objects of `ag_ui.core`, dictionaries, or the
    text or bytes of an encoder. `headers` and `read_timeout_s` are for a URL (see `Endpoint`).

    The completed runs of a session are saved in a file of this user, unless `remembers` is False.
    """

    name = "agui"

    def __init__(
        self,
        agent: str | _AgentFunction,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        remembers: bool = True,
    ) -> None:
        if isinstance(agent, str):
            self._run_agent: _AgentFunction = Endpoint(agent, headers=headers, read_timeout_s=read_timeout_s).post
            self._agent_id = agent
        else:
            self._run_agent = partial(_run_function, agent)
            self._agent_id = f"{getattr(agent, '__module__', '')}:{getattr(agent, '__qualname__', '')}"
        self._remembers = remembers

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run the agent once. Closing this iterator closes the connection or the function, which cancels the run."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        session = session_of(prompt) if self._remembers else ""
        saved = SessionFile(self.name, session, self._agent_id)
        history = AguiHistory(await saved.load())
        run_id = uuid.uuid4().hex
        run_input = history.run_input(
            prompt.text, thread_id=session or uuid.uuid4().hex, run_id=run_id, message_id=uuid.uuid4().hex
        )
        translator = AguiTranslator(run_id, history.tool_names)
        try:
            async with aclosing(self._run_agent(run_input)) as natives:
                async for native in natives:
                    history.feed(native)
                    for event in translator.feed(native):
                        yield event
                    if translator.is_done:
                        break
        except HttpFault as fault:
            translator.fail(str(fault), code=fault.code, status_code=fault.status_code)
        except Exception as error:  # noqa: BLE001  # the agent's own code failed, so the turn fails
            failure = failure_from(error)
            translator.fail(failure.message, code="runtime_raised", status_code=failure.status_code)
        if translator.is_complete and (problem := await saved.save(lambda: history.encode(translator.interrupts))):
            yield Notice(text=f"This will not be remembered: {problem}")
        for event in translator.close():
            yield event


async def _run_function(agent: _AgentFunction, run_input: dict[str, Any]) -> AsyncGenerator[Any, None]:
    """Call the agent's function and yield its events as JSON values, also if it yields models or encoded text."""
    decoder = FrameDecoder()
    async with aclosing(agent(run_input)) as items:
        async for item in items:
            match item:
                case str() | bytes():
                    for frame in decoder.feed(item.encode() if isinstance(item, str) else item):
                        yield frame_value(frame.data)
                case _ if hasattr(item, "model_dump"):
                    yield item.model_dump(mode="json", by_alias=True, exclude_none=True)
                case _:
                    yield item
