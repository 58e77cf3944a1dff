"""Every error tailrace raises, in one tree, split by who must act.

    TailraceError
    ├── ContractViolation     the author of a runtime adapter: an event is malformed or out of place
    ├── UsageError            the person at the keyboard: a name, a path or a setting is wrong
    │   ├── AgentNotFound         the agent's module or object cannot be loaded
    │   └── PluginNotFound        no channel or runtime goes by that name
    └── RuntimeFault          the author of the agent: it raised, or yielded what is not an event

Messages say what to do next. What a caller can act on is a field, never a word inside the message.
"""

from __future__ import annotations

import msgspec


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one event of a stream, for the author of the adapter that made it.

    `index` counts the events of the stream from 0; it is None where an event is looked at alone.
    """

    code: str
    message: str
    index: int | None = None
    event_type: str | None = None
    field: str | None = None


class TailraceError(Exception):
    """The root of the tree; catching it catches everything tailrace raises on purpose."""


class ContractViolation(TailraceError):
    """An event breaks the contract of `tailrace.events`; `diagnostic` says which one, where and how to mend it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class UsageError(TailraceError):
    """What was asked for cannot be done as it was asked; the message says how to ask."""


class AgentNotFound(UsageError):
    """The agent named on the command line cannot be loaded."""


class PluginNotFound(UsageError):
    """No installed channel or runtime goes by that name; `known` are the names that would do."""

    def __init__(self, message: str, *, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.known = known


class RuntimeFault(TailraceError):
    """An agent failed while it ran: it raised, or yielded something that is not an event."""
