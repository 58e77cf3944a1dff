"""The rate limiter: no rate is exceeded in any window, urgent calls go first, chats take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from delivery_setup import in_virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.delivery.pace import PacedChannel
from tailrace.delivery.rate_limiter import FIRST_MESSAGE_WAIT_S, PendingCall, RateLimiter, Urgency, urgency_of
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Receipt,
    Target,
    Typing,
)
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation

if TYPE_CHECKING:
    pass

FINAL, FIRST, EDIT, TYPING = Urgency
CHATS = ("a", "b", "c")
GROUP = "c"
EVERY_SECOND = Rate(calls=1, per_s=1.0)


def paced(per_chat: Rate | None = None, overall: Rate | None = None, per_group: Rate | None = None) -> Capabilities:
    return Capabilities(idempotency=Unkeyed(), per_chat=per_chat, overall=overall, per_group=per_group)


def check_rate(times: list[float], rate: Rate | None) -> None:
    """No window of `per_s` has more than `calls`."""
    assert times == sorted(times)
    for first, one_too_many in zip(times, times[rate.calls :] if rate else [], strict=False):
        assert rate is not None
        assert one_too_many - first >= rate.per_s - 1e-9


# The laws, whatever happens.


class Enqueue(msgspec.Struct, frozen=True):
    """A call that waits."""

    chat: str
    urgency: Urgency


class Cancel(msgspec.Struct, frozen=True):
    """One of the pending calls is cancelled."""

    nth: int


class Pause(msgspec.Struct, frozen=True):
    """The platform asks to wait, for a chat or for all."""

    chat: str | None
    seconds: float


class Elapse(msgspec.Struct, frozen=True):
    """Time passes."""

    seconds: float


class TryCall(msgspec.Struct, frozen=True):
    """A call that goes only if it can go at once."""

    chat: str
    urgency: Urgency


Step = Enqueue | Cancel | Pause | Elapse | TryCall

rates = st.none() | st.builds(Rate, calls=st.integers(1, 4), per_s=st.sampled_from([0.5, 1.0, 15.0]))
capabilities = st.builds(paced, per_chat=rates, overall=rates, per_group=rates)
chats = st.sampled_from(CHATS)
steps = st.lists(
    st.builds(Enqueue, chats, st.sampled_from(Urgency))
    | st.builds(Enqueue, chats, st.sampled_from(Urgency))
    | st.builds(TryCall, chats, st.sampled_from(Urgency))
    | st.builds(Cancel, st.integers(0, 9))
    | st.builds(Pause, st.none() | chats, st.floats(0, 20))
    | st.builds(Elapse, st.floats(0, 12)),
    min_size=12,
    max_size=60,
)


class CheckedLimiter:
    """A rate limiter with a simple record of its calls; each grant is checked against the record."""

    def __init__(self, limits: Capabilities) -> None:
        self.limiter = RateLimiter(limits)
        self.now = 0.0
        self.waiting: list[tuple[PendingCall, Enqueue, float]] = []
        self.calls: list[tuple[str, float]] = []
        self.held: dict[str | None, float] = {}
        self._limits = limits

    def do(self, step: Step) -> None:
        match step:
            case Enqueue(chat=chat, urgency=urgency):
                pending = self.limiter.enqueue(chat, urgency, self.now, group=chat == GROUP)
                self.waiting.append((pending, step, self.now))
            case Cancel(nth=nth) if self.waiting:
                self.limiter.cancel(self.waiting.pop(nth % len(self.waiting))[0])
            case Pause(chat=chat, seconds=seconds):
                until = self.now + seconds
                self.limiter.pause(until, chat=chat, now=self.now)
                self.held[chat] = max(self.held.get(chat, until), until)
            case TryCall(chat=chat, urgency=urgency) if self.limiter.try_call(
                chat, urgency, self.now, group=chat == GROUP
            ):
                assert self.can_call(chat)
                assert not any(ask.chat == chat for _, ask, _ in self.waiting)
                self.calls += [(chat, self.now)] * (urgency is not TYPING)
            case TryCall(chat=chat):
                assert not self.can_call(chat), "a call that may go is let through"
            case Elapse(seconds=seconds):
                self.elapse(self.now + seconds)
        self.grant()

    def elapse(self, until: float) -> None:
        """Let time pass, and grant calls whenever some are due."""
        while (due := self.limiter.due(self.now)) is not None and due <= until:
            self.now = due
            self.grant()
        self.now = max(self.now, until)

    def grant(self) -> None:
        for pending in self.limiter.grant(self.now):
            [ask] = [ask for waiting, ask, _ in self.waiting if waiting is pending]
            self.check_turn(pending, ask)
            self.waiting = [other for other in self.waiting if other[0] is not pending]
            if ask.urgency is not TYPING:
                self.calls.append((ask.chat, self.now))
        assert not any(self.can_call(ask.chat) for _, ask, _ in self.waiting), "a call that may go is granted"

    def check_turn(self, call: PendingCall, ask: Enqueue) -> None:
        assert self.can_call(ask.chat)
        ranks = [(self.rank(other, since), nth) for nth, (_, other, since) in enumerate(self.waiting)]
        [mine] = [rank for rank, (pending, _, _) in zip(ranks, self.waiting, strict=True) if pending is call]
        for rank, (_, other, _) in zip(ranks, self.waiting, strict=True):
            if other.chat == ask.chat:
                assert mine <= rank
            elif self.can_call(other.chat):
                assert mine[0] <= rank[0]
                if mine[0] == rank[0] and self._limits.overall is not None:
                    assert self.last_call(ask.chat) <= self.last_call(other.chat)

    def rank(self, ask: Enqueue, since: float) -> Urgency:
        """The urgency of a pending call by now."""
        return FINAL if ask.urgency is FIRST and since + FIRST_MESSAGE_WAIT_S <= self.now else ask.urgency

    def can_call(self, chat: str) -> bool:
        """Whether no limit and no pause forbids a call."""
        if max(self.held.get(chat, 0.0), self.held.get(None, 0.0)) > self.now:
            return False
        own = self.times(chat)
        everybody = [at for _, at in self.calls]
        in_group = self._limits.per_group if chat == GROUP else None
        limits = ((own, self._limits.per_chat), (own, in_group), (everybody, self._limits.overall))
        return all(
            rate is None or len(times) < rate.calls or times[-rate.calls] + rate.per_s <= self.now
            for times, rate in limits
        )

    def times(self, chat: str) -> list[float]:
        return [at for called, at in self.calls if called == chat]

    def last_call(self, chat: str) -> int:
        return max((number for number, (called, _) in enumerate(self.calls) if called == chat), default=-1)


@settings(max_examples=300)
@given(limits=capabilities, actions=steps)
def test_the_most_urgent_calls_go_first_and_no_rate_is_exceeded(limits: Capabilities, actions: list[Step]) -> None:
    checked = CheckedLimiter(limits)
    for each in actions:
        checked.do(each)
    checked.elapse(1e6)
    assert checked.waiting == [], "every call is granted in the end"
    assert checked.limiter.due(checked.now) is None
    check_rate([at for _, at in checked.calls], limits.overall)
    for chat in CHATS:
        check_rate(checked.times(chat), limits.per_chat)
    check_rate(checked.times(GROUP), limits.per_group)


@given(limits=capabilities, actions=steps)
def test_asking_for_times_changes_nothing(limits: Capabilities, actions: list[Step]) -> None:
    seen, unseen = CheckedLimiter(limits), CheckedLimiter(limits)
    for each in actions:
        for chat in CHATS:
            seen.limiter.is_free(chat, seen.now, group=chat == GROUP)
            assert seen.limiter.expected_at(chat, seen.now) >= seen.now
        seen.limiter.due(seen.now)
        seen.do(each)
        unseen.do(each)
    assert seen.calls == unseen.calls


# Cases.


def call(limiter: RateLimiter, chat: str, now: float, *, group: bool = False) -> float:
    """When a new call goes if no other is pending."""
    limiter.enqueue(chat, FINAL, now, group=group)
    while not limiter.grant(now):
        due = limiter.due(now)
        assert due is not None
        now = due
    return now


def test_a_group_has_one_rate_more() -> None:
    limiter = RateLimiter(paced(per_chat=EVERY_SECOND, per_group=Rate(calls=3, per_s=60.0)))
    assert [call(limiter, "private", 0.0), call(limiter, "private", 0.0)] == [0.0, 1.0]
    times = [call(limiter, "group", 0.0)]
    for _ in range(4):
        times.append(call(limiter, "group", times[-1], group=True))
    assert times == [0.0, 1.0, 2.0, 60.0, 61.0]


def test_a_pause_holds_one_chat_or_the_whole_channel() -> None:
    limiter = RateLimiter(paced())
    limiter.pause(30.0, chat="a", now=0.0)
    assert (limiter.expected_at("a", 0.0), limiter.expected_at("b", 0.0)) == (30.0, 0.0)
    assert (limiter.is_free("a", 29.0), limiter.is_free("a", 30.0), limiter.is_free("b", 0.0)) == (False, True, True)
    limiter.pause(60.0, now=0.0)
    assert (limiter.expected_at("a", 0.0), limiter.expected_at("b", 0.0)) == (60.0, 60.0)
    limiter.pause(10.0, now=0.0)
    assert limiter.expected_at("b", 0.0) == 60.0  # a shorter wait does not end a longer one


@pytest.mark.parametrize(("took_s", "next_at"), [(0.1, 1.0), (3.0, 4.0)])
def test_a_slow_call_counts_from_its_end(took_s: float, next_at: float) -> None:
    limiter = RateLimiter(paced(per_chat=EVERY_SECOND))
    assert limiter.try_call("a", EDIT, 0.0)
    limiter.end_call("a", 0.0, took_s)
    assert limiter.expected_at("a", took_s) == next_at
    limiter.end_call("b", 0.0, took_s)
    assert limiter.expected_at("b", took_s) == took_s


def test_expected_at_counts_all_pending_calls() -> None:
    limiter = RateLimiter(paced(per_chat=Rate(calls=2, per_s=10.0), overall=Rate(calls=3, per_s=1.0)))
    for number in range(15):
        limiter.enqueue(f"chat {number}", FINAL, 0.0)
    limiter.grant(0.0)
    assert limiter.expected_at("new", 0.0) == 5.0  # three go each second, and twelve are before
    for _ in range(4):
        limiter.enqueue("busy", FINAL, 0.0)
    assert limiter.expected_at("busy", 0.0) == 20.0  # two go every ten seconds, and four are before


def test_typing_uses_no_capacity() -> None:
    limiter = RateLimiter(paced(per_chat=EVERY_SECOND, overall=EVERY_SECOND))
    assert [limiter.try_call("a", TYPING, 0.0) for _ in range(5)] == [True] * 5
    pending_calls = [limiter.enqueue("a", TYPING, 0.0) for _ in range(5)]
    assert limiter.grant(0.0) == pending_calls
    assert limiter.try_call("a", EDIT, 0.0)
    assert not limiter.try_call("a", TYPING, 0.0)


def test_new_chats_do_not_starve_a_waiting_one() -> None:
    limiter = RateLimiter(paced(overall=EVERY_SECOND))
    call(limiter, "old", 0.0)
    old = limiter.enqueue("old", EDIT, 0.0)
    for second in range(1, 1000):
        for number in range(2):
            limiter.enqueue(f"new {second} {number}", EDIT, float(second))
        limiter.grant(float(second))
    assert not old.is_waiting


@pytest.mark.parametrize(("urgency", "is_served"), [(FIRST, True), (EDIT, False), (TYPING, False)])
def test_finals_delay_edits_for_ever_and_first_messages_for_a_while(urgency: Urgency, is_served: bool) -> None:
    limiter = RateLimiter(paced(overall=EVERY_SECOND))
    call(limiter, "a", 0.0)
    waiting = limiter.enqueue("b", urgency, 0.0)
    served_at: list[int] = []
    for second in range(1, 100):
        limiter.enqueue(f"chat {second % 7}", FINAL, float(second))
        if waiting in limiter.grant(float(second)):
            served_at.append(second)
    assert served_at == [FIRST_MESSAGE_WAIT_S] * is_served


@pytest.mark.parametrize(("limits", "chat"), [(paced(overall=EVERY_SECOND), "b"), (paced(per_chat=EVERY_SECOND), "a")])
def test_a_new_call_does_not_overtake_a_pending_one(limits: Capabilities, chat: str) -> None:
    limiter = RateLimiter(limits)
    call(limiter, "a", 0.0)
    waiting = limiter.enqueue("a", EDIT, 0.5)
    assert limiter.grant(0.5) == []
    assert not limiter.try_call(chat, FINAL, 2.0)  # `grant` was not called yet
    assert limiter.grant(2.0) == [waiting]
    assert not limiter.try_call(chat, FINAL, 2.9)
    assert limiter.try_call(chat, FINAL, 3.0)


def test_silent_chats_and_cancelled_calls_are_forgotten() -> None:
    limiter = RateLimiter(paced(per_chat=EVERY_SECOND, overall=Rate(calls=2, per_s=1.0)))
    for second in range(20_000):
        limiter.cancel(limiter.enqueue("left", EDIT, float(second)))
        call(limiter, f"chat {second}", float(second))
    assert len(limiter._chats) < 3000
    assert len(limiter._ready) + len(limiter._resting) + len(limiter._ageing) < 10
    limiter.pause(1e9, chat="held", now=20_000.0)
    for second in range(20_000, 30_000):
        limiter.cancel(limiter.enqueue("held", FIRST, float(second)))
        call(limiter, f"chat {second}", float(second))
    assert limiter.expected_at("held", 30_000.0) == 1e9
    assert len(limiter._ready) + len(limiter._resting) + len(limiter._ageing) < 20
    assert max(len(chat._pending) for chat in limiter._chats.values()) < 20


HERE = Target(channel="simulated", chat="here")
BODY = Body(text="hello")


@pytest.mark.parametrize(
    ("operation", "stays_first", "stays_later", "in_between"),
    [
        (Post(target=HERE, body=BODY), FIRST, FINAL, None),
        (PostMedia(target=HERE, url="x:picture"), FIRST, FINAL, None),
        (OpenStream(target=HERE, body=BODY), FIRST, FINAL, None),
        (CloseStream(target=HERE, stream_id="m", body=BODY), FINAL, FINAL, None),
        (Delete(target=HERE, message_id="m"), FINAL, FINAL, None),
        (Edit(target=HERE, message_id="m", body=BODY), FINAL, FINAL, EDIT),
        (AppendStream(target=HERE, stream_id="m", text="more"), None, None, EDIT),
        (Draft(target=HERE, draft_id=1, body=BODY), None, None, EDIT),
        (Typing(target=HERE), None, None, TYPING),
    ],
)
def test_the_urgency_of_operations(
    operation: Operation, stays_first: Urgency | None, stays_later: Urgency | None, in_between: Urgency | None
) -> None:
    if stays_first is not None:
        assert urgency_of(operation, 1) is stays_first
        assert {urgency_of(operation, ordinal) for ordinal in (-1, 0, 2, 9)} == {stays_later}
    if in_between is not None:
        assert urgency_of(operation) is in_between


# The waiting around it: pending calls are woken in time, and no others.


class Caller:
    """Makes calls to one chat, one after the other. `times` are the times when they went."""

    def __init__(self, channel: PacedChannel, chat: str, simulation: Simulation) -> None:
        self.times: list[float] = []
        self._channel = channel
        self._chat = chat
        self._simulation = simulation

    async def call(self, times: int = 1, urgency: Urgency = FINAL) -> None:
        for _ in range(times):
            await self._channel.wait_to_call(self._chat, urgency)
            self.times.append(self._simulation.clock.monotonic())
            self._channel.learn(self._chat, Delivered(Receipt(message_id="m")))
            await asyncio.sleep(0)


def paced_channel(
    capabilities: Capabilities, simulation: Simulation, before: PacedChannel | None = None
) -> PacedChannel:
    channel = in_process_channel(SimulatedPlatform(capabilities), simulation.clock)
    return PacedChannel(channel, simulation.clock, simulation.source.random, before=before)


@in_virtual_time
async def test_a_chat_at_its_limit_does_not_delay_others(simulation: Simulation) -> None:
    capabilities = paced(per_chat=Rate(calls=1, per_s=60.0), overall=Rate(calls=1, per_s=1.0))
    channel = paced_channel(capabilities, simulation)
    busy = Caller(channel, "busy", simulation)
    others = [Caller(channel, f"chat {number}", simulation) for number in range(5)]
    await asyncio.gather(busy.call(3), *(other.call() for other in others))
    assert busy.times == [0.0, 60.0, 120.0]
    assert sorted(time for other in others for time in other.times) == [1.0, 2.0, 3.0, 4.0, 5.0]


@in_virtual_time
async def test_waiting_calls_of_a_chat_go_in_order_of_urgency(simulation: Simulation) -> None:
    channel = paced_channel(paced(per_chat=EVERY_SECOND), simulation)
    callers = {urgency: Caller(channel, "a", simulation) for urgency in reversed(Urgency)}
    await channel.wait_to_call("a")
    await asyncio.gather(*(caller.call(urgency=urgency) for urgency, caller in callers.items()))
    assert {urgency: caller.times for urgency, caller in callers.items()} == {
        FINAL: [1.0],
        FIRST: [2.0],
        EDIT: [3.0],
        TYPING: [4.0],
    }


@in_virtual_time
async def test_a_cancelled_call_uses_no_capacity(simulation: Simulation) -> None:
    channel = paced_channel(paced(per_chat=EVERY_SECOND), simulation)
    await channel.wait_to_call("a")
    stopped, other = Caller(channel, "a", simulation), Caller(channel, "a", simulation)
    waiting = asyncio.create_task(stopped.call())
    calling = asyncio.create_task(other.call(urgency=EDIT))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await calling
    assert (stopped.times, other.times) == ([], [1.0])


@pytest.mark.parametrize("everywhere", [False, True])
@in_virtual_time
async def test_a_pause_also_holds_pending_calls(simulation: Simulation, everywhere: bool) -> None:
    channel = paced_channel(paced(overall=Rate(calls=1, per_s=10.0)), simulation)
    first, second = Caller(channel, "a", simulation), Caller(channel, "a" if everywhere else "b", simulation)
    await first.call()
    waiting = asyncio.create_task(second.call())
    await asyncio.sleep(5.0)
    channel.learn("a" if everywhere else "b", NotNow("busy", retry_after=30.0, everywhere=everywhere))
    await waiting
    assert second.times[0] == 35.0


@pytest.mark.parametrize("retry_after", [1e9, -5.0, float("nan"), float("inf")])
@in_virtual_time
async def test_an_absurd_retry_after_holds_calls_only_for_hours(simulation: Simulation, retry_after: float) -> None:
    channel = paced_channel(paced(), simulation)
    channel.learn("a", NotNow("busy", retry_after=retry_after, everywhere=True))
    caller = Caller(channel, "a", simulation)
    await caller.call()
    assert 0 < caller.times[0] <= 4 * 3600 + 1


@in_virtual_time
async def test_a_reconnected_channel_keeps_its_limits_and_pending_calls(simulation: Simulation) -> None:
    capabilities = paced(per_chat=Rate(calls=1, per_s=60.0))
    before = paced_channel(capabilities, simulation)
    await Caller(before, "a", simulation).call()
    before.learn("b", NotNow("busy", retry_after=500.0, everywhere=False))
    after = paced_channel(capabilities, simulation, before)
    assert (after.due_in("a"), after.due_in("b")) == (60.0, 500.0)
    assert paced_channel(paced(), simulation, before).due_in("a") == 0.0  # other limits than before: a new limiter
    early, late = Caller(before, "a", simulation), Caller(after, "a", simulation)
    await asyncio.gather(early.call(), late.call())
    assert (early.times, late.times) == ([60.0], [120.0])


@in_virtual_time
async def test_without_limits_no_call_waits(simulation: Simulation) -> None:
    channel = paced_channel(paced(), simulation)
    callers = [Caller(channel, f"chat {number % 3}", simulation) for number in range(30)]
    await asyncio.gather(*(caller.call(10, Urgency(number % 4)) for number, caller in enumerate(callers)))
    assert {time for caller in callers for time in caller.times} == {0.0}
    assert channel._limiter._chats == {}
