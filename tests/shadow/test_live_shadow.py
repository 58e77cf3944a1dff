"""A shadow beside live turns: it reports how they would have differed, and they go as they would without it.

The turns run in virtual time, through the courier, on a simulated platform. The shadow works in real threads.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any

import other_projectors
import pytest
from delivery_setup import HERE, DeliverySetup
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, EditRules, Keyed
from tailrace.delivery.presenting import present
from tailrace.delivery.sender_context import SystemClock
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
from tailrace.projector import Projector, ProjectorSettings
from tailrace.shadow.comparison import GRAVE, Difference
from tailrace.shadow.live import Report, Shadow, ShadowSettings
from tailrace.shadow.replay import Variant
from tailrace.testing.faults import Refuse, Rule
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from tailrace.projector import Presentation
    from tailrace.shadow.shadow_turn import ShadowTurn

TIMEOUT_S = 60.0
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
    """A platform and a courier whose turns have a shadow; `reports` is complete once the shadow is closed."""

    def __init__(
        self, make_projector: Any = Projector, *, limits: Capabilities = LIMITS, shown: Any = None, **settings: Any
    ) -> None:
        self.reports: list[Report] = []
        self.limits = limits
        self.faults: list[Rule] = []
        self._make_projector = make_projector
        self._settings = ShadowSettings(**{"timeout_s": TIMEOUT_S, **settings})
        self._shown = ProjectorSettings(presentation=shown)
        self._shadow: Shadow | None = None

    @property
    def shadow(self) -> Shadow:
        assert self._shadow is not None, "it is open"
        return self._shadow

    def run(self, main: Callable[[DeliverySetup, Shadow], Coroutine[Any, Any, Any]]) -> Any:
        """Run `main` and return its result. Afterwards the shadow is closed, and everything is reported."""

        async def at_work(simulation: Simulation) -> Any:
            setup = DeliverySetup(simulation, self.limits)
            setup.fail(*self.faults)
            variant = Variant(capabilities=self.limits, settings=self._shown, make_projector=self._make_projector)
            reported = self.reports.append
            self._shadow = Shadow(variant, clock=setup.clock, settings=self._settings, on_report=reported)
            setup.courier = setup.courier_of(setup.memory, on_change=self._shadow.record)
            return await main(setup, self._shadow)

        try:
            return run(at_work)
        finally:
            self.shadow.close(timeout_s=TIMEOUT_S)

    def carry(self, events: list[Event] | None = None) -> Any:
        """Run one turn. Returns its deliveries, what the chat shows, the number of calls, and the time."""

        async def main(setup: DeliverySetup, shadow: Shadow) -> Any:
            return await carried(setup, shadow.watch("t", HERE), spoken() if events is None else events)

        return self.run(main)

    @property
    def only_report(self) -> Report:
        [report] = self.reports
        return report


async def carried(setup: DeliverySetup, watched: ShadowTurn | None, events: list[Event], turn_id: str = "t") -> Any:
    turn = await setup.courier.begin(turn_id, HERE)
    limits = setup.channel.capabilities
    if watched is None:
        rows = await present(paced(events), turn, limits, clock=setup.clock)
    else:
        with watched:
            rows = await present(watched.observe(paced(events)), turn, limits, clock=setup.clock)
    return rows, setup.platform.history("here"), dict(setup.platform.counts), setup.clock.monotonic()


def without_shadow() -> Any:
    async def main(simulation: Simulation) -> Any:
        return await carried(DeliverySetup(simulation, LIMITS), None, spoken())

    return run(main)


def test_the_same_variant_is_the_same() -> None:
    scene = Scene()
    assert scene.carry() == without_shadow()
    assert (scene.shadow.summary.turns, scene.shadow.summary.same) == (1, 1)


@pytest.mark.parametrize(
    ("presentation", "end"),
    [
        ("live", TurnCompleted()),
        ("live", TurnFailed(message="the model is gone")),
        ("live", TurnCancelled(reason="stopped")),
        ("processing", TurnCompleted()),
        ("processing", TurnCancelled(reason="stopped")),
        ("blocks", TurnCompleted()),
        ("parts", TurnFailed(message="the model is gone")),
        ("final", TurnCompleted()),
        ("native", TurnCompleted()),
        ("tokens", TurnFailed(message="the model is gone")),
    ],
)
def test_a_dry_run_predicts_what_the_courier_does(presentation: Presentation, end: Event) -> None:
    scene = Scene(limits=replace(LIMITS, presentation=presentation))
    tool = ToolStarted(id="1", name="bash"), ToolFinished(id="1", result="x")
    scene.carry([*spoken()[:40], *tool, Error(message="a hiccup"), *spoken()[40:-1], end])
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_alike, scene.only_report.comparison.examples


def test_another_variant_is_reported_when_the_turn_ends(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(other_projectors.Shouting, shown="final")
    assert scene.carry() == without_shadow()
    assert scene.only_report.comparison is not None, scene.only_report
    assert Difference.TEXT_DIFFERS in scene.only_report.comparison.counts
    assert "turn t: 1 text differs" in caplog.text
    turn, example = scene.shadow.summary.examples[Difference.TEXT_DIFFERS]
    assert (turn, "LET ME LOOK" in example) == ("t", True)


@pytest.mark.parametrize(
    ("make_projector", "limits", "why"),
    [
        (other_projectors.FailsToFeed, {}, "LookupError: unknown event TurnStarted"),
        (other_projectors.EditsNothing, {}, "KeyError"),
        (lambda: None, {}, "TypeError"),
        (other_projectors.Hangs, {"timeout_s": 0.2}, "it took longer than 0.2 s"),
        (other_projectors.WaitsForThePast, {"timeout_s": 0.2}, "it took longer than 0.2 s"),
        (other_projectors.Floods, {"timeout_s": 0.2}, "it took longer than 0.2 s"),
    ],
    ids=["feed", "edit", "call", "hangs", "past", "floods"],
)
def test_a_projector_that_fails_or_hangs_does_not_disturb_the_turn(
    make_projector: Any, limits: dict[str, Any], why: str
) -> None:
    scene = Scene(make_projector, **limits)
    assert scene.carry() == without_shadow()
    assert why in scene.only_report.given_up
    assert (scene.shadow.summary.turns, scene.shadow.summary.given_up) == (0, 1)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("shadow")] == []


def test_while_a_comparison_cannot_be_stopped_no_other_is_begun() -> None:
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    variant = Variant(capabilities=LIMITS, make_projector=other_projectors.CannotBeStopped)
    settings = ShadowSettings(timeout_s=0.1)
    shadow = Shadow(variant, clock=SystemClock(), settings=settings, on_report=reports.put)
    why = []
    for turn_id in ("a", "b"):
        with shadow.watch(turn_id, HERE) as watched:
            watched.feed(TurnCompleted())
        why.append(reports.get(timeout=TIMEOUT_S).given_up)
    assert why == ["it took longer than 0.1 s", "an earlier comparison does not end"]
    other_projectors.CannotBeStopped.released = True
    shadow.close(timeout_s=TIMEOUT_S)


def test_a_failing_on_report_is_logged_and_each_reported_turn_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()

    def on_report(report: Report) -> None:
        reports.put(report)
        raise BrokenPipeError("nobody listens")

    settings = ShadowSettings(max_turns=2)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings, on_report=on_report)
    for number in range(6):
        with shadow.watch(f"{number}", HERE) as watched:
            watched.feed(TurnCompleted())
        assert reports.get(timeout=TIMEOUT_S).turn_id == f"{number}"
    shadow.close(timeout_s=TIMEOUT_S)
    assert caplog.text.count("nobody listens") == 6
    assert (shadow.summary.turns, shadow.summary.dropped) == (6, 0)


def test_turns_without_room_are_dropped_and_counted() -> None:
    asked, let_go = threading.Event(), threading.Event()

    def on_report(_: Report) -> None:
        asked.set()
        let_go.wait(TIMEOUT_S)

    settings = ShadowSettings(max_turns=1)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings, on_report=on_report)
    with shadow.watch("a", HERE) as watched:
        watched.feed(TurnCompleted())
    assert asked.wait(TIMEOUT_S)
    with shadow.watch("b", HERE) as watched:
        watched.feed(TurnCompleted())
        assert not watched.events
    let_go.set()
    shadow.close(timeout_s=TIMEOUT_S)
    assert (shadow.summary.turns, shadow.summary.dropped) == (1, 1)


def test_close_does_not_wait_for_a_report_that_hangs() -> None:
    asked, let_go = threading.Event(), threading.Event()

    def on_report(_: Report) -> None:
        asked.set()
        let_go.wait(TIMEOUT_S)

    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), on_report=on_report)
    with shadow.watch("t", HERE) as watched:
        watched.feed(TurnCompleted())
    assert asked.wait(TIMEOUT_S)
    shadow.close()
    assert not let_go.is_set()
    let_go.set()


def test_too_many_events_are_not_kept_but_reach_the_turn() -> None:
    scene = Scene(max_events=50)
    assert scene.carry() == without_shadow()
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
def test_a_turn_with_too_many_characters_is_given_up(heavy: Event) -> None:
    settings = ShadowSettings(max_characters=1000)
    shadow = Shadow(Variant(capabilities=LIMITS), clock=SystemClock(), settings=settings)
    with shadow.watch("t", HERE) as watched:
        watched.feed(TextDelta(text="light"))
        assert len(watched.events) == 1
        watched.feed(heavy)
        assert watched.given_up
        assert not watched.events
    shadow.close(timeout_s=TIMEOUT_S)
    assert shadow.summary.given_up == 1


def test_the_share_follows_from_the_ids_of_the_turns() -> None:
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


def test_a_turn_outside_the_share_is_not_watched() -> None:
    scene = Scene(share=0.0)

    async def main(setup: DeliverySetup, shadow: Shadow) -> None:
        watched = shadow.watch("t", HERE)
        events = paced(spoken())
        assert watched.observe(events) is events
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        await carried(setup, watched, spoken())

    scene.run(main)
    assert scene.reports == []


def test_a_turn_that_was_not_delivered_to_its_end_is_not_compared() -> None:
    scene = Scene()

    async def main(setup: DeliverySetup, shadow: Shadow) -> None:
        going_on = asyncio.create_task(carried(setup, shadow.watch("t", HERE), spoken()))
        await asyncio.sleep(2.0)
        await setup.courier.drain()
        going_on.cancel()
        await asyncio.wait({going_on})

    scene.run(main)
    assert scene.only_report.given_up == "the turn was not delivered to its end"


@pytest.mark.parametrize(
    ("presentation", "example"),
    [
        ("final", "refused (no rights), posted whole against delivered, posted whole"),
        ("live", "delivered (no rights), posted anew against delivered, finished in place"),
    ],
)
def test_a_refused_message_is_a_difference_of_receipts(presentation: Presentation, example: str) -> None:
    scene = Scene(limits=replace(LIMITS, presentation=presentation))
    scene.faults = [Rule(kind="post", fault=Refuse(403, "no rights"), times=1)]
    scene.carry()
    assert scene.only_report.comparison is not None, scene.only_report
    assert scene.only_report.comparison.is_same
    assert example in scene.only_report.comparison.examples[Difference.RECEIPT]


def followed(other: Callable[[], AsyncIterator[Event]], **settings: Any) -> tuple[Scene, Any]:
    """Run a turn whose shadow presents another stream. Returns the scene, and the result of the turn."""
    scene = Scene(**settings)

    async def main(setup: DeliverySetup, shadow: Shadow) -> Any:
        watched = shadow.watch("t", HERE)
        following = asyncio.create_task(watched.follow(other()))
        done = await carried(setup, watched, spoken())
        await following
        return done

    return scene, scene.run(main)


@pytest.mark.parametrize("every_s", [0.02, 0.05, 0.09])
def test_the_events_of_another_path_are_compared(every_s: float) -> None:
    scene, done = followed(lambda: paced(spoken(ANSWER.replace("files", "house")), every_s))
    assert done == without_shadow()
    found = scene.only_report.comparison
    assert found is not None, scene.only_report
    assert found.counts.keys() & GRAVE == {Difference.TEXT_DIFFERS}
    assert "house" in found.examples[Difference.TEXT_DIFFERS]
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
def test_another_path_that_fails_or_floods_does_not_disturb_the_turn(
    other: Callable[[], AsyncIterator[Event]], why: str
) -> None:
    scene, done = followed(other)
    assert done == without_shadow()
    assert scene.only_report.given_up == why


def test_a_flood_from_another_path_does_not_starve_the_turn() -> None:
    order: list[str] = []

    async def events_of(name: str) -> AsyncIterator[Event]:
        for _ in range(100):
            order.append(name)
            yield TextDelta(text="x")
            if name == "turn":
                await asyncio.sleep(0)

    async def main(_: DeliverySetup, shadow: Shadow) -> None:
        with shadow.watch("t", HERE) as watched:
            following = asyncio.create_task(watched.follow(events_of("other")))
            observed = [event async for event in watched.observe(events_of("turn"))]
            await following
        assert len(observed) == 100

    Scene().run(main)
    assert order[:20].count("turn") > 5


def test_another_path_is_not_read_if_the_turn_is_not_watched() -> None:
    asked: list[str] = []

    async def other() -> AsyncIterator[Event]:
        asked.append("asked")
        yield TurnCompleted()

    scene, _ = followed(other, share=0.0)
    assert (asked, scene.reports) == ([], [])
