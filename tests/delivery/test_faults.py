"""The rows of the fault matrix that concern deliveries."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from canceller import Canceller
from delivery_setup import (
    HERE,
    THERE,
    DeliverySetup,
    OnlySends,
    finished_within,
    in_virtual_time,
    post,
    with_deadline,
    with_window,
)
from msgspec.structs import replace

from tailrace.capabilities import Rate
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Query, State, TurnState
from tailrace.delivery import Courier
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.errors import TurnMismatch
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Post, Receipt, Target
from tailrace.testing.faults import Cut, Delayed, Fault, NoAnswer, Reset, Rule, ServerError, TooMany, Unreachable
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.simulated import simulated_channel
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery

KINDS = ("keyed", "readback", "repeatable", "unkeyed")
CHATS = [Target(channel="simulated", chat=f"chat {number}") for number in range(20)]


# 29 to 32: failures before and after the request was read.


@pytest.mark.parametrize("kind", KINDS)
@in_virtual_time
async def test_row_29_a_failed_connection_is_retried_without_doubt(simulation: Simulation, kind: str) -> None:
    setup = DeliverySetup(simulation, kind)
    setup.fail(Rule(fault=Unreachable(), times=3))
    [first, second] = await setup.send_turn("t", "one", "two")
    assert setup.texts() == ["one", "two"]
    assert (first.attempt, second.attempt) == (4, 1)
    assert not first.may_be_double
    assert setup.platform.counts["find"] == 0
    assert len({seen.key for seen in setup.platform.calls}) == 2


AFTER_THE_REQUEST: list[tuple[str, list[Fault]]] = [
    ("30", [Reset(), Reset(applied=False)]),
    ("31", [Cut(), Cut(applied=False)]),
    ("32", [NoAnswer(), NoAnswer(applied=False)]),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(("row", "faults"), AFTER_THE_REQUEST)
@in_virtual_time
async def test_rows_30_31_32_a_lost_answer_is_resolved_by_the_kind_of_channel(
    simulation: Simulation, row: str, faults: list[Fault], kind: str, applied: bool
) -> None:
    setup = DeliverySetup(simulation, kind)
    setup.fail(faults[0] if applied else faults[1])
    [first, second] = await setup.send_turn("t", "one", "two")
    assert row
    assert second.state is State.DELIVERED
    if kind == "unkeyed":
        assert first.state is State.UNKNOWN
        assert setup.texts()[:-2] == ["one"] * applied
    else:
        assert first.state is State.DELIVERED
        assert setup.texts() == ["one", "two"]


def over_sockets(fault: Fault | None, kind: str = "keyed") -> tuple[list[str], list[Delivery]]:
    """Send one turn to a platform in its own process with this fault; None closes its port for a while."""
    capabilities = replace(capabilities_of(kind), deadline_s=0.5)

    async def scene(platform: PlatformProcess) -> list[Delivery]:
        async with Courier(MemoryLedger(), jitter=lambda: 0.0) as courier:
            courier.connect(simulated_channel(platform.address))
            turn = await courier.begin("t", HERE)
            if fault is None:
                sending = asyncio.create_task(turn.end(post("one"), post("two")))
                query = Query(states=frozenset({State.RETRY}))
                while not await courier.ledger.find(query):
                    pass  # until it was refused; `find` lets other tasks run
                platform.open_port()
                return await sending
            return await turn.end(post("one"), post("two"))

    with PlatformProcess(capabilities) as platform:
        if fault is None:
            platform.close_port()
        else:
            platform.add_faults(fault)
        ended = asyncio.run(scene(platform))
        return platform.texts("here"), ended


def test_row_29_over_sockets_a_closed_port_leaves_no_doubt() -> None:
    texts, [first, second] = over_sockets(None)
    assert texts == ["one", "two"]
    assert first.attempt >= 2
    assert (first.state, second.state) == (State.DELIVERED, State.DELIVERED)


def test_row_30_over_sockets_a_reset_is_repeated_with_the_same_key() -> None:
    texts, [first, _] = over_sockets(Reset())
    assert (texts, first.attempt) == (["one", "two"], 2)


def test_row_31_over_sockets_a_cut_answer_is_looked_up() -> None:
    texts, [first, _] = over_sockets(Cut(), "readback")
    assert (texts, first.attempt) == (["one", "two"], 1)


def test_row_32_over_sockets_a_missing_answer_is_held_with_a_notice() -> None:
    texts, [first, second] = over_sockets(NoAnswer(), "unkeyed")
    assert (first.state, second.state) == (State.UNKNOWN, State.DELIVERED)
    assert (texts[0], "may be missing" in texts[1], texts[2]) == ("one", True, "two")


# 33 and 34: keys.


@pytest.mark.parametrize("down_s", [30.0, 119.0, 121.0, 4000.0])
@in_virtual_time
async def test_row_33_a_key_is_not_trusted_outside_its_window(simulation: Simulation, down_s: float) -> None:
    setup = DeliverySetup(simulation, with_window(120.0))
    setup.fail(NoAnswer())
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    await setup.crash(connected=False)
    assert sending.cancelled()
    await asyncio.sleep(down_s)
    setup.courier.connect(setup.channel)
    await setup.recovery().sweep()
    assert setup.texts().count("one") == 1
    # Not until the last second: the message must still arrive within the window.
    assert (await setup.states())[1] is (State.DELIVERED if down_s == 30.0 else State.UNKNOWN)


@in_virtual_time
async def test_row_34_a_key_is_never_used_for_another_body(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(NoAnswer())
    first = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    with pytest.raises(TurnMismatch):
        await setup.send_turn("t", "another")
    await setup.crash()
    assert first.cancelled()
    with pytest.raises(TurnMismatch):
        await setup.send_turn("t", "another")
    await setup.send_turn("t", "one")
    assert setup.texts() == ["one"]
    assert setup.platform.complaints == []


# 35 to 37: many failures.


@in_virtual_time
async def test_row_35_many_429_are_obeyed_across_a_restart_in_order(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=TooMany(20.0, everywhere=True), times=None, until=60.0))
    beside = DeliverySetup(simulation)
    sending = [asyncio.create_task(setup.send_turn(chat.chat, "one", "two", target=chat)) for chat in CHATS]
    await finished_within(beside.send_turn("t", "one"), 1.0)
    await asyncio.sleep(5)
    before = setup.platform.counts["post"]
    assert before == len(CHATS)  # each once, and not again before its time
    not_before = {row.not_before for row in await setup.rows() if row.attempt}
    await setup.crash()
    assert all(task.cancelled() for task in sending)
    assert {row.not_before for row in await setup.rows() if row.attempt} == not_before
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(10)
    assert setup.platform.counts["post"] == before
    await asyncio.sleep(200)
    recovering.cancel()
    assert all(setup.texts(chat) == ["one", "two"] for chat in CHATS)
    assert setup.platform.counts["post"] <= 6 * len(CHATS)
    assert {row.attempt - row.deferred_tries for row in await setup.rows()} == {1}


@pytest.mark.parametrize("retry_after", [None, 1e9, -5.0, "soon", 0.0, 5e-324])
@in_virtual_time
async def test_row_36_an_absurd_retry_after_falls_back_to_backoff(
    simulation: Simulation, retry_after: float | str | None
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=TooMany(retry_after), times=3))
    [row] = await finished_within(setup.send_turn("t", "one"), 13 * 3600)
    assert row.state is State.DELIVERED
    assert row.attempt == 4


@in_virtual_time
async def test_row_37_many_5xx_open_the_breaker_and_end_without_a_rush(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, max_attempts=1000)
    setup.fail(Rule(fault=ServerError(), times=None, until=600.0))
    await asyncio.gather(*(setup.send_turn(chat.chat, "one", "two", target=chat) for chat in CHATS))
    assert all(setup.texts(chat) == ["one", "two"] for chat in CHATS)
    failed = [seen.at for seen in setup.platform.calls if seen.fault]
    assert len(failed) < 60  # twenty chats for ten minutes
    after = sorted(seen.at for seen in setup.platform.calls if not seen.fault)
    assert after[1] > after[0] + 0.09  # one probe goes alone until it is answered


@in_virtual_time
async def test_row_37_max_attempts_suffice_for_half_an_hour_of_5xx(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=ServerError(503), times=None, until=1800.0))
    rows = await asyncio.gather(*(setup.send_turn(chat.chat, "one", target=chat) for chat in CHATS))
    assert {row.state for [row] in rows} == {State.DELIVERED}


# 40, 41 and 47: answers out of order, too late, never.


@in_virtual_time
async def test_row_40_answers_out_of_order_reach_their_own_delivery(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=Delayed(9.0), chat="here"), Rule(fault=Delayed(1.0), chat="there"))
    first, second = await asyncio.gather(
        setup.send_turn("t", "one", "two"), setup.send_turn("u", "three", target=THERE)
    )
    by_id = {message.message_id: message.text for message in setup.platform.history()}
    said = [(row.operation, row.receipt) for row in [*first, *second]]
    for operation, receipt in said:
        assert receipt is not None
        assert by_id[receipt.message_id] == operation.body.text  # type: ignore[union-attr] # all are posts
    # The next delivery of a conversation waits for the answer of the one before.
    times = [seen.at for seen in setup.platform.calls if seen.chat == "here"]
    assert times[1] >= times[0] + 9.0


class UncancellableChannel(OnlySends):
    """A channel whose calls cannot be cancelled: each takes its `takes_s`. `shown` has the texts by key."""

    def __init__(self, kind: str, *takes_s: float) -> None:
        self.capabilities = with_deadline(kind, 5.0)
        self.shown: dict[str, str] = {}
        self.calls = 0
        self._takes_s = list(takes_s)
        self._own: set[asyncio.Task[None]] = set()

    async def post(self, post: Post, *, key: str) -> Receipt:
        assert post.target.channel == self.name
        self.calls += 1
        self.shown[key] = post.body.text
        waiting = asyncio.create_task(asyncio.sleep(self._takes_s.pop(0) if self._takes_s else 0.1))
        self._own.add(waiting)
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                continue
        return Receipt(message_id=key)


@pytest.mark.parametrize(
    ("kind", "takes_s", "calls", "state"),
    [
        ("keyed", (5.2,), 1, State.DELIVERED),  # before the next attempt: it counts
        ("keyed", (7.0, 3.0), 2, State.DELIVERED),  # during the second attempt: the second counts
        ("keyed", (20.0, 0.1), 2, State.DELIVERED),
        ("unkeyed", (5.2,), 1, State.DELIVERED),
        ("unkeyed", (20.0,), 1, State.UNKNOWN),  # too late: the user was notified
    ],
)
@in_virtual_time
async def test_row_41_a_late_answer_counts_until_the_next_attempt(
    simulation: Simulation, kind: str, takes_s: tuple[float, ...], calls: int, state: State
) -> None:
    setup = DeliverySetup(simulation)
    channel = UncancellableChannel(kind, *takes_s)
    setup.channel = channel
    setup.courier = setup.courier_of(setup.memory)
    [row] = await setup.send_turn("t", "one")
    await asyncio.sleep(60)
    assert (row.state, (await setup.states())[1]) == (state, state)
    assert next(iter(channel.shown.values())) == "one"
    assert channel.calls - (state is State.UNKNOWN) == calls  # the notice is one more


@pytest.mark.parametrize("stubborn", [False, True])
@in_virtual_time
async def test_row_47_a_hanging_channel_blocks_its_conversation_only_for_a_while(
    simulation: Simulation, stubborn: bool
) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=NoAnswer(applied=False), chat="here"))
    if stubborn:
        setup.channel = UncancellableChannel("unkeyed", 1e6)
        setup.courier = setup.courier_of(setup.memory)
    hanging = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(0.5)
    await finished_within(setup.send_turn("u", "three", target=THERE), 1.0)
    assert [row.state for row in await finished_within(hanging, 60.0)] == [State.UNKNOWN, State.DELIVERED]
    await finished_within(setup.courier.drain(), 30.0)


# 49: cancellation.


async def cancelled(kind: str, name: str, fault: Fault | None, moments: tuple[int, ...], simulation: Simulation) -> int:
    """Send a turn of two parts with cancellations, check what must hold, and return how often the tasks waited."""
    setup = DeliverySetup(simulation, kind)
    if fault is not None:
        setup.fail(fault)
    with Canceller(name, *moments) as canceller:
        sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
        await asyncio.wait({sending}, timeout=100)
        await asyncio.sleep(60)  # a call under way ends within its deadline
    assert sending.done(), "the caller gets a result"
    assert State.SENDING not in (await setup.states()).values()
    recovery = setup.recovery()
    await recovery.sweep()
    await asyncio.sleep(60)
    await recovery.sweep()
    await finished_within(setup.send_turn("t", "one", "two"), 60)
    rows = await setup.states()
    assert not OPEN & set(rows.values())
    turn = await setup.memory.turn("t")
    assert turn is not None
    texts = [text for text in setup.texts() if "⚠️" not in text]
    if turn.state is TurnState.INTERRUPTED:  # cancelled before its deliveries were recorded; it is not sent later
        assert set(setup.texts()) == {INTERRUPTED}
    elif kind == "keyed":
        assert texts == ["one", "two"]
        assert set(rows.values()) == {State.DELIVERED}
    else:
        assert len(texts) == len(set(texts))
        assert texts == sorted(texts)
        for ordinal, text in ((1, "one"), (2, "two")):
            assert text in texts or rows[ordinal] is State.UNKNOWN
        assert (State.UNKNOWN in {rows[1], rows[2]}) == (NOTICE_ORDINAL in rows)
    await setup.courier.drain()
    assert len(asyncio.all_tasks()) == 1
    return canceller.waits


@pytest.mark.parametrize("kind", ["keyed", "unkeyed"])
@pytest.mark.parametrize("fault", [None, Unreachable(), Reset(), Delayed(2.0), NoAnswer()], ids=repr)
@pytest.mark.parametrize("name", ["ConversationSender._run", "DeliverySetup.send_turn", "PlatformCall._perform"])
def test_row_49_cancelled_at_any_await_no_row_stays_sending(name: str, fault: Fault | None, kind: str) -> None:
    whole = run(partial(cancelled, kind, name, fault, ()))
    assert whole > 0
    for moment in range(1, whole + 1):
        for moments in ((moment,), (moment, moment + 1)):
            run(partial(cancelled, kind, name, fault, moments))


# 51: clocks.


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
@pytest.mark.parametrize("fault", [Unreachable(), TooMany(30.0), TooMany(None), NoAnswer(applied=False)], ids=repr)
@in_virtual_time
async def test_row_51_a_jump_of_the_wall_clock_makes_no_wait_longer(
    simulation: Simulation, seconds: float, fault: Fault
) -> None:
    setup = DeliverySetup(simulation, "repeatable")
    setup.fail(fault, fault)
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(0.5)
    simulation.clock.jump(seconds)
    await asyncio.sleep(30)
    simulation.clock.jump(-seconds)
    await finished_within(sending, 100.0)
    assert setup.texts() == ["one", "two"]


@in_virtual_time
async def test_row_51_rate_limits_do_not_use_the_wall_clock(simulation: Simulation) -> None:
    capabilities = capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=9.0))
    setup = DeliverySetup(simulation, capabilities)
    sending = asyncio.create_task(setup.send_turn("t", *"abcdef"))
    for _ in range(10):
        await asyncio.sleep(4)
        simulation.clock.jump(simulation.source.choice((-3600.0, 3600.0)))
    await finished_within(sending, 60.0)
    assert setup.texts() == list("abcdef")
    assert setup.platform.complaints == []
