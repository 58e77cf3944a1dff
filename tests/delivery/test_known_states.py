"""Whatever a channel, an agent or another owner does: each delivery ends in a known state, without a restart."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from delivery_setup import HERE, THERE, DeliverySetup, OnlySends, finished_within, in_virtual_time, post, states

from tailrace.capabilities import Capabilities, Keyed, Rate, Unkeyed
from tailrace.deliveries import FINAL, OPEN, State, TurnState
from tailrace.delivery.presenting import present
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.errors import AccessLost, MaybeSent, NotSent, SendRefused
from tailrace.events import Event, TextDelta, TurnCompleted
from tailrace.operations import Post, Receipt
from tailrace.testing.faults import Delayed, LoseAccess, NoAnswer, Rule, TooMany
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Answers(OnlySends):
    """A channel whose first calls answer or raise these; later calls succeed."""

    def __init__(self, *answers: Any, keyed: bool = False) -> None:
        self.capabilities = Capabilities(idempotency=Keyed(window_s=1e6) if keyed else Unkeyed())
        self.answers = list(answers)
        self.texts: list[str] = []

    async def post(self, post: Post, *, key: str) -> Receipt:
        assert key
        answer = self.answers.pop(0) if self.answers else Receipt(message_id=f"m{len(self.texts)}")
        if isinstance(answer, BaseException):
            raise answer
        self.texts.append(post.body.text)
        return answer


WRONG_ANSWERS: list[tuple[Any, State]] = [
    (SendRefused("no \ud800"), State.FAILED),
    (SendRefused("no", gone="yes"), State.FAILED),  # type: ignore[arg-type]
    (NotSent("later", retry_after="soon"), State.DELIVERED),  # type: ignore[arg-type]
    (MaybeSent("\udfff"), State.UNKNOWN),
    (AccessLost("the token was revoked"), State.DELIVERED),
    (ValueError("\ud800"), State.UNKNOWN),
    (ExceptionGroup("several", [ValueError()]), State.UNKNOWN),
    (4711, State.UNKNOWN),
    (None, State.UNKNOWN),
    ("m1", State.UNKNOWN),
    (Receipt(message_id=4711), State.UNKNOWN),  # type: ignore[arg-type]
    (Receipt(message_id="m1", degraded=None), State.UNKNOWN),  # type: ignore[arg-type]
    (Receipt(message_id="\ud800"), State.DELIVERED),
]


@pytest.mark.parametrize(("answer", "state"), WRONG_ANSWERS)
def test_any_answer_of_a_channel_leads_to_a_known_state(answer: Any, state: State) -> None:
    async def scene(simulation: Simulation) -> None:
        setup, channel = DeliverySetup(simulation), Answers(answer)
        setup.courier.connect(channel)
        ended = await finished_within(setup.send_turn("t", "one", "two"), 200.0)
        assert states(ended) == [state, State.DELIVERED]
        assert channel.texts[-1] == "two"
        for row in await setup.rows():
            assert row.state in FINAL
            f"{row.error} {row.receipt}".encode()

    run(scene)


def test_a_wrong_receipt_is_an_error_that_names_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation)
        setup.courier.connect(Answers(Receipt(message_id=4711)))  # type: ignore[arg-type]
        [row, *_] = await setup.send_turn("t", "one")
        assert "'simulated' returned a receipt whose fields are not all strings from post" in row.error

    run(scene)
    assert "It must return Receipt(message_id=...)" in caplog.text


@in_virtual_time
async def test_lost_access_pauses_the_account_and_costs_no_attempt(simulation: Simulation) -> None:
    setup, channel = DeliverySetup(simulation, max_attempts=2), Answers(*[AccessLost("revoked", everywhere=True)] * 5)
    setup.courier.connect(channel)
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(100)
    assert (await setup.states())[1] is State.RETRY
    assert len(channel.answers) == 3, "one try a minute"
    [row] = await finished_within(sending, 300.0)
    assert row.state is State.DELIVERED


@in_virtual_time
async def test_access_that_is_lost_in_one_chat_pauses_only_that_chat(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=LoseAccess(), chat="here", times=None, until=simulation.clock.monotonic() + 100.0))
    paused = asyncio.create_task(setup.send_turn("here", "one", "two"))
    [sent] = await finished_within(setup.send_turn("there", "three", target=THERE), 10.0)
    assert sent.state is State.DELIVERED
    await asyncio.sleep(50)
    kept = [row for row in await setup.rows() if row.turn_id == "here"]
    assert {row.state for row in kept} == {State.PLANNED, State.RETRY}
    assert states(await finished_within(paused, 300.0)) == [State.DELIVERED] * 2
    assert setup.texts() == ["one", "two"]


@in_virtual_time
async def test_a_stopped_turn_does_not_let_the_next_call_skip_the_pace(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=5.0)))
    first, second = [await setup.courier.begin(name, HERE) for name in ("stopped", "next")]
    await first.send(post("a"))
    waiting = [
        asyncio.create_task(turn.send(post(text))) for turn, text in ((first, "b"), (second, "c"), (second, "d"))
    ]
    await asyncio.sleep(0.5)
    await first.cancel()
    ended = await asyncio.gather(*waiting)
    assert [states(rows) for rows in ended] == [[State.CANCELLED], [State.DELIVERED], [State.DELIVERED]]
    assert setup.texts() == ["a", "c", "d"]
    assert setup.platform.complaints == []


@in_virtual_time
async def test_a_cancelled_turn_stays_cancelled_in_the_next_process(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(60.0))
    turn = await setup.courier.begin("t", HERE)
    sending = asyncio.create_task(turn.send(post("one"), post("two")))
    await asyncio.sleep(1)
    await setup.memory.cancel("t")  # as a gateway would, in another task or process
    await setup.crash()
    await asyncio.sleep(120)
    await setup.recovery().sweep()
    assert sending.cancelled()
    assert set((await setup.states()).values()) == {State.CANCELLED}
    assert setup.texts() == []
    assert await setup.send_turn("t", "one", "two") == []


async def events(*said: Event, then_s: float = 0.0) -> AsyncIterator[Event]:
    for event in said:
        yield event
    await asyncio.sleep(then_s)
    yield TurnCompleted()


@in_virtual_time
async def test_a_cancelled_presentation_ends_at_once(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    said = events(TextDelta(text="Hello. " * 9), then_s=1e6)
    presenting = asyncio.create_task(present(said, turn, setup.channel.capabilities, clock=setup.clock))
    await asyncio.sleep(5)
    presenting.cancel()
    await finished_within(asyncio.wait({presenting}), 1.0)
    assert presenting.cancelled()


@pytest.mark.parametrize("cancelled_again", [False, True])
@in_virtual_time
async def test_a_presentation_does_not_wait_for_an_agent_that_ignores_a_stop(
    simulation: Simulation, cancelled_again: bool
) -> None:
    async def stubborn() -> AsyncIterator[Event]:
        yield TextDelta(text="Hello. " * 9)
        until = simulation.clock.monotonic() + 1e6
        while (left := until - simulation.clock.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue

    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    presenting = asyncio.create_task(present(stubborn(), turn, setup.channel.capabilities, clock=setup.clock))
    await asyncio.sleep(5)
    presenting.cancel()
    if cancelled_again:
        await asyncio.sleep(1)
        presenting.cancel()
    await finished_within(asyncio.wait({presenting}), 6.0)
    assert presenting.cancelled()


@in_virtual_time
async def test_a_turn_given_up_in_this_process_is_closed_without_a_restart(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("one"))
    turn.close()
    assert setup.courier._senders == {}, "the lease is released"
    await setup.recovery().sweep()
    assert setup.texts() == ["one", INTERRUPTED]
    assert (await setup.courier.begin("t", HERE)).turn.state is TurnState.INTERRUPTED


@in_virtual_time
async def test_a_later_turn_first_closes_what_was_interrupted(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("one"))
    await setup.crash()
    await setup.send_turn("u", "other")
    again = await setup.courier.begin("t", HERE)
    assert await again.end(post("one"), post("two")) == []
    assert setup.texts() == ["one", INTERRUPTED, "other"]


@pytest.mark.parametrize("kind", ["keyed", "readback", "unkeyed"])
def test_a_paused_owner_writes_nothing_after_another_took_over(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation, kind)
        setup.fail(Rule(fault=Delayed(5.0), kind="post"))
        sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
        await asyncio.sleep(1)
        simulation.clock.suspend(40.0)  # the lease of 30 s is over; the call is still under way
        other = setup.courier_of(setup.memory.another_owner())
        resumed = other.resume(HERE.conversation)
        assert resumed is not None
        await resumed
        await finished_within(asyncio.wait({sending}), 60.0)
        texts = [text for text in setup.texts() if "⚠️" not in text]
        assert texts == ["one", "two"]
        assert setup.courier.fenced == 1
        assert not OPEN & set((await setup.states()).values())

    caplog.set_level(logging.WARNING)
    run(scene)
    assert "another owner has this conversation" in caplog.text


@in_virtual_time
async def test_an_ambiguous_answer_during_a_stop_is_not_lost(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(NoAnswer())
    turn = await setup.courier.begin("t", HERE)
    sending = asyncio.create_task(turn.send(post("one")))
    await asyncio.sleep(1)
    await turn.cancel()
    [row] = await finished_within(sending, 60.0)
    assert row.state is State.UNKNOWN
