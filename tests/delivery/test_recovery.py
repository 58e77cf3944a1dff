"""Recovery: a new process finishes what a killed one left open, from the first unconfirmed part."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from delivery_setup import (
    HERE,
    THERE,
    DeliverySetup,
    FullDisk,
    finished_within,
    in_virtual_time,
    post,
    with_window,
)
from msgspec.structs import replace

from tailrace.capabilities import EditRules
from tailrace.deliveries import Lease, State, Turn, TurnState
from tailrace.delivery import Recovery
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.errors import LedgerUnusable
from tailrace.operations import Target
from tailrace.testing.faults import NoAnswer, Rule, TooMany
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.ledger.memory import MemoryLedger
    from tailrace.ports import Channel

KINDS = ("keyed", "readback", "repeatable", "unkeyed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("applied", [False, True])
@in_virtual_time
async def test_recovery_resumes_at_the_first_unconfirmed_part(simulation: Simulation, kind: str, applied: bool) -> None:
    setup = DeliverySetup(simulation, kind)
    setup.fail(Rule(fault=NoAnswer(applied=applied), at=3))
    sending = asyncio.create_task(setup.send_turn("t", "one", "two", "three", "four"))
    await asyncio.sleep(1)
    await setup.crash()
    assert sending.cancelled()
    await setup.recovery().sweep()
    rows = await setup.states()
    if kind == "unkeyed":
        notice = "⚠️ Part 3 of this answer may be missing: it is not known whether it arrived."
        assert setup.texts() == ["one", "two", *["three"] * applied, notice, "four"]
        assert rows[3] is State.UNKNOWN
    else:
        assert setup.texts() == ["one", "two", "three", "four"]
        assert set(rows.values()) == {State.DELIVERED}
    # Only the part in doubt is repeated or looked up.
    expected = {"keyed": 5, "repeatable": 5, "readback": 5 - applied, "unkeyed": 5}
    assert setup.platform.counts["post"] == expected[kind]
    assert setup.platform.counts["find"] == (kind == "readback")


@in_virtual_time
async def test_a_delivery_keeps_its_recorded_policy(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed", on_unknown="hold")
    setup.fail(NoAnswer(applied=False))
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    setup.settings = replace(setup.settings, on_unknown="resend")
    await setup.crash()
    assert sending.cancelled()
    await setup.recovery().sweep()
    assert (await setup.states())[1] is State.UNKNOWN


@pytest.mark.parametrize("steps", range(24))
@in_virtual_time
async def test_a_channel_that_connects_during_a_sweep_does_not_wait_for_the_next_one(
    simulation: Simulation, steps: int
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=NoAnswer(applied=False)))
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(3)
    await setup.crash(connected=False)
    assert sending.cancelled()
    recovering = asyncio.create_task(setup.recovery().run())
    for _ in range(steps):
        await asyncio.sleep(0)
    setup.courier.connect(setup.channel)
    await asyncio.sleep(10)
    assert setup.texts() == ["one", "two"]
    recovering.cancel()


@in_virtual_time
async def test_recovery_that_is_killed_again_and_again_succeeds(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=NoAnswer(), times=4))
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    for _ in range(4):
        await asyncio.sleep(3)
        await setup.crash()
        sweeping = asyncio.create_task(setup.recovery().sweep())
    assert sending.cancelled()
    await sweeping
    assert setup.texts() == ["one", "two"]
    assert set((await setup.states()).values()) == {State.DELIVERED}


@in_virtual_time
async def test_a_long_snapshot_is_cut_into_the_live_message_and_new_ones(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation, replace(capabilities_of("unkeyed", limit=64), edits=EditRules(every_s=1.0)))
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("begun"))
    words = "a word and another one " * 20
    turn.save_snapshot(words, setup.message_id())
    await setup.crash()
    await setup.recovery().sweep()
    *said, last = setup.texts()
    assert "".join(" ".join(said).split()) == "".join(words.split())
    assert last == INTERRUPTED
    assert setup.platform.complaints == []


def test_a_live_message_that_cannot_be_edited_stays_as_it_is() -> None:
    """A platform may refuse streams, and have no edits either."""

    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation, replace(capabilities_of("unkeyed"), edits=None))
        turn = await setup.courier.begin("t", HERE)
        await turn.send(post("begun"))
        turn.save_snapshot("begun, and more", setup.message_id())
        await setup.crash()
        await setup.recovery().sweep()
        assert setup.texts() == ["begun", INTERRUPTED]
        assert setup.platform.complaints == []

    run(scene)


@in_virtual_time
async def test_a_turn_interrupted_long_ago_is_closed_silently(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("Hello"))
    turn.save_snapshot("Hello, world", setup.message_id())
    await setup.crash()
    await asyncio.sleep(2 * 86_400)
    await setup.recovery().sweep()
    assert setup.texts() == ["Hello"]
    assert (await setup.courier.begin("t", HERE)).turn.state is TurnState.INTERRUPTED


@in_virtual_time
async def test_a_resumed_turn_is_not_closed_as_interrupted(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("one"))
    await setup.crash()
    again = await setup.courier.begin("t", HERE)
    await setup.recovery().sweep()
    await again.send(post("one"))
    await again.end(post("two"))
    assert setup.texts() == ["one", "two"]


@in_virtual_time
async def test_turns_of_a_missing_channel_do_not_block_others(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    for number in range(600):
        away = Target(channel="away", chat=str(number))
        await begin(setup.memory, f"a {number:03}", away)
    await begin(setup.memory, "z", HERE)
    await setup.crash()
    await finished_within(setup.recovery().sweep(), 60)
    assert setup.texts() == [INTERRUPTED]
    assert len(await setup.memory.interrupted_turns(limit=1000)) == 600


async def begin(ledger: MemoryLedger, turn_id: str, target: Target) -> None:
    """Begin a turn like a process that was killed right after it."""
    await ledger.begin(await ledger.acquire(target.conversation), Turn(turn_id=turn_id, target=target))


@in_virtual_time
async def test_a_replaced_owner_changes_nothing(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    await begin(setup.memory, "t", HERE)
    await setup.record_turn("u", "one", target=THERE)
    await setup.crash()
    replaced = setup.recovery()
    setup.memory = setup.memory.reopen()
    await finished_within(replaced.sweep(), 10)
    assert setup.platform.counts == {}
    assert (await setup.memory.interrupted_turns())[0].turn_id == "t"


@in_virtual_time
async def test_a_row_put_off_for_an_hour_is_sent_after_an_hour(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(3600.0))
    await setup.record_turn("t", "one")
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(10)
    assert (await setup.states())[1] is State.RETRY
    for minute in range(20):
        await setup.send_turn(f"other {minute}", "meanwhile", target=THERE)
        await asyncio.sleep(60)
    await asyncio.sleep(3600 - 10 - 20 * 60 - 30)
    assert setup.texts() == []
    await asyncio.sleep(90)
    assert setup.texts() == ["one"]
    recovering.cancel()


@in_virtual_time
async def test_a_clock_set_back_does_not_delay_a_row(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(120.0))
    await setup.record_turn("t", "one")
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(10)
    simulation.clock.jump(-3600.0)
    await asyncio.sleep(100)
    assert setup.texts() == []
    # The sender waits at most for the recorded time, counted from now.
    await asyncio.sleep(150)
    assert setup.texts() == ["one"]
    recovering.cancel()


def test_waiting_rows_are_not_read_more_often_than_needed() -> None:
    class Counting(FullDisk):
        """Counts the calls of a ledger."""

        calls = 0

        def random(self) -> float:
            self.calls += 1
            return super().random()

    async def scene(simulation: Simulation) -> None:
        setup, counting = DeliverySetup(simulation), Counting()
        setup.courier = setup.courier_of(counting.around(setup))
        setup.fail(Rule(fault=TooMany(3000.0), times=None))
        for number in range(20):
            await setup.record_turn(f"t {number}", "one", target=Target(channel="simulated", chat=str(number)))
        recovering = asyncio.create_task(setup.recovery(every_s=30.0).run())
        await asyncio.sleep(2900)
        recovering.cancel()
        assert counting.calls < 2000
        assert setup.platform.counts["post"] == 20

    run(scene)


@in_virtual_time
async def test_a_damaged_conversation_waits_for_the_next_sweep(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    await setup.record_turn("t", "one")
    await setup.record_turn("u", "two", target=THERE)
    broken = BrokenLedger(setup.memory, HERE.conversation)
    courier = setup.courier_of(broken)
    await finished_within(Recovery(courier).sweep(), 60)
    assert broken.asked == 1
    assert (setup.texts(), setup.texts(THERE)) == ([], ["two"])


class BrokenLedger:
    """A ledger in which the rows of one conversation are damaged."""

    def __init__(self, ledger: MemoryLedger, conversation: str) -> None:
        self.asked = 0
        self._ledger = ledger
        self._conversation = conversation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def adopt(self, lease: Lease, *, now: float, limit: int) -> list[Delivery]:
        if lease.conversation == self._conversation:
            self.asked += 1
            raise LedgerUnusable("a row is damaged")
        return await self._ledger.adopt(lease, now=now, limit=limit)


@in_virtual_time
async def test_a_waiting_channel_does_not_delay_another_channel(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    beside = DeliverySetup(simulation)
    setup.courier.connect(Named(beside.channel, "other"))
    for number in range(200):
        await setup.record_turn(f"a {number}", "one", target=Target(channel="simulated", chat=str(number)))
    await setup.record_turn("z", "two", target=Target(channel="other", chat="z"))
    setup.fail(Rule(fault=TooMany(7200.0, everywhere=True), times=None))
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(60)
    assert beside.platform.texts("z") == ["two"]
    await setup.record_turn("y", "three", target=Target(channel="other", chat="y"))
    await asyncio.sleep(60)
    assert beside.platform.texts("y") == ["three"]
    recovering.cancel()


class Named:
    """The same channel with another name."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.name = name
        self.capabilities = channel.capabilities
        self.start, self.stop, self.post = channel.start, channel.stop, channel.post
        self.wait_closed = channel.wait_closed


@in_virtual_time
async def test_a_state_of_a_newer_version_blocks_only_its_conversation(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    [row, _] = await setup.record_turn("t", "one", "two")
    await setup.record_turn("u", "three", target=THERE)
    contents = setup.memory._contents
    contents.rows[row.position] = replace(row, state="teleporting")
    await setup.crash()
    await finished_within(setup.recovery().sweep(), 60)
    assert (setup.texts(), setup.texts(THERE)) == ([], ["three"])
    assert contents.rows[row.position].state == "teleporting"


@in_virtual_time
async def test_a_key_of_another_scope_is_not_trusted_after_a_restart(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, with_window(3600.0, "device one"))
    setup.fail(NoAnswer())
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    other = in_process_channel(SimulatedPlatform(with_window(3600.0, "device two")), setup.clock)
    other.platform = setup.platform
    setup.channel = other
    await setup.crash()
    assert sending.cancelled()
    await setup.recovery().sweep()
    assert setup.texts().count("one") == 1
    assert (await setup.states())[1] is State.UNKNOWN


@in_virtual_time
async def test_old_deliveries_and_turns_are_pruned(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    await setup.send_turn("t", "one")
    silent = await setup.courier.begin("silent", HERE)
    await silent.end()
    recovering = asyncio.create_task(setup.recovery(retention_s=100.0).run())
    await asyncio.sleep(60)
    assert len(await setup.rows()) == 1
    await asyncio.sleep(120)
    recovering.cancel()
    assert await setup.rows() == []
    assert setup.memory._contents.turns == {}


@in_virtual_time
async def test_recovery_waits_for_a_ledger_that_cannot_be_read(simulation: Simulation) -> None:
    setup, ledger = DeliverySetup(simulation), FullDisk()
    await setup.record_turn("t", "one")
    setup.courier = setup.courier_of(ledger.around(setup))
    ledger.is_full = True
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(600)
    assert not recovering.done()
    ledger.is_full = False
    await asyncio.sleep(60)
    assert setup.texts() == ["one"]
    recovering.cancel()
