"""Runs an agent of Pydantic AI: one run per turn, and the message history of each session.

This module owns the run, all ways in which it can end, and the history, which the SDK does not store. SDK objects
become JSON values here; the translator owns their meaning.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.events import Event, Notice, TurnStarted
from tailrace.runtimes.approvals import Approvals
from tailrace.runtimes.permissions import approval_question
from tailrace.runtimes.pydantic_ai.translator import PydanticAITranslator
from tailrace.runtimes.sdk import failure_from, json_value, load_sdk, wrong_agent_type
from tailrace.runtimes.sessions import SessionFile, session_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.ports import Prompt
    from tailrace.runtimes.permissions import Approver, Policy


class PydanticAIRuntime:
    """Runs turns with a `pydantic_ai.Agent`. `options` are passed to `run_stream_events`: `deps`, `usage_limits`, …

    The completed runs of a session are saved in a file of this user, unless `remembers` is False. `permissions` decides
    on tool calls that require approval, and `approver` asks the person. If no person can be asked, the turn ends and
    says which calls wait.
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
        """Run the agent once. Closing this iterator cancels the run and waits until it has ended."""
        yield TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        wrong_type = wrong_agent_type(
            self._agent, runtime=self.name, wanted="an agent of Pydantic AI", method="run_stream_events"
        )
        if wrong_type is not None:
            yield wrong_type
            return
        translator = PydanticAITranslator()
        try:
            async with aclosing(self._events(prompt)) as events:
                async for native in events:
                    for event in translator.feed(native) if isinstance(native, dict) else [native]:
                        yield event
        except Exception as error:  # noqa: BLE001  # the agent's own code failed, so the turn fails
            for event in translator.raised(failure_from(error)):
                yield event
        for event in translator.close():
            yield event

    async def _events(self, prompt: Prompt) -> AsyncGenerator[Any, None]:
        """Yield the events of the run as JSON values; between them, the canonical events about approvals.

        After a decision on tool calls that wait for approval, the run continues. A completed run is saved.
        """
        session = session_of(prompt) if self._remembers else ""
        saved = SessionFile(self.name, session)
        history = await saved.load()
        options: dict[str, Any] = {} if history is None else {"message_history": _load_messages(history)}
        text: str | None = prompt.text
        async with Approvals(self._permissions, self._approver) as approvals:
            while True:
                result: Any = None
                async with self._agent.run_stream_events(text, **self._options, **options) as events:
                    async for native in events:
                        if hasattr(getattr(native, "result", None), "usage"):
                            result = native
                        else:
                            yield json_value(native)
                if result is None:
                    return
                calls = _waiting_calls(result.result.output) if approvals.can_decide else []
                if not calls:
                    if session and (problem := await saved.save(result.result.all_messages_json)):
                        yield Notice(text=f"This will not be remembered: {problem}")
                    yield _result_value(result)
                    return
                decisions: dict[str, bool] = {}
                async with aclosing(_decide(approvals, calls, decisions)) as approval_events:
                    async for event in approval_events:
                        yield event
                yield {"event_kind": "deferred_tool_results"}
                text, options = None, _continuation(result.result, decisions)


def _waiting_calls(output: Any) -> list[Any]:
    """The tool calls that wait for approval.

    Empty if any call waits for a result from outside instead, because such a result cannot be given here.
    """
    return [] if getattr(output, "calls", True) else list(getattr(output, "approvals", ()))


async def _decide(approvals: Approvals, calls: list[Any], decisions: dict[str, bool]) -> AsyncGenerator[Event, None]:
    """Decide on each tool call and store the result in `decisions`, by call id. Yields the events of the approvals."""
    for call in calls:
        question = approval_question("The agent", call.tool_name, json_value(call.args_as_dict()))
        events, choice = await approvals.ask(question)
        for event in events:
            yield event
        chosen = await choice
        for event in approvals.notices():
            yield event
        decisions[call.tool_call_id] = chosen is not None and chosen.kind.startswith("allow")


def _continuation(result: Any, decisions: dict[str, bool]) -> dict[str, Any]:
    """The options for the next run of the agent, after its tool calls were approved or denied."""
    results = load_sdk("pydantic_ai", extra="pydantic-ai").DeferredToolResults(approvals=decisions)
    return {"message_history": result.all_messages(), "deferred_tool_results": results}


def _load_messages(saved: bytes) -> Any:
    """Decode the message history. The SDK then repairs it: tool calls without approval count as never made."""
    messages = load_sdk("pydantic_ai.messages", extra="pydantic-ai")
    return messages.repair_messages(messages.ModelMessagesTypeAdapter.validate_json(saved))


def _result_value(native: Any) -> Any:
    """Convert the last event of a run to a JSON value: output and usage, without the internal state of the SDK."""
    result = native.result
    return {"event_kind": native.event_kind, "output": json_value(result.output), "usage": json_value(result.usage)}
