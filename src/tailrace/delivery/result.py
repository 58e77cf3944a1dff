"""Decides what to do with a delivery. Pure functions of the delivery, the outcome of its call, and the time.

`next_step` is for the first open delivery of a conversation, `conclusion` for the outcome of a call, `after_lookup` for
the platform's answer to a lookup, and `missing_part_notice` for the line that notifies the user.

Values from platforms and clocks are not trusted. A wait that is too long is shortened. If the wall clock was set back,
no wait gets longer than it was, and a delivery with a negative age is not sent again under its old key.
"""

from __future__ import annotations

import math
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from tailrace.capabilities import Keyed, Readback, Repeatable, Unkeyed
from tailrace.deliveries import NOTICE_ORDINAL, UNDELIVERED, Delivery, State, moved, plan, sending
from tailrace.operations import (
    Ambiguous,
    Body,
    Button,
    CloseStream,
    Delete,
    Delivered,
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
    """Send the delivery now. `delivery` already has the state `sending`."""

    delivery: Delivery


class LookUp(msgspec.Struct, frozen=True):
    """Ask the platform whether the delivery arrived."""


class Wait(msgspec.Struct, frozen=True):
    """Wait `seconds`, then call `next_step(..., waited=True)`."""

    seconds: float


class Finish(msgspec.Struct, frozen=True):
    """Do not send the delivery any more. `delivery` has its final state."""

    delivery: Delivery


NextStep: TypeAlias = Send | LookUp | Wait | Finish


class RepeatContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel can do for a delivery that may have arrived.

    `can_look_up`: the channel can look up messages by their key. `scope`: the account or device for which a key is
    valid now. `longest_send_s`: the longest time from the decision to send until the message arrives.
    """

    can_look_up: bool = False
    scope: str = ""
    longest_send_s: float = 0.0


def next_step(delivery: Delivery, context: RepeatContext, *, now: float, waited: bool = False) -> NextStep:
    """What to do with an open delivery that is not being sent.

    `waited`: the wait that this function asked for has passed, even if the wall clock says something else.
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
    """The seconds until the next attempt. Never more than the recorded wait, even if the wall clock was set back."""
    if delivery.not_before is None:
        return 0.0
    return min(delivery.not_before - now, delivery.not_before - delivery.updated_at)


def _resolve_doubt(delivery: Delivery, context: RepeatContext, *, now: float) -> NextStep:
    """What to do if the delivery may have arrived: repeat it if that is safe, look it up, or follow its policy."""
    may_send = not delivery.is_exhausted and now <= delivery.expires_at
    idempotency = delivery.idempotency
    if may_send and _is_safe_to_repeat(delivery, context, now=now):
        return Send(sending(delivery, now=now))
    # Only posts have a key.
    can_look_up = context.can_look_up and not isinstance(delivery.operation, Edit | Delete | CloseStream)
    if can_look_up and now <= delivery.expires_at + LONGEST_WAIT_S:
        visible_within_s = idempotency.visible_within_s if isinstance(idempotency, Readback) else 0.0
        # The time is counted from the end of the attempt, because the message could still arrive until then.
        visible_in = delivery.updated_at + visible_within_s - now
        return Wait(visible_in) if 0 < visible_in <= visible_within_s else LookUp()
    if may_send and delivery.policy.on_unknown == "resend":
        return Send(sending(delivery, now=now, again=True))
    return Finish(moved(delivery, State.UNKNOWN, now=now))


def _is_safe_to_repeat(delivery: Delivery, context: RepeatContext, *, now: float) -> bool:
    """Whether a second send cannot show the message twice, even if that send takes the longest possible time."""
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


class Conclusion(msgspec.Struct, frozen=True):
    """What to record after a call: the next states of the delivery in order, and new deliveries right after it."""

    states: tuple[Delivery, ...]
    plan: tuple[Delivery, ...] = ()


def conclusion(
    delivery: Delivery, outcome: Outcome, *, now: float, jitter: float = 0.0, in_doubt: bool = False
) -> Conclusion:
    """What to record after a call: the next states, and the replacement or the notice that is needed.

    `jitter` is a random number from 0 to 1, so that many deliveries do not retry at the same moment. `in_doubt`: an
    earlier attempt may have arrived, even if this one did not.
    """
    if (replaced := replacement_post(delivery, outcome, now=now, in_doubt=in_doubt)) is not None:
        after, post = replaced
        return Conclusion((after,), (post,))
    return concluded(*after_call(delivery, outcome, now=now, jitter=jitter, in_doubt=in_doubt))


def concluded(*states: Delivery) -> Conclusion:
    """A conclusion with these states. If the last state needs a notice to the user, the conclusion contains it."""
    notice = missing_part_notice(states[-1], now=states[-1].updated_at)
    return Conclusion(states, () if notice is None else (notice,))


def after_call(
    delivery: Delivery, outcome: Outcome, *, now: float, jitter: float, in_doubt: bool = False
) -> tuple[Delivery, ...]:
    """The next states of a delivery after an attempt, in order; usually one state.

    The arguments are as in `conclusion`.
    """
    match outcome:
        case Delivered():
            return (_delivered(delivery, outcome.receipt, now=now),)
        case Refused() if in_doubt:
            ambiguous = moved(delivery, State.AMBIGUOUS, now=now, error=outcome.reason)
            return ambiguous, moved(ambiguous, State.UNKNOWN, now=now)
        case Refused():
            return (moved(delivery, State.FAILED, now=now, error=outcome.reason),)
        case NotNow():
            not_before = now + wait_after(outcome.retry_after, delivery.attempt - delivery.deferred_tries, jitter)
            # If the platform asked to wait, the attempt does not count. `attempt` still grows, because the ledger
            # needs a different number for each attempt.
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
    """The next state of an ambiguous delivery after a lookup: it arrived, or it certainly did not."""
    if found is not None:
        return _delivered(delivery, found, now=now)
    return moved(delivery, State.RETRY, now=now, not_before=None)


def _delivered(delivery: Delivery, receipt: Receipt, *, now: float) -> Delivery:
    if isinstance(delivery.operation, Post) and (lost := delivery.operation.degraded):
        receipt = replace(receipt, degraded=f"{lost}; {receipt.degraded}" if receipt.degraded else lost)
    return moved(delivery, State.DELIVERED, now=now, receipt=receipt, error="")


def after_failed_lookup(delivery: Delivery, outcome: Outcome, *, now: float, jitter: float) -> Delivery:
    """The next state of an ambiguous delivery after a lookup without an answer: the lookup is repeated later."""
    retry_after = outcome.retry_after if isinstance(outcome, NotNow) else None
    return moved(delivery, State.AMBIGUOUS, now=now, not_before=now + wait_after(retry_after, 4, jitter))


def is_plausible(retry_after: float | None) -> bool:
    """Whether the wait that a platform asked for is a number in the allowed range."""
    return retry_after is not None and math.isfinite(retry_after) and 0 <= retry_after <= LONGEST_WAIT_S


def wait_after(retry_after: float | None, attempt: int, jitter: float) -> float:
    """The seconds until the next attempt: as the platform asked if that is plausible, else an exponential backoff."""
    backoff = min(LONGEST_BACKOFF_S, FIRST_WAIT_S * 2.0 ** min(max(attempt - 1, 0), 20))
    if retry_after is not None and is_plausible(retry_after):
        return retry_after + jitter * min(FIRST_WAIT_S, retry_after)
    if retry_after is not None and retry_after > LONGEST_WAIT_S:
        return LONGEST_WAIT_S
    return backoff * (0.5 + jitter / 2)


def replacement_post(
    delivery: Delivery, outcome: Outcome, *, now: float, in_doubt: bool = False
) -> tuple[Delivery, Delivery] | None:
    """Replace a refused operation. Returns the superseded delivery, and a new message with the same body; else None.

    A new message replaces the edit of a message that no longer exists. It also replaces a stream that the platform
    refuses to open, but not if an earlier attempt may have opened one (`in_doubt`): then the text could be there twice.
    If a message exists but cannot be edited, nothing replaces the edit: the message may already show most of the text,
    and the user is notified.
    """
    if not isinstance(outcome, Refused):
        return None
    match refused := delivery.operation:
        case Edit() | CloseStream() if outcome.gone:
            pass
        case OpenStream() if not in_doubt:
            pass
        case _:
            return None
    degraded = "the platform refused the stream" if isinstance(refused, OpenStream) else ""
    post = plan(
        Post(target=refused.target, body=refused.body, degraded=degraded),
        turn_id=delivery.turn_id,
        ordinal=-delivery.ordinal,
        policy=delivery.policy,
        now=now,
    )
    return moved(delivery, State.SUPERSEDED, now=now, error=outcome.reason), post


def missing_part_notice(delivery: Delivery, *, now: float) -> Delivery | None:
    """The line that notifies the user of a missing part; None if none is needed. A turn has at most one such line.

    None is needed for parts that were too old, for deletions, for parts of a cancelled turn, and for a notice itself.
    If it is unknown whether the notice arrived, the notice is sent again: twice is better than never.
    """
    if delivery.state not in UNDELIVERED or delivery.error == TOO_OLD or not delivery.policy.is_reported:
        return None
    if delivery.ordinal == NOTICE_ORDINAL or isinstance(delivery.operation, Delete):
        return None
    which = "Part of this answer" if delivery.ordinal < 0 else f"Part {delivery.ordinal} of this answer"
    what = "may be missing: it is not known whether it arrived" if delivery.state is State.UNKNOWN else "is missing"
    is_offered = delivery.policy.offers_resend and delivery.state is State.UNKNOWN
    buttons = (Button(label="Resend", value="/resend"),) if is_offered else ()
    body = Body(text=f"⚠️ {which} {what}.", buttons=buttons)
    return plan(
        Post(target=delivery.operation.target, body=body),
        turn_id=delivery.turn_id,
        ordinal=NOTICE_ORDINAL,
        policy=replace(delivery.policy, on_unknown="resend", on_dead="skip"),
        now=now,
    )
