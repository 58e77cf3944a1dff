"""The questions of agents that need permission to act: the question, its choices, and the protocol of an approver.

This module owns these types, and the rule which choice allows or denies the least. Each runtime makes the questions of
its agent and sends the answers back. An `Approver` asks a person, for example in the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tailrace.runtimes.sdk import as_text, json_value

Policy: TypeAlias = Literal["ask", "allow", "deny"]

HOW_TO_ALLOW = "Set permissions to ask, allow or deny to decide what it may do (in the terminal: --permissions ask)."

_CHANGES = ("diff", "patch", "new_string", "content")  # arguments with the text to write to a file
# The arguments that describe a call best: the first one that the call has is used.
_MAIN_ARGUMENTS = ("command", "cmd", "file_path", "path", "pattern", "query", "url")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One possible answer. `kind` is `allow_once`, `allow_always`, `reject_once`, `reject_always` or `answer`.

    A choice of the kind `answer` answers a question of the agent and gives no permission.
    """

    id: str
    name: str
    kind: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question of an agent, with the possible answers: whether it may do something, or what it wants to know."""

    title: str
    arguments: Any = None
    choices: tuple[Choice, ...] = ()

    def allowing(self) -> Choice | None:
        """The choice that allows the least: "once" comes before "always". None if no choice allows."""
        return self._first("allow_once", "allow_always")

    def denying(self) -> Choice | None:
        """The choice that denies the least: "once" comes before "always". None if no choice denies."""
        return self._first("reject_once", "reject_always")

    @property
    def subject(self) -> str:
        """The command, the file or the other arguments that the question is about; "" if the title contains them."""
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
        """The arguments without ids and without those that the title already shows."""
        rest = {name: value for name, value in arguments.items() if value and not name.lower().endswith("id")}
        return {name: value for name, value in rest.items() if value != self.title} or None

    def _first(self, *kinds: str) -> Choice | None:
        return next((choice for kind in kinds for choice in self.choices if choice.kind == kind), None)


_APPROVALS = (Choice(id="once", name="Allow", kind="allow_once"), Choice(id="deny", name="Deny", kind="reject_once"))


def approval_question(agent: str, tool: str, arguments: Any) -> Question:
    """Make the question whether an agent may make a tool call that needs approval."""
    return Question(title=f"{agent} wants to call {tool}", arguments=arguments, choices=_APPROVALS)


def may_allow(permissions: Policy, approver: Approver | None) -> bool:
    """Whether any request of the agent can be allowed: always, or by a person.

    If not, the agent is started without the option to ask; it then denies by itself.
    """
    return permissions == "allow" or (permissions == "ask" and approver is not None)


class Approver(Protocol):
    """Asks a person about what the agent wants to do or to know."""

    async def ask(self, question: Question) -> Choice | None:
        """Wait until the person has chosen one of the question's choices, and return it.

        Returns None, which denies, if the person cannot be asked. The call is cancelled when the answer is no longer
        needed.
        """
        ...
