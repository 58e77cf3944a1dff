"""Running an agent of Pydantic AI: one run per turn, and what each session remembers of them.

Owns the run, its end however it comes, and the memory, which the SDK leaves to its users. What the run's events mean is
the translator's; the SDK's objects become plain values here and go no further.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.permissions import approval_question
from tailrace.runtimes.pydantic_ai.translator import PydanticAITranslator
from tailrace.runtimes.sdk import failure_from, json_value, load_sdk, wrong_agent_type
from tailrace.runtimes.sessions import SessionFiles, session_of, sessions_directory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Policy


class PydanticAIRuntime:
    """A `pydantic_ai.Agent` as a runtime. `options` go to `run_stream_events` as they are: `deps`, `usage_limits`, …

    A session remembers the runs that were completed, in a file of this user; without `remembers` none is kept. Calls
    that require approval are decided by `permissions`, and `approver` is who is asked; where nobody can be, the turn
    ends with what it waits for.
    """

    name = "pydantic-ai"

    def __init__(
        self,
        agent: Any,
        *,
        remembers: bool = True,
        permissions: Policy = "ask",
        approver: Approver | None = None,
        **options: Any,
    ) -> None:
        self._agent = agent
        self._remembers = remembers
        self._permissions = permissions
        self._approver = approver
        self._options = options

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """One run of the agent; closing this cancels it, and returns when nothing of it is left."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        if (
            failed := wrong_agent_type(
                self._agent, runtime=self.name, wanted="an agent of Pydantic AI", method="run_stream_events"
            )
        ) is not None:
            yield failed
            return
        translator = PydanticAITranslator()
        try:
            async with aclosing(self._events(prompt)) as events:
                async for native in events:
                    for event in translator.feed(native) if isinstance(native, dict) else [native]:
                        yield event
        except Exception as error:  # noqa: BLE001  # the agent's own code, whose failure is the turn's
            for event in translator.raised(failure_from(error)):
                yield event
        for event in translator.close():
            yield event

    async def _events(self, prompt: Prompt) -> AsyncGenerator[Any, None]:
        """What the run says, as plain values; when it is complete its session remembers it.

        Where calls wait for approval they are decided, of which our own events tell, and the run goes on with that.
        """
        session = session_of(prompt) if self._remembers else ""
        memory = SessionFiles(sessions_directory() / "pydantic-ai")
        kept = await asyncio.to_thread(memory.load, session) if session else None
        further: dict[str, Any] = {} if kept is None else {"message_history": _messages(kept)}
        text: str | None = prompt.text
        async with Approvals(self._permissions, self._approver) as approvals:
            while True:
                result: Any = None
                async with self._agent.run_stream_events(text, **self._options, **further) as events:
                    async for native in events:
                        if hasattr(getattr(native, "result", None), "usage"):
                            result = native
                        else:
                            yield json_value(native)
                if result is None:
                    return
                calls = _waiting(result.result.output) if approvals.can_decide else []
                if not calls:
                    if session:
                        try:
                            await asyncio.to_thread(memory.save, session, result.result.all_messages_json())
                        except OSError as error:
                            yield Notice(text=f"This will not be remembered: {error}")
                    yield _plain_result(result)
                    return
                decided: dict[str, bool] = {}
                async with aclosing(_decide(approvals, calls, decided)) as told:
                    async for event in told:
                        yield event
                yield {"event_kind": "deferred_tool_results"}
                text, further = None, _resumed(result.result, decided)


def _waiting(output: Any) -> list[Any]:
    """The calls that wait for approval and for nothing else; none where some wait for a result from outside."""
    return [] if getattr(output, "calls", True) else list(getattr(output, "approvals", ()))


async def _decide(approvals: Approvals, calls: list[Any], decided: dict[str, bool]) -> AsyncGenerator[Event, None]:
    """Find out which of the calls may be made, into `decided` by their ids; what is to be said of it meanwhile."""
    for call in calls:
        told, chosen = await approvals.ask(
            approval_question("The agent", call.tool_name, json_value(call.args_as_dict()))
        )
        for event in told:
            yield event
        choice = await chosen
        for event in approvals.notices():
            yield event
        decided[call.tool_call_id] = choice is not None and choice.kind.startswith("allow")


def _resumed(result: Any, decided: dict[str, bool]) -> dict[str, Any]:
    """What a run goes on with after its calls were decided."""
    results = load_sdk("pydantic_ai", extra="pydantic-ai").DeferredToolResults(approvals=decided)
    return {"message_history": result.all_messages(), "deferred_tool_results": results}


def _messages(kept: bytes) -> Any:
    """What was said before. Calls that nobody has approved were never made, and the SDK wants to be told so."""
    messages = load_sdk("pydantic_ai.messages", extra="pydantic-ai")
    return messages.repair_messages(messages.ModelMessagesTypeAdapter.validate_json(kept))


def _plain_result(native: Any) -> Any:
    """The end of a run: its output and cost, without the state that the SDK keeps behind them."""
    result = native.result
    return {"event_kind": native.event_kind, "output": json_value(result.output), "usage": json_value(result.usage)}
