"""Agents that are Python functions: an async generator function, named `module:function`.

The function takes a `Prompt` and yields events, or strings, which become text deltas. Anything else that it yields is
passed on, and `tailrace.contract` refuses it. A function that speaks AG-UI looks the same from outside. So if it yields
AG-UI events, an error says how to name such an agent. An object that is already a `Runtime` is used unchanged. This
module also imports the object by its name, or reports why that is not possible.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from contextlib import aclosing
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AgentNotFound
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from types import ModuleType

_EXPECTED = "An agent is an async generator function: `async def answer(prompt): yield 'text'`."


class FunctionRuntime:
    """Runs turns by calling an async generator function, once per turn."""

    def __init__(self, function: Callable[[Prompt], AsyncGenerator[Event | str, None]], *, name: str) -> None:
        self.name = name
        self._function = function

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Call the function and yield its events. Closing this iterator closes the function.

        The turn starts with the first event. A function may yield `TurnStarted` itself and leave fields empty. If it
        returns without a terminal event, the turn is complete.
        """
        started = TurnStarted(runtime=self.name, session_id=prompt.session_id or None)
        is_started = is_ended = False
        try:
            async with aclosing(self._function(prompt)) as items:
                async for item in items:
                    if not is_started and not isinstance(item, TurnStarted):
                        yield started
                    is_started = True
                    if _is_agui_event(item):
                        message = f"{self.name} yields events of AG-UI. {self._advice}"
                        yield TurnFailed(message=message, code="not_an_event")
                        return
                    is_ended = is_ended or isinstance(item, TurnCompleted | TurnFailed | TurnCancelled)
                    yield _event(item, started)
        except Exception as error:
            if not is_started:
                yield started
            # Python raises such an error if code uses the prompt as another type, probably as the input of AG-UI.
            is_misuse = isinstance(error, TypeError | AttributeError) and "'Prompt' object" in str(error)
            if is_ended or not is_misuse:
                raise
            message = f"{self.name} raised {type(error).__name__}: {error}. {self._advice}"
            yield TurnFailed(message=message, code="runtime_raised")
            return
        if not is_started:
            yield started
        if not is_ended:
            yield TurnCompleted()

    @property
    def _advice(self) -> str:
        """Advice for the author of a function that yields AG-UI events: how to name such an agent."""
        module, _, function = self.name.partition(":")
        return (
            "It is called with a `Prompt`, whose text is `prompt.text`. "
            f"If it speaks AG-UI, write `agent = AguiRuntime({function})` and name {module}:agent."
        )


def _event(item: Event | str, started: TurnStarted) -> Event:
    """Convert what the function yielded: a string to a text delta.

    Fill the empty fields of a `TurnStarted` from `started`.
    """
    if isinstance(item, TurnStarted):
        runtime, session_id = item.runtime or started.runtime, item.session_id or started.session_id
        return msgspec.structs.replace(item, runtime=runtime, session_id=session_id)
    return TextDelta(text=item) if isinstance(item, str) else item


def _is_agui_event(item: object) -> bool:
    """Whether a value is an AG-UI event: a dictionary, an object of `ag_ui.core`, or a run's first encoded event."""
    match item:
        case str():
            return item.startswith('data: {"type":"RUN_STARTED"')
        case {"type": str(kind)}:
            return kind.isupper()
        case _:
            return type(item).__module__.startswith("ag_ui.")


def load_object(path: str) -> Any:
    """Import the object at `module:object`; both may be dotted. Modules in the current directory are found as well.

    Raises `AgentNotFound` if there is no such module or object.
    """
    module_name, _, object_name = path.partition(":")
    if not module_name or not object_name:
        raise AgentNotFound(f"{path!r} does not name an agent. Write module:function, for example my_agent:answer.")
    return _find_attribute(_import(module_name, object_name), module_name, object_name)


def runtime_of(found: Any, path: str) -> Runtime:
    """Make a runtime of an async generator function. A runtime is returned as it is.

    Raises `AgentNotFound` for the rest.
    """
    if isinstance(found, Runtime) and not isinstance(found, type):
        return found
    if not _is_async_generator_function(found):
        raise AgentNotFound(f"{path} is {_describe(found)}. {_EXPECTED}")
    try:
        inspect.signature(found).bind(Prompt(text=""))
    except TypeError as error:
        raise AgentNotFound(f"{path} cannot be called with a prompt alone: {error}. {_EXPECTED}") from error
    return FunctionRuntime(found, name=path)


def _import(module_name: str, object_name: str) -> ModuleType:
    """Import the agent's module. The current directory comes first, as with `python -m`."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if module_name.startswith("."):
        # Python would read a leading dot as a relative import, which is only possible from a package.
        raise AgentNotFound(_no_such_module(module_name, object_name, module_name))
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise AgentNotFound(_no_such_module(module_name, object_name, error.name)) from error
        raise AgentNotFound(
            f"{module_name} needs the module {error.name!r}, which is not installed where tailrace is."
        ) from error
    except (Exception, SystemExit) as error:
        raise AgentNotFound(f"importing {module_name} failed: {_location(error)}{_one_line(error)}") from error


def _no_such_module(module_name: str, object_name: str, missing: str) -> str:
    """The error text for a module that does not exist, with a hint, for example the name of a similar module."""
    as_path = Path(module_name)
    if as_path.suffix == ".py" or len(as_path.parts) > 1:
        as_path = as_path.with_suffix("") if as_path.suffix == ".py" else as_path
        dotted = ".".join(part for part in as_path.parts if part not in {"/", ".."})
        return f"an agent is named by its module, not by its file. Try {dotted}:{object_name}."
    here = Path.cwd()
    modules = {entry.stem for entry in here.glob("*.py")} | {entry.parent.name for entry in here.glob("*/__init__.py")}
    near = get_close_matches(module_name, sorted(modules), n=1)
    hint = f"Did you mean {near[0]}:{object_name}?" if near else "Run tailrace in the directory that holds it."
    return f"there is no module {missing!r}. {hint}"


def _find_attribute(module: ModuleType, module_name: str, object_name: str) -> Any:
    """Find the object by its dotted name in the module."""
    found: Any = module
    for name in object_name.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            public = [other for other in dir(found) if not other.startswith("_")]
            near = get_close_matches(name, public, n=1)
            agents = [other for other in public if inspect.isasyncgenfunction(getattr(found, other, None))]
            if near:
                hint = f" Did you mean {near[0]!r}?"
            else:
                hint = f" Its agents are: {', '.join(agents)}." if agents else f" {_EXPECTED}"
            raise AgentNotFound(f"{module_name} has no {object_name!r}.{hint}") from error
    return found


def _is_async_generator_function(found: Any) -> bool:
    """True for an async generator function, and for an object whose `__call__` is one."""
    by_call = callable(found) and inspect.isasyncgenfunction(type(found).__call__)
    return inspect.isasyncgenfunction(found) or by_call


def _describe(found: object) -> str:
    """Describe the object for an error text."""
    kinds: tuple[tuple[Callable[[object], bool], str], ...] = (
        (inspect.isclass, "a class, not an object of it"),
        (inspect.iscoroutinefunction, "a coroutine function: it returns where it should yield"),
        (inspect.isgeneratorfunction, "a generator function that is not async"),
        (inspect.isasyncgen, "an async generator that runs already: name the function, do not call it"),
        (inspect.isroutine, "a plain function"),
        (inspect.ismodule, "a module"),
    )
    return next((kind for is_one, kind in kinds if is_one(found)), f"an object of type {type(found).__name__}")


def _location(error: BaseException) -> str:
    """The file and line where an import failed. Empty for a `SyntaxError`, because its own text names them."""
    if isinstance(error, SyntaxError):
        return ""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}: " if last is not None else ""


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
