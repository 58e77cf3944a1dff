"""One attempt to send a delivery: record the intent, call the channel with a deadline, record the outcome.

It may be cancelled at any await. Before the call that leaves a delivery that is surely not sent; from the call on, one
that is recorded by what is known. No delivery stays `sending` without a sender: what must still be recorded runs as a
background task, which a second cancellation does not reach.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, Delivery, Query, State, moved
from tailrace.delivery.call import outcome_of, perform
from tailrace.delivery.pace import STALE_S
from tailrace.delivery.result import (
    after_call,
    after_failed_lookup,
    after_lookup,
    degradation,
    missing_part_notice,
    replacement_post,
)
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome
from tailrace.ports import ReadsBack

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tailrace.delivery.pace import PacedChannel
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Receipt

_GRACE_S = 1.0
_BLOCKED_S = 0.1
_NOT_STARTED = NotNow("the attempt was not started", retry_after=0.0)


async def attempt(
    context: SenderContext, channel: PacedChannel, before: Delivery | None, sending: Delivery, *, decided_at: float
) -> Delivery:
    """Send a delivery and return its state after the attempt, as recorded.

    `before` is its state before; None if `sending` is recorded already. `decided_at` is the time of the decision to
    send, by the monotonic clock. Raises `Fenced` if another sender has the delivery, and `LedgerUnavailable` if the
    intent could not be recorded; in both cases nothing was sent.
    """
    in_doubt = before is not None and before.state is State.AMBIGUOUS
    degraded = ""
    if before is not None:
        degraded = await _degradation(context, before)
        try:
            await context.ledger.move((before, sending))
        except asyncio.CancelledError:
            # The ledger still makes a change that was submitted, and makes changes in the order of the calls.
            context.run_in_background(mark_not_sent(context, sending, in_doubt=in_doubt))
            raise
    if context.clock.monotonic() - decided_at > STALE_S:
        return await _record_outcome(context, sending, _NOT_STARTED, in_doubt=in_doubt)
    call = perform(channel.channel, sending.operation, sending.key)
    send = asyncio.create_task(_degraded(call, degraded) if degraded else call)
    send.add_done_callback(_retrieve_exception)
    try:
        await _wait_for_answer(context, send, channel.deadline_s)
    except asyncio.CancelledError:
        context.run_in_background(_finish_stopped(context, sending, send, in_doubt=in_doubt))
        raise
    is_late = not send.done()
    outcome = _outcome(send, channel.deadline_s)
    channel.learn(sending.operation.target.chat, outcome)
    after = await _record_outcome(context, sending, outcome, in_doubt=in_doubt)
    if is_late:
        # The call is cancelled, but it may still return an answer, or have done so meanwhile.
        send.add_done_callback(lambda answer: record_late_answer(context, after, answer))
    return after


async def look_up(context: SenderContext, channel: PacedChannel, delivery: Delivery) -> Delivery:
    """Ask the platform whether an ambiguous delivery arrived. Returns its state after that, as recorded."""
    assert isinstance(channel.channel, ReadsBack), "only for channels that can look up messages"
    degraded = await _degradation(context, delivery)
    try:
        async with asyncio.timeout(channel.deadline_s):
            found = await channel.channel.find(delivery.operation.target, delivery.key)
    except Exception as error:  # noqa: BLE001 -- the channel's own code: whatever it raises, nothing was found out
        outcome = outcome_of(error)
        channel.learn(delivery.operation.target.chat, outcome)
        after = after_failed_lookup(delivery, outcome, now=context.clock.wall(), jitter=context.jitter())
    else:
        found = _with_degradation(found, degraded) if found is not None and degraded else found
        after = after_lookup(delivery, found, now=context.clock.wall())
    await context.record(delivery, after)
    return after


async def record_result(context: SenderContext, before: Delivery, *states: Delivery) -> Delivery:
    """Record the next states of a delivery and, right behind it, the notice to the user if there is one."""
    after = states[-1]
    notice = missing_part_notice(after, now=after.updated_at)
    await context.record(before, *states, plan=[notice] if notice is not None else ())
    return after


async def mark_not_sent(context: SenderContext, sending: Delivery, *, in_doubt: bool) -> None:
    """Record that a delivery in the state `sending` was not sent; `in_doubt` as in `after_call`."""
    states = after_call(sending, _NOT_STARTED, now=context.clock.wall(), jitter=context.jitter(), in_doubt=in_doubt)
    await context.record_until_done(sending, *states)


async def _degradation(context: SenderContext, delivery: Delivery) -> str:
    """What users lose because this delivery replaces another one. Found out before the call, which must not wait."""
    if delivery.ordinal >= NOTICE_ORDINAL:
        return ""
    query = Query(turn_id=delivery.turn_id)
    # A replacement is recorded right behind the delivery that it replaces.
    before = await context.retry_while_unavailable(lambda: context.ledger.find(query, after=delivery.position, limit=1))
    return degradation(before[0].operation) if before and before[0].ordinal == -delivery.ordinal else ""


async def _degraded(call: Coroutine[None, None, Receipt], degraded: str) -> Receipt:
    return _with_degradation(await call, degraded)


def _with_degradation(receipt: Receipt, degraded: str) -> Receipt:
    return replace(receipt, degraded=f"{degraded}; {receipt.degraded}" if receipt.degraded else degraded)


async def _wait_for_answer(context: SenderContext, send: asyncio.Task[Receipt], deadline_s: float) -> None:
    began = context.clock.monotonic()
    await asyncio.wait({send}, timeout=deadline_s)
    if not send.done() and context.clock.monotonic() - began > deadline_s + _BLOCKED_S:
        # The event loop was blocked: the answer may have arrived unread.
        await asyncio.wait({send}, timeout=_GRACE_S)
    if not send.done():
        send.cancel()


def _outcome(send: asyncio.Task[Receipt], deadline_s: float) -> Outcome:
    if not send.done():
        return Ambiguous(f"no answer within {deadline_s:g} s")
    if send.cancelled():
        return Ambiguous("the call was cancelled")
    error = send.exception()
    return Delivered(send.result()) if error is None else outcome_of(error)


async def _record_outcome(context: SenderContext, sending: Delivery, outcome: Outcome, *, in_doubt: bool) -> Delivery:
    now = context.clock.wall()
    if (replaced := replacement_post(sending, outcome, now=now, in_doubt=in_doubt)) is not None:
        after, post = replaced
        await context.record(sending, after, plan=[post])
        return after
    states = after_call(sending, outcome, now=now, jitter=context.jitter(), in_doubt=in_doubt)
    return await record_result(context, sending, *states)


async def _finish_stopped(
    context: SenderContext, sending: Delivery, send: asyncio.Task[Receipt], *, in_doubt: bool
) -> None:
    """The sender was stopped during the call: record what is known of it."""
    send.cancel()
    await asyncio.wait({send}, timeout=_GRACE_S)
    is_late = not send.done()
    after = await _record_outcome(context, sending, _outcome(send, _GRACE_S), in_doubt=in_doubt)
    if is_late:
        send.add_done_callback(lambda answer: record_late_answer(context, after, answer))


def record_late_answer(context: SenderContext, after: Delivery, answer: asyncio.Task[Receipt]) -> None:
    """An answer came after the deadline: record it, unless another attempt was made since."""
    if not answer.cancelled() and answer.exception() is None:
        delivered = moved(after, State.DELIVERED, now=context.clock.wall(), receipt=answer.result(), error="")
        context.run_in_background(context.record_until_done(after, delivered))


def _retrieve_exception(send: asyncio.Task[Receipt]) -> None:
    """Retrieve the exception: asyncio would log it with its message, which may contain secrets."""
    if not send.cancelled():
        send.exception()
