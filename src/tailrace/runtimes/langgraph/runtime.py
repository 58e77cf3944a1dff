"""Runs a graph of LangGraph: one stream per turn. The graph's own checkpointer remembers conversations.

This module owns the call of the graph, and all ways in which a run can end. SDK objects become JSON values here; the
translator owns their meaning. The SDK is not imported here: the module that defines the graph has imported it.
"""

from __future__ import annotations

import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import Event, TurnStarted
from tailrace.runtimes.langgraph.translator import LangGraphTranslator
from tailrace.runtimes.sdk import failure_from, json_value, wrong_agent_type
from tailrace.runtimes.sessions import session_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from tailrace.ports import Prompt

_MODES = ("messages", "updates", "custom", "tasks")


def _as_message(prompt: Prompt) -> Any:
    return {"messages": [{"role": "user", "content": prompt.text}]}


class LangGraphRuntime:
    """Runs turns with a compiled graph. Each session is one thread of the graph.

    `ask` makes the graph's input from a prompt, for graphs whose state is not a list of messages. `config` is given to
    the graph together with the thread.
    """

    name = "langgraph"

    def __init__(
        self, graph: Any, *, ask: Callable[[Prompt], Any] = _as_message, config: Mapping[str, Any] | None = None
    ) -> None:
        self._graph = graph
        self._ask = ask
        self._config = config or {}

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run the graph once. Closing this iterator cancels the run and waits until it has ended."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        wrong_type = wrong_agent_type(
            self._graph, runtime=self.name, wanted="a compiled graph of LangGraph", method="astream"
        )
        if wrong_type is not None:
            yield wrong_type
            return
        translator = LangGraphTranslator()
        thread = {"thread_id": session_of(prompt) or uuid.uuid4().hex}
        config = {**self._config, "configurable": {**self._config.get("configurable", {}), **thread}}
        try:
            stream = self._graph.astream(self._ask(prompt), config, stream_mode=list(_MODES), subgraphs=True)
            async with aclosing(stream):
                async for native in stream:
                    for event in translator.feed(json_value(native)):
                        yield event
            for event in translator.finished():
                yield event
        except Exception as error:  # noqa: BLE001  # the graph's own code failed, so the turn fails
            for event in translator.raised(failure_from(error)):
                yield event
        for event in translator.close():
            yield event
