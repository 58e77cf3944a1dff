"""Every error tailrace raises, in one tree, split by who must act.

    TailraceError
    ├── ContractViolation     the author of a runtime adapter: an event is malformed or out of place
    ├── UsageError            the person at the keyboard: a name, a path or a setting is wrong
    │   ├── AgentNotFound         the agent's module or object cannot be loaded
    │   ├── PluginNotFound        no channel or runtime goes by that name
    │   └── TurnMismatch          a turn of that id was delivered with another text
    ├── RuntimeFault          the author of the agent: it raised, or yielded what is not an event
    ├── ChannelFault          nobody yet: the courier decides by the kind; raised by channels
    │   ├── SendRefused           the platform refuses this call for good
    │   ├── NotSent               surely not sent, and it may work later
    │   └── MaybeSent             sent or not, no answer says
    └── LedgerError           the operator: the record of what was said cannot be kept or trusted
        ├── LedgerUnavailable     it cannot be written just now (disk full, locked, overloaded); tried again by itself
        ├── LedgerInUse           another process holds it
        ├── LedgerUnusable        it is foreign, too new, damaged, older than it was, or may not be opened
        ├── LedgerLost            it broke while in use: this process must end, the next one recovers
        └── Fenced                somebody else moved the row first: whoever gets this stops touching it

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


class TurnMismatch(UsageError):
    """A delivery of that id is recorded with another content: an id is used for one content only."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(
            f"{delivery_id} is recorded with another content. Send the same text again to go on with that turn, "
            "or choose another turn id."
        )
        self.delivery_id = delivery_id


class RuntimeFault(TailraceError):
    """An agent failed while it ran: it raised, or yielded something that is not an event."""


class ChannelFault(TailraceError):
    """A call to a platform did not end in a receipt; the class says what is known of it.

    The message is told to people and kept: an adapter writes it in words of its own, with no token, no address
    that holds one, and nothing of the message that was to be sent.
    """


class SendRefused(ChannelFault):
    """The platform refuses this call for good: the chat is gone, the bot is blocked, the body is not accepted.

    `gone` is true where the message the call was about is not there any more, and only that is wrong.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class NotSent(ChannelFault):
    """Surely not sent: no connection, too many requests, a server error that is declared safe.

    `retry_after` are the seconds the platform asked to wait; `everywhere` is true where it meant all its chats.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, everywhere: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.everywhere = everywhere


class MaybeSent(ChannelFault):
    """The call began and its answer did not come, or came cut: the platform may have taken it."""


class LedgerError(TailraceError):
    """The ledger cannot do what was asked; the message says what happened and what to do."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be written at the moment; nothing was changed, and the same call may work later."""


class LedgerInUse(LedgerError):
    """Another process holds the ledger; `pid` is its number where it can be told."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class LedgerUnusable(LedgerError):
    """This ledger is refused at opening; it is never replaced by an empty one."""


class LedgerLost(LedgerError):
    """The ledger broke while it was in use. What was not acknowledged may or may not be in it; the process must end."""


class Fenced(LedgerError):
    """The row is not as the caller last saw it: another owner or another attempt has moved it. The caller stops."""
