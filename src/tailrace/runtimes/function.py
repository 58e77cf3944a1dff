"""An agent of one's own: an async generator function named `module:function`.

The function takes a `Prompt` and yields events, or plain strings, which are taken as text deltas. One that speaks AG-UI
looks the same from outside: it is known by what it does, and its author is told what to write. Whatever else it yields
goes on as it is: refusing it is `tailrace.contract`'s work. An object that already is a `Runtime` is taken as it is.
This file owns finding the object, and saying why it cannot be found.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from contextlib import aclosing
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.errors import AgentNotFound
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.ports import Prompt, Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from types import ModuleType

_EXPECTED = "An agent is an async generator function: `async def answer(prompt): yield 'text'`."


class FunctionRuntime:
    """A runtime whose turn is one call of an async generator function."""

    def __init__(self, function: Callable[[Prompt], AsyncGenerator[Event | str, None]], *, name: str) -> None:
        self.name = name
        self._function = function

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Call the function and yield what it yields, strings as text deltas; closing this closes it.

        A function that returns has said all it had to say: unless it ended the turn, the turn is complete.
        """
        ended = False
        try:
            async with aclosing(self._function(prompt)) as said:
                async for item in said:
                    if _is_of_agui(item):
                        yield TurnFailed(
                            message=f"{self.name} yields events of AG-UI. {self._advice}", code="not_an_event"
                        )
                        return
                    ended = ended or isinstance(item, TurnCompleted | TurnFailed | TurnCancelled)
                    yield TextDelta(text=item) if isinstance(item, str) else item
        except (TypeError, AttributeError) as error:
            # As Python says it of whoever takes a prompt for something else: for the input of AG-UI, most likely.
            if ended or "'Prompt' object" not in str(error):
                raise
            yield TurnFailed(
                message=f"{self.name} raised {type(error).__name__}: {error}. {self._advice}", code="runtime_raised"
            )
            return
        if not ended:
            yield TurnCompleted()

    @property
    def _advice(self) -> str:
        """What to write for a function that speaks AG-UI."""
        module, _, function = self.name.partition(":")
        return (
            "It is called with a `Prompt`, whose words are `prompt.text`. "
            f"If it speaks AG-UI, write `agent = AguiRuntime({function})` and name {module}:agent."
        )


def _is_of_agui(item: object) -> bool:
    """Whether it is an event of AG-UI: as a dictionary, as `ag_ui.core` has it, or the first one as it is encoded."""
    match item:
        case str():
            return item.startswith('data: {"type":"RUN_STARTED"')
        case {"type": str(kind)}:
            return kind.isupper()
        case _:
            return type(item).__module__.startswith("ag_ui.")


def load_object(path: str) -> Any:
    """What is at `module:object`, both possibly dotted; modules of the current directory are found as well.

    Raises `AgentNotFound` where there is nothing.
    """
    module_name, _, object_name = path.partition(":")
    if not module_name or not object_name:
        raise AgentNotFound(f"{path!r} does not name an agent. Write module:function, for example my_agent:answer.")
    return _look_up(_import(module_name, object_name), module_name, object_name)


def runtime_of(found: Any, path: str) -> Runtime:
    """The object as an agent, if it is a function that yields or a runtime already. Raises `AgentNotFound` if not."""
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
    """Import the agent's module, the current directory first, as `python -m` would."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if module_name.startswith("."):
        # Python takes a leading dot for a relative import, which needs a package to start from.
        raise AgentNotFound(_no_such_module(module_name, object_name, module_name))
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise AgentNotFound(_no_such_module(module_name, object_name, error.name)) from error
        raise AgentNotFound(
            f"{module_name} needs the module {error.name!r}, which is not installed beside tailrace."
        ) from error
    except (Exception, SystemExit) as error:
        raise AgentNotFound(f"importing {module_name} failed: {_where(error)}{_say(error)}") from error


def _no_such_module(module_name: str, object_name: str, missing: str) -> str:
    """That there is no such module, and which one may have been meant."""
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


def _look_up(module: ModuleType, module_name: str, object_name: str) -> Any:
    """Follow the dotted name from the module to the object."""
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
    """Whether calling it gives an async generator, for functions and for objects that are called like one."""
    by_call = callable(found) and inspect.isasyncgenfunction(type(found).__call__)
    return inspect.isasyncgenfunction(found) or by_call


def _describe(found: object) -> str:
    """What kind of thing was found in place of an async generator function."""
    kinds: tuple[tuple[Callable[[object], bool], str], ...] = (
        (inspect.isclass, "a class, not an object of it"),
        (inspect.iscoroutinefunction, "a coroutine function: it returns where it should yield"),
        (inspect.isgeneratorfunction, "a generator function that is not async"),
        (inspect.isasyncgen, "an async generator that runs already: name the function, do not call it"),
        (inspect.isroutine, "a plain function"),
        (inspect.ismodule, "a module"),
    )
    return next((kind for is_one, kind in kinds if is_one(found)), f"an object of type {type(found).__name__}")


def _where(error: BaseException) -> str:
    """The file and line an import failed at, where the traceback or the syntax error tells."""
    if isinstance(error, SyntaxError):
        return ""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}: " if last is not None else ""


def _say(error: BaseException) -> str:
    """The exception as one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
