"""Every error that tailrace raises, in one tree. Each line names who must act, or what is known.

    TailraceError
    ├── ContractViolation     the author of a runtime adapter: an event is malformed or out of order
    ├── UsageError            the user: a name, a path or a setting is wrong
    │   ├── AgentNotFound         the agent's module or object cannot be loaded
    │   ├── PluginNotFound        no channel or runtime has that name
    │   └── TurnMismatch          a turn with that id was delivered with another text
    ├── RuntimeFault          the author of the agent: it raised, or yielded what is not an event
    ├── ExtensionFault        the author of the extension: its code raised an error, or did not return in time
    ├── ChannelFault          the sender of messages: the class says whether to retry; raised by channels
    │   ├── SendRefused           the platform refuses this call; it never works
    │   ├── NotSent               certainly not sent; it may work later
    │   ├── MaybeSent             no answer came, so it may have been sent
    │   └── AccessLost            certainly not sent; it works again when an operator has restored the access
    ├── CommandRefused        the operator: a command was understood, and cannot be carried out
    ├── GatewayNotRunning     no gateway answers at its control socket
    └── LedgerError           the operator: the ledger cannot be written or trusted
        ├── LedgerUnavailable     it cannot be written now (disk full, locked, overloaded); retried automatically
        ├── LedgerInUse           another process has it open
        ├── LedgerUnusable        not a ledger, too new, damaged, restored from an old copy, or no permission
        ├── LedgerLost            it failed while in use: this process must end, the next one recovers
        ├── LedgerClosed          this process has closed it: stop
        ├── Fenced                another owner has the conversation, or changed the row first: stop working on it
        └── CancelledTurn         the turn was cancelled: no new message of it may be sent

The message of an error says what to do next. A value that callers need is a field; they never parse the message.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """An event breaks the contract of `tailrace.events`. `diagnostic` names the event and says what to change."""

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
    """The ledger has a delivery with this id and another content. One id always means one content."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(
            f"{delivery_id} is recorded with other content. Send the same text again to resume that turn, "
            "or choose another turn id."
        )
        self.delivery_id = delivery_id


class RuntimeFault(TailraceError):
    """An agent failed while it ran: it raised an exception, or yielded something that is not an event.

    `partial` is the text of the answer before the failure.
    """

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ExtensionFault(TailraceError):
    """The code of an extension raised an error, or `hangs`: it did not return in time.

    The message names the extension and the method.
    """

    def __init__(self, message: str, *, hangs: bool = False) -> None:
        super().__init__(message)
        self.hangs = hangs


class ChannelFault(TailraceError):
    """A call to a platform gave no receipt. The subclass says whether the message was sent, or may have been sent.

    The error message is stored and shown to people. So a channel writes it in its own words. It contains no token, no
    URL with a token, and no text of the chat message.
    """


class SendRefused(ChannelFault):
    """The platform refuses this call and always will: no such chat, a deleted account, or the body is not accepted.

    `gone` is true if the only reason is that the message to edit or delete no longer exists.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class NotSent(ChannelFault):
    """Certainly not sent: no connection, too many requests, or a server error that is documented as safe to retry.

    `retry_after` is the wait in seconds that the platform asked for. `everywhere`: all chats of the account must wait.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, everywhere: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.everywhere = everywhere


class MaybeSent(ChannelFault):
    """The call was made but no complete answer came: the platform may have accepted it."""


class AccessLost(ChannelFault):
    """Certainly not sent: the token was revoked, a scope is missing, or the bot was removed from the chat or blocked.

    `everywhere` is true if all chats of the account are affected. The sender then pauses the chat or the account; this
    call does not count as an attempt.
    """

    def __init__(self, message: str, *, everywhere: bool = False) -> None:
        super().__init__(message)
        self.everywhere = everywhere


class CommandRefused(TailraceError):
    """A request of the operator cannot be carried out, such as a pairing code that was used."""


class GatewayNotRunning(TailraceError):
    """No gateway answers at the control socket. The caller can open the ledger itself."""


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
    """The ledger failed while in use. Recent changes may or may not be recorded, so the process must end."""


class LedgerClosed(LedgerError):
    """This process has closed the ledger. The call will never work; nothing was changed."""


class Fenced(LedgerError):
    """Another owner has the conversation, or changed the row since the caller read it. The caller must stop."""


class CancelledTurn(LedgerError):
    """The turn of this new message was cancelled, so it is not sent. Existing messages can still be changed."""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A sentence for an error that suggests the known name most similar to `name`; "" if no name is similar."""
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
