"""What to do with a delivery: pure functions of the delivery, what is known, and the time. The sender obeys.

`next_step` is for the first open delivery of a conversation, `after_call` for the outcome of a call, `after_lookup` for
the platform's answer to a lookup, and `missing_part_notice` for the user.

Values from platforms and clocks are not trusted. An absurd wait is bounded. If the wall clock was set back, no wait
gets longer than it was. An impossible age never proves that a platform still knows a key.
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
"""The longest wait that a platform can ask for. The longest seen in practice is 10,072 seconds."""

TOO_OLD = "it was too old to be sent"


class Send(msgspec.Struct, frozen=True):
    """Send it now. `delivery` is its state during the attempt."""

    delivery: Delivery


class LookUp(msgspec.Struct, frozen=True):
    """Ask the platform whether it arrived."""


class Wait(msgspec.Struct, frozen=True):
    """Wait this long, then call `next_step(..., waited=True)`."""

    seconds: float


class Finish(msgspec.Struct, frozen=True):
    """Send it no more. `delivery` is its final state."""

    delivery: Delivery


NextStep: TypeAlias = Send | LookUp | Wait | Finish


class RepeatContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel can do for a delivery that may have arrived.

    `can_look_up`: it can look up messages by their key. `scope`: what a key sent now is bound to. `longest_send_s`: the
    longest time from the decision to send until the message arrives.
    """

    can_look_up: bool = False
    scope: str = ""
    longest_send_s: float = 0.0


def next_step(delivery: Delivery, context: RepeatContext, *, now: float, waited: bool = False) -> NextStep:
    """What to do with an open delivery that is not being sent.

    `waited`: the wait that this function asked for has passed, whatever the wall clock says.
    """
    assert delivery.state is not State.SENDING, "only its sender decides"
    if not waited and (wait := remaining_wait(delivery, now)) > 0:
        return Wait(wait)
    if delivery.state is State.AMBIGUOUS:
        return _resolve_doubt(delivery, context, now=now)
    if now > delivery.expires_at:
        return Finish(moved(delivery, State.DEAD, now=now, error=TOO_OLD))
    if delivery.is_exhausted:
        error = f"given up after {delivery.attempt} tries: {delivery.error}"
        return Finish(moved(delivery, State.DEAD, now=now, error=error))
    media = delivery.operation
    if isinstance(media, PostMedia) and media.url is None and media.path is None and delivery.state is State.PLANNED:
        return Finish(moved(delivery, State.FAILED, now=now, error=delivery.error or "there is no file to send"))
    return Send(sending(delivery, now=now))


def remaining_wait(delivery: Delivery, now: float) -> float:
    """The seconds until the next attempt; at most the wait that was recorded, also if the wall clock was set back."""
    if delivery.not_before is None:
        return 0.0
    return min(delivery.not_before - now, delivery.not_before - delivery.updated_at)


def _resolve_doubt(delivery: Delivery, context: RepeatContext, *, now: float) -> NextStep:
    """What to do if it may have arrived: repeat it safely, look it up, or follow the policy."""
    may_send = not delivery.is_exhausted and now <= delivery.expires_at
    idempotency = delivery.idempotency
    if may_send and _is_safe_to_repeat(delivery, context, now=now):
        return Send(sending(delivery, now=now))
    # Only posts have a key.
    can_look_up = context.can_look_up and not isinstance(delivery.operation, Edit | Delete | CloseStream)
    if can_look_up and now <= delivery.expires_at + LONGEST_WAIT_S:
        visible_within_s = idempotency.visible_within_s if isinstance(idempotency, Readback) else 0.0
        # Counted from the end of the attempt: until then it could still arrive.
        visible_in = delivery.updated_at + visible_within_s - now
        return Wait(visible_in) if 0 < visible_in <= visible_within_s else LookUp()
    if may_send and delivery.policy.on_unknown == "resend":
        return Send(sending(delivery, now=now, again=True))
    return Finish(moved(delivery, State.UNKNOWN, now=now))


def _is_safe_to_repeat(delivery: Delivery, context: RepeatContext, *, now: float) -> bool:
    """Whether sending it again cannot show it twice, however long the message takes to arrive."""
    match delivery.idempotency:
        case Keyed() as keyed:
            first_try_at = delivery.first_try_at if delivery.first_try_at is not None else delivery.created_at
            age = now - first_try_at
            return age >= 0 and age + context.longest_send_s < keyed.window_s and context.scope == keyed.scope
        case Repeatable():
            return True
        case Readback() | Unkeyed():
            return False
        case never:
            assert_never(never)


def after_call(
    delivery: Delivery, outcome: Outcome, *, now: float, jitter: float, in_doubt: bool = False
) -> tuple[Delivery, ...]:
    """The states of a delivery after an attempt, in order; usually one.

    `jitter` is a random number from 0 to 1, so that many deliveries do not retry at the same moment. `in_doubt`: an
    earlier attempt may have arrived; that this one did not proves nothing about that one.
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
            # A wait that the platform asked for costs no attempt. `attempt` grows all the same, because the ledger
            # tells attempts apart by their number.
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


def after_lookup(delivery: Delivery, found: Receipt | None, *, now: float) -> Delivery:
    """An ambiguous delivery after the platform was asked: it arrived, or it surely did not."""
    if found is not None:
        return moved(delivery, State.DELIVERED, now=now, receipt=found, error="")
    return moved(delivery, State.RETRY, now=now, not_before=None)


def after_failed_lookup(delivery: Delivery, outcome: Outcome, *, now: float, jitter: float) -> Delivery:
    """An ambiguous delivery after the lookup gave no answer: ask again later."""
    retry_after = outcome.retry_after if isinstance(outcome, NotNow) else None
    return moved(delivery, State.AMBIGUOUS, now=now, not_before=now + wait_after(retry_after, 4, jitter))


def is_plausible(retry_after: float | None) -> bool:
    """Whether the wait that a platform asked for makes sense."""
    return retry_after is not None and math.isfinite(retry_after) and 0 <= retry_after <= LONGEST_WAIT_S


def wait_after(retry_after: float | None, attempt: int, jitter: float) -> float:
    """The seconds until the next attempt: as the platform asked if that makes sense, otherwise exponential backoff."""
    backoff = min(LONGEST_BACKOFF_S, FIRST_WAIT_S * 2.0 ** min(max(attempt - 1, 0), 20))
    if retry_after is not None and is_plausible(retry_after):
        return retry_after + jitter * min(FIRST_WAIT_S, retry_after)
    if retry_after is not None and retry_after > LONGEST_WAIT_S:
        return LONGEST_WAIT_S
    return backoff * (0.5 + jitter / 2)


def replacement_post(
    delivery: Delivery, outcome: Outcome, *, now: float, in_doubt: bool = False
) -> tuple[Delivery, Delivery] | None:
    """For some refusals: the superseded delivery, and a new message with the same body. None for all others.

    A new message replaces an edit whose message is gone, and a stream that the platform refuses to open; not if an
    earlier attempt may have opened one (`in_doubt`), because then the text could be there twice. If the message exists
    but cannot be edited, nothing replaces the edit: the message may show most of the text, and the user is notified.
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


def degradation(replaced: Durable) -> str:
    """What users lose if a new message replaces this operation, for `Receipt.degraded`; "" if they see the same."""
    return "the platform refused the stream" if isinstance(replaced, OpenStream) else ""


def missing_part_notice(delivery: Delivery, *, now: float) -> Delivery | None:
    """The line that notifies the user that a part may be missing, if there should be one. A turn has at most one.

    There is none for parts that were too old, for deletions, for parts of a cancelled turn, and for a notice itself. If
    nobody can tell whether the notice arrived it is sent again: twice is better than never.
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
