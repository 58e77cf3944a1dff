"""Recognises the agents of other frameworks, and common mistakes in their place.

A class is recognised by its name and the module that defines it, so that no framework is imported that nobody uses.
`function` finds the object, and `plugins` makes the runtime for it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class RecognisedAgent(NamedTuple):
    """A recognised agent: what it is, for people, and the name of the runtime for it."""

    description: str
    runtime: str


class _Agent(NamedTuple):
    """A class of agents: where it is defined, its name, what it is, and the runtime for its objects."""

    module: str
    name: str
    description: str
    runtime: str


_AGENTS = (
    _Agent("agents.agent", "Agent", "an agent of the OpenAI Agents SDK", "openai-agents"),
    _Agent("pydantic_ai.", "AbstractAgent", "an agent of Pydantic AI", "pydantic-ai"),
    _Agent("langgraph.", "Pregel", "a compiled graph of LangGraph", "langgraph"),
    _Agent("claude_agent_sdk.", "ClaudeAgentOptions", "options of the Claude Agent SDK", "claude-sdk"),
)
# Frameworks that have a package which serves their agents over AG-UI.
_SERVED_OVER_AGUI = (
    ("strands.", "Agent", "Strands"),
    ("google.adk.", "BaseAgent", "Google's ADK"),
    ("crewai.", "Agent", "CrewAI"),
    ("crewai.", "Crew", "CrewAI"),
    ("agno.", "Agent", "Agno"),
)
_APPLICATIONS = (("starlette.", "Starlette"), ("quart.", "Quart"), ("litestar.", "Litestar"))
_ASGI_PARAMETERS = ["scope", "receive", "send"]


def recognise_agent(found: Any) -> RecognisedAgent | None:
    """The agent of a framework that the object is. None if no framework is recognised."""
    # Somebody's own module may be called `agents.agent` too; the SDK's Agent has no method `run`.
    is_own = _is_of(type(found), "agents.agent", "Agent") and hasattr(found, "run")
    for agent in _AGENTS:
        if not is_own and not inspect.isclass(found) and _is_of(type(found), agent.module, agent.name):
            return RecognisedAgent(agent.description, agent.runtime)
    if _speaks_agui(found):
        return RecognisedAgent("a function that yields AG-UI events", "agui")
    return None


def recognise_mistake(found: Any) -> str | None:
    """What the object is instead of an agent, and what to name in its place. None if it is nothing known."""
    return next((text for check in _MISTAKES if (text := check(found)) is not None), None)


def _agent_class(found: Any) -> str | None:
    if not inspect.isclass(found):
        return None
    for agent in _AGENTS:
        if _is_of(found, agent.module, agent.name):
            article, _, rest = agent.description.partition(" ")
            call = f"{found.__name__}(…)"
            return f"the class of {article} {rest}, not an object of it: write agent = {call} and name that"
    return None


def _uncompiled_graph(found: Any) -> str | None:
    if not _is_of(type(found), "langgraph.", "StateGraph"):
        return None
    return "a graph of LangGraph that is not compiled: write graph = builder.compile() and name that"


def _claude_client(found: Any) -> str | None:
    if not _is_of(type(found), "claude_agent_sdk.", "ClaudeSDKClient"):
        return None
    return "a client of the Claude Agent SDK: name its ClaudeAgentOptions, because each turn makes its own client"


def _served_agent(found: Any) -> str | None:
    for module, name, framework in _SERVED_OVER_AGUI:
        if _is_of(type(found), module, name):
            return f"an agent of {framework}: serve it over AG-UI, and name its address as agui+URL"
    return None


def _web_application(found: Any) -> str | None:
    is_known = any(_is_of(type(found), module, name) for module, name in _APPLICATIONS)
    if not is_known and not (callable(found) and _parameters(found) == _ASGI_PARAMETERS):
        return None
    return "a web application: start it with its server, and name its address as agui+URL or vercel+URL"


def _coroutine(found: Any) -> str | None:
    if not inspect.iscoroutine(found):
        return None
    return "a coroutine that was called already: name an async generator function"


_MISTAKES: tuple[Callable[[Any], str | None], ...] = (
    _agent_class,
    _uncompiled_graph,
    _claude_client,
    _served_agent,
    _web_application,
    _coroutine,
)


def _is_of(kind: type, module: str, name: str) -> bool:
    """True if the class, or one of its bases, has that name and is defined in that package."""
    return any(f"{cls.__module__}.".startswith(module) and cls.__name__ == name for cls in kind.__mro__)


def _speaks_agui(found: Any) -> bool:
    """True for an async generator function whose annotations name types of AG-UI."""
    if not inspect.isasyncgenfunction(found):
        return False
    return any(
        word in str(annotation) for annotation in found.__annotations__.values() for word in ("RunAgentInput", "ag_ui")
    )


def _parameters(found: Any) -> list[str]:
    try:
        return list(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return []
