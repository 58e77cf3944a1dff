"""What to do with a delivery: pure decisions over (delivery, what is known, the time), obeyed by the courier.

`next_step` looks at an open delivery that is first in its conversation; `answered` takes in what a call brought;
`asked` what a platform said when it was asked back; `told` what people are told of a part they may miss.

Rate limits and clocks are other people's: a wait that is absurd is bounded, a wall clock that was set back makes
nobody wait longer than was meant, and an age that cannot be true is no proof that a key is still known.
"""

from __future__ import annotations

import math
from typing import TypeAlias, assert_never

import msgspec

from tailrace.capabilities import Keyed, Readback, Repeatable, Unkeyed
from tailrace.deliveries import NOTICE_ORDINAL, UNDELIVERED, Delivery, State, moved, plan, sending
from tailrace.operations import (
    Ambiguous,
    Body,
    CloseStream,
    Delete,
    Delivered,
    Durable,
    Edit,
    NotNow,
    OpenStream,
    Outcome,
    Post,
    PostMedia,
    Receipt,
    Refused,
)

FIRST_WAIT_S = 1.0
LONGEST_BACKOFF_S = 300.0
LONGEST_WAIT_S = 4 * 3600.0
"""The longest wait a platform can ask for; the longest that was seen is 10,072 seconds."""

TOO_OLD = "it was too old to be sent"


class Send(msgspec.Struct, frozen=True):
    """Send it now; `delivery` is how it enters the try."""

    delivery: Delivery


class AskBack(msgspec.Struct, frozen=True):
    """Ask the platform whether it is there."""


class Wait(msgspec.Struct, frozen=True):
    """Look again in so many seconds; then `next_step(..., waited=True)`."""

    seconds: float


class Settle(msgspec.Struct, frozen=True):
    """It is over; `delivery` is how it ends."""

    delivery: Delivery


Step: TypeAlias = Send | AskBack | Wait | Settle


class RepeatContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel can do for a delivery that may be there.

    `can_ask`: it can be asked back. `scope`: what a key sent now would be bound to. `takes_s`: the longest that can
    pass between the decision to send and the arrival of what is sent.
    """

    can_ask: bool = False
    scope: str = ""
    takes_s: float = 0.0


def next_step(delivery: Delivery, reach: RepeatContext, *, now: float, waited: bool = False) -> Step:
    """What to do with an open delivery that nobody is sending.

    `waited`: the wait that this function asked for is over, whatever the wall clock says.
    """
    assert delivery.state is not State.SENDING, "its sender decides"
    if not waited and (wait := remaining_wait(delivery, now)) > 0:
        return Wait(wait)
    if delivery.state is State.AMBIGUOUS:
        return _find_out(delivery, reach, now=now)
    if now > delivery.expires_at:
        return Settle(moved(delivery, State.DEAD, now=now, error=TOO_OLD))
    if delivery.is_exhausted:
        error = f"given up after {delivery.attempt} tries: {delivery.error}"
        return Settle(moved(delivery, State.DEAD, now=now, error=error))
    media = delivery.operation
    if isinstance(media, PostMedia) and media.url is None and media.path is None and delivery.state is State.PLANNED:
        return Settle(moved(delivery, State.FAILED, now=now, error=delivery.error or "there is no file to send"))
    return Send(sending(delivery, now=now))


def remaining_wait(delivery: Delivery, now: float) -> float:
    """The seconds until it may be tried, at most those that were meant when the wait was written down."""
    if delivery.not_before is None:
        return 0.0
    return min(delivery.not_before - now, delivery.not_before - delivery.updated_at)


def _find_out(delivery: Delivery, reach: RepeatContext, *, now: float) -> Step:
    """It may be there: by key, by doing it again, by asking, or not at all."""
    may_send = not delivery.is_exhausted and now <= delivery.expires_at
    idempotency = delivery.idempotency
    if may_send and _is_safe_to_repeat(delivery, reach, now=now):
        return Send(sending(delivery, now=now))
    # Only what was posted has a key to ask for.
    can_ask = reach.can_ask and not isinstance(delivery.operation, Edit | Delete | CloseStream)
    if can_ask and now <= delivery.expires_at + LONGEST_WAIT_S:
        visible_within_s = idempotency.visible_within_s if isinstance(idempotency, Readback) else 0.0
        # From when the try was given up: until then it could still arrive.
        settles_in = delivery.updated_at + visible_within_s - now
        return Wait(settles_in) if 0 < settles_in <= visible_within_s else AskBack()
    if may_send and delivery.policy.on_unknown == "resend":
        return Send(sending(delivery, now=now, again=True))
    return Settle(moved(delivery, State.UNKNOWN, now=now))


def _is_safe_to_repeat(delivery: Delivery, reach: RepeatContext, *, now: float) -> bool:
    """Whether sending it again cannot show it twice, however long that takes to arrive."""
    match delivery.idempotency:
        case Keyed() as keyed:
            first_try_at = delivery.first_try_at if delivery.first_try_at is not None else delivery.created_at
            age = now - first_try_at
            return age >= 0 and age + reach.takes_s < keyed.window_s and reach.scope == keyed.scope
        case Repeatable():
            return True
        case Readback() | Unkeyed():
            return False
        case never:
            assert_never(never)


def answered(
    delivery: Delivery, outcome: Outcome, *, now: float, jitter: float, in_doubt: bool = False
) -> tuple[Delivery, ...]:
    """The states a delivery goes through after its try, in most cases one.

    `jitter` is a number from 0 to 1 that spreads those who wait together. `in_doubt`: an earlier try may have arrived,
    and that this one surely did not is no proof that nothing is there.
    """
    match outcome:
        case Delivered():
            return (moved(delivery, State.DELIVERED, now=now, receipt=outcome.receipt, error=""),)
        case Refused() if in_doubt:
            ambiguous = moved(delivery, State.AMBIGUOUS, now=now, error=outcome.reason)
            return ambiguous, moved(ambiguous, State.UNKNOWN, now=now)
        case Refused():
            return (moved(delivery, State.FAILED, now=now, error=outcome.reason),)
        case NotNow():
            not_before = now + wait_after(outcome.retry_after, delivery.attempt - delivery.deferred_tries, jitter)
            # The platform told when to come back: that is no failure of the delivery and costs it no try. It counts all
            # the same: two tries of one number could not be told apart.
            deferred_tries = delivery.deferred_tries + is_plausible(outcome.retry_after)
            to = State.AMBIGUOUS if in_doubt else State.RETRY
            return (
                moved(
                    delivery, to, now=now, not_before=not_before, error=outcome.reason, deferred_tries=deferred_tries
                ),
            )
        case Ambiguous():
            not_before = now + wait_after(None, delivery.attempt - delivery.deferred_tries, jitter)
            return (moved(delivery, State.AMBIGUOUS, now=now, not_before=not_before, error=outcome.reason),)
        case _:
            assert_never(outcome)


def asked(delivery: Delivery, found: Receipt | None, *, now: float) -> Delivery:
    """An ambiguous delivery after the platform was asked: it is there, or it surely is not."""
    if found is not None:
        return moved(delivery, State.DELIVERED, now=now, receipt=found, error="")
    return moved(delivery, State.RETRY, now=now, not_before=None)


def ask_later(delivery: Delivery, outcome: Outcome, *, now: float, jitter: float) -> Delivery:
    """An ambiguous delivery after asking brought no answer."""
    retry_after = outcome.retry_after if isinstance(outcome, NotNow) else None
    return moved(delivery, State.AMBIGUOUS, now=now, not_before=now + wait_after(retry_after, 4, jitter))


def is_plausible(retry_after: float | None) -> bool:
    """Whether a platform's word on when to come back can be meant."""
    return retry_after is not None and math.isfinite(retry_after) and 0 <= retry_after <= LONGEST_WAIT_S


def wait_after(retry_after: float | None, attempt: int, jitter: float) -> float:
    """The seconds to wait: as the platform says where that can be meant, else longer with each try."""
    backoff = min(LONGEST_BACKOFF_S, FIRST_WAIT_S * 2.0 ** min(max(attempt - 1, 0), 20))
    if retry_after is not None and is_plausible(retry_after):
        return retry_after + jitter * min(FIRST_WAIT_S, retry_after)
    if retry_after is not None and retry_after > LONGEST_WAIT_S:
        return LONGEST_WAIT_S
    return backoff * (0.5 + jitter / 2)


def instead(
    delivery: Delivery, outcome: Outcome, *, now: float, in_doubt: bool = False
) -> tuple[Delivery, Delivery] | None:
    """Where it was refused and yet can be said: that superseded, and a new message that says the same.

    That is so where the message that was to say it at last is gone, and where the platform takes no stream; unless an
    earlier try may have begun one (`in_doubt`): then a new message might say it twice. A message that is there and may
    not be changed is not said again beside itself: it may show most of it already, and people are told.
    """
    refused = delivery.operation
    match outcome, refused:
        case Refused(gone=True), Edit() | CloseStream():
            pass
        case Refused(), OpenStream() if not in_doubt:
            pass
        case _:
            return None
    post = plan(
        Post(target=refused.target, body=refused.body),
        turn_id=delivery.turn_id,
        ordinal=-delivery.ordinal,
        policy=delivery.policy,
        now=now,
    )
    return moved(delivery, State.SUPERSEDED, now=now, error=outcome.reason), post


def given_up(replaced: Durable) -> str:
    """What is given up where a new message says what this was to say; nothing, where people see the same."""
    return "the platform refused the stream" if isinstance(replaced, OpenStream) else ""


def told(delivery: Delivery, *, now: float) -> Delivery | None:
    """The line that tells people that a part may be missing; one for a turn, none for a part nobody waits for any more.

    Nobody is told of a line like this that did not arrive, nor of something that was to be taken away, nor of what a
    turn that was stopped has left undone. Where nobody can tell whether the line arrived it is said again: hearing of
    it twice is better than not at all.
    """
    is_part = delivery.ordinal != NOTICE_ORDINAL and not isinstance(delivery.operation, Delete)
    if not delivery.policy.is_reported:
        return None
    if delivery.state not in UNDELIVERED or not is_part or delivery.error == TOO_OLD:
        return None
    which = "Part of this answer" if delivery.ordinal < 0 else f"Part {delivery.ordinal} of this answer"
    what = "may be missing: it is not known whether it arrived" if delivery.state is State.UNKNOWN else "is missing"
    body = Body(text=f"⚠️ {which} {what}.")
    return plan(
        Post(target=delivery.operation.target, body=body),
        turn_id=delivery.turn_id,
        ordinal=NOTICE_ORDINAL,
        policy=msgspec.structs.replace(delivery.policy, on_unknown="resend", on_dead="skip"),
        now=now,
    )
