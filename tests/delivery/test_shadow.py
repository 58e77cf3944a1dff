"""Two ways of presenting a turn, held against each other; and that a shadow touches nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.capabilities import DISCORD, TELEGRAM, Capabilities, Unkeyed
from tailrace.delivery.comparing import Kind, Said, compare
from tailrace.delivery.desk import SystemClock
from tailrace.delivery.rehearsal import rehearse
from tailrace.delivery.shadow import Shadow, Summary, Way, account, replay
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings

HERE = Target(channel="discord", chat="1")
ANSWER = "\n\n".join(f"Paragraph {number}. " + "The river turns the wheel. " * 20 for number in range(8))


def turn(text: str = ANSWER) -> list[tuple[float, Event]]:
    said: list[tuple[float, Event]] = [(at / 50, TextDelta(text=text[at : at + 8])) for at in range(0, len(text), 8)]
    return [(0.0, TurnStarted(turn_id="t")), *said, (len(text) / 50, TurnCompleted())]


def said(*texts: str) -> list[Said]:
    return [Said(text=text, at=float(nth)) for nth, text in enumerate(texts)]


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
        ([], [], {}),
    ],
)
def test_every_difference_has_its_kind(ours: list[str], theirs: list[str], kinds: dict[Kind, int]) -> None:
    found = compare(said(*ours), said(*theirs))
    assert {kind: count for kind, count in found.counts().items() if count} == kinds
    assert found.is_same == (ours == theirs)


@given(ours=st.lists(st.sampled_from("abcd"), max_size=6), theirs=st.lists(st.sampled_from("abcd"), max_size=6))
def test_no_difference_is_passed_over(ours: list[str], theirs: list[str]) -> None:
    found = compare(said(*ours), said(*theirs))
    assert found.is_same == (ours == theirs)
    assert found.identical <= min(len(ours), len(theirs))


def test_the_same_way_twice_gives_the_same() -> None:
    way = Way(capabilities=DISCORD, settings=ProjectorSettings())
    found = replay(turn(), HERE, way, way)
    assert found.is_same
    assert found.identical > 1


def test_other_settings_may_cut_elsewhere_and_lose_nothing() -> None:
    ours = Way(capabilities=DISCORD, settings=ProjectorSettings())
    theirs = Way(capabilities=DISCORD, settings=ProjectorSettings(presentation="blocks"))
    found = replay(turn(), HERE, ours, theirs)
    assert {difference.kind for difference in found.differences} == {Kind.CUT_MOVED}


def test_a_summary_keeps_the_first_example_of_each_kind() -> None:
    summary = Summary()
    summary.add("one", compare(said("a"), said("a")))
    summary.add("two", compare(said("river"), said("rover")))
    summary.add("three", compare(said("sea"), said("see")))
    assert (summary.turns, summary.same, summary.counts[Kind.TEXT_DIFFERS]) == (3, 1, 2)
    assert summary.examples[Kind.TEXT_DIFFERS] == ("two", "'river' against 'rover'")


def test_a_shadow_beside_a_turn_says_how_it_would_have_gone() -> None:
    shadow = Shadow(HERE, Way(capabilities=TELEGRAM, settings=ProjectorSettings()), clock=SystemClock())
    for _, event in turn("Hello there, and good morning to you."):
        shadow.feed(event)
    found = shadow.compared_with(said("Hello there, and good morning to you."))
    assert found is not None
    assert found.is_same


def test_a_shadow_that_cannot_go_on_is_given_up_and_nobody_hears_of_it() -> None:
    broken = Capabilities(idempotency=Unkeyed(), dialect="no such dialect")
    shadow = Shadow(HERE, Way(capabilities=broken, settings=ProjectorSettings()), clock=SystemClock())
    for _, event in turn("Hello"):
        shadow.feed(event)
    assert shadow.compared_with(said("Hello")) is None


def test_the_record_of_the_work_is_no_part_of_the_account() -> None:
    settings = ProjectorSettings(presentation="processing", processing_every_s=0.5)
    told = account(rehearse(turn(), HERE, TELEGRAM, settings))
    assert not any("⏳" in message.text for message in told)
