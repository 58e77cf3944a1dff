"""Two ways of presenting a turn, held against each other: what they say, how it arrived, with which calls, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_projectors import Shouting

from tailrace.capabilities import DISCORD, TELEGRAM, Unkeyed
from tailrace.deliveries import Delivery, Policy, State, plan
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.operations import Body, Delete, Durable, Edit, OpenStream, Post, PostMedia, Receipt, Target
from tailrace.projector import ProjectorSettings
from tailrace.shadow.comparison import Account, Arrival, Calls, Comparison, Kind, Manner, Said, compare
from tailrace.shadow.replay import Summary, Variant, replay
from tailrace.shadow.shown_turn import delivered

HERE = Target(channel="discord", chat="1")
ANSWER = "\n\n".join(f"Paragraph {number}. " + "The river turns the wheel. " * 20 for number in range(8))
BEGAN = 1_700_000_000.0


def turn(text: str = ANSWER) -> list[tuple[float, Event]]:
    said: list[tuple[float, Event]] = [(at / 50, TextDelta(text=text[at : at + 8])) for at in range(0, len(text), 8)]
    return [(0.0, TurnStarted(turn_id="t")), *said, (len(text) / 50, TurnCompleted())]


def said(*texts: str, **known: Any) -> Account:
    return Account(said=tuple(Said(text=text, **known) for text in texts))


def replayed(ours: Variant, theirs: Variant, events: list[tuple[float, Event]] | None = None) -> Comparison:
    return replay(HERE, (ours, turn()), (theirs, turn() if events is None else events))


@pytest.mark.parametrize(
    ("ours", "theirs", "kinds"),
    [
        (["a", "b"], ["a", "b"], {Kind.IDENTICAL: 2}),
        (["a b"], ["a  b\n"], {Kind.WHITESPACE: 1}),
        (["a b", "c"], ["a", "b c"], {Kind.CUT_MOVED: 1}),
        (["a", "b c"], ["a", "b d"], {Kind.IDENTICAL: 1, Kind.TEXT_DIFFERS: 1}),
        (["a", "b", "c"], ["a", "c"], {Kind.IDENTICAL: 2, Kind.LOST: 1}),
        (["a", "c"], ["a", "b", "c"], {Kind.IDENTICAL: 2, Kind.EXTRA: 1}),
        (["a", "b", "c"], ["b", "c", "a"], {Kind.IDENTICAL: 2, Kind.ORDER: 1}),
        (["x", "a", "a", "b"], ["b", "x"], {Kind.IDENTICAL: 1, Kind.LOST: 2, Kind.ORDER: 1}),
        ([], [], {}),
    ],
)
def test_every_difference_has_its_kind(ours: list[str], theirs: list[str], kinds: dict[Kind, int]) -> None:
    found = compare(said(*ours), said(*theirs))
    assert found.counts == kinds
    assert found.is_same == found.is_alike == (ours == theirs)


@given(ours=st.lists(st.sampled_from("abcd"), max_size=6), theirs=st.lists(st.sampled_from("abcd"), max_size=6))
def test_no_difference_is_passed_over(ours: list[str], theirs: list[str]) -> None:
    found = compare(said(*ours), said(*theirs))
    assert found.is_same == (ours == theirs)
    assert found.counts.get(Kind.IDENTICAL, 0) <= min(len(ours), len(theirs))
    assert found.examples.keys() == found.counts.keys() - {Kind.IDENTICAL}


@pytest.mark.parametrize(
    ("ours", "theirs", "example"),
    [
        ({"arrival": Arrival.REFUSED, "why": "no rights"}, {}, "refused (no rights), posted whole against delivered"),
        ({"arrival": Arrival.UNKNOWN}, {}, "unknown, posted whole against delivered"),
        ({"arrival": Arrival.DEGRADED, "why": "no stream"}, {}, "degraded (no stream), posted whole against"),
        ({"manner": Manner.ANEW}, {"manner": Manner.IN_PLACE}, "posted anew against delivered, finished in place"),
        ({}, {"manner": Manner.IN_PLACE}, "delivered, posted whole against delivered, finished in place"),
    ],
)
def test_what_arrived_otherwise_is_a_difference_of_receipts(
    ours: dict[str, Any], theirs: dict[str, Any], example: str
) -> None:
    found = compare(said("a", **ours), said("a", **theirs))
    assert found.counts == {Kind.IDENTICAL: 1, Kind.RECEIPT: 1}
    assert example in found.examples[Kind.RECEIPT]
    assert found.is_same
    assert not found.is_alike


def test_other_numbers_of_calls_are_a_difference_where_both_were_counted() -> None:
    ours = Account(calls=Calls(messages=2, changes=1, passing=7))
    assert compare(ours, ours).counts == {}
    assert compare(ours, Account(calls=Calls(messages=2, changes=1))).counts == {}
    found = compare(ours, Account(calls=Calls(messages=2, changes=1, passing=3)))
    assert found.examples == {Kind.CALLS: "2 new, 1 changed and 7 in between against 2 new, 1 changed and 3 in between"}
    assert compare(ours, Account(calls=Calls(messages=3, changes=1))).counts == {Kind.CALLS: 1}


def test_times_are_compared_message_by_message_with_a_tolerance() -> None:
    ours = Account(said=(Said(text="a", at=1.0, done=2.0), Said(text="b", at=3.0, done=9.0)))
    theirs = Account(said=(Said(text="a", at=1.9, done=2.0), Said(text="b", at=3.0, done=6.5)))
    found = compare(ours, theirs)
    assert found.counts == {Kind.IDENTICAL: 2, Kind.TIMING: 1}
    assert found.examples[Kind.TIMING] == "'b': there at 3.0 s against 3.0 s, done at 9.0 s against 6.5 s"
    assert found.first_s == pytest.approx(0.9)
    assert (found.later_s, found.apart_s) == (-2.5, -2.5)
    assert compare(ours, theirs, tolerance_s=2.5).is_alike
    assert compare(ours, theirs, tolerance_s=0.5).counts[Kind.TIMING] == 2


def test_where_no_message_has_a_counterpart_the_turn_still_has_its_times() -> None:
    found = compare(said("a b", "c", at=1.0, done=1.0), said("a", "b", "c x", at=9.0, done=9.0))
    assert found.counts == {Kind.TEXT_DIFFERS: 1, Kind.TIMING: 1}
    assert str(found) == "1 text differs, 1 timing, first there +8.0 s, done +8.0 s"


def test_a_message_that_was_withdrawn_is_not_missed() -> None:
    withdrawn = Account(said=(Said(text="a"), Said(text="b", arrival=Arrival.UNDELIVERED)))
    assert compare(withdrawn, said("a")).is_alike


def test_the_same_way_twice_gives_the_same() -> None:
    way = Variant(capabilities=DISCORD)
    found = replayed(way, way)
    assert found.is_alike
    assert found.counts[Kind.IDENTICAL] > 1


def test_other_settings_may_cut_elsewhere_and_lose_nothing() -> None:
    theirs = Variant(capabilities=DISCORD, settings=ProjectorSettings(presentation="blocks"))
    found = replayed(Variant(capabilities=DISCORD), theirs)
    assert found.counts.keys() == {Kind.CUT_MOVED, Kind.CALLS, Kind.TIMING}
    assert not found.is_grave


def test_rarer_edits_are_told_by_the_calls_alone() -> None:
    theirs = Variant(capabilities=DISCORD, settings=ProjectorSettings(edit_every_s=4.0))
    found = replayed(Variant(capabilities=DISCORD), theirs)
    assert found.is_same
    assert "in between" in found.examples[Kind.CALLS]


def test_another_projector_is_held_to_the_same_turn() -> None:
    settings = ProjectorSettings(presentation="final")
    ours = Variant(capabilities=DISCORD, settings=settings)
    theirs = Variant(capabilities=DISCORD, settings=settings, projecting=Shouting)
    found = replayed(ours, theirs)
    assert found.counts.keys() == {Kind.TEXT_DIFFERS}
    assert "THE RIVER" in found.examples[Kind.TEXT_DIFFERS]


def test_the_events_of_another_path_are_presented_for_the_shadow() -> None:
    way = Variant(capabilities=DISCORD)
    found = replayed(way, way, events=turn(ANSWER + "\n\nAnd one thing more."))
    assert found.is_grave


def test_a_summary_keeps_the_first_example_of_each_kind() -> None:
    summary = Summary()
    summary.add("one", compare(said("a"), said("a")))
    summary.add("two", compare(said("river"), said("rover")))
    summary.add("three", compare(said("sea"), said("see")))
    assert (summary.turns, summary.same, summary.counts[Kind.TEXT_DIFFERS]) == (3, 1, 2)
    assert summary.examples[Kind.TEXT_DIFFERS] == ("two", "'river' against 'rover'")


def test_the_record_of_the_work_is_no_part_of_the_account() -> None:
    settings = ProjectorSettings(presentation="processing", processing_every_s=0.5)
    told = Variant(capabilities=TELEGRAM, settings=settings).account(turn(), HERE)
    assert not any("⏳" in message.text for message in told.said)
    assert told.calls.messages == len(told.said) + 1, "and yet it was a message"


def delivery(ordinal: int, operation: Durable, state: State = State.DELIVERED, **known: Any) -> Delivery:
    """A row as it ended, so many seconds after the turn began as its number says."""
    at = BEGAN + abs(ordinal)
    planned = plan(operation, turn_id="t", ordinal=ordinal, policy=Policy(idempotency=Unkeyed()), now=at)
    receipt = Receipt(message_id=known.pop("message_id", f"m{abs(ordinal)}"), degraded=known.pop("degraded", ""))
    is_there = state is State.DELIVERED
    changes = {"state": state, "last_try_at": at, "receipt": receipt if is_there else None, **known}
    return Delivery(**{name: getattr(planned, name) for name in planned.__struct_fields__} | changes)


def post(text: str, *, is_processing: bool = False) -> Post:
    return Post(target=HERE, body=Body(text=text), is_processing=is_processing)


def edit(message_id: str, text: str) -> Edit:
    return Edit(target=HERE, message_id=message_id, body=Body(text=text))


def test_an_account_of_deliveries_has_each_message_as_it_ended() -> None:
    account = delivered(
        [
            delivery(1, post("work", is_processing=True)),
            delivery(2, post("a")),
            delivery(3, PostMedia(target=HERE, path="somewhere/a.png", mime="image/png", caption="look")),
            delivery(4, edit("m2", "a b"), message_id="m2"),
            delivery(5, edit("m1", "worked"), message_id="m1"),
            delivery(6, post("gone again")),
            delivery(7, Delete(target=HERE, message_id="m6"), message_id="m6"),
            delivery(8, post("no"), State.FAILED, error="no rights"),
            delivery(9, post("maybe"), State.UNKNOWN),
            delivery(10, post("stopped"), State.CANCELLED),
            delivery(0, post("⚠️ Part 8 of this answer is missing.")),
        ],
        began=BEGAN,
    )
    assert account.said == (
        Said(text="a b", at=2.0, done=4.0, manner=Manner.IN_PLACE),
        Said(text="look", at=3.0, done=3.0, media="a file image/png"),
        Said(text="no", at=8.0, done=8.0, arrival=Arrival.REFUSED, why="no rights"),
        Said(text="maybe", at=9.0, done=9.0, arrival=Arrival.UNKNOWN),
        Said(text="stopped", at=10.0, done=10.0, arrival=Arrival.UNDELIVERED),
    )
    assert account.calls == Calls(messages=7, changes=3)


def test_a_message_that_stands_for_another_is_posted_anew() -> None:
    rows = [
        delivery(1, post("a")),
        delivery(2, edit("m1", "a b"), State.SUPERSEDED, error="gone"),
        delivery(-2, post("a b")),
    ]
    assert [(each.text, each.manner) for each in delivered(rows, began=BEGAN).said] == [("a b", Manner.ANEW)]


def test_a_stream_that_the_platform_refused_is_degraded_also_when_it_is_finished() -> None:
    rows = [
        delivery(1, OpenStream(target=HERE, body=Body(text="a")), State.SUPERSEDED),
        delivery(-1, post("a"), degraded="the platform refused the stream"),
        delivery(2, edit("m1", "a b"), message_id="m1"),
    ]
    [message] = delivered(rows, began=BEGAN).said
    assert (message.text, message.arrival, message.why) == (
        "a b",
        Arrival.DEGRADED,
        "the platform refused the stream",
    )


def test_a_message_whose_beginning_was_refused_is_not_missing() -> None:
    rows = [delivery(1, post("a"), State.FAILED, error="no rights"), delivery(2, post("a b")), delivery(3, post("c"))]
    assert [(each.text, each.manner, each.why) for each in delivered(rows, began=BEGAN).said] == [
        ("a b", Manner.ANEW, "no rights"),
        ("c", Manner.WHOLE, ""),
    ]
