"""Every error that tailrace raises, in one tree, split by who must act.

    TailraceError
    ├── ContractViolation     the author of a runtime adapter: an event is malformed or out of order
    ├── UsageError            the user: a name, a path or a setting is wrong
    │   ├── AgentNotFound         the agent's module or object cannot be loaded
    │   ├── PluginNotFound        no channel or runtime has that name
    │   └── TurnMismatch          a turn with that id was delivered with another text
    ├── RuntimeFault          the author of the agent: it raised, or yielded what is not an event
    ├── ChannelFault          the courier: the class says whether to retry; raised by channels
    │   ├── SendRefused           the platform refuses this call; it never works
    │   ├── NotSent               surely not sent; it may work later
    │   └── MaybeSent             no answer came, so it may have been sent
    └── LedgerError           the operator: the ledger cannot be written or trusted
        ├── LedgerUnavailable     it cannot be written now (disk full, locked, overloaded); retried automatically
        ├── LedgerInUse           another process has it open
        ├── LedgerUnusable        not a ledger, too new, damaged, restored from an old copy, or no permission
        ├── LedgerLost            it failed while in use: this process must end, the next one recovers
        └── Fenced                another owner changed the row first: stop working on it

A message says what to do next. What a caller can act on is a field, never a word inside the message.
"""

from __future__ import annotations

import msgspec


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one event, for the author of the adapter that made it.

    `index` is the position of the event in its stream, from 0; None for an event without a stream.
    """

    code: str
    message: str
    index: int | None = None
    event_type: str | None = None
    field: str | None = None


class TailraceError(Exception):
    """The base class of all errors that tailrace raises on purpose."""


class ContractViolation(TailraceError):
    """An event breaks the contract of `tailrace.events`. `diagnostic` says which one, where, and what to change."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class UsageError(TailraceError):
    """The call or command is wrong. The message says what to write instead."""


class AgentNotFound(UsageError):
    """The agent that the command line names cannot be loaded."""


class PluginNotFound(UsageError):
    """No installed channel or runtime has that name. `known` are the installed names."""

    def __init__(self, message: str, *, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.known = known


class TurnMismatch(UsageError):
    """A delivery with that id is recorded with other content: one id stands for one content."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(
            f"{delivery_id} is recorded with other content. Send the same text again to resume that turn, "
            "or choose another turn id."
        )
        self.delivery_id = delivery_id


class RuntimeFault(TailraceError):
    """An agent failed while it ran: it raised an exception, or yielded something that is not an event."""


class ChannelFault(TailraceError):
    """A call to a platform gave no receipt. The class says whether the message was sent.

    The message is shown to people and stored. So an adapter writes it in its own words: no token, no URL that contains
    one, and no text of the message.
    """


class SendRefused(ChannelFault):
    """The platform refuses this call and always will: no such chat, the bot is blocked, the body is not accepted.

    `gone` is true if the only reason is that the message to edit or delete no longer exists.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class NotSent(ChannelFault):
    """Surely not sent: no connection, too many requests, or a server error that is documented as safe to retry.

    `retry_after` is the wait in seconds that the platform asked for. `everywhere` is true if it applies to all chats.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, everywhere: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.everywhere = everywhere


class MaybeSent(ChannelFault):
    """The call was made but no complete answer came: the platform may have accepted it."""


class LedgerError(TailraceError):
    """The ledger failed. The message says what happened and what to do."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be written now. Nothing was changed, and the same call may work later."""


class LedgerInUse(LedgerError):
    """Another process has the ledger open. `pid` is its process id if that is known."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class LedgerUnusable(LedgerError):
    """This file cannot be opened as a ledger. It is never replaced by an empty one."""


class LedgerLost(LedgerError):
    """The ledger failed while in use. Unacknowledged changes may or may not be in it, so the process must end."""


class Fenced(LedgerError):
    """Another owner or another attempt changed the row since the caller read it. The caller must stop."""
