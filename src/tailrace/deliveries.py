"""What is remembered of each thing said: the delivery, the turn it belongs to, and the states they go through.

A delivery is one durable operation with a name, `{turn_id}.{ordinal}`. It is written down before it is sent and
after it was answered, so that whoever comes after a crash knows what is known:

    planned    decided, and surely not sent
    sending    its sender was about to send, or has sent; only the sender knows more
    retry      surely not sent, to be tried again, not before a time
    ambiguous  it may be there: no answer came, or its sender is gone
    ---------  the states above are open, those below are final: no edge leaves them
    delivered  it is there, and here is the receipt
    failed     it was refused for good
    dead       it is too old or was tried too often, and is surely not there
    unknown    it may be there, and nobody can find out; people are told
    cancelled  it was no longer to be sent
    superseded another delivery says it in its place

`EDGES` is the whole law; every change of state passes `moved`. A ledger compares what it holds with what the
mover last saw and changes the row only if they agree: epoch (which owner), state and attempt (which try). A new
owner adopts every open row it touches: what was `sending` becomes `ambiguous`, because its sender is gone.
Nothing here does input or output; the time is an argument.
"""

from __future__ import annotations

import enum
import hashlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from tailrace.capabilities import Idempotency, Repeatable
from tailrace.operations import (
    CloseStream,
    Delete,
    Durable,
    Edit,
    Receipt,
    Target,
    encode_operation,
)

if TYPE_CHECKING:
    pass


class State(enum.StrEnum):
    """Where a delivery is."""

    PLANNED = "planned"
    SENDING = "sending"
    RETRY = "retry"
    AMBIGUOUS = "ambiguous"
    DELIVERED = "delivered"
    FAILED = "failed"
    DEAD = "dead"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"

    # An enumeration hashes by a method in Python, a string does not; sets of states are looked into for every change.
    __hash__ = str.__hash__


OPEN = frozenset({State.PLANNED, State.SENDING, State.RETRY, State.AMBIGUOUS})
FINAL = frozenset(State) - OPEN
UNDELIVERED = frozenset({State.FAILED, State.DEAD, State.UNKNOWN})
"""The final states in which somebody may miss something."""

_WITHDRAWN = {State.CANCELLED, State.SUPERSEDED}
EDGES: dict[State, frozenset[State]] = {
    # `ambiguous` is for a ledger restored from a backup, whose rows may have been sent after it was made.
    State.PLANNED: frozenset({State.SENDING, State.AMBIGUOUS, State.FAILED, State.DEAD, *_WITHDRAWN}),
    State.SENDING: frozenset(
        {State.DELIVERED, State.RETRY, State.AMBIGUOUS, State.FAILED, State.DEAD, *_WITHDRAWN},
    ),
    State.RETRY: frozenset({State.SENDING, State.AMBIGUOUS, State.DEAD, *_WITHDRAWN}),
    # To itself: it was tried to find out, and could not be found out yet.
    State.AMBIGUOUS: frozenset(
        {State.SENDING, State.AMBIGUOUS, State.DELIVERED, State.RETRY, State.UNKNOWN, *_WITHDRAWN},
    ),
} | {state: frozenset() for state in FINAL}

NOTICE_ORDINAL = 0
"""The ordinal of the one line that tells people what is missing from a turn. What the turn says begins at 1; what is
said in place of delivery n has the ordinal -n."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How one delivery is to be treated; it is kept in its row, so that new settings never reinterpret old rows.

    `on_unknown`: where nobody can tell whether it arrived, `hold` it and say so, or `resend` it, marked.
    `on_dead`: when a part cannot be delivered, `skip` it, or `halt` and leave out the rest of its turn.
    `budget` counts tries, `max_age_s` is how old it may become before it is no longer sent. `is_told`: whether people
    hear of it when it is missing.
    """

    idempotency: Idempotency
    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    max_attempts: int = msgspec.field(default=20, name="budget")
    max_age_s: float = 86_400.0
    is_reported: bool = msgspec.field(default=True, name="is_told")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One durable operation and what is known of it. Times are seconds since the epoch of the wall clock.

    `place` orders the deliveries of a conversation; the ledger gives it. `attempt` counts the tries, `deferred_tries`
    those of them that the platform only put off. `error` is the last thing that went wrong, in words for people.
    `may_be_double` is true once it was sent again though it may have been there.
    """

    turn_id: str
    ordinal: int
    operation: Durable
    policy: Policy
    key: str
    fingerprint: bytes
    created_at: float
    position: int = 0
    state: State = State.PLANNED
    attempt: int = 0
    deferred_tries: int = 0
    epoch: int = 0
    first_try_at: float | None = None
    last_try_at: float | None = None
    not_before: float | None = None
    receipt: Receipt | None = None
    error: str = ""
    may_be_double: bool = False
    updated_at: float = 0.0

    @property
    def id(self) -> str:
        """Its name, for people and for logs."""
        return f"{self.turn_id}.{self.ordinal}"

    @property
    def conversation(self) -> str:
        """The place it goes to, in which order is kept."""
        return self.operation.target.conversation

    @property
    def channel(self) -> str:
        """The name of the channel that is to perform it."""
        return self.operation.target.channel

    @property
    def expires_at(self) -> float:
        """When it is too old to be sent."""
        return self.created_at + self.policy.max_age_s

    @property
    def is_exhausted(self) -> bool:
        """Whether it was tried as often as it may be."""
        return self.attempt - self.deferred_tries >= self.policy.max_attempts

    @property
    def idempotency(self) -> Idempotency:
        """What makes it safe to repeat; an edit, a deletion and the end of a stream say how things shall be."""
        if isinstance(self.operation, Edit | Delete | CloseStream):
            return Repeatable()
        return self.policy.idempotency


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a running turn has said that no delivery says yet, and the live message that shows it, where one does.

    `is_stream`: that message is an open stream. `after` is the ordinal of the delivery it comes behind: once there is a
    later one, that says it, or more.
    """

    text: str = ""
    message_id: str | None = None
    is_stream: bool = False
    after: int = 0


class TurnState(enum.StrEnum):
    """Where a turn is. `done` means that all it says is written down as deliveries, not that they have arrived."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


TURN_OPEN = frozenset({TurnState.ACCEPTED, TurnState.RUNNING})


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One answer on its way. `attempt` counts how often it was begun; `last_ordinal` is its highest one so far."""

    turn_id: str
    target: Target
    state: TurnState = TurnState.RUNNING
    input: str = ""
    snapshot: Snapshot = Snapshot()
    attempt: int = 0
    epoch: int = 0
    last_ordinal: int = 0
    updated_at: float = 0.0


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person said, as the platform names it: the same event again is the same turn."""

    channel: str
    event_id: str
    turn_id: str
    target: Target
    text: str
    account: str = ""
    seen_at: float = 0.0


class OpenConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with open deliveries: its first one's state and owner, when that may be tried, and since when."""

    conversation: str
    channel: str
    state: str
    epoch: int
    not_before: float | None = None
    updated_at: float = 0.0


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries are meant; what is None does not matter. `before` is compared with `updated_at`."""

    states: frozenset[State] | None = None
    turn_id: str | None = None
    conversation: str | None = None
    channel: str | None = None
    before: float | None = None


def plan(operation: Durable, *, turn_id: str, ordinal: int, policy: Policy, now: float) -> Delivery:
    """A new delivery. Its key and fingerprint follow from its name and content: the same again is the same."""
    encoded = encode_operation(operation)
    name = f"{turn_id}.{ordinal}".encode("utf-8", "surrogatepass")
    return Delivery(
        turn_id=turn_id,
        ordinal=ordinal,
        operation=operation,
        policy=policy,
        key=urlsafe_b64encode(_digest(name + b"\0" + encoded, 15)).decode(),
        fingerprint=_digest(encoded, 16),
        created_at=now,
        updated_at=now,
    )


def fingerprint_of(operation: Durable) -> bytes:
    """What a delivery's fingerprint must be: that of another content, or of a damaged one, is another."""
    return _digest(encode_operation(operation), 16)


def _digest(content: bytes, size: int) -> bytes:
    # 15 bytes are 20 characters of base64: they fit Discord's nonce (25) and need no escaping in a Matrix address.
    return hashlib.blake2b(content, digest_size=size).digest()


def moved(delivery: Delivery, to: State, *, now: float, **changes: object) -> Delivery:
    """The delivery in its next state. Raises `ValueError` where no edge leads there."""
    if to not in EDGES[delivery.state]:
        raise ValueError(f"{delivery.id} is {delivery.state}; no edge leads from there to {to}")
    return replace(delivery, state=to, updated_at=now, **changes)


def sending(delivery: Delivery, *, now: float, again: bool = False) -> Delivery:
    """The delivery as its sender takes it up: another attempt begins. `again`: though it may be there already."""
    return moved(
        delivery,
        State.SENDING,
        now=now,
        attempt=delivery.attempt + 1,
        first_try_at=delivery.first_try_at if delivery.first_try_at is not None else now,
        last_try_at=now,
        not_before=None,
        may_be_double=delivery.may_be_double or again,
    )


def adopted(delivery: Delivery, *, epoch: int, now: float, restored: bool = False) -> Delivery:
    """An open delivery of a former owner in the hands of the new one, who cannot know what became of a send.

    In a ledger `restored` from a backup that holds for every open row: it may have been sent after the backup was made.
    """
    if delivery.state is State.SENDING:
        delivery = moved(delivery, State.AMBIGUOUS, now=now, error="its sender ended before the answer was recorded")
    elif restored and delivery.state is not State.AMBIGUOUS:
        # The first try, if there was one, came after it was made: counted from there a key's window ends too early.
        first_try_at = delivery.first_try_at or delivery.created_at
        why = "the ledger was restored from an older copy"
        delivery = moved(delivery, State.AMBIGUOUS, now=now, first_try_at=first_try_at, not_before=None, error=why)
    return replace(delivery, epoch=epoch)
