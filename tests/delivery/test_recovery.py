"""What the next process does with what a killed one left: from the first unconfirmed part on, once, and in time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from post_office import HERE, THERE, PostOffice, Unwritable, edit, post, settled_within, with_window

from tailrace.capabilities import Capabilities, EditRules, Rate, Unkeyed
from tailrace.deliveries import FINAL, Snapshot, State, Turn, TurnState
from tailrace.delivery import Recovery
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.errors import LedgerUnusable
from tailrace.operations import Target
from tailrace.testing.faults import NoAnswer, Rule, TooMany, Unreachable
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
def test_it_goes_on_at_the_first_unconfirmed_part(kind: str, applied: bool) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, kind)
        office.fail(Rule(fault=NoAnswer(applied=applied), at=3))
        saying = asyncio.create_task(office.say("t", "one", "two", "three", "four"))
        await asyncio.sleep(1)
        await office.crash()
        assert saying.cancelled()
        await office.recovery().sweep()
        rows = await office.states()
        if kind == "unkeyed":
            told = "⚠️ Part 3 of this answer may be missing: it is not known whether it arrived."
            assert office.texts() == ["one", "two", *["three"] * applied, told, "four"]
            assert rows[3] is State.UNKNOWN
        else:
            assert office.texts() == ["one", "two", "three", "four"]
            assert set(rows.values()) == {State.DELIVERED}
        # What the channel was not sure of is found out by its own means, and nothing else is called again.
        expected = {"keyed": 5, "repeatable": 5, "readback": 5 - applied, "unkeyed": 5}
        assert office.platform.counts["post"] == expected[kind]
        assert office.platform.counts["find"] == (kind == "readback")

    run(scene)


def test_what_is_sent_again_where_nobody_can_tell_is_marked() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed", on_unknown="resend")
        office.fail(NoAnswer())
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(1)
        await office.crash()
        assert saying.cancelled()
        await office.recovery().sweep()
        assert office.texts() == ["one", "one"]
        assert [row.may_be_double for row in await office.rows()] == [True]

    run(scene)


def test_the_policy_is_the_one_it_was_recorded_with() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed", on_unknown="hold")
        office.fail(NoAnswer(applied=False))
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(1)
        office.settings = replace(office.settings, on_unknown="resend")
        await office.crash()
        assert saying.cancelled()
        await office.recovery().sweep()
        assert (await office.states())[1] is State.UNKNOWN

    run(scene)


def test_killed_again_and_again_in_recovery_it_still_goes_on() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(Rule(fault=NoAnswer(), times=4))
        saying = asyncio.create_task(office.say("t", "one", "two"))
        for _ in range(4):
            await asyncio.sleep(3)
            await office.crash()
            sweeping = asyncio.create_task(office.recovery().sweep())
        assert saying.cancelled()
        await sweeping
        assert office.texts() == ["one", "two"]
        assert set((await office.states()).values()) == {State.DELIVERED}

    run(scene)


def test_a_long_snapshot_is_cut_for_the_platform_and_its_first_part_goes_into_the_live_message() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, replace(capabilities_of("unkeyed", limit=64), edits=EditRules(every_s=1.0)))
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("begun"))
        words = "a word and another one " * 20
        turn.save_snapshot(words, office.shown())
        await office.crash()
        await office.recovery().sweep()
        *said, last = office.texts()
        assert "".join(" ".join(said).split()) == "".join(words.split())
        assert last == INTERRUPTED
        assert office.platform.complaints == []

    run(scene)


def test_a_live_message_that_cannot_be_edited_is_left_as_it_is() -> None:
    """A platform may refuse the stream and take a post in its place, and have no edits either."""

    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, replace(capabilities_of("unkeyed"), edits=None))
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("begun"))
        turn.save_snapshot("begun, and more", office.shown())
        await office.crash()
        await office.recovery().sweep()
        assert office.texts() == ["begun", INTERRUPTED]
        assert office.platform.complaints == []

    run(scene)


def test_a_turn_cut_off_long_ago_is_closed_without_a_word() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("Hello"))
        turn.save_snapshot("Hello, world", office.shown())
        await office.crash()
        await asyncio.sleep(2 * 86_400)
        await office.recovery().sweep()
        assert office.texts() == ["Hello"]
        assert (await office.courier.begin("t", HERE)).turn.state is TurnState.INTERRUPTED

    run(scene)


def test_a_turn_that_its_agent_takes_up_again_is_not_called_interrupted() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("one"))
        await office.crash()
        again = await office.courier.begin("t", HERE)
        await office.recovery().sweep()
        await again.send(post("one"))
        await again.end(post("two"))
        assert office.texts() == ["one", "two"]

    run(scene)


def test_turns_of_a_channel_that_is_away_keep_no_others_open() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        for number in range(600):
            away = Target(channel="away", chat=str(number))
            await office.memory.begin(turn_of(f"a {number:03}", away))
        await office.memory.begin(turn_of("z", HERE))
        await office.crash()
        await settled_within(office.recovery().sweep(), 60)
        assert office.texts() == [INTERRUPTED]
        assert len(await office.memory.interrupted_turns(limit=1000)) == 600

    run(scene)


def turn_of(turn_id: str, target: Target) -> Turn:
    return Turn(turn_id=turn_id, target=target)


def test_an_owner_that_was_replaced_ends_its_sweep_and_touches_nothing() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        await office.memory.begin(turn_of("t", HERE))
        await office.plan("u", "one", target=THERE)
        await office.crash()
        replaced = office.recovery()
        office.memory = office.memory.reopen()
        await settled_within(replaced.sweep(), 10)
        assert office.platform.counts == {}
        assert (await office.memory.interrupted_turns())[0].turn_id == "t"

    run(scene)


def test_what_is_too_old_dies_unsent_and_nobody_is_told() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, max_age_s=3600.0)
        await office.plan("old", "one", "two")
        await office.crash()
        await asyncio.sleep(3000)
        await office.plan("young", "three")
        await asyncio.sleep(1000)
        await office.recovery().sweep()
        assert office.texts() == ["three"]
        assert set((await office.states("old")).values()) == {State.DEAD}

    run(scene)


def test_a_row_that_was_put_off_for_an_hour_leaves_after_that_hour_without_a_restart() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(TooMany(3600.0))
        await office.plan("t", "one")
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(10)
        assert (await office.states())[1] is State.RETRY
        for minute in range(20):
            await office.say(f"other {minute}", "meanwhile", target=THERE)
            await asyncio.sleep(60)
        await asyncio.sleep(3600 - 10 - 20 * 60 - 30)
        assert office.texts() == []
        await asyncio.sleep(90)
        assert office.texts() == ["one"]
        recovering.cancel()

    run(scene)


def test_a_row_that_was_put_off_does_not_wait_for_a_clock_that_was_set_back() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(TooMany(120.0))
        await office.plan("t", "one")
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(10)
        simulation.clock.jump(-3600.0)
        await asyncio.sleep(100)
        assert office.texts() == []
        # By then the platform may be called again, and from then on the whole wait is waited at the most.
        await asyncio.sleep(150)
        assert office.texts() == ["one"]
        recovering.cancel()

    run(scene)


def test_what_waits_is_not_looked_at_more_often_than_needed() -> None:
    class Counting(Unwritable):
        """Counts the calls of a ledger."""

        calls = 0

        def random(self) -> float:
            self.calls += 1
            return super().random()

    async def scene(simulation: Simulation) -> None:
        office, counting = PostOffice(simulation), Counting()
        office.courier = office.courier_of(counting.around(office))
        office.fail(Rule(fault=TooMany(3000.0), times=None))
        for number in range(20):
            await office.plan(f"t {number}", "one", target=Target(channel="simulated", chat=str(number)))
        recovering = asyncio.create_task(office.recovery(every_s=30.0).run())
        await asyncio.sleep(2900)
        recovering.cancel()
        assert counting.calls < 2000
        assert office.platform.counts["post"] == 20

    run(scene)


def test_a_conversation_that_cannot_be_read_is_left_alone_until_the_next_sweep() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        await office.plan("t", "one")
        await office.plan("u", "two", target=THERE)
        broken = BrokenLedger(office.memory, HERE.conversation)
        courier = office.courier_of(broken)
        await settled_within(Recovery(courier).sweep(), 60)
        assert broken.asked == 1
        assert (office.texts(), office.texts(THERE)) == ([], ["two"])

    run(scene)


class BrokenLedger:
    """A ledger with a conversation whose rows are damaged."""

    def __init__(self, ledger: MemoryLedger, conversation: str) -> None:
        self.asked = 0
        self._ledger = ledger
        self._conversation = conversation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        if conversation == self._conversation:
            self.asked += 1
            raise LedgerUnusable("a row is damaged")
        return await self._ledger.adopt(conversation, now=now, limit=limit)


def test_a_channel_that_asked_to_wait_keeps_no_other_channel_waiting() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        beside = PostOffice(simulation)
        office.courier.connect(Named(beside.channel, "other"))
        for number in range(200):
            await office.plan(f"a {number}", "one", target=Target(channel="simulated", chat=str(number)))
        await office.plan("z", "two", target=Target(channel="other", chat="z"))
        office.fail(Rule(fault=TooMany(7200.0, everywhere=True), times=None))
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(60)
        assert beside.platform.texts("z") == ["two"]
        await office.plan("y", "three", target=Target(channel="other", chat="y"))
        await asyncio.sleep(60)
        assert beside.platform.texts("y") == ["three"]
        recovering.cancel()

    run(scene)


class Named:
    """A channel under another name."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.name = name
        self.capabilities = channel.capabilities
        self.start, self.stop, self.post = channel.start, channel.stop, channel.post


def test_a_state_of_a_newer_version_blocks_its_conversation_and_no_other() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        [row, _] = await office.plan("t", "one", "two")
        await office.plan("u", "three", target=THERE)
        contents = office.memory._contents
        contents.rows[row.position] = replace(row, state="teleporting")
        await office.crash()
        await settled_within(office.recovery().sweep(), 60)
        assert (office.texts(), office.texts(THERE)) == ([], ["three"])
        assert contents.rows[row.position].state == "teleporting"

    run(scene)


def test_a_key_of_another_scope_is_not_trusted_after_a_restart() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, with_window(3600.0, "device one"))
        office.fail(NoAnswer())
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(1)
        other = in_process_channel(SimulatedPlatform(with_window(3600.0, "device two")), office.clock)
        other.platform = office.platform
        office.channel = other
        await office.crash()
        assert saying.cancelled()
        await office.recovery().sweep()
        assert office.texts().count("one") == 1
        assert (await office.states())[1] is State.UNKNOWN

    run(scene)


def test_what_was_kept_long_enough_is_forgotten_and_silent_turns_with_it() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        await office.say("t", "one")
        silent = await office.courier.begin("silent", HERE)
        await silent.end()
        office.memory.save_snapshot("nobody", Snapshot(text="unknown turns are passed over"))
        recovering = asyncio.create_task(office.recovery(retention_s=100.0).run())
        await asyncio.sleep(60)
        assert len(await office.rows()) == 1
        await asyncio.sleep(120)
        recovering.cancel()
        assert await office.rows() == []
        assert office.memory._contents.turns == {}

    run(scene)


def test_recovery_waits_for_a_ledger_that_cannot_be_read() -> None:
    async def scene(simulation: Simulation) -> None:
        office, ledger = PostOffice(simulation), Unwritable()
        await office.plan("t", "one")
        office.courier = office.courier_of(ledger.around(office))
        ledger.is_full = True
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(600)
        assert not recovering.done()
        ledger.is_full = False
        await asyncio.sleep(60)
        assert office.texts() == ["one"]
        recovering.cancel()

    run(scene)


def test_the_pace_of_a_chat_is_kept_between_turns_recovery_and_what_is_shown() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=2, per_s=5.0)))
        await office.plan("t", *"abcdef")
        recovering = asyncio.create_task(office.recovery().run())
        await office.say("u", "g", "h")
        office.courier.show(edit("m1", "changed"))
        await asyncio.sleep(30)
        recovering.cancel()
        assert office.platform.complaints == []
        assert office.texts() == ["changed", *"bcdefgh"]
        posts = [seen.at for seen in office.platform.calls]
        assert all(third - first >= 5.0 - 1e-6 for first, third in zip(posts, posts[2:], strict=False))
        assert list(pairwise(posts))

    run(scene)


def test_everything_ends_final() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed", max_attempts=3)
        office.fail(Rule(fault=Unreachable(), times=None, kind="post", chat="here"))
        await office.plan("t", "one", "two")
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(3 * 3600)
        recovering.cancel()
        assert set((await office.states()).values()) <= FINAL
        assert [row.attempt for row in await office.rows()] == [3, 3, 3]

    run(scene)
