"""Runs an agent of the OpenAI Agents SDK: one streamed run per turn, and one session per conversation.

This module owns the run, all ways in which it can end, and where sessions are stored. SDK objects become JSON values
here; the translator owns their meaning.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.events import Event, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.openai_agents.translator import OpenAIAgentsTranslator
from tailrace.runtimes.permissions import approval_question
from tailrace.runtimes.sdk import failure_from, json_or_text, json_value, load_sdk, wrong_agent_type
from tailrace.runtimes.sessions import private_file, session_of, sessions_directory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import Self

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question

# An event of the SDK, and the call that runs the subagent which sent it (None for the agent). None alone is the end.
_QueueItem: TypeAlias = "tuple[str | None, Any] | None"
_subagent_queue: ContextVar[asyncio.Queue[_QueueItem]] = ContextVar("tailrace_openai_agents_subagent_queue")


def show_subagent(event: Any) -> None:
    """Show the events of an agent that is a tool of another agent: `writer.as_tool(..., on_stream=show_subagent)`.

    Without this function the SDK reports only the subagent's answer. Outside a turn of `OpenAIAgentsRuntime` it does
    nothing.
    """
    queue = _subagent_queue.get(None)
    call = event["tool_call"]
    if queue is not None and call is not None:
        queue.put_nowait((call.call_id, event["event"]))


class OpenAIAgentsRuntime:
    """Runs turns with an `agents.Agent`. `options` are passed to `Runner.run_streamed`: `max_turns`, `context`, …

    Conversations are stored in a file of this user, unless `session` returns the SDK session of a prompt, or None for
    an agent without memory. `permissions` decides on tool calls that need approval, and `approver` asks the person. If
    no person can be asked, the turn ends and says which calls wait.
    """

    name = "openai-agents"

    def __init__(
        self,
        agent: Any,
        *,
        session: Callable[[Prompt], Any] | None = None,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        **options: Any,
    ) -> None:
        self._agent = agent
        self._session = session
        self._permissions = permissions
        self._approver = approver
        self._options = options

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Run the agent once. Closing this iterator cancels the run and waits until it has ended."""
        runner = _sdk("agents.run").Runner
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if wrong_type := wrong_agent_type(self._agent, runtime=self.name, wanted="an agent of the OpenAI Agents SDK"):
            yield wrong_type
            return
        translator = OpenAIAgentsTranslator()
        session: Any = None
        try:
            session = (
                self._session(prompt) if self._session is not None else await asyncio.to_thread(_stored_session, prompt)
            )
            async with aclosing(self._runs(runner, prompt.text, session, translator)) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001  # the agent's own code failed, so the turn fails
            for event in translator.raised(failure_from(error)):
                yield event
        finally:
            if self._session is None and session is not None:
                session.close()
        for event in translator.close():
            yield event

    async def _runs(
        self, runner: Any, text: str, session: Any, translator: OpenAIAgentsTranslator
    ) -> AsyncGenerator[Event, None]:
        """Run the agent. If tool calls wait for approval, decide on them and run the agent again, until none waits."""
        start: Any = text
        async with Approvals(self._permissions, self._approver) as approvals:
            while True:
                run_streamed = partial(runner.run_streamed, self._agent, start, session=session, **self._options)
                async with _Run(run_streamed) as run:
                    while (item := await run.next()) is not None:
                        call, native = item
                        for event in translator.feed(_event_value(native), parent=call):
                            yield event
                    if not run.result.interruptions or not approvals.can_decide:
                        for event in _finish(translator, run.result):
                            yield event
                        return
                    start = run.result.to_state()
                    for interruption in run.result.interruptions:
                        events, choice = await approvals.ask(_question(interruption))
                        for event in events:
                            yield event
                        if not _decide(start, interruption, await choice):
                            translator.deny(json_value(interruption.raw_item))
                        for event in approvals.notices():
                            yield event


def _question(interruption: Any) -> Question:
    raw = json_value(interruption.raw_item)
    arguments = json_or_text(raw.get("arguments")) if isinstance(raw, dict) else None
    return approval_question(str(interruption.agent.name), interruption.name or "a tool", arguments)


def _decide(state: Any, interruption: Any, choice: Choice | None) -> bool:
    """Approve or reject a tool call in the state of the run. Returns True if it is approved."""
    is_allowed = choice is not None and choice.kind.startswith("allow")
    (state.approve if is_allowed else state.reject)(interruption)
    return is_allowed


class _Run:
    """A streamed run of an agent; the events of its subagents come in between. Leaving the block cancels the run."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._queue: asyncio.Queue[_QueueItem] = asyncio.Queue()
        # The queue is set in a copied context: the run and its tools see it, the reader of our events does not.
        context = copy_context()
        context.run(_subagent_queue.set, self._queue)
        self.result: Any = context.run(start)

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        # Cancel the run first, because closing its stream waits until the run has ended by itself.
        self.result.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for native in self.result.stream_events():
                self._queue.put_nowait((None, native))
        finally:
            self._queue.put_nowait(None)

    async def next(self) -> _QueueItem:
        """The next event; None when the run has ended. Raises the exception with which the run failed."""
        item = await self._queue.get()
        if item is None:
            await self._reader
        return item


def _sdk(module: str) -> Any:
    # Import a submodule, not only `agents`, because many projects have a folder of that name.
    return load_sdk(module, extra="openai-agents")


def _stored_session(prompt: Prompt) -> Any:
    """The SDK session in which the conversation is stored. None for a prompt without a session."""
    session = session_of(prompt)
    if not session:
        return None
    return _sdk("agents.memory").SQLiteSession(session, private_file(sessions_directory() / "openai-agents.db"))


def _event_value(native: Any) -> Any:
    """Convert an event of the SDK to a JSON value: an agent becomes its name, an item the fields that are read."""
    try:
        match native.type:
            case "raw_response_event":
                return {"type": native.type, "data": json_value(native.data)}
            case "run_item_stream_event":
                output = json_value(getattr(native.item, "output", None))
                item = {"raw_item": json_value(native.item.raw_item), "output": output}
                return {"type": native.type, "name": native.name, "item": item}
            case "agent_updated_stream_event":
                return {"type": native.type, "new_agent": native.new_agent.name}
    except AttributeError:
        pass  # not an event of the SDK; the translator reports it
    return json_value(native)


def _finish(translator: OpenAIAgentsTranslator, result: Any) -> list[Event]:
    usage = result.context_wrapper.usage
    return translator.finished(
        output=json_value(result.final_output),
        waiting=[interruption.name or "a tool" for interruption in result.interruptions],
        tokens=(usage.input_tokens, usage.output_tokens),
    )
