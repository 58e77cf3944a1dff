"""The installed channels and runtimes, and the agent that a person names on a command line.

All of them, also the built-in ones, are entry points of the groups `tailrace.channels` and `tailrace.runtimes`. A
plugin is imported only when it is requested by name, because some import a large SDK. An entry point that needs an
extra names the extra (`name = "module:Class [extra]"`), so that the error for a failed import can name it too.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tailrace.errors import AgentNotFound, PluginNotFound, UsageError
from tailrace.ports import Runtime
from tailrace.runtimes.function import load_object, runtime_of
from tailrace.runtimes.recognition import recognise_agent, recognise_mistake
from tailrace.runtimes.sdk import install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PluginKind = Literal["channel", "runtime"]

_AGENT_LIST = "For what an agent can be: tailrace chat --help"


def known(kind: PluginKind) -> tuple[str, ...]:
    """The names of all installed plugins of a kind, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=f"tailrace.{kind}s")}))


def load(kind: PluginKind, name: str) -> Callable[..., Any]:
    """The class or function that makes the plugin of that name: imported now, not yet called.

    Raises `PluginNotFound` for a name that is not installed and `UsageError` for a plugin that cannot be imported.
    """
    for entry in entry_points(group=f"tailrace.{kind}s", name=name):
        return _import(kind, entry)
    names = known(kind)
    installed = f"Installed: {', '.join(names) or 'none'}."
    raise PluginNotFound(f"there is no {kind} {name!r}.{_did_you_mean(name, names)} {installed}", known=names)


def _did_you_mean(name: str, names: tuple[str, ...]) -> str:
    near = get_close_matches(name, names, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class FoundAgent(NamedTuple):
    """An agent: its runtime, its description ("" if its name says enough), and the names of the options it took."""

    runtime: Runtime
    description: str
    taken: frozenset[str]


# The beginnings of agent names, with descriptions. "acp:" means the runtime `acp`, which gets the rest of the name.
SCHEMES = {
    "acp:": "an agent of the Agent Client Protocol",
    "agui+": "an endpoint that speaks AG-UI",
    "vercel+": "a chat route of the Vercel AI SDK",
}


def find_agent(agent: str, options: Mapping[str, object] | None = None) -> FoundAgent:
    """The agent with that name. Its runtime gets those `options` for which the runtime has a parameter.

    Raises `AgentNotFound`, `PluginNotFound` or `UsageError`. The message says what to write instead.
    """
    options = options or {}
    for scheme, description in SCHEMES.items():
        if agent.startswith(scheme):
            return _made(scheme[:-1], _behind(scheme, agent), description=description, options=options)
    if agent.startswith(("http://", "https://")):
        raise UsageError(f"{agent} does not say which protocol it speaks: write agui+{agent} or vercel+{agent}")
    if ":" in agent:
        return _from_object(load_object(agent), agent, options)
    names = known("runtime")
    if agent not in names:
        hint = _did_you_mean(agent, names)
        raise PluginNotFound(f"there is no agent {agent!r}.{hint} {_AGENT_LIST}", known=names)
    return _made(agent, options=options)


def _from_object(found: Any, agent: str, options: Mapping[str, object]) -> FoundAgent:
    """Make an agent of the object that was found at `module:object`. If it is a text, the text names an agent."""
    if isinstance(found, str):
        if not found.startswith((*SCHEMES, "http://", "https://")):
            raise AgentNotFound(f"{agent} is a text that names no agent. Write acp:COMMAND, agui+URL or vercel+URL.")
        named = find_agent(found, options)
        return named._replace(description=f"{found}, {named.description}")
    recognised = recognise_agent(found)
    if recognised is not None:
        return _made(recognised.runtime, found, description=recognised.description, options=options)
    if (mistake := recognise_mistake(found)) is not None:
        raise AgentNotFound(f"{agent} is {mistake}.")
    try:
        runtime = runtime_of(found, agent)
    except AgentNotFound as error:
        raise AgentNotFound(f"{error} {_AGENT_LIST}") from error
    description = "a runtime" if runtime is found else "an async generator function"
    return FoundAgent(runtime, description, frozenset())


def _behind(scheme: str, agent: str) -> str:
    rest = agent.removeprefix(scheme).strip()
    if not rest:
        what = "the command that starts it" if scheme == "acp:" else "its address"
        raise UsageError(f"{agent!r} names no agent: write {what} behind {scheme}")
    return rest


def _made(name: str, *arguments: object, description: str = "", options: Mapping[str, object]) -> FoundAgent:
    make = load("runtime", name)
    signature = inspect.signature(make)
    taken = {option: value for option, value in options.items() if option in signature.parameters}
    try:
        signature.bind(*arguments, **taken)
    except TypeError as error:
        raise AgentNotFound(f"{name!r} alone names no agent: {error}. {_AGENT_LIST}") from error
    return FoundAgent(make(*arguments, **taken), description, frozenset(taken))


def _import(kind: PluginKind, entry: EntryPoint) -> Callable[..., Any]:
    """Import the object of an entry point. The error for a failure says in one sentence what to do."""
    package = entry.dist.name if entry.dist else "its package"
    try:
        plugin: Callable[..., Any] = entry.load()
    except ModuleNotFoundError as error:
        if entry.extras:
            hint = install_hint(package, ",".join(entry.extras))
            raise UsageError(f"the {kind} {entry.name!r} needs the module {error.name!r}. {hint}") from error
        raise UsageError(
            f"the {kind} {entry.name!r} of {package} needs the module {error.name!r}, which is not installed."
        ) from error
    except Exception as error:
        raise UsageError(
            f"the {kind} {entry.name!r} of {package} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return plugin
