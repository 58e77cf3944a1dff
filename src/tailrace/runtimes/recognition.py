"""What an object of somebody's module is: an agent of which framework, and if it is none, what it nearly is.

Classes are known by where they are defined and by their name, so that no framework is imported which nobody uses. Owns
the table of what is known and the words for it; finding the object is `function`'s, and making its runtime `plugins`'.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(NamedTuple):
    """What something is, in words, and the runtime that runs it; None where none of ours does."""

    words: str
    runtime: str | None = None


class _Known(NamedTuple):
    """Where a class is defined, what it is called, whose it is, and the runtime for its objects."""

    module: str
    name: str
    words: str
    runtime: str


_AGENTS = (
    _Known("agents.agent", "Agent", "an agent of the OpenAI Agents SDK", "openai-agents"),
    _Known("pydantic_ai.", "AbstractAgent", "an agent of Pydantic AI", "pydantic-ai"),
    _Known("langgraph.", "Pregel", "a compiled graph of LangGraph", "langgraph"),
    _Known("claude_agent_sdk.", "ClaudeAgentOptions", "options of the Claude Agent SDK", "claude-sdk"),
)
# Agents that are heard by AG-UI, which each of them has a package for.
_SERVED = (
    ("strands.", "Agent", "Strands"),
    ("google.adk.", "BaseAgent", "Google's ADK"),
    ("crewai.", "Agent", "CrewAI"),
    ("crewai.", "Crew", "CrewAI"),
    ("agno.", "Agent", "Agno"),
)
_APPLICATIONS = (("starlette.", "Starlette"), ("quart.", "Quart"), ("litestar.", "Litestar"))
_CALLED_WITH = ["scope", "receive", "send"]


def recognised(found: Any) -> Kind | None:
    """The agent that the object is, as far as a framework made it; None for anything else."""
    # A class `Agent` in a module `agents.agent` may be somebody's own; what can be run by itself is not of the SDK.
    is_own = _is_of(type(found), "agents.agent", "Agent") and hasattr(found, "run")
    for known in _AGENTS:
        if not is_own and not inspect.isclass(found) and _is_of(type(found), known.module, known.name):
            return Kind(known.words, known.runtime)
    if _speaks_agui(found):
        return Kind("a function that yields AG-UI events", "agui")
    return None


def near_miss(found: Any) -> str | None:
    """What the object is in place of an agent and what to name instead; None where nothing is known of it."""
    return next((said for look in _LOOKS if (said := look(found)) is not None), None)


def _as_class(found: Any) -> str | None:
    if not inspect.isclass(found):
        return None
    for known in _AGENTS:
        if _is_of(found, known.module, known.name):
            article, _, whose = known.words.partition(" ")
            made = f"{found.__name__}(…)"
            return f"the class of {article} {whose}, not one that is made of it: write agent = {made} and name that"
    return None


def _as_graph(found: Any) -> str | None:
    if not _is_of(type(found), "langgraph.", "StateGraph"):
        return None
    return "a graph of LangGraph that is not compiled: write graph = builder.compile() and name that"


def _as_client(found: Any) -> str | None:
    if not _is_of(type(found), "claude_agent_sdk.", "ClaudeSDKClient"):
        return None
    return "a client of the Claude Agent SDK: name its ClaudeAgentOptions, each turn has a client of its own"


def _as_served(found: Any) -> str | None:
    for module, name, whose in _SERVED:
        if _is_of(type(found), module, name):
            return f"an agent of {whose}: serve it by AG-UI, and name its address as agui+URL"
    return None


def _as_application(found: Any) -> str | None:
    is_known = any(_is_of(type(found), module, name) for module, name in _APPLICATIONS)
    if not is_known and not (callable(found) and _parameters(found) == _CALLED_WITH):
        return None
    return "a web application: start it with its server, and name its address as agui+URL or vercel+URL"


def _as_coroutine(found: Any) -> str | None:
    return (
        "a coroutine that was called already: name an async generator function" if inspect.iscoroutine(found) else None
    )


_LOOKS: tuple[Callable[[Any], str | None], ...] = (
    _as_class,
    _as_graph,
    _as_client,
    _as_served,
    _as_application,
    _as_coroutine,
)


def _is_of(kind: type, module: str, name: str) -> bool:
    """Whether a class is, or descends from, the one of that name in that package."""
    return any(f"{cls.__module__}.".startswith(module) and cls.__name__ == name for cls in kind.__mro__)


def _speaks_agui(found: Any) -> bool:
    """Whether it is a function that says of itself that it takes or yields what AG-UI defines."""
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
