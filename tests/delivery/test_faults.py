"""The rows of the fault matrix that belong to deliveries: what is injected, and what is seen of it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from delivery_setup import (
    HERE,
    THERE,
    DeliverySetup,
    finished_within,
    in_virtual_time,
    post,
    with_deadline,
    with_window,
)
from msgspec.structs import replace
from saboteur import Saboteur

from tailrace.capabilities import Rate
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Query, State
from tailrace.delivery import Courier
from tailrace.errors import TurnMismatch
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Receipt, Target
from tailrace.testing.faults import Cut, Delayed, Fault, NoAnswer, Reset, Rule, ServerError, TooMany, Unreachable
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.simulated import simulated_channel
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.ports import Inbox

KINDS = ("keyed", "readback", "repeatable", "unkeyed")
CHATS = [Target(channel="simulated", chat=f"chat {number}") for number in range(20)]


# 29 to 32: before any byte, and after the request was read.


@pytest.mark.parametrize("kind", KINDS)
@in_virtual_time
async def test_row_29_what_never_connected_is_tried_again_without_a_doubt(simulation: Simulation, kind: str) -> None:
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
async def test_rows_30_31_32_what_may_have_been_taken_is_settled_by_what_the_channel_declared(
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
    """One turn to a platform in a process of its own, to which this befalls (a closed port without); what is there."""
    capabilities = replace(capabilities_of(kind), deadline_s=0.5)

    async def scene(platform: PlatformProcess) -> list[Delivery]:
        async with Courier(MemoryLedger(), jitter=lambda: 0.0) as courier:
            courier.connect(simulated_channel(platform.address))
            turn = await courier.begin("t", HERE)
            if fault is None:
                saying = asyncio.create_task(turn.end(post("one"), post("two")))
                query = Query(states=frozenset({State.RETRY}))
                while not await courier.ledger.find(query):
                    pass  # until it was refused: finding lets the others go on
                platform.open_port()
                return await saying
            return await turn.end(post("one"), post("two"))

    with PlatformProcess(capabilities) as platform:
        if fault is None:
            platform.close_port()
        else:
            platform.add_faults(fault)
        ended = asyncio.run(scene(platform))
        return platform.texts("here"), ended


def test_row_29_over_sockets_a_closed_port_is_no_doubt() -> None:
    texts, [first, second] = over_sockets(None)
    assert texts == ["one", "two"]
    assert first.attempt >= 2
    assert (first.state, second.state) == (State.DELIVERED, State.DELIVERED)


def test_row_30_over_sockets_a_reset_after_the_request_is_found_again_by_its_key() -> None:
    texts, [first, _] = over_sockets(Reset())
    assert (texts, first.attempt) == (["one", "two"], 2)


def test_row_31_over_sockets_half_an_answer_is_no_receipt_and_is_asked_for() -> None:
    texts, [first, _] = over_sockets(Cut(), "readback")
    assert (texts, first.attempt) == (["one", "two"], 1)


def test_row_32_over_sockets_a_taken_message_without_an_answer_is_held_and_told() -> None:
    texts, [first, second] = over_sockets(NoAnswer(), "unkeyed")
    assert (first.state, second.state) == (State.UNKNOWN, State.DELIVERED)
    assert (texts[0], "may be missing" in texts[1], texts[2]) == ("one", True, "two")


# 33 and 34: keys.


@pytest.mark.parametrize("down_s", [30.0, 119.0, 121.0, 4000.0])
@in_virtual_time
async def test_row_33_outside_its_window_a_key_is_not_trusted(simulation: Simulation, down_s: float) -> None:
    setup = DeliverySetup(simulation, with_window(120.0))
    setup.fail(NoAnswer())
    saying = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    await setup.crash(connected=False)
    assert saying.cancelled()
    await asyncio.sleep(down_s)
    setup.courier.connect(setup.channel)
    await setup.recovery().sweep()
    assert setup.texts().count("one") == 1
    # Not to the last second: what is sent now must still arrive within the window.
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


# 35 to 37: storms.


@in_virtual_time
async def test_row_35_a_storm_of_429_is_obeyed_kept_over_a_restart_and_leaves_the_order(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=TooMany(20.0, everywhere=True), times=None, until=60.0))
    beside = DeliverySetup(simulation)
    saying = [asyncio.create_task(setup.send_turn(chat.chat, "one", "two", target=chat)) for chat in CHATS]
    await finished_within(beside.send_turn("t", "one"), 1.0)
    await asyncio.sleep(5)
    before = setup.platform.counts["post"]
    assert before == len(CHATS)  # each once; nobody asks again before its time
    not_before = {row.not_before for row in await setup.rows() if row.attempt}
    await setup.crash()
    assert all(task.cancelled() for task in saying)
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
async def test_row_36_without_a_time_that_can_be_meant_waits_grow_and_end(
    simulation: Simulation, retry_after: float | str | None
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=TooMany(retry_after), times=3))
    [row] = await finished_within(setup.send_turn("t", "one"), 13 * 3600)
    assert row.state is State.DELIVERED
    assert row.attempt == 4


@in_virtual_time
async def test_row_37_a_storm_of_5xx_opens_the_circuit_and_ends_without_a_herd(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, max_attempts=1000)
    setup.fail(Rule(fault=ServerError(), times=None, until=600.0))
    await asyncio.gather(*(setup.send_turn(chat.chat, "one", "two", target=chat) for chat in CHATS))
    assert all(setup.texts(chat) == ["one", "two"] for chat in CHATS)
    failed = [seen.at for seen in setup.platform.calls if seen.fault]
    assert len(failed) < 60  # twenty chats for ten minutes
    after = sorted(seen.at for seen in setup.platform.calls if not seen.fault)
    assert after[1] > after[0] + 0.09  # the first is alone until it is answered


@in_virtual_time
async def test_row_37_in_a_storm_nothing_is_given_up_that_a_budget_allows(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=ServerError(503), times=None, until=1800.0))
    rows = await asyncio.gather(*(setup.send_turn(chat.chat, "one", target=chat) for chat in CHATS))
    assert {row.state for [row] in rows} == {State.DELIVERED}


# 40, 41 and 47: answers out of order, too late, never.


@in_virtual_time
async def test_row_40_answers_that_come_out_of_order_are_each_given_to_their_own(simulation: Simulation) -> None:
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
    # The next of a conversation is held back until the one before is answered.
    times = [seen.at for seen in setup.platform.calls if seen.chat == "here"]
    assert times[1] >= times[0] + 9.0


class Stubborn:
    """A channel that cannot be cancelled: a call takes `takes_s`, whoever waits for it; keys are known by `shown`."""

    name = "simulated"

    def __init__(self, kind: str, *takes_s: float) -> None:
        self.capabilities = with_deadline(kind, 5.0)
        self.shown: dict[str, str] = {}
        self.calls = 0
        self._takes_s = list(takes_s)
        self._own: set[asyncio.Task[None]] = set()

    async def start(self, inbox: Inbox) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        assert target.channel == self.name
        self.calls += 1
        self.shown[key] = body.text
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
        ("keyed", (5.2,), 1, State.DELIVERED),  # before another try begins: it counts
        ("keyed", (7.0, 3.0), 2, State.DELIVERED),  # while the second is under way: the second counts
        ("keyed", (20.0, 0.1), 2, State.DELIVERED),
        ("unkeyed", (5.2,), 1, State.DELIVERED),
        ("unkeyed", (20.0,), 1, State.UNKNOWN),  # too late: people were told
    ],
)
@in_virtual_time
async def test_row_41_a_late_answer_counts_while_nothing_else_was_tried_since(
    simulation: Simulation, kind: str, takes_s: tuple[float, ...], calls: int, state: State
) -> None:
    setup = DeliverySetup(simulation)
    channel = Stubborn(kind, *takes_s)
    setup.channel = channel
    setup.courier = setup.courier_of(setup.memory)
    [row] = await setup.send_turn("t", "one")
    await asyncio.sleep(60)
    assert (row.state, (await setup.states())[1]) == (state, state)
    assert next(iter(channel.shown.values())) == "one"
    assert channel.calls - (state is State.UNKNOWN) == calls  # the line that tells of it is one more


@pytest.mark.parametrize("stubborn", [False, True])
@in_virtual_time
async def test_row_47_a_channel_that_hangs_for_ever_frees_the_conversation_and_keeps_no_other(
    simulation: Simulation, stubborn: bool
) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=NoAnswer(applied=False), chat="here"))
    if stubborn:
        setup.channel = Stubborn("unkeyed", 1e6)
        setup.courier = setup.courier_of(setup.memory)
    hanging = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(0.5)
    await finished_within(setup.send_turn("u", "three", target=THERE), 1.0)
    assert [row.state for row in await finished_within(hanging, 60.0)] == [State.UNKNOWN, State.DELIVERED]
    await finished_within(setup.courier.drain(), 30.0)


# 49: cancellation.


async def cancelled(kind: str, name: str, fault: Fault | None, moments: tuple[int, ...], simulation: Simulation) -> int:
    """A turn of two parts, disturbed: what must hold in any case does; how often the tasks of that name waited."""
    setup = DeliverySetup(simulation, kind)
    if fault is not None:
        setup.fail(fault)
    with Saboteur(name, *moments) as saboteur:
        saying = asyncio.create_task(setup.send_turn("t", "one", "two"))
        await asyncio.wait({saying}, timeout=100)
        await asyncio.sleep(60)  # whoever sends still does so for no longer than a deadline
    assert saying.done(), "whoever waits is let go"
    assert State.SENDING not in (await setup.states()).values()
    recovery = setup.recovery()
    await recovery.sweep()
    await asyncio.sleep(60)
    await recovery.sweep()
    await finished_within(setup.send_turn("t", "one", "two"), 60)
    rows = await setup.states()
    assert not OPEN & set(rows.values())
    texts = [text for text in setup.texts() if "⚠️" not in text]
    if kind == "keyed":
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
    return saboteur.waits


@pytest.mark.parametrize("kind", ["keyed", "unkeyed"])
@pytest.mark.parametrize("fault", [None, Unreachable(), Reset(), Delayed(2.0), NoAnswer()], ids=repr)
@pytest.mark.parametrize("name", ["ConversationSender._run", "DeliverySetup.send_turn", "perform"])
def test_row_49_cancelled_at_any_await_and_again_nothing_is_left_as_being_sent(
    name: str, fault: Fault | None, kind: str
) -> None:
    whole = run(partial(cancelled, kind, name, fault, ()))
    assert whole > 0
    for moment in range(1, whole + 1):
        for moments in ((moment,), (moment, moment + 1)):
            run(partial(cancelled, kind, name, fault, moments))


# 51: clocks.


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
@pytest.mark.parametrize("fault", [Unreachable(), TooMany(30.0), TooMany(None), NoAnswer(applied=False)], ids=repr)
@in_virtual_time
async def test_row_51_a_wall_clock_that_jumps_makes_nobody_wait_for_longer(
    simulation: Simulation, seconds: float, fault: Fault
) -> None:
    setup = DeliverySetup(simulation, "repeatable")
    setup.fail(fault, fault)
    saying = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(0.5)
    simulation.clock.jump(seconds)
    await asyncio.sleep(30)
    simulation.clock.jump(-seconds)
    await finished_within(saying, 100.0)
    assert setup.texts() == ["one", "two"]


@in_virtual_time
async def test_row_51_the_pace_is_kept_by_a_clock_that_never_jumps(simulation: Simulation) -> None:
    capabilities = capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=9.0))
    setup = DeliverySetup(simulation, capabilities)
    saying = asyncio.create_task(setup.send_turn("t", *"abcdef"))
    for _ in range(10):
        await asyncio.sleep(4)
        simulation.clock.jump(simulation.source.choice((-3600.0, 3600.0)))
    await finished_within(saying, 60.0)
    assert setup.texts() == list("abcdef")
    assert setup.platform.complaints == []
