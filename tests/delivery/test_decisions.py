"""What is done with a delivery: in every state, kind and age, whatever clocks and platforms say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.capabilities import Idempotency, Keyed, Readback, Repeatable, Unkeyed
from tailrace.deliveries import EDGES, FINAL, NOTICE_ORDINAL, OPEN, Delivery, Policy, State, moved, plan, sending
from tailrace.delivery.decisions import (
    LONGEST_BACKOFF_S,
    LONGEST_WAIT_S,
    TOO_OLD,
    Finish,
    LookUp,
    NextStep,
    RepeatContext,
    Send,
    Wait,
    after_call,
    after_failed_lookup,
    after_lookup,
    is_plausible,
    missing_part_notice,
    next_step,
    remaining_wait,
    replacement_post,
    wait_after,
)
from tailrace.operations import (
    Ambiguous,
    Body,
    CloseStream,
    Delete,
    Delivered,
    Durable,
    Edit,
    NotNow,
    OpenStream,
    Outcome,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Target,
)

HERE = Target(channel="simulated", chat="here")
BEGAN = 1_700_000_000.0
DAY = 86_400.0
SAYS = Body(text="hello")
POST = Post(target=HERE, body=SAYS)
OPERATIONS: tuple[Durable, ...] = (
    POST,
    PostMedia(target=HERE, url="https://example.org/a.png"),
    Edit(target=HERE, message_id="m1", body=SAYS),
    Delete(target=HERE, message_id="m1"),
    OpenStream(target=HERE, body=SAYS),
    CloseStream(target=HERE, stream_id="m1", body=SAYS),
)
KINDS: tuple[Idempotency, ...] = (
    Keyed(window_s=300.0),
    Keyed(window_s=300.0, scope="device"),
    Readback(),
    Readback(visible_within_s=5.0),
    Repeatable(),
    Unkeyed(),
)
OUTCOMES: tuple[Outcome, ...] = (
    Delivered(Receipt(message_id="m1")),
    Refused("no"),
    Refused("gone", gone=True),
    NotNow("busy"),
    NotNow("busy", retry_after=30.0),
    NotNow("busy", retry_after=1e9, everywhere=True),
    Ambiguous("no answer"),
)


def delivery(operation: Durable = POST, kind: Idempotency = Unkeyed(), **policy: Any) -> Delivery:  # noqa: B008  frozen
    return plan(operation, turn_id="t", ordinal=1, policy=Policy(idempotency=kind, **policy), now=BEGAN)


def tried(kind: Idempotency, outcome: Outcome, *, operation: Durable = POST, **policy: Any) -> Delivery:
    """A delivery after its first try, which began at once."""
    under_way = sending(delivery(operation, kind, **policy), now=BEGAN)
    return after_call(under_way, outcome, now=BEGAN + 1, jitter=0.0)[-1]


def in_doubt(kind: Idempotency, **policy: Any) -> Delivery:
    return tried(kind, Ambiguous("no answer"), **policy)


def decide(
    row: Delivery, after_s: float, *, can_look_up: bool = False, scope: str = "", longest_send_s: float = 0.0
) -> NextStep:
    """What is done with it so many seconds after it was planned, once it is due."""
    return next_step(
        row,
        RepeatContext(can_look_up=can_look_up, scope=scope, longest_send_s=longest_send_s),
        now=BEGAN + after_s,
        waited=True,
    )


def told_of(step: NextStep) -> str:
    """A step in a word: what becomes of the delivery."""
    match step:
        case Finish(delivery=after):
            return after.state.value
        case Send(delivery=under_way):
            return "send again, marked" if under_way.may_be_double else "send"
        case LookUp():
            return "ask"
        case Wait():
            return "wait"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_what_is_surely_not_sent_is_sent_until_it_is_too_old_or_was_tried_too_often(
    operation: Durable, kind: Idempotency
) -> None:
    planned = delivery(operation, kind, max_attempts=2)
    put_off = tried(kind, NotNow("busy"), operation=operation, max_attempts=2)
    for row in (planned, put_off):
        assert told_of(decide(row, 5)) == "send"
        assert told_of(decide(row, DAY)) == "send"
        assert told_of(decide(row, DAY + 1)) == "dead"
    again = after_call(sending(put_off, now=BEGAN + 2), NotNow("busy"), now=BEGAN + 3, jitter=0.0)[-1]
    assert told_of(decide(again, 5)) == "dead"
    assert told_of(decide(replace(again, deferred_tries=1), 5)) == "send"


# What happens to an ambiguous post: (kind, seconds since the first attempt, can look up, scope) -> hold, resend.
DOUBTS: list[tuple[Idempotency, float, bool, str, str, str]] = [
    (Keyed(window_s=300.0), 10, False, "", "send", "send"),
    (Keyed(window_s=300.0), 299, False, "", "send", "send"),
    (Keyed(window_s=300.0), 300, False, "", "unknown", "send again, marked"),
    (Keyed(window_s=300.0), 300, True, "", "ask", "ask"),
    (Keyed(window_s=300.0), -1, False, "", "unknown", "send again, marked"),  # the clock was set back: no proof of age
    (Keyed(window_s=300.0), -1, True, "", "ask", "ask"),
    (Keyed(window_s=300.0, scope="device"), 10, False, "device", "send", "send"),
    (Keyed(window_s=300.0, scope="device"), 10, False, "other", "unknown", "send again, marked"),
    (Keyed(window_s=300.0), 10, False, "device", "unknown", "send again, marked"),
    (Readback(), 10, True, "", "ask", "ask"),
    (Readback(), 10, False, "", "unknown", "send again, marked"),
    (Readback(visible_within_s=5.0), 3, True, "", "wait", "wait"),
    (Readback(visible_within_s=5.0), 6, True, "", "ask", "ask"),
    (
        Readback(visible_within_s=5.0),
        -3600,
        True,
        "",
        "ask",
        "ask",
    ),  # nobody waits an hour for a clock that was set back
    (Repeatable(), 10, False, "", "send", "send"),
    (Repeatable(), DAY - 1, False, "", "send", "send"),
    (Unkeyed(), 10, False, "", "unknown", "send again, marked"),
    (Unkeyed(), DAY, False, "", "unknown", "send again, marked"),
    # Whatever the kind and the policy: nothing is sent that is too old.
    (Keyed(window_s=9 * DAY), DAY + 1, False, "", "unknown", "unknown"),
    (Readback(), DAY + 1, True, "", "ask", "ask"),
    (Readback(), 2 * DAY, True, "", "unknown", "unknown"),
    (Repeatable(), DAY + 1, False, "", "unknown", "unknown"),
    (Unkeyed(), DAY + 1, False, "", "unknown", "unknown"),
]


@pytest.mark.parametrize(("kind", "age", "can_look_up", "scope", "hold", "resend"), DOUBTS)
def test_what_may_be_there_is_settled_by_what_the_channel_declared(
    kind: Idempotency, age: float, can_look_up: bool, scope: str, hold: str, resend: str
) -> None:
    for on_unknown, expected in (("hold", hold), ("resend", resend)):
        row = in_doubt(kind, on_unknown=on_unknown)
        assert told_of(decide(row, age, can_look_up=can_look_up, scope=scope)) == expected


def test_a_key_is_trusted_only_where_the_message_will_surely_arrive_within_its_window() -> None:
    row = in_doubt(Keyed(window_s=300.0))
    assert told_of(decide(row, 254, longest_send_s=45.0)) == "send"
    assert told_of(decide(row, 255, longest_send_s=45.0)) == "unknown"


def test_what_a_platform_does_not_show_yet_is_waited_for_from_the_end_of_the_try() -> None:
    under_way = sending(delivery(POST, Readback(visible_within_s=5.0)), now=BEGAN)
    [row] = after_call(under_way, Ambiguous("no answer within 30 s"), now=BEGAN + 30, jitter=0.0)
    assert told_of(decide(row, 32, can_look_up=True)) == "wait"
    assert told_of(decide(row, 35, can_look_up=True)) == "ask"


def test_one_that_was_tried_too_often_and_may_be_there_is_asked_for_or_unknown_never_dead() -> None:
    assert told_of(decide(in_doubt(Keyed(window_s=300.0), max_attempts=1), 5)) == "unknown"
    assert told_of(decide(in_doubt(Unkeyed(), max_attempts=1, on_unknown="resend"), 5)) == "unknown"
    assert told_of(decide(in_doubt(Readback(), max_attempts=1), 5, can_look_up=True)) == "ask"


@pytest.mark.parametrize("operation", OPERATIONS[2:4] + OPERATIONS[5:], ids=lambda operation: type(operation).__name__)
def test_edits_deletions_and_ends_of_streams_are_done_again_and_never_asked_for(operation: Durable) -> None:
    row = in_doubt(Readback(), operation=operation)
    assert told_of(decide(row, 10, can_look_up=True)) == "send"
    # They carry no key: that nothing is found under it says nothing.
    assert told_of(decide(replace(row, deferred_tries=-99), 10, can_look_up=True)) == "unknown"


def test_media_without_a_file_fails_with_the_reason_and_is_never_sent() -> None:
    row = replace(delivery(PostMedia(target=HERE)), error="the disk is full")
    step = decide(row, 1)
    assert isinstance(step, Finish)
    assert (step.delivery.state, step.delivery.error) == (State.FAILED, "the disk is full")
    step = decide(replace(row, error=""), 1)
    assert isinstance(step, Finish)
    assert step.delivery.error


@pytest.mark.parametrize("seconds", [-7200.0, -3600.0, 0.0, 29.0])
def test_a_wait_is_never_longer_than_was_meant_whatever_the_clock_says(seconds: float) -> None:
    row = tried(Unkeyed(), NotNow("busy", retry_after=30.0))
    step = next_step(row, RepeatContext(), now=BEGAN + 1 + seconds)
    assert isinstance(step, Wait)
    assert step.seconds == min(30.0, 30.0 - seconds)


def test_a_wait_is_over_when_the_clock_was_put_forward_or_it_was_waited_for() -> None:
    row = tried(Unkeyed(), NotNow("busy", retry_after=30.0))
    assert told_of(next_step(row, RepeatContext(), now=BEGAN + 3600)) == "send"
    assert told_of(next_step(row, RepeatContext(), now=BEGAN - 3600, waited=True)) == "send"


@pytest.mark.parametrize(
    ("outcome", "doubtful", "states"),
    [
        (OUTCOMES[0], False, ["delivered"]),
        (OUTCOMES[0], True, ["delivered"]),
        (Refused("no"), False, ["failed"]),
        (Refused("no"), True, ["ambiguous", "unknown"]),
        (NotNow("busy"), False, ["retry"]),
        (NotNow("busy"), True, ["ambiguous"]),
        (Ambiguous("?"), False, ["ambiguous"]),
        (Ambiguous("?"), True, ["ambiguous"]),
    ],
)
def test_that_a_try_surely_failed_is_no_proof_that_an_earlier_one_did(
    outcome: Outcome, doubtful: bool, states: list[str]
) -> None:
    under_way = sending(in_doubt(Keyed(window_s=300.0)) if doubtful else delivery(), now=BEGAN + 3)
    after = after_call(under_way, outcome, now=BEGAN + 4, jitter=0.0, in_doubt=doubtful)
    assert [row.state.value for row in after] == states


def test_a_key_whose_window_passed_while_the_platform_put_it_off_is_not_trusted() -> None:
    row = in_doubt(Keyed(window_s=300.0))
    [row] = after_call(
        sending(row, now=BEGAN + 10), NotNow("busy", retry_after=600.0), now=BEGAN + 11, jitter=0.0, in_doubt=True
    )
    assert told_of(decide(row, 612)) == "unknown"


def test_each_try_has_a_number_of_its_own_and_being_put_off_costs_none_of_the_budget() -> None:
    row = delivery(max_attempts=2)
    seen: list[int] = []
    for _ in range(50):
        under_way = sending(row, now=BEGAN + 1)
        seen.append(under_way.attempt)
        [row] = after_call(under_way, NotNow("busy", retry_after=1.0), now=BEGAN + 1, jitter=0.0)
    assert seen == list(range(1, 51))
    assert told_of(decide(row, 5)) == "send"
    assert row.not_before == BEGAN + 2  # no longer with each time: the platform said when


@given(
    retry_after=st.none() | st.floats() | st.sampled_from([-5.0, 1e9, math.nan, math.inf, -math.inf]),
    attempt=st.integers(-5, 10_000),
    jitter=st.floats(0, 1),
)
def test_no_wait_is_endless_or_negative(retry_after: float | None, attempt: int, jitter: float) -> None:
    seconds = wait_after(retry_after, attempt, jitter)
    assert 0 <= seconds <= LONGEST_WAIT_S + 1
    if retry_after is not None and is_plausible(retry_after):
        assert seconds >= retry_after
    elif retry_after is None or not retry_after > LONGEST_WAIT_S:
        assert 0.5 <= seconds <= LONGEST_BACKOFF_S


def test_waits_grow_with_each_try_up_to_a_bound() -> None:
    waits = [wait_after(None, attempt, 1.0) for attempt in range(1, 15)]
    assert waits == sorted(waits)
    assert waits[:3] == [1.0, 2.0, 4.0]
    assert waits[-1] == LONGEST_BACKOFF_S


any_kind = st.sampled_from(KINDS)
any_operation = st.sampled_from(OPERATIONS)
any_time = st.floats(-2 * DAY, 2 * DAY)
any_outcome = st.sampled_from(OUTCOMES) | st.builds(NotNow, st.just("busy"), st.floats())


@st.composite
def histories(draw: st.DrawFn) -> Delivery:
    """An open delivery after any tries, at any times of any clock."""
    policy = Policy(
        idempotency=draw(any_kind),
        on_unknown=draw(st.sampled_from(["hold", "resend"])),
        max_attempts=draw(st.integers(1, 4)),
        max_age_s=draw(st.sampled_from([60.0, DAY])),
    )
    row = plan(draw(any_operation), turn_id="t", ordinal=1, policy=policy, now=BEGAN)
    for _ in range(draw(st.integers(0, 4))):
        doubtful = row.state is State.AMBIGUOUS
        under_way = sending(row, now=BEGAN + draw(any_time))
        outcome = draw(any_outcome)
        after = after_call(under_way, outcome, now=BEGAN + draw(any_time), jitter=0.5, in_doubt=doubtful)[-1]
        if after.state in FINAL:
            break
        row = after
    return row


@given(
    row=histories(),
    now=any_time,
    can_look_up=st.booleans(),
    scope=st.sampled_from(["", "device"]),
    waited=st.booleans(),
)
def test_every_step_is_lawful(row: Delivery, now: float, can_look_up: bool, scope: str, waited: bool) -> None:
    reach = RepeatContext(can_look_up=can_look_up, scope=scope, longest_send_s=45.0)
    step = next_step(row, reach, now=BEGAN + now, waited=waited)
    match step:
        case Send(delivery=under_way):
            assert under_way.state in EDGES[row.state]
            assert under_way.attempt == row.attempt + 1
            assert BEGAN + now <= row.expires_at
            assert not row.is_exhausted
            check_that_sending_shows_nothing_twice(row, under_way, BEGAN + now, scope)
        case Finish(delivery=after):
            assert after.state in EDGES[row.state]
            assert after.state in FINAL
            assert (after.state is State.UNKNOWN) == (row.state is State.AMBIGUOUS)
        case Wait(seconds=seconds):
            assert 0 < seconds <= LONGEST_WAIT_S + 1
        case LookUp():
            assert can_look_up
            assert row.state is State.AMBIGUOUS
    if waited and row.state is not State.AMBIGUOUS:
        assert not isinstance(step, Wait)


def check_that_sending_shows_nothing_twice(row: Delivery, under_way: Delivery, now: float, scope: str) -> None:
    if row.state is not State.AMBIGUOUS or under_way.may_be_double:
        assert row.state is not State.AMBIGUOUS or row.policy.on_unknown == "resend" or row.may_be_double
        return
    kind = row.idempotency
    assert not isinstance(kind, Unkeyed | Readback)
    if isinstance(kind, Keyed):
        assert row.first_try_at is not None
        assert 0 <= now - row.first_try_at < kind.window_s
        assert scope == kind.scope


@given(row=histories(), outcome=any_outcome, jitter=st.floats(0, 1), doubtful=st.booleans())
def test_every_answer_is_lawful(row: Delivery, outcome: Outcome, jitter: float, doubtful: bool) -> None:
    under_way = sending(row, now=BEGAN + 5)
    before = under_way
    for after in after_call(under_way, outcome, now=BEGAN + 6, jitter=jitter, in_doubt=doubtful):
        assert after.state in EDGES[before.state]
        assert after.attempt == under_way.attempt
        before = after
    assert before.state in FINAL or remaining_wait(before, BEGAN + 6) <= LONGEST_WAIT_S + 1
    if doubtful:
        assert before.state in {State.DELIVERED, State.AMBIGUOUS, State.UNKNOWN}


@given(row=histories(), outcome=any_outcome, found=st.none() | st.just(Receipt(message_id="m1")))
def test_asking_back_is_lawful(row: Delivery, outcome: Outcome, found: Receipt | None) -> None:
    doubtful = row if row.state is State.AMBIGUOUS else moved(sending(row, now=BEGAN), State.AMBIGUOUS, now=BEGAN)
    after = after_lookup(doubtful, found, now=BEGAN + 1)
    assert after.state is (State.RETRY if found is None else State.DELIVERED)
    assert after.receipt == found
    later = after_failed_lookup(doubtful, outcome, now=BEGAN + 1, jitter=0.5)
    assert later.state is State.AMBIGUOUS
    assert 0 <= remaining_wait(later, BEGAN + 1) <= LONGEST_WAIT_S + 1


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_only_the_last_word_on_a_message_that_is_gone_and_a_refused_stream_are_said_in_a_new_one(
    operation: Durable, doubtful: bool
) -> None:
    under_way = sending(delivery(operation), now=BEGAN)
    for outcome in OUTCOMES:
        in_place = replacement_post(under_way, outcome, now=BEGAN + 1, in_doubt=doubtful)
        is_gone = isinstance(operation, Edit | CloseStream) and isinstance(outcome, Refused) and outcome.gone
        is_no_stream = isinstance(operation, OpenStream) and isinstance(outcome, Refused) and not doubtful
        if is_gone or is_no_stream:
            assert in_place is not None
            superseded, new = in_place
            assert superseded.state is State.SUPERSEDED
            assert new.operation == Post(target=HERE, body=SAYS)
            assert (new.ordinal, new.state) == (-under_way.ordinal, State.PLANNED)
        else:
            assert in_place is None


@pytest.mark.parametrize("state", sorted(FINAL | OPEN))
def test_people_are_told_of_what_they_may_miss_and_of_nothing_else(state: State) -> None:
    row = replace(delivery(), state=state, error="no")
    line = missing_part_notice(row, now=BEGAN)
    if state not in {State.FAILED, State.DEAD, State.UNKNOWN}:
        assert line is None
        return
    assert line is not None
    assert isinstance(line.operation, Post)
    assert ("may be missing" in line.operation.body.text) == (state is State.UNKNOWN)
    assert "Part 1 of this answer" in line.operation.body.text
    assert (line.ordinal, line.policy.on_unknown, line.policy.on_dead) == (NOTICE_ORDINAL, "resend", "skip")
    assert missing_part_notice(replace(line, state=state), now=BEGAN) is None
    assert missing_part_notice(replace(row, error=TOO_OLD), now=BEGAN) is None
    assert missing_part_notice(replace(row, operation=Delete(target=HERE, message_id="m1")), now=BEGAN) is None
