"""What an agent may do that it has to ask for: the question it asks, who is asked, and what is answered otherwise.

Owns the words of it, and which of an agent's choices allows or denies the least. Which agent asks, and how the answer
gets back to it, is for its runtime; where a person is asked is for whoever gives a runtime its `Asks`.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Policy: TypeAlias = Literal["ask", "allow", "deny"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to answer; `kind` is `allow_once`, `allow_always`, `reject_once` or `reject_always`."""

    id: str
    name: str
    kind: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent wants to do, in words, and how it may be answered."""

    title: str
    arguments: Any = None
    choices: tuple[Choice, ...] = ()

    def allowing(self) -> Choice | None:
        """The choice that allows the least, which is this one time; None where there is none."""
        return self._first("allow_once", "allow_always")

    def denying(self) -> Choice | None:
        """The choice that denies the least, which is this one time; None where there is none."""
        return self._first("reject_once", "reject_always")

    def _first(self, *kinds: str) -> Choice | None:
        return next((choice for kind in kinds for choice in self.choices if choice.kind == kind), None)


class Asks(Protocol):
    """Somebody who can put a question to the person whom the agent works for."""

    async def ask(self, question: Question) -> Choice | None:
        """Wait for the person's choice, one of the question's; None where they cannot be asked, which denies it.

        It is cancelled when nobody needs the answer any more.
        """
        ...
