"""The scenarios of the scripted model: plain values, the same for every API.

A scenario is a list of answers: the first answers the prompt, the next one the results of the tools, and so on. The
last answer is repeated. An answer is a list of steps. Agents name their tools differently, so a step says only what a
tool is for, such as running a command, and `carried_out` finds such a tool among those that the agent offers. The APIs
write the answers in their own formats (`tailrace.testing.scripted_anthropic` and others).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import msgspec

SIGNATURE = "c2lnbmVkLWJ5LW5vYm9keQ=="


class Say(msgspec.Struct, frozen=True):
    """The model sends a text in these pieces. `every_s`: the seconds between two pieces."""

    pieces: tuple[str, ...]
    every_s: float = 0.0


class Think(msgspec.Struct, frozen=True):
    """The model sends reasoning in these pieces. The client must send its `signature` back with the next request."""

    pieces: tuple[str, ...]
    signature: str = SIGNATURE


class Recall(msgspec.Struct, frozen=True):
    """The model names the earlier scenarios of this conversation.

    So a client that sends no history gets a wrong answer.
    """


class Shell(msgspec.Struct, frozen=True):
    """The model runs a command, with the tool that the agent has for commands."""

    command: str
    about: str = "a command"


class Delegate(msgspec.Struct, frozen=True):
    """The model gives a task to a subagent, with the tool that the agent has for that."""

    task: str


class Call(msgspec.Struct, frozen=True):
    """The model calls the tool with this name. If `arguments` is a text, it is sent unchanged, even if not JSON."""

    name: str
    arguments: dict[str, Any] | str = {}


class HttpError(msgspec.Struct, frozen=True):
    """The model sends no answer, only this HTTP status and message."""

    status: int
    message: str


class Fail(msgspec.Struct, frozen=True):
    """The model reports an error in the middle of the answer, and sends nothing after it."""

    message: str = "the scripted model fails here"


class Disconnect(msgspec.Struct, frozen=True):
    """The model closes the connection in the middle of the answer."""


class Stall(msgspec.Struct, frozen=True):
    """The model sends nothing more, and waits until the client closes the connection."""


Step: TypeAlias = Say | Think | Recall | Shell | Delegate | Call | HttpError | Fail | Disconnect | Stall
# A step after `carried_out` has replaced purposes by tools of the agent.
Move: TypeAlias = Say | Think | Call | Fail | Disconnect | Stall
Scenario: TypeAlias = tuple[tuple[Step, ...], ...]


def say(*pieces: str) -> Say:
    """Create a step that sends a text in these pieces."""
    return Say(pieces)


def think(*pieces: str, signature: str = SIGNATURE) -> Think:
    """Create a step that sends reasoning in these pieces."""
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
    """Convert a step to what the model sends: for `Shell` and `Delegate`, a call of a fitting tool among `tools`.

    `earlier` are the names of the earlier scenarios in the conversation, which `Recall` needs.
    """
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
