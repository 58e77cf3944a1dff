"""One try with one delivery: intent recorded, sent with a deadline, outcome recorded.

It may be cancelled at any await. Before the send that leaves a delivery that is surely not sent; from the send on,
one that is recorded by what is known of it. Neither is left `sending` with nobody to finish it: what is still to be
recorded is handed to the desk, where no second cancellation reaches it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.deliveries import Delivery, State, moved
from tailrace.delivery.decisions import answered, ask_later, asked, instead, told
from tailrace.delivery.performing import outcome_of, perform
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome
from tailrace.ports import ReadsBack

if TYPE_CHECKING:
    from tailrace.delivery.desk import Desk
    from tailrace.delivery.outlet import Outlet
    from tailrace.operations import Receipt

_STALE_S = 15.0
"""An intent that took longer than this to record was decided in another world: it is decided again."""
_GRACE_S = 1.0


async def attempt(desk: Desk, outlet: Outlet, before: Delivery | None, sending: Delivery) -> Delivery:
    """Try it: from `before` on, or from `sending` where that is recorded already. Returns what is recorded after.

    Raises `Fenced` where somebody else has it, and `LedgerUnavailable` where no intent could be recorded: then
    nothing was sent.
    """
    decided = desk.clock.monotonic()
    if before is not None:
        try:
            await desk.ledger.move((before, sending))
        except asyncio.CancelledError:
            # The ledger still makes the change that was handed in; calls are made in their order.
            desk.tidy(take_back(desk, sending))
            raise
    if desk.clock.monotonic() - decided > _STALE_S:
        return await _conclude(desk, sending, NotNow("it took too long to record", retry_after=0.0))
    send = asyncio.create_task(perform(outlet.channel, sending.operation, sending.key))
    try:
        await _wait_for_answer(desk, send, outlet.deadline_s)
    except asyncio.CancelledError:
        desk.tidy(_stopped(desk, sending, send))
        raise
    outcome = _outcome(send, outlet.deadline_s)
    outlet.learn(sending.conversation, outcome)
    after = await _conclude(desk, sending, outcome)
    if not send.done():
        # Cancelled, and yet it may answer.
        send.add_done_callback(lambda answer: desk.tidy(_answered_late(desk, after, answer)))
    return after


async def ask(desk: Desk, outlet: Outlet, delivery: Delivery) -> Delivery:
    """Ask the platform whether an ambiguous delivery is there; returns what is recorded after."""
    assert isinstance(outlet.channel, ReadsBack), "asked only where the channel can be"
    try:
        async with asyncio.timeout(outlet.deadline_s):
            found = await outlet.channel.find(delivery.operation.target, delivery.key)
    except Exception as error:  # noqa: BLE001 -- the channel's own code: whatever it raises, nothing was found out
        outcome = outcome_of(error)
        outlet.learn(delivery.conversation, outcome)
        after = ask_later(delivery, outcome, now=desk.clock.wall(), jitter=desk.jitter())
    else:
        after = asked(delivery, found, now=desk.clock.wall())
    await desk.record(delivery, after)
    return after


async def settle(desk: Desk, before: Delivery, after: Delivery) -> Delivery:
    """Record what became of a delivery, and right behind it what people are told, where they are told something."""
    notice = told(after, now=after.updated_at)
    await desk.record(before, after, plan=[notice] if notice is not None else ())
    return after


async def take_back(desk: Desk, sending: Delivery) -> None:
    """It is recorded as being sent, and was not."""
    stopped = NotNow("its sender was stopped", retry_after=0.0)
    after = answered(sending, stopped, now=desk.clock.wall(), jitter=desk.jitter())
    await desk.steadily(lambda: desk.ledger.move((sending, after)))


async def _wait_for_answer(desk: Desk, send: asyncio.Task[Receipt], deadline_s: float) -> None:
    began = desk.clock.monotonic()
    await asyncio.wait({send}, timeout=deadline_s)
    if not send.done() and desk.clock.monotonic() - began > deadline_s + _GRACE_S:
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


async def _conclude(desk: Desk, sending: Delivery, outcome: Outcome) -> Delivery:
    now = desk.clock.wall()
    if (in_place := instead(sending, outcome, now=now)) is not None:
        after, post = in_place
        await desk.record(sending, after, plan=[post])
        return after
    return await settle(desk, sending, answered(sending, outcome, now=now, jitter=desk.jitter()))


async def _stopped(desk: Desk, sending: Delivery, send: asyncio.Task[Receipt]) -> None:
    """Its sender was stopped while the platform was called: what is known of it is recorded."""
    send.cancel()
    await asyncio.wait({send}, timeout=_GRACE_S)
    await _conclude(desk, sending, _outcome(send, _GRACE_S))


async def _answered_late(desk: Desk, after: Delivery, answer: asyncio.Task[Receipt]) -> None:
    """The answer came after its deadline: it counts while nothing else was tried since."""
    if after.state is State.AMBIGUOUS and not answer.cancelled() and answer.exception() is None:
        delivered = moved(after, State.DELIVERED, now=desk.clock.wall(), receipt=answer.result(), error="")
        await desk.steadily(lambda: desk.ledger.move((after, delivered)))
