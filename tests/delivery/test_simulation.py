"""Many turns under random faults, crashes and clocks, by seed; the command of the simulation runs 10,000 of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from post_office import HERE, PostOffice, post

from random_turns.accounting import Account, account_for
from random_turns.random_run import KINDS, Kind, simulate
from tailrace.deliveries import Delivery, Query, State
from tailrace.testing.faults import NoAnswer, Refuse
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import Request


@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_everything_that_was_said_is_accounted_for(kind: Kind, seed: int) -> None:
    account = simulate(kind, turns=120, seed=seed)
    assert account.violations == []
    assert account.lost == 0
    assert account.crashes > 0
    if kind.on_unknown == "hold":
        assert account.duplicates == 0
    else:
        assert account.duplicates > 0
        assert account.withheld == 0


@pytest.mark.parametrize("kind", KINDS[1:4:2], ids=lambda kind: kind.name)
def test_a_seed_repeats_its_run(kind: Kind) -> None:
    assert simulate(kind, turns=40, seed=7) == simulate(kind, turns=40, seed=7)
    assert simulate(kind, turns=40, seed=7) != simulate(kind, turns=40, seed=8)


def test_the_command_prints_a_line_for_each_kind_and_ends_well() -> None:
    command = [sys.executable, "-m", "random_turns.random_run", "--turns", "50", "--seed", "3"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    header, *lines = ended.stdout.splitlines()
    assert header.split() == ["kind", *Account.COLUMNS]
    assert [line[:16].strip() for line in lines] == [kind.name for kind in KINDS]


# The judge itself: whatever is amiss is noticed.


async def one_turn(simulation: Simulation, kind: str = "unkeyed") -> PostOffice:
    office = PostOffice(simulation, kind)
    await office.say("t", "t|1|one", "t|2|two")
    assert (await account_for(office.memory, office.platform)).violations == []
    return office


async def first_row(office: PostOffice) -> Delivery:
    return (await office.memory.find(Query(turn_id="t")))[-1]


def judged(office: PostOffice, **changes: object) -> None:
    """Let the first row of the ledger be another."""
    contents = office.memory._contents
    place = min(contents.rows)
    contents.rows[place] = replace(contents.rows[place], **changes)


def test_what_is_delivered_and_not_seen_is_lost() -> None:
    async def scene(simulation: Simulation) -> None:
        office = await one_turn(simulation)
        office.take_away(office.platform.history("here")[0].message_id)
        account = await account_for(office.memory, office.platform)
        assert account.lost == 1
        assert "nobody sees it" in account.violations[0]

    run(scene)


def test_what_is_seen_twice_unmarked_or_without_a_row_or_out_of_order_is_a_violation() -> None:
    async def scene(simulation: Simulation) -> None:
        office = await one_turn(simulation)
        office.platform.take(Request(operation=post("t|1|one")), 5.0)
        office.platform.take(Request(operation=post("x|1|nobody said this")), 6.0)
        office.platform.take(Request(operation=post("⚠️ a line nobody wrote")), 7.0)
        account = await account_for(office.memory, office.platform)
        assert account.duplicates == 1
        told = "\n".join(account.violations)
        for what in ("seen 2 times", "no row says so", "out of order", "lines are seen"):
            assert what in told

    run(scene)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"state": State.RETRY}, "is left retry"),
        ({"state": State.FAILED, "error": "no"}, "is failed, and is seen"),
        ({"state": State.UNKNOWN}, "nobody is told"),
    ],
)
def test_a_row_that_does_not_tell_the_truth_is_a_violation(changes: dict[str, object], what: str) -> None:
    async def scene(simulation: Simulation) -> None:
        office = await one_turn(simulation)
        judged(office, **changes)
        assert what in "\n".join((await account_for(office.memory, office.platform)).violations)

    run(scene)


def test_where_it_can_be_found_out_nothing_may_be_unknown() -> None:
    async def scene(simulation: Simulation) -> None:
        office = await one_turn(simulation, "readback")
        judged(office, state=State.UNKNOWN)
        assert "could be found out" in "\n".join((await account_for(office.memory, office.platform)).violations)

    run(scene)


def test_what_is_withheld_or_refused_is_counted_and_lawful_where_people_are_told() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        office.fail(NoAnswer(applied=False))
        await office.say("t", "t|1|one", "t|2|two")
        office.fail(Refuse())
        await office.say("u", "u|1|one", "u|2|two")
        account = await account_for(office.memory, office.platform)
        assert account == Account(turns=2, parts=4, withheld=1, refused=1)
        assert len(office.texts(HERE)) == 4

    run(scene)
