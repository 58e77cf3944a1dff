"""Recognises agents of other frameworks, and objects that were named by mistake instead of an agent.

A class is recognised by its name and the module that defines it, so that no unused framework is imported. `function`
imports the object, and `plugins` makes the runtime for it.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple


class RecognisedAgent(NamedTuple):
    """A recognised agent: its description for people, and the name of its runtime."""

    description: str
    runtime: str


class _Agent(NamedTuple):
    """A class of agents: its module, its name, a description, and the runtime for its objects."""

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
_AGUI = "an agent of {}: serve it over AG-UI, and name its address as agui+URL"
_APPLICATION = "a web application: start it with its server, and name its address as agui+URL or vercel+URL"
# Classes of objects that are not agents: the module of each, its name, and the advice what to name instead.
_MISTAKES = (
    (
        "langgraph.",
        "StateGraph",
        "a graph of LangGraph that is not compiled: write graph = builder.compile() and name that",
    ),
    (
        "claude_agent_sdk.",
        "ClaudeSDKClient",
        "a client of the Claude Agent SDK: name its ClaudeAgentOptions, because each turn makes its own client",
    ),
    ("strands.", "Agent", _AGUI.format("Strands")),
    ("google.adk.", "BaseAgent", _AGUI.format("Google's ADK")),
    ("crewai.", "Agent", _AGUI.format("CrewAI")),
    ("crewai.", "Crew", _AGUI.format("CrewAI")),
    ("agno.", "Agent", _AGUI.format("Agno")),
    ("starlette.", "Starlette", _APPLICATION),
    ("quart.", "Quart", _APPLICATION),
    ("litestar.", "Litestar", _APPLICATION),
)
_ASGI_PARAMETERS = ["scope", "receive", "send"]


def recognise_agent(found: Any) -> RecognisedAgent | None:
    """Find out which framework's agent the object is. None if it is no agent of a known framework."""
    # A user's own module may also be called `agents.agent`. The Agent of the SDK has no method `run`.
    is_own = _is_of(type(found), "agents.agent", "Agent") and hasattr(found, "run")
    for agent in _AGENTS:
        if not is_own and not inspect.isclass(found) and _is_of(type(found), agent.module, agent.name):
            return RecognisedAgent(agent.description, agent.runtime)
    if _speaks_agui(found):
        return RecognisedAgent("a function that yields AG-UI events", "agui")
    return None


def recognise_mistake(found: Any) -> str | None:
    """Describe an object that is no agent, and say what to name instead. None if the object is of no known kind."""
    if inspect.isclass(found):
        for agent in _AGENTS:
            if _is_of(found, agent.module, agent.name):
                call = f"{found.__name__}(…)"
                return f"the class of {agent.description}, not an object of it: write agent = {call} and name that"
    for module, name, text in _MISTAKES:
        if _is_of(type(found), module, name):
            return text
    if callable(found) and _parameters(found) == _ASGI_PARAMETERS:
        return _APPLICATION
    if inspect.iscoroutine(found):
        return "a coroutine that was called already: name an async generator function"
    return None


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
