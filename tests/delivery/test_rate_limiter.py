"""When calls go out: never more than the rates in any stretch of time, who is urgent first, in turn, and as told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from delivery_setup import in_virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.delivery.paced_channel import PacedChannel
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
    """In no stretch of `per_s` are there more than `calls`."""
    assert times == sorted(times)
    for first, one_too_many in zip(times, times[rate.calls :] if rate else [], strict=False):
        assert rate is not None
        assert one_too_many - first >= rate.per_s - 1e-9


# The laws, whatever happens.


class Ask(msgspec.Struct, frozen=True):
    """Somebody comes to wait."""

    chat: str
    urgency: Urgency


class Leave(msgspec.Struct, frozen=True):
    """One of those who wait leaves."""

    nth: int


class Pause(msgspec.Struct, frozen=True):
    """The platform asks to wait, for a chat or for all."""

    chat: str | None
    seconds: float


class Elapse(msgspec.Struct, frozen=True):
    """Time passes."""

    seconds: float


class Take(msgspec.Struct, frozen=True):
    """Somebody calls at once, if the chat is free."""

    chat: str
    urgency: Urgency


Happening = Ask | Leave | Pause | Elapse | Take

rates = st.none() | st.builds(Rate, calls=st.integers(1, 4), per_s=st.sampled_from([0.5, 1.0, 15.0]))
capabilities = st.builds(paced, per_chat=rates, overall=rates, per_group=rates)
chats = st.sampled_from(CHATS)
happenings = st.lists(
    st.builds(Ask, chats, st.sampled_from(Urgency))
    | st.builds(Ask, chats, st.sampled_from(Urgency))
    | st.builds(Take, chats, st.sampled_from(Urgency))
    | st.builds(Leave, st.integers(0, 9))
    | st.builds(Pause, st.none() | chats, st.floats(0, 20))
    | st.builds(Elapse, st.floats(0, 12)),
    min_size=12,
    max_size=60,
)


class Witness:
    """A pace, and all that was seen of it in a plain form; each grant is checked against that."""

    def __init__(self, limits: Capabilities) -> None:
        self.pace = RateLimiter(limits)
        self.now = 0.0
        self.waiting: list[tuple[PendingCall, Ask, float]] = []
        self.calls: list[tuple[str, float]] = []
        self.held: dict[str | None, float] = {}
        self._limits = limits

    def see(self, happening: Happening) -> None:
        match happening:
            case Ask(chat=chat, urgency=urgency):
                ticket = self.pace.enqueue(chat, urgency, self.now, group=chat == GROUP)
                self.waiting.append((ticket, happening, self.now))
            case Leave(nth=nth) if self.waiting:
                self.pace.cancel(self.waiting.pop(nth % len(self.waiting))[0])
            case Pause(chat=chat, seconds=seconds):
                until = self.now + seconds
                self.pace.pause(until, chat=chat, now=self.now)
                self.held[chat] = max(self.held.get(chat, until), until)
            case Take(chat=chat, urgency=urgency) if self.pace.try_call(chat, urgency, self.now, group=chat == GROUP):
                assert self.can_call(chat)
                assert not any(ask.chat == chat for _, ask, _ in self.waiting)
                self.calls += [(chat, self.now)] * (urgency is not TYPING)
            case Take(chat=chat):
                assert not self.can_call(chat), "who could call may"
            case Elapse(seconds=seconds):
                self.elapse(self.now + seconds)
        self.grant()

    def elapse(self, until: float) -> None:
        """As the shell does: asked again when something is due."""
        while (due := self.pace.due(self.now)) is not None and due <= until:
            self.now = due
            self.grant()
        self.now = max(self.now, until)

    def grant(self) -> None:
        for ticket in self.pace.grant(self.now):
            [ask] = [ask for waiting, ask, _ in self.waiting if waiting is ticket]
            self.check_turn(ticket, ask)
            self.waiting = [other for other in self.waiting if other[0] is not ticket]
            if ask.urgency is not TYPING:
                self.calls.append((ask.chat, self.now))
        assert not any(self.can_call(ask.chat) for _, ask, _ in self.waiting), "a free place is granted"

    def check_turn(self, granted: PendingCall, ask: Ask) -> None:
        assert self.can_call(ask.chat)
        ranks = [(self.rank(other, since), nth) for nth, (_, other, since) in enumerate(self.waiting)]
        [mine] = [rank for rank, (ticket, _, _) in zip(ranks, self.waiting, strict=True) if ticket is granted]
        for rank, (_, other, _) in zip(ranks, self.waiting, strict=True):
            if other.chat == ask.chat:
                assert mine <= rank
            elif self.can_call(other.chat):
                assert mine[0] <= rank[0]
                if mine[0] == rank[0] and self._limits.overall is not None:
                    assert self.last_call(ask.chat) <= self.last_call(other.chat)

    def rank(self, ask: Ask, since: float) -> Urgency:
        """How urgent somebody is by now."""
        return FINAL if ask.urgency is FIRST and since + FIRST_MESSAGE_WAIT_S <= self.now else ask.urgency

    def can_call(self, chat: str) -> bool:
        """Whether nothing that is known forbids it."""
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
@given(limits=capabilities, happening=happenings)
def test_whatever_happens_places_go_to_the_most_urgent_in_turn_and_never_above_a_rate(
    limits: Capabilities, happening: list[Happening]
) -> None:
    witness = Witness(limits)
    for each in happening:
        witness.see(each)
    witness.elapse(1e6)
    assert witness.waiting == [], "everybody is served in the end"
    assert witness.pace.due(witness.now) is None
    check_rate([at for _, at in witness.calls], limits.overall)
    for chat in CHATS:
        check_rate(witness.times(chat), limits.per_chat)
    check_rate(witness.times(GROUP), limits.per_group)


@given(limits=capabilities, happening=happenings)
def test_looking_changes_nothing(limits: Capabilities, happening: list[Happening]) -> None:
    seen, unseen = Witness(limits), Witness(limits)
    for each in happening:
        for chat in CHATS:
            seen.pace.is_free(chat, seen.now, group=chat == GROUP)
            assert seen.pace.expected_at(chat, seen.now) >= seen.now
        seen.pace.due(seen.now)
        seen.see(each)
        unseen.see(each)
    assert seen.calls == unseen.calls


# Cases.


def call(pace: RateLimiter, chat: str, now: float, *, group: bool = False) -> float:
    """When a caller who comes now, and is the only one, may call."""
    pace.enqueue(chat, FINAL, now, group=group)
    while not pace.grant(now):
        due = pace.due(now)
        assert due is not None
        now = due
    return now


def test_a_group_is_held_to_its_own_rate_as_well_also_where_that_is_told_late() -> None:
    pace = RateLimiter(paced(per_chat=EVERY_SECOND, per_group=Rate(calls=3, per_s=60.0)))
    assert [call(pace, "private", 0.0), call(pace, "private", 0.0)] == [0.0, 1.0]
    times = [call(pace, "group", 0.0)]
    for _ in range(4):
        times.append(call(pace, "group", times[-1], group=True))
    assert times == [0.0, 1.0, 2.0, 60.0, 61.0]


def test_a_chat_is_held_alone_and_a_channel_as_a_whole() -> None:
    pace = RateLimiter(paced())
    pace.pause(30.0, chat="a", now=0.0)
    assert (pace.expected_at("a", 0.0), pace.expected_at("b", 0.0)) == (30.0, 0.0)
    assert (pace.is_free("a", 29.0), pace.is_free("a", 30.0), pace.is_free("b", 0.0)) == (False, True, True)
    pace.pause(60.0, now=0.0)
    assert (pace.expected_at("a", 0.0), pace.expected_at("b", 0.0)) == (60.0, 60.0)
    pace.pause(10.0, now=0.0)
    assert pace.expected_at("b", 0.0) == 60.0  # a shorter wait does not end a longer one


def test_who_comes_is_told_about_when_behind_all_who_wait() -> None:
    pace = RateLimiter(paced(per_chat=Rate(calls=2, per_s=10.0), overall=Rate(calls=3, per_s=1.0)))
    for number in range(15):
        pace.enqueue(f"chat {number}", FINAL, 0.0)
    pace.grant(0.0)
    assert pace.expected_at("new", 0.0) == 5.0  # three go each second, and twelve are before
    for _ in range(4):
        pace.enqueue("busy", FINAL, 0.0)
    assert pace.expected_at("busy", 0.0) == 20.0  # two go every ten seconds, and four are before


def test_typing_takes_no_place() -> None:
    pace = RateLimiter(paced(per_chat=EVERY_SECOND, overall=EVERY_SECOND))
    assert [pace.try_call("a", TYPING, 0.0) for _ in range(5)] == [True] * 5
    tickets = [pace.enqueue("a", TYPING, 0.0) for _ in range(5)]
    assert pace.grant(0.0) == tickets
    assert pace.try_call("a", EDIT, 0.0)
    assert not pace.try_call("a", TYPING, 0.0)


def test_ever_new_chats_do_not_keep_out_one_that_waits() -> None:
    pace = RateLimiter(paced(overall=EVERY_SECOND))
    call(pace, "old", 0.0)
    old = pace.enqueue("old", EDIT, 0.0)
    for second in range(1, 1000):
        for number in range(2):
            pace.enqueue(f"new {second} {number}", EDIT, float(second))
        pace.grant(float(second))
    assert not old.is_waiting


@pytest.mark.parametrize(("urgency", "is_served"), [(FIRST, True), (EDIT, False), (TYPING, False)])
def test_finals_without_an_end_keep_edits_waiting_and_a_first_post_only_for_a_while(
    urgency: Urgency, is_served: bool
) -> None:
    pace = RateLimiter(paced(overall=EVERY_SECOND))
    call(pace, "a", 0.0)
    waiting = pace.enqueue("b", urgency, 0.0)
    served_at: list[int] = []
    for second in range(1, 100):
        pace.enqueue(f"chat {second % 7}", FINAL, float(second))
        if waiting in pace.grant(float(second)):
            served_at.append(second)
    assert served_at == [FIRST_MESSAGE_WAIT_S] * is_served


@pytest.mark.parametrize(("limits", "chat"), [(paced(overall=EVERY_SECOND), "b"), (paced(per_chat=EVERY_SECOND), "a")])
def test_who_comes_when_a_place_is_free_does_not_overtake_who_waits_for_it(limits: Capabilities, chat: str) -> None:
    pace = RateLimiter(limits)
    call(pace, "a", 0.0)
    waiting = pace.enqueue("a", EDIT, 0.5)
    assert pace.grant(0.5) == []
    assert not pace.try_call(chat, FINAL, 2.0)  # nobody has looked yet whether the place is free again
    assert pace.grant(2.0) == [waiting]
    assert not pace.try_call(chat, FINAL, 2.9)
    assert pace.try_call(chat, FINAL, 3.0)


def test_chats_that_were_long_silent_are_forgotten_and_so_is_who_left() -> None:
    pace = RateLimiter(paced(per_chat=EVERY_SECOND, overall=Rate(calls=2, per_s=1.0)))
    for second in range(20_000):
        pace.cancel(pace.enqueue("left", EDIT, float(second)))
        call(pace, f"chat {second}", float(second))
    assert len(pace._chats) < 3000
    assert len(pace._ready) + len(pace._resting) + len(pace._ageing) < 10
    pace.pause(1e9, chat="held", now=20_000.0)
    for second in range(20_000, 30_000):
        pace.cancel(pace.enqueue("held", FIRST, float(second)))
        call(pace, f"chat {second}", float(second))
    assert pace.expected_at("held", 30_000.0) == 1e9
    assert len(pace._ready) + len(pace._resting) + len(pace._ageing) < 20
    assert max(len(chat._pending) for chat in pace._chats.values()) < 20


HERE = Target(channel="simulated", chat="here")
SAYS = Body(text="hello")


@pytest.mark.parametrize(
    ("operation", "stays_first", "stays_later", "in_between"),
    [
        (Post(target=HERE, body=SAYS), FIRST, FINAL, None),
        (PostMedia(target=HERE, url="x:picture"), FIRST, FINAL, None),
        (OpenStream(target=HERE, body=SAYS), FIRST, FINAL, None),
        (CloseStream(target=HERE, stream_id="m", body=SAYS), FINAL, FINAL, None),
        (Delete(target=HERE, message_id="m"), FINAL, FINAL, None),
        (Edit(target=HERE, message_id="m", body=SAYS), FINAL, FINAL, EDIT),
        (AppendStream(target=HERE, stream_id="m", text="more"), None, None, EDIT),
        (Draft(target=HERE, draft_id=1, body=SAYS), None, None, EDIT),
        (Typing(target=HERE), None, None, TYPING),
    ],
)
def test_how_urgent_an_operation_is(
    operation: Operation, stays_first: Urgency | None, stays_later: Urgency | None, in_between: Urgency | None
) -> None:
    if stays_first is not None:
        assert urgency_of(operation, 1) is stays_first
        assert {urgency_of(operation, ordinal) for ordinal in (-1, 0, 2, 9)} == {stays_later}
    if in_between is not None:
        assert urgency_of(operation) is in_between


# The shell: those who wait are woken in time, and nobody else.


class Caller:
    """Somebody with calls to one chat, one after the other; `times` is when they went."""

    def __init__(self, outlet: PacedChannel, chat: str, simulation: Simulation) -> None:
        self.times: list[float] = []
        self._outlet = outlet
        self._chat = chat
        self._simulation = simulation

    async def call(self, times: int = 1, urgency: Urgency = FINAL) -> None:
        for _ in range(times):
            await self._outlet.wait_to_call(self._chat, urgency)
            self.times.append(self._simulation.clock.monotonic())
            self._outlet.learn(self._chat, Delivered(Receipt(message_id="m")))
            await asyncio.sleep(0)


def outlet_of(capabilities: Capabilities, simulation: Simulation, before: PacedChannel | None = None) -> PacedChannel:
    channel = in_process_channel(SimulatedPlatform(capabilities), simulation.clock)
    return PacedChannel(channel, simulation.clock, simulation.source.random, before=before)


@in_virtual_time
async def test_chats_take_turns_and_none_waits_for_another_that_must_wait_itself(simulation: Simulation) -> None:
    capabilities = paced(per_chat=Rate(calls=1, per_s=60.0), overall=Rate(calls=1, per_s=1.0))
    outlet = outlet_of(capabilities, simulation)
    busy = Caller(outlet, "busy", simulation)
    others = [Caller(outlet, f"chat {number}", simulation) for number in range(5)]
    await asyncio.gather(busy.call(3), *(other.call() for other in others))
    assert busy.times == [0.0, 60.0, 120.0]
    assert sorted(time for other in others for time in other.times) == [1.0, 2.0, 3.0, 4.0, 5.0]


@in_virtual_time
async def test_several_who_call_one_chat_share_its_budget_and_the_urgent_one_goes_first(simulation: Simulation) -> None:
    outlet = outlet_of(paced(per_chat=EVERY_SECOND), simulation)
    callers = {urgency: Caller(outlet, "a", simulation) for urgency in reversed(Urgency)}
    await outlet.wait_to_call("a")
    await asyncio.gather(*(caller.call(urgency=urgency) for urgency, caller in callers.items()))
    assert {urgency: caller.times for urgency, caller in callers.items()} == {
        FINAL: [1.0],
        FIRST: [2.0],
        EDIT: [3.0],
        TYPING: [4.0],
    }


@in_virtual_time
async def test_who_is_cancelled_waits_no_longer_and_takes_no_place(simulation: Simulation) -> None:
    outlet = outlet_of(paced(per_chat=EVERY_SECOND), simulation)
    await outlet.wait_to_call("a")
    stopped, other = Caller(outlet, "a", simulation), Caller(outlet, "a", simulation)
    waiting = asyncio.create_task(stopped.call())
    calling = asyncio.create_task(other.call(urgency=EDIT))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await calling
    assert (stopped.times, other.times) == ([], [1.0])


@pytest.mark.parametrize("everywhere", [False, True])
@in_virtual_time
async def test_a_pause_is_obeyed_also_by_who_waits_already(simulation: Simulation, everywhere: bool) -> None:
    outlet = outlet_of(paced(overall=Rate(calls=1, per_s=10.0)), simulation)
    first, second = Caller(outlet, "a", simulation), Caller(outlet, "a" if everywhere else "b", simulation)
    await first.call()
    waiting = asyncio.create_task(second.call())
    await asyncio.sleep(5.0)
    outlet.learn("a" if everywhere else "b", NotNow("busy", retry_after=30.0, everywhere=everywhere))
    await waiting
    assert second.times[0] == 35.0


@pytest.mark.parametrize("retry_after", [1e9, -5.0, float("nan"), float("inf")])
@in_virtual_time
async def test_what_cannot_be_meant_holds_nobody_for_ever(simulation: Simulation, retry_after: float) -> None:
    outlet = outlet_of(paced(), simulation)
    outlet.learn("a", NotNow("busy", retry_after=retry_after, everywhere=True))
    caller = Caller(outlet, "a", simulation)
    await caller.call()
    assert 0 < caller.times[0] <= 4 * 3600 + 1


@in_virtual_time
async def test_a_channel_that_is_connected_again_keeps_its_pace_and_who_waits_for_it(simulation: Simulation) -> None:
    capabilities = paced(per_chat=Rate(calls=1, per_s=60.0))
    before = outlet_of(capabilities, simulation)
    await Caller(before, "a", simulation).call()
    before.learn("b", NotNow("busy", retry_after=500.0, everywhere=False))
    after = outlet_of(capabilities, simulation, before)
    assert (after.due_in("a"), after.due_in("b")) == (60.0, 500.0)
    assert outlet_of(paced(), simulation, before).due_in("a") == 0.0  # another pace than before: begun anew
    early, late = Caller(before, "a", simulation), Caller(after, "a", simulation)
    await asyncio.gather(early.call(), late.call())
    assert (early.times, late.times) == ([60.0], [120.0])


@in_virtual_time
async def test_where_nothing_is_limited_nobody_waits(simulation: Simulation) -> None:
    outlet = outlet_of(paced(), simulation)
    callers = [Caller(outlet, f"chat {number % 3}", simulation) for number in range(30)]
    await asyncio.gather(*(caller.call(10, Urgency(number % 4)) for number, caller in enumerate(callers)))
    assert {time for caller in callers for time in caller.times} == {0.0}
    assert outlet._limiter._chats == {}
