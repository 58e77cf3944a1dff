"""The protocol that ledgers implement. Its docstrings are the contract: an implementation must do what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Accepted, Delivery, Lease, OpenConversation, Query, Snapshot, Turn, TurnState
    from tailrace.inbound import InboundMessage


class Ledger(Protocol):
    """The durable record: which turns were accepted, which deliveries were decided, and whether these have arrived.

    - **Durable.** A coroutine that changes something returns only when the change is safe against loss of power.
    - **Atomic.** A coroutine that raises an error has changed nothing. There are two exceptions: after `LedgerLost` the
      result is unknown and the process must end; and a change that was submitted is made even if its caller is
      cancelled.
    - **Ordered.** Calls take effect in the order in which they were made, even if the caller does not await them.
    - **Owned.** A conversation has one owner, who holds its lease. A method that takes a lease raises `Fenced` if a
      later lease of the conversation exists, or if a row has changed since the caller read it. Each row and each
      running turn has the number (epoch) of its lease.

    `LedgerUnavailable` means that the same call may work later, `LedgerClosed` that it never will.
    """

    async def accept(self, message: InboundMessage) -> Accepted:
        """Record an incoming message and its turn (state `accepted`) in one step. Needs no lease.

        The whole message is stored, and its turn gets the next arrival number of its conversation. Idempotent: a known
        event (same channel, account and event id) changes nothing. The result is then its first turn, even if that
        turn has ended or was deleted. An event is known for at least seven days.
        """
        ...

    async def cancel(self, turn_id: str) -> None:
        """Cancel a turn for ever, for this process and all later ones. Needs no lease.

        A new message of the turn (`Post`, `PostMedia`, `OpenStream`) cannot become `sending` any more: `move` raises
        `CancelledTurn`, and `plan` records the message as `planned`. For an unknown turn this does nothing.
        """
        ...

    async def acquire(self, conversation: str) -> Lease:
        """Become the owner of the conversation, with a new lease. Raises `Fenced` while another owner has a lease.

        An earlier lease of this owner for the same conversation ends. A lease may have a deadline; each change under
        the lease moves the deadline.
        """
        ...

    def release(self, lease: Lease) -> None:
        """End the lease after all changes that were submitted before. Does nothing if the lease has already ended."""
        ...

    async def begin(self, lease: Lease, turn: Turn) -> Turn:
        """Set a turn to `running` under this lease, and count the attempt. A new turn is created.

        A turn that has ended, or that belongs to another conversation, is returned unchanged.
        """
        ...

    def save_snapshot(self, lease: Lease, turn_id: str, snapshot: Snapshot) -> None:
        """Save the current text of a running turn of this lease, with the next change or within two seconds.

        Only the latest snapshot of a turn is kept. A snapshot that cannot be saved is dropped without an error.
        """
        ...

    async def end(self, lease: Lease, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """End a turn and record its last deliveries in one step. Returns these deliveries as they are recorded now.

        `turn` is the turn as the caller last saw it. Raises `Fenced` if the turn has ended since, or was begun again. A
        turn of an older lease can be ended too: interrupted turns are closed in this way.
        """
        ...

    async def plan(self, lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record new deliveries in their order, all or none. Returns each delivery as it is recorded now.

        Idempotent: a known delivery (same turn and ordinal) is returned as it is recorded. Raises `TurnMismatch` if it
        is recorded with another fingerprint. The first delivery may have the state `sending`. It keeps that state if it
        is new, its turn is not cancelled, and no earlier delivery of its conversation is open. Otherwise it is recorded
        as `planned`.
        """
        ...

    async def move(
        self, lease: Lease, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = (), hold_s: float = 0.0
    ) -> list[Delivery]:
        """Change the states of rows, all or none. Each move is a pair: the row as last seen, and its next state.

        Returns the next states, then the rows of `plan`. `EDGES` must allow each change. Raises `CancelledTurn` if a
        new message of a cancelled turn would become `sending`. Raises `Fenced` if a row has changed since it was last
        seen (its epoch, state or attempt), or if it would become `sending` while an earlier delivery of its
        conversation is open. The deliveries in `plan` (notices and replacements) are recorded directly after the row of
        the first move; a delivery that is already recorded is skipped and not returned. The lease then lasts for at
        least `hold_s` more seconds.
        """
        ...

    async def adopt(self, lease: Lease, *, now: float, limit: int) -> list[Delivery]:
        """Take over the first open deliveries of the conversation and return them in order.

        In rows of an older lease `sending` becomes `ambiguous` (see `deliveries.adopted`). A damaged row becomes
        `failed` and is not returned. If a newer version wrote a row with a state that this version does not know, that
        row and all later rows wait.
        """
        ...

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """Conversations with open deliveries, sorted by name. Returns only names that follow `after`."""
        ...

    async def interrupted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """Running turns without a valid lease, in the order in which they were begun. Damaged turns are left out.

        With `conversation`, only turns of that conversation: for its owner, these are the turns of earlier leases.
        """
        ...

    async def accepted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """Turns that were accepted but never begun, in the order of their arrival. Damaged turns are left out."""
        ...

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn with that id, if there is one."""
        ...

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """The deliveries that match the query, newest first. With `after`, only those with a lower `position`.

        Raises `LedgerUnusable` if one of them is damaged.
        """
        ...

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """Delete up to `limit` final deliveries that match, and ended turns without deliveries.

        Returns the number of deleted rows. With `bodies` the rows stay, and only content is deleted: the texts and
        files of deliveries, and the inbound messages of ended turns. Open deliveries are never changed. Events of
        deleted turns stay known for the time that `accept` names.
        """
        ...

    async def store(self, kind: str, key: str, value: bytes | None) -> None:
        """Record a small value under its kind and key, in place of the earlier one. None deletes it. Needs no lease."""
        ...

    async def stored(self, kind: str) -> dict[str, bytes]:
        """All values of that kind by their keys, sorted by key."""
        ...

    async def close(self) -> None:
        """Write all submitted changes, then close. May be called twice."""
        ...
