"""Decisions about deliveries: in every state, kind and age, with any values of clocks and platforms."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.capabilities import Idempotency, Keyed, Readback, Repeatable, Unkeyed
from tailrace.deliveries import EDGES, FINAL, NOTICE_ORDINAL, OPEN, Delivery, Policy, State, moved, plan, sending
from tailrace.delivery.result import (
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
START = 1_700_000_000.0
DAY = 86_400.0
BODY = Body(text="hello")
POST = Post(target=HERE, body=BODY)
OPERATIONS: tuple[Durable, ...] = (
    POST,
    PostMedia(target=HERE, url="https://example.org/a.png"),
    Edit(target=HERE, message_id="m1", body=BODY),
    Delete(target=HERE, message_id="m1"),
    OpenStream(target=HERE, body=BODY),
    CloseStream(target=HERE, stream_id="m1", body=BODY),
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
    return plan(operation, turn_id="t", ordinal=1, policy=Policy(idempotency=kind, **policy), now=START)


def tried(kind: Idempotency, outcome: Outcome, *, operation: Durable = POST, **policy: Any) -> Delivery:
    """A delivery after its first attempt, which began at once."""
    in_flight = sending(delivery(operation, kind, **policy), now=START)
    return after_call(in_flight, outcome, now=START + 1, jitter=0.0)[-1]


def in_doubt(kind: Idempotency, **policy: Any) -> Delivery:
    return tried(kind, Ambiguous("no answer"), **policy)


def decide(
    row: Delivery, after_s: float, *, can_look_up: bool = False, scope: str = "", longest_send_s: float = 0.0
) -> NextStep:
    """The next step so many seconds after it was planned, when it is due."""
    return next_step(
        row,
        RepeatContext(can_look_up=can_look_up, scope=scope, longest_send_s=longest_send_s),
        now=START + after_s,
        waited=True,
    )


def name_of(step: NextStep) -> str:
    """The name of a step."""
    match step:
        case Finish(delivery=after):
            return after.state.value
        case Send(delivery=in_flight):
            return "send again, marked" if in_flight.may_be_double else "send"
        case LookUp():
            return "ask"
        case Wait():
            return "wait"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_an_unsent_delivery_is_sent_until_it_is_too_old_or_exhausted(operation: Durable, kind: Idempotency) -> None:
    planned = delivery(operation, kind, max_attempts=2)
    put_off = tried(kind, NotNow("busy"), operation=operation, max_attempts=2)
    for row in (planned, put_off):
        assert name_of(decide(row, 5)) == "send"
        assert name_of(decide(row, DAY)) == "send"
        assert name_of(decide(row, DAY + 1)) == "dead"
    again = after_call(sending(put_off, now=START + 2), NotNow("busy"), now=START + 3, jitter=0.0)[-1]
    assert name_of(decide(again, 5)) == "dead"
    assert name_of(decide(replace(again, deferred_tries=1), 5)) == "send"


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
    # Nothing that is too old is sent, whatever the kind and the policy.
    (Keyed(window_s=9 * DAY), DAY + 1, False, "", "unknown", "unknown"),
    (Readback(), DAY + 1, True, "", "ask", "ask"),
    (Readback(), 2 * DAY, True, "", "unknown", "unknown"),
    (Repeatable(), DAY + 1, False, "", "unknown", "unknown"),
    (Unkeyed(), DAY + 1, False, "", "unknown", "unknown"),
]


@pytest.mark.parametrize(("kind", "age", "can_look_up", "scope", "hold", "resend"), DOUBTS)
def test_an_ambiguous_delivery_is_resolved_by_the_kind_of_its_channel(
    kind: Idempotency, age: float, can_look_up: bool, scope: str, hold: str, resend: str
) -> None:
    for on_unknown, expected in (("hold", hold), ("resend", resend)):
        row = in_doubt(kind, on_unknown=on_unknown)
        assert name_of(decide(row, age, can_look_up=can_look_up, scope=scope)) == expected


def test_a_key_is_trusted_only_if_the_message_arrives_in_its_window() -> None:
    row = in_doubt(Keyed(window_s=300.0))
    assert name_of(decide(row, 254, longest_send_s=45.0)) == "send"
    assert name_of(decide(row, 255, longest_send_s=45.0)) == "unknown"


def test_a_lookup_waits_until_the_platform_shows_new_messages() -> None:
    in_flight = sending(delivery(POST, Readback(visible_within_s=5.0)), now=START)
    [row] = after_call(in_flight, Ambiguous("no answer within 30 s"), now=START + 30, jitter=0.0)
    assert name_of(decide(row, 32, can_look_up=True)) == "wait"
    assert name_of(decide(row, 35, can_look_up=True)) == "ask"


def test_an_exhausted_ambiguous_delivery_is_never_dead() -> None:
    assert name_of(decide(in_doubt(Keyed(window_s=300.0), max_attempts=1), 5)) == "unknown"
    assert name_of(decide(in_doubt(Unkeyed(), max_attempts=1, on_unknown="resend"), 5)) == "unknown"
    assert name_of(decide(in_doubt(Readback(), max_attempts=1), 5, can_look_up=True)) == "ask"


@pytest.mark.parametrize("operation", OPERATIONS[2:4] + OPERATIONS[5:], ids=lambda operation: type(operation).__name__)
def test_edits_deletions_and_stream_ends_are_repeated_not_looked_up(operation: Durable) -> None:
    row = in_doubt(Readback(), operation=operation)
    assert name_of(decide(row, 10, can_look_up=True)) == "send"
    # They have no key, so a lookup would prove nothing.
    assert name_of(decide(replace(row, deferred_tries=-99), 10, can_look_up=True)) == "unknown"


def test_media_without_a_file_fail_with_the_reason() -> None:
    row = replace(delivery(PostMedia(target=HERE)), error="the disk is full")
    step = decide(row, 1)
    assert isinstance(step, Finish)
    assert (step.delivery.state, step.delivery.error) == (State.FAILED, "the disk is full")
    step = decide(replace(row, error=""), 1)
    assert isinstance(step, Finish)
    assert step.delivery.error


@pytest.mark.parametrize("seconds", [-7200.0, -3600.0, 0.0, 29.0])
def test_a_wait_is_never_longer_than_recorded(seconds: float) -> None:
    row = tried(Unkeyed(), NotNow("busy", retry_after=30.0))
    step = next_step(row, RepeatContext(), now=START + 1 + seconds)
    assert isinstance(step, Wait)
    assert step.seconds == min(30.0, 30.0 - seconds)


def test_a_wait_ends_by_the_clock_or_by_waiting() -> None:
    row = tried(Unkeyed(), NotNow("busy", retry_after=30.0))
    assert name_of(next_step(row, RepeatContext(), now=START + 3600)) == "send"
    assert name_of(next_step(row, RepeatContext(), now=START - 3600, waited=True)) == "send"


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
def test_a_failed_attempt_does_not_resolve_earlier_doubt(outcome: Outcome, doubtful: bool, states: list[str]) -> None:
    in_flight = sending(in_doubt(Keyed(window_s=300.0)) if doubtful else delivery(), now=START + 3)
    after = after_call(in_flight, outcome, now=START + 4, jitter=0.0, in_doubt=doubtful)
    assert [row.state.value for row in after] == states


def test_a_key_is_not_trusted_after_a_wait_beyond_its_window() -> None:
    row = in_doubt(Keyed(window_s=300.0))
    [row] = after_call(
        sending(row, now=START + 10), NotNow("busy", retry_after=600.0), now=START + 11, jitter=0.0, in_doubt=True
    )
    assert name_of(decide(row, 612)) == "unknown"


def test_a_wait_the_platform_asks_for_costs_no_attempt() -> None:
    row = delivery(max_attempts=2)
    seen: list[int] = []
    for _ in range(50):
        in_flight = sending(row, now=START + 1)
        seen.append(in_flight.attempt)
        [row] = after_call(in_flight, NotNow("busy", retry_after=1.0), now=START + 1, jitter=0.0)
    assert seen == list(range(1, 51))
    assert name_of(decide(row, 5)) == "send"
    assert row.not_before == START + 2  # no backoff: the platform named the time


@given(
    retry_after=st.none() | st.floats() | st.sampled_from([-5.0, 1e9, math.nan, math.inf, -math.inf]),
    attempt=st.integers(-5, 10_000),
    jitter=st.floats(0, 1),
)
def test_every_wait_is_bounded_and_positive(retry_after: float | None, attempt: int, jitter: float) -> None:
    seconds = wait_after(retry_after, attempt, jitter)
    assert 0 <= seconds <= LONGEST_WAIT_S + 1
    if retry_after is not None and is_plausible(retry_after):
        assert seconds >= retry_after
    elif retry_after is None or not retry_after > LONGEST_WAIT_S:
        assert 0.5 <= seconds <= LONGEST_BACKOFF_S


def test_backoff_grows_up_to_a_bound() -> None:
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
    """An open delivery after any attempts, at any times of any clock."""
    policy = Policy(
        idempotency=draw(any_kind),
        on_unknown=draw(st.sampled_from(["hold", "resend"])),
        max_attempts=draw(st.integers(1, 4)),
        max_age_s=draw(st.sampled_from([60.0, DAY])),
    )
    row = plan(draw(any_operation), turn_id="t", ordinal=1, policy=policy, now=START)
    for _ in range(draw(st.integers(0, 4))):
        doubtful = row.state is State.AMBIGUOUS
        in_flight = sending(row, now=START + draw(any_time))
        outcome = draw(any_outcome)
        after = after_call(in_flight, outcome, now=START + draw(any_time), jitter=0.5, in_doubt=doubtful)[-1]
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
def test_every_next_step_is_lawful(row: Delivery, now: float, can_look_up: bool, scope: str, waited: bool) -> None:
    reach = RepeatContext(can_look_up=can_look_up, scope=scope, longest_send_s=45.0)
    step = next_step(row, reach, now=START + now, waited=waited)
    match step:
        case Send(delivery=in_flight):
            assert in_flight.state in EDGES[row.state]
            assert in_flight.attempt == row.attempt + 1
            assert START + now <= row.expires_at
            assert not row.is_exhausted
            check_nothing_is_shown_twice(row, in_flight, START + now, scope)
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


def check_nothing_is_shown_twice(row: Delivery, in_flight: Delivery, now: float, scope: str) -> None:
    if row.state is not State.AMBIGUOUS or in_flight.may_be_double:
        assert row.state is not State.AMBIGUOUS or row.policy.on_unknown == "resend" or row.may_be_double
        return
    kind = row.idempotency
    assert not isinstance(kind, Unkeyed | Readback)
    if isinstance(kind, Keyed):
        assert row.first_try_at is not None
        assert 0 <= now - row.first_try_at < kind.window_s
        assert scope == kind.scope


@given(row=histories(), outcome=any_outcome, jitter=st.floats(0, 1), doubtful=st.booleans())
def test_every_state_after_a_call_is_lawful(row: Delivery, outcome: Outcome, jitter: float, doubtful: bool) -> None:
    in_flight = sending(row, now=START + 5)
    before = in_flight
    for after in after_call(in_flight, outcome, now=START + 6, jitter=jitter, in_doubt=doubtful):
        assert after.state in EDGES[before.state]
        assert after.attempt == in_flight.attempt
        before = after
    assert before.state in FINAL or remaining_wait(before, START + 6) <= LONGEST_WAIT_S + 1
    if doubtful:
        assert before.state in {State.DELIVERED, State.AMBIGUOUS, State.UNKNOWN}


@given(row=histories(), outcome=any_outcome, found=st.none() | st.just(Receipt(message_id="m1")))
def test_every_state_after_a_lookup_is_lawful(row: Delivery, outcome: Outcome, found: Receipt | None) -> None:
    doubtful = row if row.state is State.AMBIGUOUS else moved(sending(row, now=START), State.AMBIGUOUS, now=START)
    after = after_lookup(doubtful, found, now=START + 1)
    assert after.state is (State.RETRY if found is None else State.DELIVERED)
    assert after.receipt == found
    later = after_failed_lookup(doubtful, outcome, now=START + 1, jitter=0.5)
    assert later.state is State.AMBIGUOUS
    assert 0 <= remaining_wait(later, START + 1) <= LONGEST_WAIT_S + 1


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_only_edits_of_gone_messages_and_refused_streams_are_replaced(operation: Durable, doubtful: bool) -> None:
    in_flight = sending(delivery(operation), now=START)
    for outcome in OUTCOMES:
        in_place = replacement_post(in_flight, outcome, now=START + 1, in_doubt=doubtful)
        is_gone = isinstance(operation, Edit | CloseStream) and isinstance(outcome, Refused) and outcome.gone
        is_no_stream = isinstance(operation, OpenStream) and isinstance(outcome, Refused) and not doubtful
        if is_gone or is_no_stream:
            assert in_place is not None
            superseded, new = in_place
            assert superseded.state is State.SUPERSEDED
            degraded = "the platform refused the stream" if is_no_stream else ""
            assert new.operation == Post(target=HERE, body=BODY, degraded=degraded)
            assert (new.ordinal, new.state) == (-in_flight.ordinal, State.PLANNED)
        else:
            assert in_place is None


@pytest.mark.parametrize("state", sorted(FINAL | OPEN))
def test_users_are_notified_only_of_parts_that_may_be_missing(state: State) -> None:
    row = replace(delivery(), state=state, error="no")
    line = missing_part_notice(row, now=START)
    if state not in {State.FAILED, State.DEAD, State.UNKNOWN}:
        assert line is None
        return
    assert line is not None
    assert isinstance(line.operation, Post)
    assert ("may be missing" in line.operation.body.text) == (state is State.UNKNOWN)
    assert "Part 1 of this answer" in line.operation.body.text
    assert (line.ordinal, line.policy.on_unknown, line.policy.on_dead) == (NOTICE_ORDINAL, "resend", "skip")
    assert missing_part_notice(replace(line, state=state), now=START) is None
    assert missing_part_notice(replace(row, error=TOO_OLD), now=START) is None
    assert missing_part_notice(replace(row, operation=Delete(target=HERE, message_id="m1")), now=START) is None
