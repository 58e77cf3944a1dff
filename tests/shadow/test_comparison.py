"""Two variants of a turn compared: texts, arrival, calls and times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.capabilities import DISCORD, TELEGRAM, Unkeyed
from tailrace.deliveries import Delivery, Policy, State, plan
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.operations import Body, Delete, Durable, Edit, OpenStream, Post, PostMedia, Receipt, Target
from tailrace.projector import ProjectorSettings
from tailrace.shadow.comparison import Difference, compare
from tailrace.shadow.replay import Summary, Variant, replay
from tailrace.shadow.shown_turn import Arrival, CallCounts, Completion, ShownMessage, ShownTurn, from_deliveries

HERE = Target(channel="discord", chat="1")
ANSWER = "\n\n".join(f"Paragraph {number}. " + "The river turns the wheel. " * 20 for number in range(8))
BEGAN = 1_700_000_000.0


def turn() -> list[tuple[float, Event]]:
    deltas: list[tuple[float, Event]] = [
        (at / 50, TextDelta(text=ANSWER[at : at + 8])) for at in range(0, len(ANSWER), 8)
    ]
    return [(0.0, TurnStarted(turn_id="t")), *deltas, (len(ANSWER) / 50, TurnCompleted())]


def shown_turn(*texts: str, **known: Any) -> ShownTurn:
    return ShownTurn(messages=tuple(ShownMessage(text=text, **known) for text in texts))


@pytest.mark.parametrize(
    ("ours", "theirs", "kinds"),
    [
        (["a", "b"], ["a", "b"], {Difference.IDENTICAL: 2}),
        (["a b"], ["a  b\n"], {Difference.WHITESPACE: 1}),
        (["a b", "c"], ["a", "b c"], {Difference.CUT_MOVED: 1}),
        (["a", "b c"], ["a", "b d"], {Difference.IDENTICAL: 1, Difference.TEXT_DIFFERS: 1}),
        (["a", "b", "c"], ["a", "c"], {Difference.IDENTICAL: 2, Difference.LOST: 1}),
        (["a", "c"], ["a", "b", "c"], {Difference.IDENTICAL: 2, Difference.EXTRA: 1}),
        (["a", "b", "c"], ["b", "c", "a"], {Difference.IDENTICAL: 2, Difference.ORDER: 1}),
        (["x", "a", "a", "b"], ["b", "x"], {Difference.IDENTICAL: 1, Difference.LOST: 2, Difference.ORDER: 1}),
        ([], [], {}),
    ],
)
def test_every_difference_has_its_kind(ours: list[str], theirs: list[str], kinds: dict[Difference, int]) -> None:
    found = compare(shown_turn(*ours), shown_turn(*theirs))
    assert found.counts == kinds
    assert found.is_same == found.is_alike == (ours == theirs)


@given(ours=st.lists(st.sampled_from("abcd"), max_size=6), theirs=st.lists(st.sampled_from("abcd"), max_size=6))
def test_no_difference_is_overlooked(ours: list[str], theirs: list[str]) -> None:
    found = compare(shown_turn(*ours), shown_turn(*theirs))
    assert found.is_same == (ours == theirs)
    assert found.counts.get(Difference.IDENTICAL, 0) <= min(len(ours), len(theirs))
    assert found.examples.keys() == found.counts.keys() - {Difference.IDENTICAL}


@pytest.mark.parametrize(
    ("ours", "theirs", "example"),
    [
        ({"arrival": Arrival.REFUSED, "why": "no rights"}, {}, "refused (no rights), posted whole against delivered"),
        ({"arrival": Arrival.UNKNOWN}, {}, "unknown, posted whole against delivered"),
        ({"arrival": Arrival.DEGRADED, "why": "no stream"}, {}, "degraded (no stream), posted whole against"),
        (
            {"completion": Completion.ANEW},
            {"completion": Completion.IN_PLACE},
            "posted anew against delivered, finished in place",
        ),
        ({}, {"completion": Completion.IN_PLACE}, "delivered, posted whole against delivered, finished in place"),
    ],
)
def test_a_message_that_arrived_otherwise_differs_in_its_receipt(
    ours: dict[str, Any], theirs: dict[str, Any], example: str
) -> None:
    found = compare(shown_turn("a", **ours), shown_turn("a", **theirs))
    assert found.counts == {Difference.IDENTICAL: 1, Difference.RECEIPT: 1}
    assert example in found.examples[Difference.RECEIPT]
    assert found.is_same
    assert not found.is_alike


def test_calls_differ_only_if_both_turns_counted_them() -> None:
    ours = ShownTurn(calls=CallCounts(messages=2, changes=1, previews=7))
    assert compare(ours, ours).counts == {}
    assert compare(ours, ShownTurn(calls=CallCounts(messages=2, changes=1))).counts == {}
    found = compare(ours, ShownTurn(calls=CallCounts(messages=2, changes=1, previews=3)))
    assert found.examples == {
        Difference.CALLS: "2 new, 1 changed and 7 in between against 2 new, 1 changed and 3 in between"
    }
    assert compare(ours, ShownTurn(calls=CallCounts(messages=3, changes=1))).counts == {Difference.CALLS: 1}


def test_times_are_compared_message_by_message_with_a_tolerance() -> None:
    ours = ShownTurn(messages=(ShownMessage(text="a", at=1.0, done=2.0), ShownMessage(text="b", at=3.0, done=9.0)))
    theirs = ShownTurn(messages=(ShownMessage(text="a", at=1.9, done=2.0), ShownMessage(text="b", at=3.0, done=6.5)))
    found = compare(ours, theirs)
    assert found.counts == {Difference.IDENTICAL: 2, Difference.TIMING: 1}
    assert found.examples[Difference.TIMING] == "'b': there at 3.0 s against 3.0 s, done at 9.0 s against 6.5 s"
    assert found.first_s == pytest.approx(0.9)
    assert (found.later_s, found.apart_s) == (-2.5, -2.5)
    assert compare(ours, theirs, tolerance_s=2.5).is_alike
    assert compare(ours, theirs, tolerance_s=0.5).counts[Difference.TIMING] == 2


def test_without_matching_messages_the_turn_still_has_its_times() -> None:
    found = compare(shown_turn("a b", "c", at=1.0, done=1.0), shown_turn("a", "b", "c x", at=9.0, done=9.0))
    assert found.counts == {Difference.TEXT_DIFFERS: 1, Difference.TIMING: 1}
    assert str(found) == "1 text differs, 1 timing, first there +8.0 s, done +8.0 s"


def test_a_withdrawn_message_is_not_lost() -> None:
    withdrawn = ShownTurn(messages=(ShownMessage(text="a"), ShownMessage(text="b", arrival=Arrival.UNDELIVERED)))
    assert compare(withdrawn, shown_turn("a")).is_alike


def test_rarer_edits_differ_only_in_calls() -> None:
    theirs = Variant(capabilities=DISCORD, settings=ProjectorSettings(edit_every_s=4.0))
    found = replay(HERE, (Variant(capabilities=DISCORD), turn()), (theirs, turn()))
    assert found.is_same
    assert "in between" in found.examples[Difference.CALLS]


def test_a_summary_keeps_the_first_example_of_each_kind() -> None:
    summary = Summary()
    summary.add("one", compare(shown_turn("a"), shown_turn("a")))
    summary.add("two", compare(shown_turn("river"), shown_turn("rover")))
    summary.add("three", compare(shown_turn("sea"), shown_turn("see")))
    assert (summary.turns, summary.same, summary.counts[Difference.TEXT_DIFFERS]) == (3, 1, 2)
    assert summary.examples[Difference.TEXT_DIFFERS] == ("two", "'river' against 'rover'")


def test_the_processing_message_is_a_call_but_no_message() -> None:
    settings = ProjectorSettings(presentation="processing", processing_every_s=0.5)
    shown = Variant(capabilities=TELEGRAM, settings=settings).show(turn(), HERE)
    assert not any("⏳" in message.text for message in shown.messages)
    assert shown.calls.messages == len(shown.messages) + 1, "and yet it was a message"


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


def test_deliveries_show_each_message_as_it_ended() -> None:
    shown = from_deliveries(
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
        began_at=BEGAN,
    )
    assert shown.messages == (
        ShownMessage(text="a b", at=2.0, done=4.0, completion=Completion.IN_PLACE),
        ShownMessage(text="look", at=3.0, done=3.0, media="a file image/png"),
        ShownMessage(text="no", at=8.0, done=8.0, arrival=Arrival.REFUSED, why="no rights"),
        ShownMessage(text="maybe", at=9.0, done=9.0, arrival=Arrival.UNKNOWN),
        ShownMessage(text="stopped", at=10.0, done=10.0, arrival=Arrival.UNDELIVERED),
    )
    assert shown.calls == CallCounts(messages=7, changes=3)


def test_a_message_that_replaces_another_is_posted_anew() -> None:
    rows = [
        delivery(1, post("a")),
        delivery(2, edit("m1", "a b"), State.SUPERSEDED, error="gone"),
        delivery(-2, post("a b")),
    ]
    assert [(each.text, each.completion) for each in from_deliveries(rows, began_at=BEGAN).messages] == [
        ("a b", Completion.ANEW)
    ]


def test_a_refused_stream_stays_degraded_when_it_is_finished() -> None:
    rows = [
        delivery(1, OpenStream(target=HERE, body=Body(text="a")), State.SUPERSEDED),
        delivery(-1, post("a"), degraded="the platform refused the stream"),
        delivery(2, edit("m1", "a b"), message_id="m1"),
    ]
    [message] = from_deliveries(rows, began_at=BEGAN).messages
    assert (message.text, message.arrival, message.why) == (
        "a b",
        Arrival.DEGRADED,
        "the platform refused the stream",
    )


def test_a_message_whose_beginning_was_refused_is_not_lost() -> None:
    rows = [delivery(1, post("a"), State.FAILED, error="no rights"), delivery(2, post("a b")), delivery(3, post("c"))]
    assert [(each.text, each.completion, each.why) for each in from_deliveries(rows, began_at=BEGAN).messages] == [
        ("a b", Completion.ANEW, "no rights"),
        ("c", Completion.WHOLE, ""),
    ]
