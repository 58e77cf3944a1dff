"""Whole turns in virtual time: events, projector, courier, ledger, platform."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import pytest
from delivery_setup import HERE, DeliverySetup, in_virtual_time
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, DraftRules, EditRules, Keyed, Rate, StreamRules, Unkeyed
from tailrace.deliveries import Delivery, State, TurnState
from tailrace.delivery.presenting import present
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
from tailrace.operations import Edit, Target
from tailrace.projector import Presentation, ProjectorSettings
from tailrace.testing.faults import Late, NoAnswer, Refuse, Rule, TooMany
from tailrace.testing.virtual_time import Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

P = ParamSpec("P")
ANSWER = "Let me look at that for you. " * 6 + "\n\n" + "Here is what I found in the files. " * 6
LIMITS = Capabilities(
    idempotency=Keyed(window_s=300.0),
    limit=200,
    per_chat=Rate(calls=1, per_s=1.0),
    edits=EditRules(every_s=1.5),
    deletes=True,
    typing_s=5.0,
    presentation="live",
)


def turn_events(text: str = ANSWER, *, end: Event | None = None) -> list[Event]:
    """The events of a turn: text in small deltas, with a tool in the middle."""
    first, _, rest = text.partition("\n\n")
    begun = ToolStarted(id="1", name="bash", arguments={"command": "ls"})
    tool: list[Event] = [begun, ToolFinished(id="1", result="x")]
    return [TurnStarted(turn_id="t"), *_pieces(first), *tool, *_pieces(rest), end or TurnCompleted()]


def _pieces(text: str) -> list[TextDelta]:
    return [TextDelta(text=text[at : at + 4]) for at in range(0, len(text), 4)]


async def paced(events: Iterable[Event], every_s: float = 0.05) -> AsyncIterator[Event]:
    for event in events:
        await asyncio.sleep(every_s)
        yield event


async def present_turn(setup: DeliverySetup, events: Iterable[Event], **settings: Any) -> list[Delivery]:
    turn = await setup.courier.begin("t", HERE)
    chosen = ProjectorSettings(**settings)
    return await present(paced(events), turn, setup.channel.capabilities, chosen, clock=setup.clock)


async def state_of(setup: DeliverySetup) -> TurnState:
    turn = await setup.memory.turn("t")
    assert turn is not None
    return turn.state


def words(setup: DeliverySetup, target: Target = HERE) -> list[str]:
    """The words of the answer in the chat, without the lines about tools."""
    return " ".join(text for text in setup.texts(target) if "🔧" not in text).split()


def with_setup(
    limits: Capabilities = LIMITS,
) -> Callable[[Callable[Concatenate[DeliverySetup, P], Coroutine[Any, Any, None]]], Callable[P, None]]:
    """Run an async test in virtual time. Its first argument is the setup, the others come from pytest."""

    def decorate(main: Callable[Concatenate[DeliverySetup, P], Coroutine[Any, Any, None]]) -> Callable[P, None]:
        @wraps(main)
        async def scene(simulation: Simulation, /, *args: P.args, **kwargs: P.kwargs) -> None:
            setup = DeliverySetup(simulation, limits)
            first = setup.courier
            await main(setup, *args, **kwargs)
            if setup.courier is first:  # a new process does not know the calls of the one before
                assert not setup.platform.complaints, "the rate limits were kept, and no key used for two messages"

        return in_virtual_time(scene)

    return decorate


@pytest.mark.parametrize("presentation", ["live", "processing", "parts", "blocks", "final", "native", "tokens"])
@with_setup()
async def test_every_presentation_shows_the_whole_answer_once(setup: DeliverySetup, presentation: Presentation) -> None:
    delivered = await present_turn(setup, turn_events(), presentation=presentation)
    assert [delivery.state for delivery in delivered] == [State.DELIVERED] * len(delivered)
    assert words(setup) == ANSWER.split()
    assert await state_of(setup) is TurnState.DONE


@with_setup()
async def test_a_live_answer_grows_and_is_finished_in_place(setup: DeliverySetup) -> None:
    await present_turn(setup, turn_events())
    history = setup.platform.history("here")
    assert len(history) == len(setup.texts()), "no message was deleted"
    assert history[0].edits >= 2
    assert not any("🔧" in text for text in setup.texts()), "tools are shown only while they run"


@with_setup()
async def test_a_short_answer_is_one_post(setup: DeliverySetup) -> None:
    delivered = await present_turn(setup, [TextDelta(text="Yes."), TurnCompleted()])
    assert [type(delivery.operation).__name__ for delivery in delivered] == ["Post"]
    assert setup.platform.counts["edit"] == 0
    assert setup.texts() == ["Yes."]


@with_setup()
async def test_recovery_finishes_the_live_message_of_a_killed_process(
    setup: DeliverySetup,
) -> None:
    presenting = asyncio.create_task(present_turn(setup, turn_events()))
    await asyncio.sleep(3.5)
    assert len(setup.texts()) == 1
    presenting.cancel()
    await setup.crash()
    await setup.recovery().sweep()
    first, *rest = setup.texts()
    assert first.split() == ANSWER.split()[: len(first.split())]
    assert rest == ["⚠️ The answer was interrupted here."]


@pytest.mark.parametrize("presentation", ["live", "processing", "parts", "blocks", "final"])
@pytest.mark.parametrize("dies_after_s", [0.3, 1.0, 2.2, 3.7, 5.2, 6.4, 7.3])
@with_setup()
async def test_a_turn_resumed_after_a_crash_shows_the_whole_answer_once(
    setup: DeliverySetup, presentation: Presentation, dies_after_s: float
) -> None:
    presenting = asyncio.create_task(present_turn(setup, turn_events(), presentation=presentation))
    await asyncio.wait({presenting}, timeout=dies_after_s)
    presenting.cancel()
    await setup.crash()
    await present_turn(setup, turn_events(), presentation=presentation)
    assert words(setup) == ANSWER.split()
    assert await state_of(setup) is TurnState.DONE


@with_setup()
async def test_an_interrupted_processing_message_shows_no_progress(setup: DeliverySetup) -> None:
    presenting = asyncio.create_task(
        present_turn(setup, turn_events(), presentation="processing", processing_every_s=1.0)
    )
    await asyncio.sleep(3.0)
    assert "⏳" in setup.texts()[0]
    presenting.cancel()
    await setup.crash()
    await setup.recovery().sweep()
    assert not any("⏳" in text for text in setup.texts())
    assert setup.texts()[-1] == "⚠️ The answer was interrupted here."


@with_setup()
async def test_errors_follow_the_text_and_the_turn_has_failed(setup: DeliverySetup) -> None:
    events: list[Event] = [
        TextDelta(text="Half of it"),
        Error(message="a hiccup"),
        TextDelta(text="And more"),
        _failed(),
    ]
    await present_turn(setup, events)
    assert setup.texts() == ["Half of it", "⚠️ a hiccup", "And more", "⚠️ the model is gone [gone]"]
    assert await state_of(setup) is TurnState.FAILED


def _failed() -> TurnFailed:
    return TurnFailed(message="the model is gone", code="gone")


@with_setup()
async def test_a_cancelled_turn_posts_nothing_new(setup: DeliverySetup) -> None:
    await present_turn(setup, [*turn_events()[:40], TurnCancelled(reason="stopped")])
    posts = setup.platform.counts["post"]
    assert posts == 1
    assert await state_of(setup) is TurnState.CANCELLED
    await asyncio.sleep(60.0)
    assert setup.platform.counts["post"] == posts


@with_setup()
async def test_an_exception_of_the_events_ends_the_turn_and_is_raised(setup: DeliverySetup) -> None:
    async def failing() -> AsyncIterator[Event]:
        yield TextDelta(text="So far so good")
        raise ConnectionError("the model is gone")

    turn = await setup.courier.begin("t", HERE)
    with pytest.raises(ConnectionError):
        await present(failing(), turn, LIMITS, clock=setup.clock)
    assert setup.texts() == ["So far so good", "⚠️ The answer ended before it was complete."]
    assert await state_of(setup) is TurnState.FAILED


@pytest.mark.parametrize(
    "fault", [TooMany(30.0), NoAnswer(applied=True), NoAnswer(applied=False), Late(after_s=1.0), Refuse(403, "no")]
)
@with_setup()
async def test_a_fault_of_an_interim_edit_does_not_harm_the_answer(setup: DeliverySetup, fault: Any) -> None:
    setup.fail(Rule(kind="edit", fault=fault, times=1))
    await present_turn(setup, turn_events())
    assert words(setup) == ANSWER.split()


@with_setup(replace(LIMITS, per_chat=None))
async def test_a_deleted_live_message_is_replaced_at_the_end(setup: DeliverySetup) -> None:
    presenting = asyncio.create_task(present_turn(setup, turn_events()))
    await asyncio.sleep(1.0)
    setup.delete_message(setup.message_id())
    await presenting
    assert words(setup) == ANSWER.split()


@with_setup(replace(LIMITS, native=DraftRules(lifetime_s=30.0, every_s=1.0), limit=4096, idempotency=Unkeyed()))
async def test_drafts_are_followed_by_one_message(setup: DeliverySetup) -> None:
    await present_turn(setup, turn_events(), presentation="native")
    assert setup.platform.counts["draft"] >= 3
    [message] = setup.platform.history("here")
    assert message.edits == 0
    assert message.text.split() == ANSWER.split()


@with_setup(
    replace(
        LIMITS, native=StreamRules(every_s=0.5, lifetime_s=4.0, per_call=100, tasks=True), limit=4096, per_chat=None
    )
)
async def test_a_stream_that_ends_early_continues_as_an_edited_message(setup: DeliverySetup) -> None:
    setup.fail(Rule(kind="append_stream", fault=Refuse(400, "message_not_in_streaming_state"), times=1))
    await present_turn(setup, turn_events(), presentation="native")
    assert words(setup) == ANSWER.split()
    assert not any(message.streaming for message in setup.platform.history("here"))


@with_setup(replace(LIMITS, native=StreamRules(every_s=0.5), limit=4096, per_chat=None))
async def test_a_refused_stream_becomes_a_live_message(setup: DeliverySetup) -> None:
    setup.fail(Rule(kind="open_stream", fault=Refuse(400, "not here")))
    delivered = await present_turn(setup, turn_events(), presentation="native")
    [message] = setup.platform.history("here")
    assert message.text.split() == ANSWER.split()
    assert message.edits >= 2
    assert isinstance(delivered[-1].operation, Edit)
    assert delivered[0].receipt is not None
    assert delivered[0].receipt.degraded


@with_setup()
async def test_a_turn_can_be_resumed_after_its_courier_was_drained(setup: DeliverySetup) -> None:
    presenting = asyncio.create_task(present_turn(setup, turn_events()))
    await asyncio.sleep(2.0)
    await setup.courier.drain()
    presenting.cancel()
    await asyncio.wait({presenting})
    assert await state_of(setup) is TurnState.RUNNING
    await setup.crash()
    await present_turn(setup, turn_events())
    assert words(setup) == ANSWER.split()
