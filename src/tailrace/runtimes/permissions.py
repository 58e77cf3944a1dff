"""What an agent may do that it has to ask for: the question it asks, who is asked, and what is answered otherwise.

Owns the words of it, and which of an agent's choices allows or denies the least. Which agent asks, and how the answer
gets back to it, is for its runtime; where a person is asked is for whoever gives a runtime its `Approver`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tailrace.runtimes.sdk import as_text, json_value

Policy: TypeAlias = Literal["ask", "allow", "deny"]

HOW_TO_ALLOW = "What it may do is said by permissions: ask, allow or deny (in the terminal: --permissions ask)."

_CHANGES = ("diff", "patch", "new_string", "content")  # what is to be written where
# The argument that tells most about a call, the first of these that there is.
_TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to answer; `kind` is `allow_once`, `allow_always`, `reject_once` or `reject_always`.

    Where nothing is to be allowed, but a person is to choose, it is `answer`.
    """

    id: str
    name: str
    kind: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent wants to do, or to know, in words, and how it may be answered."""

    title: str
    arguments: Any = None
    choices: tuple[Choice, ...] = ()

    def allowing(self) -> Choice | None:
        """The choice that allows the least, which is this one time; None where there is none."""
        return self._first("allow_once", "allow_always")

    def denying(self) -> Choice | None:
        """The choice that denies the least, which is this one time; None where there is none."""
        return self._first("reject_once", "reject_always")

    @property
    def subject(self) -> str:
        """What it is about, where the title does not say it: the command, the file, or whatever else was given."""
        given = self.arguments
        if isinstance(given, Mapping):
            telling = next((given[name] for name in _TELLING if given.get(name)), None)
            change = next((given[name] for name in _CHANGES if isinstance(given.get(name), str)), "")
            if telling is None:
                given = self._rest(given)
            else:
                given = f"{telling}\n{change}" if isinstance(telling, str) and change else telling
        if isinstance(given, list | tuple) and all(isinstance(word, str) for word in given):
            given = " ".join(given)
        if given is None:
            return ""
        text = given if isinstance(given, str) else as_text(json_value(given))
        return "" if text.strip() in self.title else text

    def _rest(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """What there is beside the agent's own numbers and what the title says."""
        rest = {name: held for name, held in given.items() if held and not name.lower().endswith("id")}
        return {name: held for name, held in rest.items() if held != self.title} or None

    def _first(self, *kinds: str) -> Choice | None:
        return next((choice for kind in kinds for choice in self.choices if choice.kind == kind), None)


_APPROVALS = (
    Choice(id="once", name="Allow", kind="allow_once"),
    Choice(id="deny", name="Deny", kind="reject_once"),
)


def approval_question(agent: str, tool: str, arguments: Any) -> Question:
    """May an agent call a tool that waits for approval?"""
    return Question(title=f"{agent} wants to call {tool}", arguments=arguments, choices=_APPROVALS)


def may_allow(permissions: Policy, approver: Approver | None) -> bool:
    """Whether anything could be allowed; where not, an agent that denies by itself need not be taught to ask."""
    return permissions == "allow" or (permissions == "ask" and approver is not None)


class Approver(Protocol):
    """Somebody who can put a question to the person whom the agent works for."""

    async def ask(self, question: Question) -> Choice | None:
        """Wait for the person's choice, one of the question's; None where they cannot be asked, which denies it.

        It is cancelled when nobody needs the answer any more.
        """
        ...
