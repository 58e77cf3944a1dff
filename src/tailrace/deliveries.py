"""Deliveries, the turns they belong to, and the states of both.

A delivery is one durable operation. Its id is `{turn_id}.{ordinal}`. The ledger records it before it is sent and again
after the platform answered. So a new process knows after a crash which deliveries have arrived. The states are:

    planned    recorded, certainly not sent
    sending    the sender was about to send it, or has sent it
    retry      certainly not sent; it is tried again, but not before `not_before`
    ambiguous  it may have arrived: no answer came, or the process that sent it has ended
    ---------  the states above are open: more is to be done; those below are final: they never change
    delivered  it arrived; the receipt is recorded
    failed     the platform refused it for good
    dead       too old, or tried too often; it certainly did not arrive
    unknown    it may have arrived, and there is no way to find out; users are notified
    cancelled  it was no longer wanted
    superseded another delivery replaces it

`EDGES` has all allowed changes of state, and every change goes through `moved`. A conversation has one owner at a time,
who holds its `Lease`. The ledger changes a row only for the owner, and only if the row still has the epoch, state and
attempt that the owner saw last. A new owner adopts every open row: `sending` becomes `ambiguous`, because the process
that sent it has ended. This module does no input or output; the time is an argument.
"""

from __future__ import annotations

import enum
import hashlib
from base64 import urlsafe_b64encode
from typing import Literal

import msgspec
from msgspec.structs import replace

from tailrace.capabilities import Idempotency, Repeatable
from tailrace.inbound import InboundMessage
from tailrace.operations import (
    CloseStream,
    Delete,
    Durable,
    Edit,
    Receipt,
    Target,
    encode_operation,
)


class State(enum.StrEnum):
    """The state of a delivery. The docstring of this module explains each state."""

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

    # Every change looks into sets of states. The hash method of `Enum` is Python code; that of `str` is faster.
    __hash__ = str.__hash__


OPEN = frozenset({State.PLANNED, State.SENDING, State.RETRY, State.AMBIGUOUS})
FINAL = frozenset(State) - OPEN
UNDELIVERED = frozenset({State.FAILED, State.DEAD, State.UNKNOWN})
"""The final states in which a user may miss something."""

_WITHDRAWN = {State.CANCELLED, State.SUPERSEDED}
EDGES: dict[State, frozenset[State]] = {
    # `ambiguous`: only in a ledger restored from a backup, whose rows may have been sent after the backup was made.
    State.PLANNED: frozenset({State.SENDING, State.AMBIGUOUS, State.FAILED, State.DEAD, *_WITHDRAWN}),
    State.SENDING: frozenset(
        {State.DELIVERED, State.RETRY, State.AMBIGUOUS, State.FAILED, State.DEAD, *_WITHDRAWN},
    ),
    State.RETRY: frozenset({State.SENDING, State.AMBIGUOUS, State.DEAD, *_WITHDRAWN}),
    # `ambiguous` again: the platform was asked and did not answer.
    State.AMBIGUOUS: frozenset(
        {State.SENDING, State.AMBIGUOUS, State.DELIVERED, State.RETRY, State.UNKNOWN, *_WITHDRAWN},
    ),
} | {state: frozenset() for state in FINAL}

NOTICE_ORDINAL = 0
"""The ordinal of the one line that notifies users of a missing part of the turn. The turn's own deliveries count from
1; the replacement of delivery n has the ordinal -n."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How to treat one delivery. It is stored in the row, so that new settings do not change old rows.

    `on_unknown`: if there is no way to find out whether the delivery arrived, `hold` it and notify the user, or
    `resend` it and record that it may be there twice.
    `on_dead`: if a part cannot be delivered, `skip` it, or `halt` and leave out the rest of its turn.
    `max_attempts`: how often it is tried. `max_age_s`: the age after which it is not sent any more.
    `is_reported`: whether the user is notified if it is missing. `offers_resend`: whether that notice has a button with
    the word `/resend`, which a gateway understands.
    """

    idempotency: Idempotency
    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    max_attempts: int = msgspec.field(default=20, name="budget")
    max_age_s: float = 86_400.0
    is_reported: bool = msgspec.field(default=True, name="is_told")
    offers_resend: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One durable operation, its state, and what the platform answered. Times are seconds since 1970 (wall clock).

    `position` is its place in the order of its conversation, and `epoch` is the number of its lease; the ledger assigns
    both. `attempt` counts the tries, and `deferred_tries` those after which the platform asked to wait. `error` is the
    last error, in words for users. `may_be_double` is true if it was sent again although it may have arrived.
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
        """The id of the delivery, `{turn_id}.{ordinal}`, for people and logs."""
        return f"{self.turn_id}.{self.ordinal}"

    @property
    def conversation(self) -> str:
        """The name of the conversation that gets the delivery. The deliveries of one conversation are sent in order."""
        return self.operation.target.conversation

    @property
    def channel(self) -> str:
        """The name of the channel that sends the delivery."""
        return self.operation.target.channel

    @property
    def expires_at(self) -> float:
        """The time after which the delivery is too old to be sent."""
        return self.created_at + self.policy.max_age_s

    @property
    def is_exhausted(self) -> bool:
        """Whether all attempts of the delivery are used up, so that it is not tried again."""
        return self.attempt - self.deferred_tries >= self.policy.max_attempts

    @property
    def idempotency(self) -> Idempotency:
        """What makes it safe to send the delivery again.

        An edit, a deletion and the end of a stream are repeatable on every channel. For the rest the channel decides.
        """
        if isinstance(self.operation, Edit | Delete | CloseStream):
            return Repeatable()
        return self.policy.idempotency


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a running turn that is in no delivery yet, and the id of the live message that shows it, if any.

    `is_stream`: that message is an open stream. `after` is the ordinal of the last delivery before this text. When a
    later delivery is recorded, it contains the text, and the snapshot is out of date.
    """

    text: str = ""
    message_id: str | None = None
    is_stream: bool = False
    after: int = 0


class TurnState(enum.StrEnum):
    """The state of a turn. `done` means that all its deliveries are recorded, not that they have arrived."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


TURN_OPEN = frozenset({TurnState.ACCEPTED, TurnState.RUNNING})


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of an agent, and the `message` that it answers, if that came from a channel.

    `arrival` is the number of that message in its conversation; 0 without a message. `attempt` counts how often the
    turn was begun; `last_ordinal` is the highest recorded ordinal. `is_cancelled`: no new message of the turn may be
    sent.
    """

    turn_id: str
    target: Target
    state: TurnState = TurnState.RUNNING
    message: InboundMessage | None = None
    arrival: int = 0
    snapshot: Snapshot = Snapshot()
    attempt: int = 0
    epoch: int = 0
    is_cancelled: bool = False
    last_ordinal: int = 0
    updated_at: float = 0.0

    @property
    def conversation(self) -> str:
        """The conversation that gets the answer."""
        return self.target.conversation


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of accepting a message: the id of its turn, and how many earlier turns of its conversation are open.

    `is_new` is false if the same event was accepted before.
    """

    turn_id: str
    is_new: bool
    ahead: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right of one owner to change the rows of a conversation. Each lease has a higher epoch than all before.

    `has_open` is true if the conversation had an open delivery or a running turn when the lease began.
    """

    conversation: str
    owner: str
    epoch: int
    has_open: bool = True


class OpenConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with open deliveries. `state` and the times are those of its first open delivery."""

    name: str
    channel: str
    chat: str
    state: str
    not_before: float | None = None
    updated_at: float = 0.0


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for deliveries. A field that is None matches all. `before`: only those with an earlier `updated_at`."""

    states: frozenset[State] | None = None
    turn_id: str | None = None
    conversation: str | None = None
    channel: str | None = None
    before: float | None = None


def plan(operation: Durable, *, turn_id: str, ordinal: int, policy: Policy, now: float) -> Delivery:
    """Make a new delivery without recording it. The same id and content always give the same key and fingerprint."""
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
    """A hash of an operation. It shows whether the recorded content was damaged or is not the expected content."""
    return _digest(encode_operation(operation), 16)


def _digest(content: bytes, size: int) -> bytes:
    # 15 bytes are 20 characters of base64: they fit Discord's nonce (25) and need no escaping in a Matrix address.
    return hashlib.blake2b(content, digest_size=size).digest()


def moved(delivery: Delivery, to: State, *, now: float, **changes: object) -> Delivery:
    """The delivery in the state `to`, with these changes. Raises `ValueError` if `EDGES` does not allow this step."""
    if to not in EDGES[delivery.state]:
        raise ValueError(f"{delivery.id} is {delivery.state}; it cannot become {to}")
    return replace(delivery, state=to, updated_at=now, **changes)


def sending(delivery: Delivery, *, now: float, again: bool = False) -> Delivery:
    """The delivery at the start of its next attempt. With `again`, an earlier attempt may have arrived already."""
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
    """Take over an open delivery: it now belongs to the lease `epoch`. `sending` becomes `ambiguous`.

    In a ledger that was `restored` from a backup, every open delivery becomes ambiguous: it may have been sent after
    the backup was made.
    """
    if delivery.state is State.SENDING:
        delivery = moved(delivery, State.AMBIGUOUS, now=now, error="its sender ended before the answer was recorded")
    elif restored and delivery.state is not State.AMBIGUOUS:
        # The first try is unknown but came after `created_at`. Counted from there, the window of the key ends too
        # early, which is safe.
        first_try_at = delivery.first_try_at or delivery.created_at
        why = "the ledger was restored from an older copy"
        delivery = moved(delivery, State.AMBIGUOUS, now=now, first_try_at=first_try_at, not_before=None, error=why)
    return replace(delivery, epoch=epoch)
