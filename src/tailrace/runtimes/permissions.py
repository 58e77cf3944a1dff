"""What an agent must ask before it acts: the question, its choices, and who answers it.

Owns these types, and which choice allows or denies the least. Which agent asks, and how the answer gets back, is up to
its runtime. Where a person is asked is up to the `Approver` that a runtime is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tailrace.runtimes.sdk import as_text, json_value

Policy: TypeAlias = Literal["ask", "allow", "deny"]

HOW_TO_ALLOW = "Set permissions to ask, allow or deny to decide what it may do (in the terminal: --permissions ask)."

_CHANGES = ("diff", "patch", "new_string", "content")  # what is written to a file
# The argument that tells most about a call: the first of these that it has.
_MAIN_ARGUMENTS = ("command", "cmd", "file_path", "path", "pattern", "query", "url")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to answer; `kind` is `allow_once`, `allow_always`, `reject_once` or `reject_always`.

    If the person chooses an answer rather than allows something, it is `answer`.
    """

    id: str
    name: str
    kind: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent wants to do or to know, in words, and the possible answers."""

    title: str
    arguments: Any = None
    choices: tuple[Choice, ...] = ()

    def allowing(self) -> Choice | None:
        """The choice that allows the least, preferably once; None if there is none."""
        return self._first("allow_once", "allow_always")

    def denying(self) -> Choice | None:
        """The choice that denies the least, preferably once; None if there is none."""
        return self._first("reject_once", "reject_always")

    @property
    def subject(self) -> str:
        """What the question is about, if the title does not say it: the command, the file, or the other arguments."""
        arguments = self.arguments
        if isinstance(arguments, Mapping):
            main = next((arguments[name] for name in _MAIN_ARGUMENTS if arguments.get(name)), None)
            change = next((arguments[name] for name in _CHANGES if isinstance(arguments.get(name), str)), "")
            if main is None:
                arguments = self._rest(arguments)
            else:
                arguments = f"{main}\n{change}" if isinstance(main, str) and change else main
        if isinstance(arguments, list | tuple) and all(isinstance(word, str) for word in arguments):
            arguments = " ".join(arguments)
        if arguments is None:
            return ""
        text = arguments if isinstance(arguments, str) else as_text(json_value(arguments))
        return "" if text.strip() in self.title else text

    def _rest(self, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments other than ids and the title."""
        rest = {name: value for name, value in arguments.items() if value and not name.lower().endswith("id")}
        return {name: value for name, value in rest.items() if value != self.title} or None

    def _first(self, *kinds: str) -> Choice | None:
        return next((choice for kind in kinds for choice in self.choices if choice.kind == kind), None)


_APPROVALS = (Choice(id="once", name="Allow", kind="allow_once"), Choice(id="deny", name="Deny", kind="reject_once"))


def approval_question(agent: str, tool: str, arguments: Any) -> Question:
    """Ask whether an agent may call a tool that needs approval."""
    return Question(title=f"{agent} wants to call {tool}", arguments=arguments, choices=_APPROVALS)


def may_allow(permissions: Policy, approver: Approver | None) -> bool:
    """Whether anything can be allowed. If not, an agent that denies by itself need not be taught to ask."""
    return permissions == "allow" or (permissions == "ask" and approver is not None)


class Approver(Protocol):
    """Puts a question to the person the agent works for."""

    async def ask(self, question: Question) -> Choice | None:
        """Wait for the person's choice, one of the question's. None, if they cannot be asked, denies it.

        Cancelled when the answer is no longer needed.
        """
        ...
