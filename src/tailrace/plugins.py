"""The installed plugins: finds them, creates channels, and finds the agent that a person names on a command line.

All of them, also the built-in ones, are entry points of the groups `tailrace.channels`, `tailrace.runtimes` and
`tailrace.simulators`. A plugin is imported only when it is requested by name, because some import a large SDK. An entry
point that needs an extra names it (`name = "module:Class [extra]"`), so that the error can name it too.

A channel type with settings of its own has a class attribute `Settings`: a msgspec struct, with fields of the type
`SecretText` for tokens. The channel is created with those that are set, by keyword, and with `name=` if its table has
another name than its type.
"""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from tailrace.errors import AgentNotFound, PluginNotFound, UsageError, did_you_mean
from tailrace.ports import Channel, Runtime
from tailrace.redaction import Redaction
from tailrace.runtimes.function import load_object, runtime_of
from tailrace.runtimes.recognition import recognise_agent, recognise_mistake
from tailrace.runtimes.sdk import install_hint
from tailrace.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

PluginKind = Literal["channel", "runtime", "simulator"]

_AGENT_LIST = "For what an agent can be: tailrace chat --help"


def known(kind: PluginKind) -> tuple[str, ...]:
    """The names of all installed plugins of a kind, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=f"tailrace.{kind}s")}))


def load(kind: PluginKind, name: str) -> Callable[..., Any]:
    """The class or function that makes the plugin with this name. It is imported but not called yet.

    Raises `PluginNotFound` for a name that is not installed and `UsageError` for a plugin that cannot be imported.
    """
    for entry in entry_points(group=f"tailrace.{kind}s", name=name):
        return _import(kind, entry)
    names = known(kind)
    installed = f"Installed: {', '.join(names) or 'none'}."
    raise PluginNotFound(f"there is no {kind} {name!r}.{did_you_mean(name, names)} {installed}", known=names)


class NoSettings(msgspec.Struct, frozen=True):
    """The settings of a channel type that has none of its own."""


def channel_settings(kind: str) -> type[msgspec.Struct]:
    """The struct with the settings that only channels of this type have.

    Raises `PluginNotFound` if the type is not installed and `UsageError` if the plugin is not usable.
    """
    found = getattr(load("channel", kind), "Settings", NoSettings)
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return found
    raise UsageError(f"the channel {kind!r} has an attribute Settings that is no msgspec struct")


def make_channel(kind: str, name: str, options: Mapping[str, object]) -> Channel:
    """Create a channel of this type; it is not started.

    Raises `UsageError` if there is no such type, a secret cannot be read, or the channel cannot be created or cannot
    send.
    """
    make = load("channel", kind)
    secrets = {key: _revealed(name, key, value) for key, value in options.items() if isinstance(value, Secret)}
    naming = {} if name == kind else {"name": name}
    try:
        channel: Any = make(**{**options, **secrets, **naming})
    except Exception as error:
        kind_of_error = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        text = Redaction({f"secret {key}": secret for key, secret in secrets.items()}).text(str(error))
        reason = f"{kind_of_error}{' '.join(text.split())}".removesuffix(": ")
        raise UsageError(f"the channel {name!r} cannot be created: {reason}") from error
    if not isinstance(channel, Channel):
        raise UsageError(
            f"the channel {name!r} cannot send: it must have all members of `tailrace.ports.Channel` "
            "(name, capabilities, start, stop, wait_closed, post)"
        )
    if channel.name != name:
        raise UsageError(f"the channel {name!r} has the attribute name={channel.name!r}: the two must be equal")
    return channel


def _revealed(channel: str, key: str, secret: Secret) -> str:
    try:
        return secret.reveal()
    except UsageError as error:
        raise UsageError(f"channels.{channel}.{key}: {error}") from error


class FoundAgent(NamedTuple):
    """An agent: its runtime, and a description for people; "" if the name of the agent says enough.

    `taken` are the names of the options that were passed to the runtime.
    """

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
    """Create the runtime of the agent that a person named.

    The runtime gets only those `options` for which it has a parameter.

    Raises `AgentNotFound`, `PluginNotFound` or `UsageError`. The message says what to write instead.
    """
    options = options or {}
    for scheme, description in SCHEMES.items():
        if agent.startswith(scheme):
            return _made(scheme[:-1], _behind(scheme, agent), description=description, options=options)
    if agent.startswith(("http://", "https://")):
        raise UsageError(f"{agent} does not say which protocol it speaks: write agui+{agent} or vercel+{agent}")
    if ":" in agent:
        return agent_of(load_object(agent), agent, options)
    names = known("runtime")
    if agent not in names:
        hint = did_you_mean(agent, names)
        raise PluginNotFound(f"there is no agent {agent!r}.{hint} {_AGENT_LIST}", known=names)
    return _made(agent, options=options)


def load_middleware(path: str) -> Callable[[str, str | None], Awaitable[str]]:
    """The async function at `module:function` that changes prompts. Raises `UsageError` if there is none."""
    found = load_object(path)
    if not inspect.iscoroutinefunction(found):
        shape = "async def add(prompt, agent_id): return prompt"
        raise UsageError(f"the middleware {path} is not an async function; it looks like this: {shape}")
    middleware: Callable[[str, str | None], Awaitable[str]] = found
    return middleware


def agent_of(found: Any, agent: str, options: Mapping[str, object]) -> FoundAgent:
    """The agent that the object `found` is. If it is a text, the text names an agent.

    `agent` names the object in errors. Raises `AgentNotFound`, `PluginNotFound` or `UsageError`.
    """
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
    """Import the object of an entry point. If that fails, the error says in one sentence what to do."""
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
