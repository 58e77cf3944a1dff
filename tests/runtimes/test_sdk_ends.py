"""How a run of a Python SDK ends: cancelled, or else failed, or else complete, or else cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from turns import CUT_OFF

from tailrace.events import Event, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.runtimes.langgraph import LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsTranslator
from tailrace.runtimes.pydantic_ai import PydanticAITranslator
from tailrace.runtimes.sdk import SdkFailure

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURE = SdkFailure(kind="RuntimeError", message="no", status_code=503)
FAILED = TurnFailed(message="no", code="runtime_raised", status_code=503)


def langgraph(_: Any) -> Any:
    translator = LangGraphTranslator()
    translator.finished()
    return translator


def openai_agents(output: Any) -> Any:
    translator = OpenAIAgentsTranslator()
    translator.finished(output=output)
    return translator


def pydantic_ai(output: Any) -> Any:
    translator = PydanticAITranslator()
    translator.feed({"event_kind": "agent_run_result", "output": output})
    return translator


EVERY = (langgraph, openai_agents, pydantic_ai)
WITH_OUTPUT = (openai_agents, pydantic_ai)
CUT = TurnFailed(message="openai-agents stopped before the turn was complete", code=CUT_OFF)


@pytest.mark.parametrize("is_cancelled", [True, False])
@pytest.mark.parametrize("finished", EVERY)
def test_a_cancellation_counts_before_a_failure(finished: Callable[[Any], Any], is_cancelled: bool) -> None:
    translator = finished("yes")
    translator.raised(FAILURE)
    assert translator.close(cancelled=is_cancelled) == [TurnCancelled() if is_cancelled else FAILED]


@pytest.mark.parametrize(
    ("finished", "output", "end"),
    [
        (langgraph, None, TurnCompleted()),
        *((finished, "yes", TurnCompleted(text="yes")) for finished in WITH_OUTPUT),
        *((finished, {"city": "Oslo"}, TurnCompleted(text='{"city":"Oslo"}')) for finished in WITH_OUTPUT),
        (openai_agents, None, CUT),
    ],
)
def test_a_run_is_complete_with_its_output(finished: Callable[[Any], Any], output: Any, end: Event) -> None:
    assert finished(output).close() == [end]


def test_a_graph_that_took_too_many_steps_has_failed() -> None:
    translator = langgraph(None)
    translator.raised(SdkFailure(kind="GraphRecursionError", message="no"))
    assert translator.close() == [TurnFailed(message="no", code="max_turns")]
