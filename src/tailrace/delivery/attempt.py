"""One try with one delivery: intent recorded, sent with a deadline, outcome recorded.

It may be cancelled at any await. Before the send that leaves a delivery that is surely not sent; from the send on,
one that is recorded by what is known of it. Neither is left `sending` with nobody to finish it: what is still to be
recorded is handed to the desk, where no second cancellation reaches it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, Delivery, Query, State, moved
from tailrace.delivery.decisions import answered, ask_later, asked, given_up, instead, told
from tailrace.delivery.paced_channel import STALE_S
from tailrace.delivery.performing import outcome_of, perform
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome
from tailrace.ports import ReadsBack

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tailrace.delivery.paced_channel import PacedChannel
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Receipt

_GRACE_S = 1.0
_LATE_S = 0.1
_NOT_BEGUN = NotNow("it was not begun after all", retry_after=0.0)


async def attempt(
    desk: SenderContext, outlet: PacedChannel, before: Delivery | None, sending: Delivery, *, decided: float
) -> Delivery:
    """Try it: from `before` on, or from `sending` where that is recorded already. Returns what is recorded after.

    `decided` is when it was decided to send it, by the clock that never goes back.
    Raises `Fenced` where somebody else has it, and `LedgerUnavailable` where no intent could be recorded: then
    nothing was sent.
    """
    in_doubt = before is not None and before.state is State.AMBIGUOUS
    lost = ""
    if before is not None:
        lost = await _given_up(desk, before)
        try:
            await desk.ledger.move((before, sending))
        except asyncio.CancelledError:
            # The ledger still makes the change that was handed in; calls are made in their order.
            desk.run_in_background(mark_not_sent(desk, sending, in_doubt=in_doubt))
            raise
    if desk.clock.monotonic() - decided > STALE_S:
        return await _conclude(desk, sending, _NOT_BEGUN, in_doubt=in_doubt)
    call = perform(outlet.channel, sending.operation, sending.key)
    send = asyncio.create_task(_answer(call, lost) if lost else call)
    send.add_done_callback(_look_at)
    try:
        await _wait_for_answer(desk, send, outlet.deadline_s)
    except asyncio.CancelledError:
        desk.run_in_background(_stopped(desk, sending, send, in_doubt=in_doubt))
        raise
    is_late = not send.done()
    outcome = _outcome(send, outlet.deadline_s)
    outlet.learn(sending.operation.target.chat, outcome)
    after = await _conclude(desk, sending, outcome, in_doubt=in_doubt)
    if is_late:
        # Cancelled, and yet it may answer, or have answered meanwhile.
        send.add_done_callback(lambda answer: record_late_answer(desk, after, answer))
    return after


async def ask(desk: SenderContext, outlet: PacedChannel, delivery: Delivery) -> Delivery:
    """Ask the platform whether an ambiguous delivery is there; returns what is recorded after."""
    assert isinstance(outlet.channel, ReadsBack), "asked only where the channel can be"
    lost = await _given_up(desk, delivery)
    try:
        async with asyncio.timeout(outlet.deadline_s):
            found = await outlet.channel.find(delivery.operation.target, delivery.key)
    except Exception as error:  # noqa: BLE001 -- the channel's own code: whatever it raises, nothing was found out
        outcome = outcome_of(error)
        outlet.learn(delivery.operation.target.chat, outcome)
        after = ask_later(delivery, outcome, now=desk.clock.wall(), jitter=desk.jitter())
    else:
        found = _lessened(found, lost) if found is not None and lost else found
        after = asked(delivery, found, now=desk.clock.wall())
    await desk.record(delivery, after)
    return after


async def settle(desk: SenderContext, before: Delivery, *states: Delivery) -> Delivery:
    """Record what became of a delivery, and right behind it what people are told, where they are told something."""
    after = states[-1]
    notice = told(after, now=after.updated_at)
    await desk.record(before, *states, plan=[notice] if notice is not None else ())
    return after


async def mark_not_sent(desk: SenderContext, sending: Delivery, *, in_doubt: bool) -> None:
    """It is recorded as being sent, and was not; `in_doubt` as for `answered`."""
    states = answered(sending, _NOT_BEGUN, now=desk.clock.wall(), jitter=desk.jitter(), in_doubt=in_doubt)
    await desk.record_until_done(sending, *states)


async def _given_up(desk: SenderContext, delivery: Delivery) -> str:
    """What is given up by saying this in place of another delivery, if anything; asked before anything is under way."""
    if delivery.ordinal >= NOTICE_ORDINAL:
        return ""
    query = Query(turn_id=delivery.turn_id)
    # It was recorded right behind what it replaces.
    before = await desk.retry_while_unavailable(lambda: desk.ledger.find(query, after=delivery.position, limit=1))
    return given_up(before[0].operation) if before and before[0].ordinal == -delivery.ordinal else ""


async def _answer(call: Coroutine[None, None, Receipt], lost: str) -> Receipt:
    return _lessened(await call, lost)


def _lessened(receipt: Receipt, lost: str) -> Receipt:
    return replace(receipt, degraded=f"{lost}; {receipt.degraded}" if receipt.degraded else lost)


async def _wait_for_answer(desk: SenderContext, send: asyncio.Task[Receipt], deadline_s: float) -> None:
    began = desk.clock.monotonic()
    await asyncio.wait({send}, timeout=deadline_s)
    if not send.done() and desk.clock.monotonic() - began > deadline_s + _LATE_S:
        # Something kept the event loop: the answer may lie there unread.
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


async def _conclude(desk: SenderContext, sending: Delivery, outcome: Outcome, *, in_doubt: bool) -> Delivery:
    now = desk.clock.wall()
    if (in_place := instead(sending, outcome, now=now, in_doubt=in_doubt)) is not None:
        after, post = in_place
        await desk.record(sending, after, plan=[post])
        return after
    return await settle(desk, sending, *answered(sending, outcome, now=now, jitter=desk.jitter(), in_doubt=in_doubt))


async def _stopped(desk: SenderContext, sending: Delivery, send: asyncio.Task[Receipt], *, in_doubt: bool) -> None:
    """Its sender was stopped while the platform was called: what is known of it is recorded."""
    send.cancel()
    await asyncio.wait({send}, timeout=_GRACE_S)
    is_late = not send.done()
    after = await _conclude(desk, sending, _outcome(send, _GRACE_S), in_doubt=in_doubt)
    if is_late:
        send.add_done_callback(lambda answer: record_late_answer(desk, after, answer))


def record_late_answer(desk: SenderContext, after: Delivery, answer: asyncio.Task[Receipt]) -> None:
    """The call ended after its deadline: an answer counts while nothing else was tried since."""
    if not answer.cancelled() and answer.exception() is None:
        delivered = moved(after, State.DELIVERED, now=desk.clock.wall(), receipt=answer.result(), error="")
        desk.run_in_background(desk.record_until_done(after, delivered))


def _look_at(send: asyncio.Task[Receipt]) -> None:
    """An error that nobody looks at is written to the log as it is, with all that a foreign one may hold."""
    if not send.cancelled():
        send.exception()
