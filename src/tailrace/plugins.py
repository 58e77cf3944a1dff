"""Which channels and runtimes there are: the entry points in, and the agent a person names on a command line.

Built-in adapters come through the same door as everybody else's: the groups `tailrace.channels` and
`tailrace.runtimes`. Nothing is imported until it is asked for by name: an SDK costs only those who use it.
An entry point that needs an extra says so (`name = "module:Class [extra]"`), and the error names it.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tailrace.errors import AgentNotFound, PluginNotFound, UsageError
from tailrace.ports import Runtime
from tailrace.runtimes.function import load_object, runtime_of
from tailrace.runtimes.recognition import near_miss, recognised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


class Found(NamedTuple):
    """An agent: what runs it, what it is in words (empty where its name says it), and which offers it has taken."""

    runtime: Runtime
    words: str
    taken: frozenset[str]


# What stands before the colon or the plus, what that is, and the runtime that is made with what follows it.
SCHEMES = {
    "acp:": "an agent of the Agent Client Protocol",
    "agui+": "an endpoint that speaks AG-UI",
    "vercel+": "a chat route of the Vercel AI SDK",
}
_KINDS = (
    "the name of a runtime, acp:COMMAND, agui+URL, vercel+URL, or module:object: an async generator function, "
    "a runtime, an agent of the OpenAI Agents SDK or of Pydantic AI, a compiled graph of LangGraph, "
    "options of the Claude Agent SDK, or one of these addresses as text"
)


def find_agent(agent: str, offers: Mapping[str, object] | None = None) -> Found:
    """The agent a person names, and what it is; of the `offers` it is given those that its maker has a name for.

    Raises `AgentNotFound`, `PluginNotFound` or `UsageError` with what to mend.
    """
    offers = offers or {}
    for scheme, words in SCHEMES.items():
        if agent.startswith(scheme):
            return _made(scheme[:-1], _named(agent, scheme), words=words, offers=offers)
    if agent.startswith(("http://", "https://")):
        raise UsageError(f"{agent} does not say what it speaks: write agui+{agent} or vercel+{agent}")
    if ":" in agent:
        return _found(load_object(agent), agent, offers)
    try:
        return _made(agent, offers=offers)
    except PluginNotFound as error:
        raise PluginNotFound(f"{error} For an agent of your own write module:function.", known=error.known) from None


def _found(found: Any, agent: str, offers: Mapping[str, object]) -> Found:
    """The object as an agent; a text is the name of one."""
    if isinstance(found, str):
        if not found.startswith((*SCHEMES, "http://", "https://")):
            raise AgentNotFound(f"{agent} is a text that names no agent. An agent is {_KINDS}.")
        named = find_agent(found, offers)
        return named._replace(words=f"{found}, {named.words}")
    kind = recognised(found)
    if kind is not None and kind.runtime is not None:
        return _made(kind.runtime, found, words=kind.words, offers=offers)
    if (nearly := near_miss(found)) is not None:
        raise AgentNotFound(f"{agent} is {nearly}.")
    try:
        runtime = runtime_of(found, agent)
    except AgentNotFound as error:
        raise AgentNotFound(f"{error} An agent is {_KINDS}.") from error
    words = "a runtime" if runtime is found else "an async generator function"
    return Found(runtime, words, frozenset())


def _named(agent: str, scheme: str) -> str:
    named = agent.removeprefix(scheme).strip()
    if not named:
        what = "the command that starts it" if scheme == "acp:" else "its address"
        raise UsageError(f"{agent!r} names no agent: write {what} behind {scheme}")
    return named


def _made(name: str, *arguments: object, words: str = "", offers: Mapping[str, object]) -> Found:
    make = load("runtime", name)
    known = inspect.signature(make).parameters
    taken = {option: value for option, value in offers.items() if option in known}
    return Found(make(*arguments, **taken), words, frozenset(taken))


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
