"""The scenarios of the scripted model: plain values, the same for every API.

A scenario is a list of answers: the first answers the prompt, the next one the results of the tools, and so on. The
last one is repeated. An answer is a list of steps. Agents name their tools differently, so a step names a purpose, and
`carried_out` finds the tool for it among those that the agent offers. The APIs write the answers in their own formats
(`tailrace.testing.scripted_anthropic` and others).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import msgspec

SIGNATURE = "c2lnbmVkLWJ5LW5vYm9keQ=="


class Say(msgspec.Struct, frozen=True):
    """Text, piece by piece, with so many seconds between them."""

    pieces: tuple[str, ...]
    every_s: float = 0.0


class Think(msgspec.Struct, frozen=True):
    """A thought, piece by piece; the signature comes back with the next request."""

    pieces: tuple[str, ...]
    signature: str = SIGNATURE


class Recall(msgspec.Struct, frozen=True):
    """Name the earlier scenarios of this conversation. Only a client that sends its history gets the right answer."""


class Shell(msgspec.Struct, frozen=True):
    """Run a command with the agent's own tool for that."""

    command: str
    about: str = "a command"


class Delegate(msgspec.Struct, frozen=True):
    """Give the task to a subagent."""

    task: str


class Call(msgspec.Struct, frozen=True):
    """Call a tool by its name; arguments that are text are sent as they are, also where they are no JSON."""

    name: str
    arguments: dict[str, Any] | str = {}


class HttpError(msgspec.Struct, frozen=True):
    """No answer but this HTTP status."""

    status: int
    message: str


class Fail(msgspec.Struct, frozen=True):
    """Report an error in the middle of the answer, and no more."""

    message: str = "the scripted model fails here"


class Disconnect(msgspec.Struct, frozen=True):
    """The connection breaks in the middle of the answer."""


class Stall(msgspec.Struct, frozen=True):
    """Send nothing more until the client leaves."""


Step: TypeAlias = Say | Think | Recall | Shell | Delegate | Call | HttpError | Fail | Disconnect | Stall
# A step for an agent with known tools.
Move: TypeAlias = Say | Think | Call | Fail | Disconnect | Stall
Scenario: TypeAlias = tuple[tuple[Step, ...], ...]


def say(*pieces: str) -> Say:
    """Text, piece by piece."""
    return Say(pieces)


def think(*pieces: str, signature: str = SIGNATURE) -> Think:
    """A thought, piece by piece."""
    return Think(pieces, signature)


SCENARIOS: Mapping[str, Scenario] = {
    "hello": ((say("Hello", " from", " the scripted", " model."),),),
    "recall": ((Recall(),),),
    "tool": (
        (think("I should ", "run something."), say("Let me ", "look."), Shell("echo the tool speaks")),
        (think("Now I ", "know."), say("The tool ", "has spoken", ".")),
    ),
    "parallel": (
        (say("Two at once."), Shell("echo first", "the first"), Shell("echo second", "the second")),
        (say("Both ", "are done."),),
    ),
    "think": (
        (think("A first ", "thought."), think("A second ", "thought."), say("Thought ", "twice.")),
        (say("Still the same."),),
    ),
    "empty": ((say("", "Grüße ", "", "an alle 👋🏽", ""), Shell("true")), (say(""),)),
    "toolfail": ((say("Trying it."), Shell("echo on its way; echo went wrong >&2; exit 3")), (say("It went wrong."),)),
    "big": ((say("A lot comes."), Shell("seq 1 2000")), (say("That was a lot."),)),
    "long": ((say(*(f"Sentence number {number} of a long answer. " for number in range(400))),),),
    "longtool": ((say("This takes long."), Shell("echo at work; sleep 600", "long work")), (say("It is over."),)),
    "loop": ((say("Again. "), Shell("echo again")),),
    "subagent": (
        (say("I delegate."), Delegate("[[scenario:child]] Do the work of a child.")),
        (say("The parent is done."),),
    ),
    "child": ((say("The child speaks."), Shell("echo a child works")), (say("The child has a result."),)),
    "slow": ((Say(tuple(f"word {number} " for number in range(12)), every_s=0.25),),),
    "stall": ((say("Before the silence "), Stall()),),
    "errmid": ((say("This is going ", "to break"), Fail()),),
    "cut": ((say("This is going ", "to be cut"), Disconnect()),),
    "http400": ((HttpError(400, "the scripted model refuses this request"),),),
    "http429": ((HttpError(429, "the scripted model is asked too often"),),),
    "http500": ((HttpError(500, "the scripted model has a problem"),),),
}

_SHELLS: dict[str, Callable[[Shell], dict[str, Any]]] = {
    "Bash": lambda wanted: {"command": wanted.command, "description": wanted.about},
    "exec_command": lambda wanted: {"cmd": wanted.command, "yield_time_ms": 30_000},
    "shell_command": lambda wanted: {"command": wanted.command},
    "shell": lambda wanted: {"command": ["bash", "-c", wanted.command]},
    "run_shell_command": lambda wanted: {"command": wanted.command, "description": wanted.about},
    "bash": lambda wanted: {"command": wanted.command, "description": wanted.about},
}
_SUBAGENTS: dict[str, Callable[[Delegate], dict[str, Any]]] = {
    "Agent": lambda wanted: {"description": "a task", "prompt": wanted.task, "subagent_type": "general-purpose"},
    "Task": lambda wanted: {"description": "a task", "prompt": wanted.task, "subagent_type": "general-purpose"},
    "task": lambda wanted: {"description": "a task", "prompt": wanted.task, "subagent_type": "general"},
    "spawn_agent": lambda wanted: {"message": wanted.task},
}


def carried_out(step: Step, tools: Collection[str], earlier: Collection[str]) -> Move:
    """The step, for an agent that offers these tools and has had these scenarios before."""
    match step:
        case Shell():
            return _called(step, _SHELLS, tools)
        case Delegate():
            return _called(step, _SUBAGENTS, tools)
        case Recall():
            return say("Before this: ", ", ".join(earlier) or "nothing", ".")
        case HttpError():
            raise AssertionError("an HttpError must be the only step of its answer")
        case _:
            return step


def _called(step: Any, known: Mapping[str, Callable[[Any], dict[str, Any]]], tools: Collection[str]) -> Move:
    name = next((name for name in known if name in tools), None)
    return Call(name, known[name](step)) if name is not None else say("I have no tool for that.")
