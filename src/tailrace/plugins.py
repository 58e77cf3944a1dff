"""Which channels and runtimes there are: the entry points in, and the agent a person names on a command line.

Built-in adapters come through the same door as everybody else's: the groups `tailrace.channels` and
`tailrace.runtimes`. Nothing is imported until it is asked for by name: an SDK costs only those who use it.
An entry point that needs an extra says so (`name = "module:Class [extra]"`), and the error names it.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal

from tailrace.errors import PluginNotFound, UsageError
from tailrace.runtimes.function import load_function

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


def load_agent(agent: str, **options: object) -> Runtime:
    """The agent a person names: `module:object` of their own, or an installed runtime made with `options`."""
    if ":" in agent:
        return load_function(agent)
    try:
        make = load("runtime", agent)
    except PluginNotFound as error:
        raise PluginNotFound(f"{error} For an agent of your own write module:function.", known=error.known) from None
    runtime: Runtime = make(**options)
    return runtime


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
