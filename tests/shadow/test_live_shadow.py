"""A shadow beside real turns: it tells how they would have gone, and whatever it does they go as without it.

The turns run in virtual time, through the courier, on a simulated platform. The shadow works in real threads and
processes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import select
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import other_projectors
import pytest
from msgspec.structs import replace
from post_office import HERE, PostOffice

from tailrace.capabilities import Capabilities, EditRules, Keyed, StreamRules
from tailrace.delivery import Courier
from tailrace.delivery.observed_ledger import ObservedLedger
from tailrace.delivery.presenting import present
from tailrace.delivery.sender_context import SystemClock
from tailrace.errors import UsageError
from tailrace.events import (
    Error,
    Event,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ledger.memory import MemoryLedger
from tailrace.projector import Projector, ProjectorSettings
from tailrace.shadow.comparison import GRAVE, Kind
from tailrace.shadow.live import Report, Shadow, ShadowSettings
from tailrace.shadow.replay import Variant
from tailrace.testing.faults import Refuse, Rule
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from tailrace.projector import Presentation
    from tailrace.shadow.shadow_turn import ShadowTurn

PATIENCE_S = 60.0
ANSWER = "Let me look at that for you. " * 6 + "\n\n" + "Here is what I found in the files. " * 6
LIMITS = Capabilities(
    idempotency=Keyed(window_s=300.0), limit=200, edits=EditRules(every_s=1.5), deletes=True, presentation="live"
)


def spoken(text: str = ANSWER) -> list[Event]:
    pieces = [TextDelta(text=text[at : at + 4]) for at in range(0, len(text), 4)]
    return [TurnStarted(turn_id="t"), *pieces, TurnCompleted()]


async def paced(events: Iterable[Event], every_s: float = 0.05) -> AsyncIterator[Event]:
    for event in events:
        await asyncio.sleep(every_s)
        yield event


class Scene:
    """One office whose turns have a shadow; its reports are there once it was closed."""

    def __init__(
        self, projecting: Any = Projector, *, limits: Capabilities = LIMITS, shown: Any = None, **settings: Any
    ) -> None:
        self.reports: list[Report] = []
        self.limits = limits
        self.faults: list[Rule] = []
        self._projecting = projecting
        self._settings = ShadowSettings(**{"within_s": PATIENCE_S, **settings})
        self._shown = ProjectorSettings(presentation=shown)
        self._shadow: Shadow | None = None

    @property
    def shadow(self) -> Shadow:
        assert self._shadow is not None, "it is open"
        return self._shadow

    def run(self, main: Callable[[PostOffice, Shadow], Coroutine[Any, Any, Any]]) -> Any:
        """What `main` returns; afterwards the shadow is closed, and everything is told."""

        async def at_work(simulation: Simulation) -> Any:
            office = PostOffice(simulation, self.limits)
            office.fail(*self.faults)
            way = Variant(capabilities=self.limits, settings=self._shown, projecting=self._projecting)
            reported = self.reports.append
            self._shadow = Shadow(way, clock=office.clock, settings=self._settings, reported=reported)
            office.courier = office.courier_of(ObservedLedger(office.memory, self._shadow.told))
            return await main(office, self._shadow)

        try:
            return run(at_work)
        finally:
            self.shadow.close(within_s=PATIENCE_S)

    def carry(self, events: list[Event] | None = None) -> Any:
        """One turn, and what came of it: the deliveries with their times, the calls, and how late it is."""

        async def main(office: PostOffice, shadow: Shadow) -> Any:
            return await carried(office, shadow.beside("t", HERE), spoken() if events is None else events)

        return self.run(main)

    @property
    def only_report(self) -> Report:
        [report] = self.reports
        return report


async def carried(office: PostOffice, watched: ShadowTurn | None, events: list[Event], turn_id: str = "t") -> Any:
    turn = await office.courier.begin(turn_id, HERE)
    limits = office.channel.capabilities
    if watched is None:
        rows = await present(paced(events), turn, limits, clock=office.clock)
    else:
        with watched:
            rows = await present(watched.hears(paced(events)), turn, limits, clock=office.clock)
    return rows, office.platform.history("here"), dict(office.platform.counts), office.clock.monotonic()


def without_a_shadow() -> Any:
    async def main(simulation: Simulation) -> Any:
        return await carried(PostOffice(simulation, LIMITS), None, spoken())

    return run(main)


def test_the_same_way_beside_a_turn_would_have_done_the_same() -> None:
    scene = Scene()
    assert scene.carry() == without_a_shadow()
    assert (scene.shadow.summary.turns, scene.shadow.summary.same) == (1, 1)


@pytest.mark.parametrize("presentation", ["live", "processing", "blocks", "final", "native", "tokens"])
@pytest.mark.parametrize(
    "end", [TurnCompleted(), TurnFailed(message="the model is gone"), TurnCancelled(reason="stopped")]
)
def test_a_rehearsal_foretells_what_the_courier_does(presentation: Presentation, end: Event) -> None:
    scene = Scene(limits=replace(LIMITS, presentation=presentation))
    tool = ToolStarted(id="1", name="bash"), ToolFinished(id="1", result="x")
    scene.carry([*spoken()[:40], *tool, Error(message="a hiccup"), *spoken()[40:-1], end])
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_alike, scene.only_report.comparison.examples


def test_another_way_beside_a_turn_is_told_as_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(other_projectors.Shouting, shown="final")
    assert scene.carry() == without_a_shadow()
    assert scene.only_report.comparison is not None, scene.only_report
    assert Kind.TEXT_DIFFERS in scene.only_report.comparison.counts
    assert "turn t: 1 text differs" in caplog.text
    turn, example = scene.shadow.summary.examples[Kind.TEXT_DIFFERS]
    assert (turn, "LET ME LOOK" in example) == ("t", True)


@pytest.mark.parametrize(
    ("projecting", "limits", "why"),
    [
        (other_projectors.not_to_be_made, {}, "ConnectionError: there is no such projector"),
        (other_projectors.FailsToListen, {}, "LookupError: never heard of TurnStarted"),
        (other_projectors.FailsToAnswer, {}, "ArithmeticError"),
        (other_projectors.EditsNothing, {}, "KeyError"),
        (other_projectors.Leaves, {}, "its process ended"),
        (other_projectors.Hangs, {"within_s": 1.0}, "it took longer than 1 s"),
        (other_projectors.WaitsForThePast, {"within_s": 1.0}, "it took longer than 1 s"),
        (other_projectors.Floods, {"within_s": 1.0}, "it took longer than 1 s"),
        (other_projectors.Devours, {"memory_mb": 400}, "MemoryError"),
        (other_projectors.takes_nothing, {}, "TypeError"),
    ],
)
def test_whatever_a_shadow_does_the_turn_goes_as_it_would_without_it(
    projecting: Any, limits: dict[str, Any], why: str
) -> None:
    scene = Scene(projecting, **limits)
    assert scene.carry() == without_a_shadow()
    assert why in scene.only_report.given_up
    assert (scene.shadow.summary.turns, scene.shadow.summary.given_up) == (0, 1)


def test_after_a_shadow_that_was_given_up_the_next_turn_has_one_again(tmp_path: Path) -> None:
    scene = Scene(partial(other_projectors.fails_once, str(tmp_path / "was_here")))

    async def main(office: PostOffice, shadow: Shadow) -> None:
        for name in ("first", "second"):
            await carried(office, shadow.beside(name, HERE), spoken(), name)

    scene.run(main)
    assert [bool(report.given_up) for report in scene.reports] == [True, False]


def test_a_way_that_cannot_be_handed_over_is_refused_before_any_turn() -> None:
    with pytest.raises(UsageError, match="a class or a function of a module"):
        Shadow(Variant(capabilities=LIMITS, projecting=lambda *_: Projector(HERE, LIMITS)), clock=SystemClock())


def test_what_tells_of_a_shadow_may_fail_and_the_next_is_told_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def tell(report: Report) -> None:
        told.append(report.turn_id)
        raise BrokenPipeError("nobody listens")

    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), reported=tell)
    for turn_id in ("a", "b"):
        with shadow.beside(turn_id, HERE) as watched:
            watched.feed(TurnCompleted())
    shadow.close(within_s=PATIENCE_S)
    assert told == ["a", "b"]
    assert caplog.text.count("nobody listens") == 2


def test_turns_for_which_there_is_no_room_are_dropped_and_counted() -> None:
    asked, let_go = threading.Event(), threading.Event()

    def tell(_: Report) -> None:
        asked.set()
        let_go.wait(PATIENCE_S)

    settings = ShadowSettings(most_turns=1)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings, reported=tell)
    with shadow.beside("a", HERE) as watched:
        watched.feed(TurnCompleted())
    assert asked.wait(PATIENCE_S)
    with shadow.beside("b", HERE) as watched:
        watched.feed(TurnCompleted())
        assert not watched.events
    let_go.set()
    shadow.close(within_s=PATIENCE_S)
    assert (shadow.summary.turns, shadow.summary.dropped) == (1, 1)


def test_a_turn_that_was_told_of_makes_room_for_the_next() -> None:
    told: queue.SimpleQueue[Report] = queue.SimpleQueue()
    settings = ShadowSettings(most_turns=2)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings, reported=told.put)
    for number in range(6):
        with shadow.beside(f"{number}", HERE) as watched:
            watched.feed(TurnCompleted())
        assert told.get(timeout=PATIENCE_S).turn_id == f"{number}"
    shadow.close(within_s=PATIENCE_S)
    assert (shadow.summary.turns, shadow.summary.dropped) == (6, 0)


def test_closing_does_not_wait_for_somebody_who_never_stops_being_told() -> None:
    asked, let_go = threading.Event(), threading.Event()

    def tell(_: Report) -> None:
        asked.set()
        let_go.wait(PATIENCE_S)

    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), reported=tell)
    with shadow.beside("t", HERE) as watched:
        watched.feed(TurnCompleted())
    assert asked.wait(PATIENCE_S)
    shadow.close()
    assert not let_go.is_set()
    let_go.set()


def test_a_flood_of_events_is_not_kept_and_the_turn_has_them_all() -> None:
    scene = Scene(most_events=50)
    assert scene.carry() == without_a_shadow()
    assert scene.only_report.given_up == "the turn is longer than its shadow may keep"


@pytest.mark.parametrize(
    "heavy",
    [
        TextDelta(text="x" * 1001),
        ToolFinished(id="1", result="x" * 1001),
        ToolFinished(id="1", result={"deep": [["x" * 1001]]}),
        ToolFinished(id="1", result=[[]] * 20_000),
    ],
)
def test_an_event_that_weighs_too_much_is_not_kept(heavy: Event) -> None:
    settings = ShadowSettings(most_characters=1000)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings)
    with shadow.beside("t", HERE) as watched:
        watched.feed(TextDelta(text="light"))
        assert len(watched.events) == 1
        watched.feed(heavy)
        assert watched.given_up
        assert not watched.events
    shadow.close(within_s=PATIENCE_S)
    assert shadow.summary.given_up == 1


def test_which_turns_have_a_shadow_follows_from_their_ids() -> None:
    names = [f"turn {number}" for number in range(2000)]
    chosen: list[list[str]] = []
    for share in (0.0, 0.1, 0.1, 0.5, 1.0):
        shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=ShadowSettings(share=share))
        chosen.append([name for name in names if shadow.is_chosen(name)])
        shadow.close()
    none, tenth, again, half, everyone = chosen
    assert (none, everyone) == ([], names)
    assert tenth == again
    assert 150 < len(tenth) < 250
    assert set(tenth) < set(half)


def test_a_turn_that_is_not_of_the_share_is_let_alone() -> None:
    scene = Scene(share=0.0)

    async def main(office: PostOffice, shadow: Shadow) -> None:
        watched = shadow.beside("t", HERE)
        events = paced(spoken())
        assert watched.hears(events) is events
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        await carried(office, watched, spoken())

    scene.run(main)
    assert scene.reports == []


def test_a_turn_that_did_not_come_to_its_end_is_not_compared() -> None:
    scene = Scene()

    async def main(office: PostOffice, shadow: Shadow) -> None:
        going_on = asyncio.create_task(carried(office, shadow.beside("t", HERE), spoken()))
        await asyncio.sleep(2.0)
        await office.courier.drain()
        going_on.cancel()
        await asyncio.wait({going_on})

    scene.run(main)
    assert scene.only_report.given_up == "the turn was not delivered to its end"


@pytest.mark.parametrize(
    ("presentation", "told"),
    [
        ("final", "refused (no rights), posted whole against delivered, posted whole"),
        ("live", "delivered (no rights), posted anew against delivered, finished in place"),
    ],
)
def test_what_arrived_otherwise_than_the_shadow_expects_is_told(presentation: Presentation, told: str) -> None:
    scene = Scene(limits=replace(LIMITS, presentation=presentation))
    scene.faults = [Rule(kind="post", fault=Refuse(403, "no rights"), times=1)]
    scene.carry()
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_same
    assert told in scene.only_report.comparison.examples[Kind.RECEIPT]


def test_a_message_that_somebody_took_away_is_told_as_posted_anew() -> None:
    scene = Scene()

    async def main(office: PostOffice, shadow: Shadow) -> None:
        going_on = asyncio.create_task(carried(office, shadow.beside("t", HERE), spoken()))
        await asyncio.sleep(2.6)
        office.take_away(office.shown())
        await going_on

    scene.run(main)
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_same
    assert "posted anew against delivered" in scene.only_report.comparison.examples[Kind.RECEIPT]


def test_a_stream_that_was_refused_is_told_as_degraded() -> None:
    limits = Capabilities(
        idempotency=Keyed(window_s=300.0),
        native=StreamRules(every_s=0.5),
        edits=EditRules(every_s=1.5),
        presentation="native",
    )
    scene = Scene(limits=limits)
    scene.faults = [Rule(kind="open_stream", fault=Refuse(400, "not here"))]
    scene.carry()
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_same
    assert "degraded (the platform refused the stream)" in scene.only_report.comparison.examples[Kind.RECEIPT]


def followed(other: Callable[[], AsyncIterator[Event]], **settings: Any) -> tuple[Scene, Any]:
    """A turn whose shadow presents another stream, and what came of the turn."""
    scene = Scene(**settings)

    async def main(office: PostOffice, shadow: Shadow) -> Any:
        watched = shadow.beside("t", HERE)
        following = asyncio.create_task(watched.follow(other()))
        done = await carried(office, watched, spoken())
        await following
        return done

    return scene, scene.run(main)


@pytest.mark.parametrize("every_s", [0.02, 0.05, 0.09])
def test_a_shadow_presents_the_events_of_another_path(every_s: float) -> None:
    scene, done = followed(lambda: paced(spoken(ANSWER.replace("files", "house")), every_s))
    assert done == without_a_shadow()
    found = scene.only_report.comparison
    assert found is not None, scene.only_report
    assert found.counts.keys() & GRAVE == {Kind.TEXT_DIFFERS}
    assert "house" in found.examples[Kind.TEXT_DIFFERS]
    assert (found.later_s > 1.0, found.later_s < -1.0) == (every_s > 0.05, every_s < 0.05)


async def failing() -> AsyncIterator[Event]:
    yield TextDelta(text="So far")
    raise ConnectionError("the other model is gone")


async def endless() -> AsyncIterator[Event]:
    while True:
        await asyncio.sleep(1.0)
        yield TextDelta(text="and so on ")


async def flooding() -> AsyncIterator[Event]:
    while True:
        yield TextDelta(text="and so on ")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (failing, "the other path failed: ConnectionError: the other model is gone"),
        (endless, "the other path did not end in time"),
        (flooding, "the turn is longer than its shadow may keep"),
    ],
)
def test_whatever_another_path_does_the_turn_goes_as_it_would_without_it(
    other: Callable[[], AsyncIterator[Event]], why: str
) -> None:
    scene, done = followed(other)
    assert done == without_a_shadow()
    assert scene.only_report.given_up == why


def test_a_flood_of_another_path_does_not_keep_the_turn_from_being_heard() -> None:
    order: list[str] = []

    async def told(name: str) -> AsyncIterator[Event]:
        for _ in range(100):
            order.append(name)
            yield TextDelta(text="x")
            if name == "turn":
                await asyncio.sleep(0)

    async def main(_: PostOffice, shadow: Shadow) -> None:
        with shadow.beside("t", HERE) as watched:
            following = asyncio.create_task(watched.follow(told("other")))
            heard = [event async for event in watched.hears(told("turn"))]
            await following
        assert len(heard) == 100

    Scene().run(main)
    assert order[:20].count("turn") > 5


def test_another_path_is_not_asked_for_where_the_turn_is_not_watched() -> None:
    asked: list[str] = []

    async def other() -> AsyncIterator[Event]:
        asked.append("asked")
        yield TurnCompleted()

    scene, _ = followed(other, share=0.0)
    assert (asked, scene.reports) == ([], [])


def test_closing_ends_the_process_and_all_that_it_started(tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    way = Variant(capabilities=LIMITS, projecting=partial(other_projectors.leaves_a_child, str(place)))
    shadow = Shadow(way, clock=SystemClock(), settings=ShadowSettings(within_s=10 * PATIENCE_S))
    with shadow.beside("t", HERE) as watched:
        watched.feed(TurnCompleted())
    with place.open("rb", buffering=0) as pipe:
        assert pipe.read(4) == b"here"
        shadow.close()
        assert select.select([pipe], [], [], PATIENCE_S)[0], "nobody has its other end any more"
        assert pipe.read() == b""
    with shadow.beside("later", HERE) as watched:
        watched.feed(TurnCompleted())
    assert shadow.summary.turns == 0


def test_what_a_process_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    way = Variant(capabilities=LIMITS, projecting=partial(other_projectors.leaves_a_child_and_goes, str(place)))
    shadow = Shadow(way, clock=SystemClock(), settings=ShadowSettings(within_s=PATIENCE_S))
    with shadow.beside("t", HERE) as watched:
        watched.feed(TurnCompleted())
    with place.open("rb", buffering=0) as pipe:
        assert pipe.read(4) == b"here"
        assert select.select([pipe], [], [], PATIENCE_S)[0], "nobody has its other end any more"
        assert pipe.read() == b""
    shadow.close(within_s=PATIENCE_S)
    assert shadow.summary.given_up == 1


LEFT_ALONE = """
import os, sys
from functools import partial
import other_projectors
from tailrace.capabilities import TELEGRAM
from tailrace.delivery.sender_context import SystemClock
from tailrace.shadow.replay import Variant
from tailrace.shadow.live import Shadow, ShadowSettings
from tailrace.events import TurnCompleted
from tailrace.operations import Target

way = Variant(capabilities=TELEGRAM, projecting=partial(other_projectors.hangs_with_a_pipe, sys.argv[1]))
shadow = Shadow(way, clock=SystemClock(), settings=ShadowSettings(within_s=3.0))
with shadow.beside("t", Target(channel="telegram", chat="1")) as watched:
    watched.feed(TurnCompleted())
sys.stdin.read()
"""


def test_a_shadow_that_hangs_ends_also_where_we_were_killed(tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ours = subprocess.Popen([sys.executable, "-c", LEFT_ALONE, str(place)], stdin=subprocess.PIPE, env=env)
    with place.open("rb", buffering=0) as pipe:
        assert pipe.read(4) == b"here"
        ours.kill()
        ours.communicate()
        assert select.select([pipe], [], [], PATIENCE_S)[0], "its end is closed once it has ended"
        assert pipe.read() == b""


def test_the_process_knows_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "secret")
    scene = Scene(other_projectors.TellsItsEnvironment)
    scene.carry()
    assert "PYTHONPATH" in scene.only_report.given_up
    assert "TELEGRAM_TOKEN" not in scene.only_report.given_up


def test_nothing_that_a_shadow_holds_leads_to_a_channel() -> None:
    unreachable = (Courier, ObservedLedger, MemoryLedger, SimulatedPlatform, PostOffice)

    async def main(simulation: Simulation) -> None:
        office = PostOffice(simulation, LIMITS)
        shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock())
        office.courier = office.courier_of(ObservedLedger(office.memory, shadow.told))
        turn = await office.courier.begin("t", HERE)
        with shadow.beside("t", HERE) as watched:
            await present(watched.hears(paced(spoken())), turn, LIMITS, clock=office.clock)
            assert watched.rows
            held = reachable_from([shadow, watched])
            assert any(each is watched.events for each in held)
            assert [each for each in held if isinstance(each, unreachable)] == []
        shadow.close()

    run(main)


def reachable_from(roots: list[Any]) -> list[Any]:
    """All that can be reached through what objects hold; not through their code."""
    code = (type, type(os), type(reachable_from), type(len))
    seen: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, code):
            seen[id(each)] = each
            waiting += gc.get_referents(each)
    return list(seen.values())
