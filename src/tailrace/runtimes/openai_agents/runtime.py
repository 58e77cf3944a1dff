"""Running an agent of the OpenAI Agents SDK: one streamed run per turn, and one session per conversation.

Owns the run, its end however it comes, and where the sessions lie. What the run's events mean is the translator's; the
SDK's objects become plain values here and go no further.
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
    from types import TracebackType
    from typing import Self

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question

# An event of the SDK and the call under which it happened; None when there are no more.
_Heard: TypeAlias = "tuple[str | None, Any] | None"
_listener: ContextVar[asyncio.Queue[_Heard]] = ContextVar("tailrace_openai_agents_listener")


def show_subagent(event: Any) -> None:
    """Let an agent that is another's tool be heard: `writer.as_tool(..., on_stream=show_subagent)`.

    Without it the SDK tells only what the subagent answers. Outside of a turn of ours it does nothing.
    """
    listener = _listener.get(None)
    call = event["tool_call"]
    if listener is not None and call is not None:
        listener.put_nowait((call.call_id, event["event"]))


class OpenAIAgentsRuntime:
    """An `agents.Agent` as a runtime. `options` go to `Runner.run_streamed` as they are: `max_turns`, `context`, …

    What a conversation remembers is kept in a file of this user, unless `session` gives the session of a prompt itself,
    or None for an agent without memory. Calls that need approval are decided by `permissions`, and `approver` is who is
    asked; where nobody can be, the turn ends with what it waits for.
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
        """One run of the agent; closing this cancels it, and returns when nothing of it is left."""
        runner = _sdk("agents.run").Runner
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if (
            failed := wrong_agent_type(self._agent, runtime=self.name, wanted="an agent of the OpenAI Agents SDK")
        ) is not None:
            yield failed
            return
        translator = OpenAIAgentsTranslator()
        session: Any = None
        try:
            session = self._session(prompt) if self._session is not None else await asyncio.to_thread(_own, prompt)
            async with aclosing(self._runs(runner, prompt.text, session, translator)) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001  # the agent's own code, whose failure is the turn's
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
        """A run, and one more for each time that calls were approved or not."""
        start: Any = text
        async with Approvals(self._permissions, self._approver) as approvals:
            while True:
                run_streamed = partial(runner.run_streamed, self._agent, start, session=session, **self._options)
                async with _Run(run_streamed) as run:
                    while (heard := await run.next()) is not None:
                        call, native = heard
                        for event in translator.feed(_plain(native), parent=call):
                            yield event
                    if not run.result.interruptions or not approvals.can_decide:
                        for event in _finish(translator, run.result):
                            yield event
                        return
                    start = run.result.to_state()
                    for item in run.result.interruptions:
                        events, chosen = await approvals.ask(_question(item))
                        for event in events:
                            yield event
                        if not _decide(start, item, await chosen):
                            translator.deny(json_value(item.raw_item))
                        for event in approvals.notices():
                            yield event


def _question(item: Any) -> Question:
    raw = json_value(item.raw_item)
    arguments = json_or_text(raw.get("arguments")) if isinstance(raw, dict) else None
    return approval_question(str(item.agent.name), item.name or "a tool", arguments)


def _decide(state: Any, item: Any, choice: Choice | None) -> bool:
    """Let the call be made, or not; whether it is."""
    is_allowed = choice is not None and choice.kind.startswith("allow")
    (state.approve if is_allowed else state.reject)(item)
    return is_allowed


class _Run:
    """A streamed run, with what its subagents say woven in; leaving it cancels it."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._queue: asyncio.Queue[_Heard] = asyncio.Queue()
        # The run and all its tools see the listener; whoever reads our events does not.
        context = copy_context()
        context.run(_listener.set, self._queue)
        self.result: Any = context.run(start)

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # First the run: its stream, when it is closed, waits for the run to end by itself.
        self.result.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for native in self.result.stream_events():
                self._queue.put_nowait((None, native))
        finally:
            self._queue.put_nowait(None)

    async def next(self) -> _Heard:
        """What happened next, None at the end; raises what the run raises."""
        heard = await self._queue.get()
        if heard is None:
            await self._reader
        return heard


def _sdk(module: str) -> Any:
    # Never the package alone: many a project has a folder of its own that is called `agents`.
    return load_sdk(module, extra="openai-agents")


def _own(prompt: Prompt) -> Any:
    """The session in which a conversation is remembered; none where nobody says which conversation it is."""
    session = session_of(prompt)
    if not session:
        return None
    return _sdk("agents.memory").SQLiteSession(session, private_file(sessions_directory() / "openai-agents.db"))


def _plain(native: Any) -> Any:
    """An event of the SDK as a plain value; what is none of its events is for the translator to wonder at."""
    try:
        return _told(native)
    except AttributeError:
        return json_value(native)


def _told(native: Any) -> Any:
    """Of agents the name, of items what the translator may read."""
    match native.type:
        case "raw_response_event":
            return {"type": native.type, "data": json_value(native.data)}
        case "run_item_stream_event":
            item = {
                "raw_item": json_value(native.item.raw_item),
                "output": json_value(getattr(native.item, "output", None)),
            }
            return {"type": native.type, "name": native.name, "item": item}
        case "agent_updated_stream_event":
            return {"type": native.type, "new_agent": native.new_agent.name}
        case _:
            return json_value(native)


def _finish(translator: OpenAIAgentsTranslator, result: Any) -> list[Event]:
    usage = result.context_wrapper.usage
    return translator.finished(
        output=json_value(result.final_output),
        waiting=[item.name or "a tool" for item in result.interruptions],
        tokens=(usage.input_tokens, usage.output_tokens),
    )
