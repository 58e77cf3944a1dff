"""Which channels and runtimes there are: the entry points in, and the agent a person names on a command line.

Built-in adapters come through the same door as everybody else's: the groups `tailrace.channels` and
`tailrace.runtimes`. Nothing is imported until it is asked for by name: an SDK costs only those who use it.
An entry point that needs an extra says so (`name = "module:Class [extra]"`), and the error names it.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal

from tailrace.errors import AgentNotFound, PluginNotFound, UsageError
from tailrace.runtimes.function import load_object, runtime_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.ports import Runtime

Kind = Literal["channel", "runtime"]


def known(kind: Kind) -> tuple[str, ...]:
    """The names of all installed plugins of a kind, sorted."""
    return tuple(sorted({found.name for found in entry_points(group=f"tailrace.{kind}s")}))


def load(kind: Kind, name: str) -> Callable[..., Any]:
    """What makes the plugin of that name: a class or a function, imported now and not yet called.

    Raises `PluginNotFound` for a name nobody installed and `UsageError` for a plugin that cannot be imported.
    """
    for found in entry_points(group=f"tailrace.{kind}s", name=name):
        return _import(kind, found)
    names = known(kind)
    near = get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise PluginNotFound(f"there is no {kind} {name!r}.{hint} Installed: {', '.join(names) or 'none'}.", known=names)


# Agents of frameworks are known by the class they are made of, so that nothing is imported which nobody uses:
# the module of the class begins with this, it has this name, and this runtime runs it.
FRAMEWORKS = (
    ("agents.", "Agent", "openai-agents"),
    ("pydantic_ai.", "AbstractAgent", "pydantic-ai"),
    ("langgraph.", "Pregel", "langgraph"),
)
# What stands before the colon or the plus, and the runtime that is made with what follows it.
SCHEMES = ("acp:", "agui+", "vercel+")
_KINDS = (
    "the name of a runtime, acp:COMMAND, agui+URL, vercel+URL, or module:object: an async generator function, "
    "a runtime, an agent of the OpenAI Agents SDK or of Pydantic AI, or a compiled graph of LangGraph"
)


def load_agent(agent: str, **options: object) -> Runtime:
    """The agent a person names. Raises `AgentNotFound`, `PluginNotFound` or `UsageError` with what to mend."""
    for scheme in SCHEMES:
        if agent.startswith(scheme):
            return _made("runtime", scheme[:-1], _named(agent, scheme), **options)
    if agent.startswith(("http://", "https://")):
        raise UsageError(f"{agent} does not say what it speaks: write agui+{agent} or vercel+{agent}")
    if ":" in agent:
        found = load_object(agent)
        framework = _framework(found)
        return _made("runtime", framework, found) if framework is not None else _own(found, agent)
    try:
        make = load("runtime", agent)
    except PluginNotFound as error:
        raise PluginNotFound(f"{error} For an agent of your own write module:function.", known=error.known) from None
    runtime: Runtime = make(**options)
    return runtime


def _named(agent: str, scheme: str) -> str:
    named = agent.removeprefix(scheme).strip()
    if not named:
        what = "the command that starts it" if scheme == "acp:" else "its address"
        raise UsageError(f"{agent!r} names no agent: write {what} behind {scheme}")
    return named


def _made(kind: Kind, name: str, *arguments: object, **options: object) -> Runtime:
    runtime: Runtime = load(kind, name)(*arguments, **options)
    return runtime


def _framework(found: object) -> str | None:
    """The runtime for an agent of a framework; None for anything else."""
    classes = [(cls.__module__, cls.__name__) for cls in type(found).__mro__]
    for module, name, runtime in FRAMEWORKS:
        if any(place.startswith(module) and called == name for place, called in classes):
            return runtime
    return None


def _own(found: object, agent: str) -> Runtime:
    try:
        return runtime_of(found, agent)
    except AgentNotFound as error:
        raise AgentNotFound(f"{error} An agent is {_KINDS}.") from error


def _import(kind: Kind, found: EntryPoint) -> Callable[..., Any]:
    """Import what an entry point names; whatever goes wrong becomes one sentence that says what to do."""
    package = found.dist.name if found.dist else "its package"
    try:
        plugin: Callable[..., Any] = found.load()
    except ModuleNotFoundError as error:
        if found.extras:
            wanted = f"{package}[{','.join(found.extras)}]"
            raise UsageError(
                f"the {kind} {found.name!r} needs the module {error.name!r}. Install it with: pip install '{wanted}'"
            ) from error
        raise UsageError(
            f"the {kind} {found.name!r} of {package} needs the module {error.name!r}, which is not installed."
        ) from error
    except Exception as error:
        raise UsageError(
            f"the {kind} {found.name!r} of {package} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return plugin
