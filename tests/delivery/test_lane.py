"""One conversation and a ledger that takes its time: nothing is forgotten between recording and sending."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from post_office import HERE, PostOffice, edit, post, settled_within

from tailrace.capabilities import Rate
from tailrace.deliveries import Delivery, State
from tailrace.operations import Typing
from tailrace.testing.faults import Delayed, Rule, TooMany
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.operations import Body, Receipt, Target
    from tailrace.ports import Inbox


class PonderousLedger:
    """A ledger whose calls of some names take so many seconds to be acknowledged; rows it gives are its own copies."""

    def __init__(self, office: PostOffice, **takes_s: float) -> None:
        self.calls: Counter[str] = Counter()
        self.takes_s = takes_s
        self.epoch = office.memory.epoch
        self.remember = office.memory.remember
        self._ledger = office.memory
        office.courier = office.courier_of(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._ledger, name)

        async def ponderous(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            answer = await call(*args, **options)
            if name in self.takes_s:
                await asyncio.sleep(self.takes_s[name])
            is_rows = isinstance(answer, list) and answer and isinstance(answer[0], Delivery)
            return [replace(row) for row in answer] if is_rows else answer

        return ponderous


def test_what_was_recorded_as_being_sent_is_sent_also_where_the_lane_reads_everything_anew() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        PonderousLedger(office)
        await office.courier.begin("old", HERE)
        old = await office.courier.begin("old", HERE)
        new = await office.courier.begin("new", HERE)
        said = await settled_within(asyncio.gather(new.say(post("new")), old.say(post("old"))), 30.0)
        assert [row.state for rows in said for row in rows] == [State.DELIVERED] * 2
        assert office.texts() == ["new", "old"]

    run(scene)


def test_what_is_handed_in_while_the_lane_reads_is_not_forgotten() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        ledger = PonderousLedger(office, adopt=1.0)
        await office.plan("t", "one")
        assert office.courier.resume(HERE.conversation) is not None
        await asyncio.sleep(0.5)
        await office.say("u", "two")
        assert office.texts() == ["one", "two"]
        assert ledger.calls["find"] == 0  # nobody had to look where it is

    run(scene)


@pytest.mark.parametrize("parts", [1, 3])
def test_acknowledgements_in_another_order_than_the_rows_do_not_change_what_comes_first(parts: int) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        PonderousLedger(office, end=2.0)
        first = await office.courier.begin("first", HERE)
        second = await office.courier.begin("second", HERE)
        texts = [f"first {part}" for part in range(parts)]
        said = asyncio.gather(first.end(*map(post, texts)), second.say(post("second")))
        await settled_within(said, 30.0)
        assert office.texts() == [*texts, "second"]

    run(scene)


def test_while_something_is_recorded_its_conversation_is_neither_forgotten_nor_begun_twice() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        ledger = PonderousLedger(office, end=1.0)
        office.fail(Rule(fault=Delayed(3.0), kind="post"))
        office.courier.show(Typing(target=HERE))
        await asyncio.sleep(0.05)
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(0.5)
        # What was shown in between is done, and yet the conversation is not at rest.
        assert office.courier.resume(HERE.conversation) is None
        ledger.takes_s.clear()
        await asyncio.sleep(1.0)
        await settled_within(office.courier.drain(), 5.0)
        assert [row.state for row in await settled_within(saying, 0.1)] == [State.DELIVERED]
        assert len(asyncio.all_tasks()) == 1

    run(scene)


def test_nothing_is_shown_in_between_while_what_stays_is_recorded() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, capabilities_of("unkeyed", per_chat=Rate(calls=2, per_s=10.0)))
        turn = await office.courier.begin("t", HERE)
        await turn.say(post("a"))
        PonderousLedger(office, end=1.0)
        again = await office.courier.begin("u", HERE)
        ending = asyncio.create_task(again.end(edit(office.shown(), "final")))
        await asyncio.sleep(0.5)
        office.courier.show(edit(office.shown(), "in between"))
        await settled_within(ending, 5.0)
        await asyncio.sleep(60)
        assert office.texts() == ["final"]
        assert office.platform.counts["edit"] == 1

    run(scene)


def test_who_waits_for_a_platform_and_for_nobody_lets_others_have_the_place() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(TooMany(600.0, everywhere=True))
        held = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(1)
        other = replace(HERE, chat="other")
        await office.plan("u", "two", target=other)
        resumed = office.courier.resume(other.conversation)
        assert resumed is not None
        assert await settled_within(resumed, 1.0) == 0
        assert [row.state for row in await held] == [State.DELIVERED]
        assert office.texts(other) == []

    run(scene)


SECRET = "token-of-somebody"


class LeakyChannel:
    """A channel that takes a cancellation for a lost connection, and tells of it with a secret."""

    name = "simulated"
    capabilities = replace(capabilities_of("unkeyed"), deadline_s=1.0)

    async def start(self, inbox: Inbox) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        raise RuntimeError(f"{SECRET} {target} {body} {key}")


def test_an_error_that_comes_when_nobody_waits_any_more_is_not_written_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.channel = LeakyChannel()
        PonderousLedger(office, move=5.0)
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(2)  # the deadline is over, and that is being recorded
        await office.courier.drain(within_s=0.0)
        await saying
        gc.collect()

    caplog.set_level(logging.DEBUG)
    run(scene)
    assert SECRET not in caplog.text
