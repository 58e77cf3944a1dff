"""The processing message: one per turn, updated once per interval, with any behaviour of the adapter."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from delivery_setup import in_virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from event_strategies import any_event
from tailrace import ProcessingMessageAccumulator
from tailrace.events import (
    Event,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
)
from tailrace.ports import ProcessingMessages
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import Sequence

LS = ToolStarted(id="1", name="Bash", arguments={"command": "ls"})


class Chat:
    """An adapter that records its messages. The calls whose numbers are in `faults` fail, fail late, or hang."""

    def __init__(self, simulation: Simulation, faults: dict[int, str] | None = None, takes_s: float = 0.0) -> None:
        self.clock = simulation.clock.monotonic
        self.faults = faults or {}
        self.takes_s = takes_s
        self.calls: list[tuple[float, str, str]] = []
        self.messages: dict[str, str] = {}
        self.given: list[tuple[str, Any]] = []
        self.complaints: list[str] = []  # exceptions of an adapter are ignored, so errors are recorded here
        self.in_flight = 0

    async def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str:
        await self._call("create", source_id, text, metadata)
        message_id = f"m{len(self.messages) + 1}"
        self.messages[message_id] = text
        return message_id

    async def update_processing_message(self, source_id: str, message_id: str, text: str, metadata: Any) -> None:
        await self._call("update", source_id, text, metadata)
        if message_id not in self.messages:
            self.complaints.append(f"no such message: {message_id}")
        self.messages[message_id] = text
        if self.faults.get(len(self.calls)) == "fails late":
            raise TimeoutError("too late")

    async def _call(self, kind: str, source_id: str, text: str, metadata: Any) -> None:
        if not text:
            self.complaints.append("an empty message")
        if self.in_flight:
            self.complaints.append("two calls at a time")
        self.calls.append((self.clock(), kind, text))
        self.given.append((source_id, metadata))
        fault = self.faults.get(len(self.calls))
        self.in_flight += 1
        try:
            if fault == "hangs":
                await asyncio.Event().wait()
            await asyncio.sleep(self.takes_s)
            if fault == "fails":
                raise ConnectionError("no way")
        finally:
            self.in_flight -= 1

    @property
    def kinds(self) -> list[tuple[float, str]]:
        return [(at, kind) for at, kind, _text in self.calls]


def accumulator(chat: Chat, **options: Any) -> ProcessingMessageAccumulator:
    return ProcessingMessageAccumulator(chat, "chat-7", clock=chat.clock, **options)


def started(chat: Chat, **options: Any) -> tuple[Chat, ProcessingMessageAccumulator]:
    message = accumulator(chat, **options)
    message.start()
    return chat, message


@in_virtual_time
async def test_the_first_update_creates_the_message(simulation: Simulation) -> None:
    chat = Chat(simulation)
    message = ProcessingMessageAccumulator(chat, "chat-7", {"thread": 9}, clock=chat.clock)
    message.start()
    message.handle_event(TextDelta(text="Let me look."))
    message.handle_event(ToolStarted(id="1", name="Bash"))
    message.handle_event(ToolInput(id="1", arguments={"command": "ls"}))
    await asyncio.sleep(5.5)
    assert chat.messages == {"m1": "Let me look.\n🔧 Bash: ls\n⏳ Processing... (5s)"}
    message.handle_event(TextDelta(text="Found it."))
    await asyncio.sleep(5)
    assert chat.messages == {"m1": "Let me look.\n🔧 Bash: ls\nFound it.\n⏳ Processing... (10s)"}
    await message.stop()
    assert chat.messages == {"m1": "Let me look.\n🔧 Bash: ls\nFound it."}
    assert chat.kinds == [(5.0, "create"), (10.0, "update"), (10.5, "update")]
    assert chat.given == [("chat-7", {"thread": 9})] * 3


@in_virtual_time
async def test_there_is_no_call_without_something_new(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation))
    await asyncio.sleep(20.5)
    assert chat.calls == []
    message.handle_event(LS)
    await asyncio.sleep(20)
    assert chat.kinds == [(25.0, "create")]
    message.handle_event(ToolFinished(id="1"))
    await asyncio.sleep(20)
    assert len(chat.calls) == 1
    message.handle_event(ToolProgress(elapsed_s=17.0))
    await asyncio.sleep(20)
    assert chat.calls[1:] == [(65.0, "update", "🔧 Bash: ls\n⏳ Processing... (17s)")]
    await message.stop()


@pytest.mark.parametrize("failing", [{1}, {1, 2, 3}, {2}, {2, 3}])
@in_virtual_time
async def test_a_failed_call_is_repeated_with_the_newest_text(simulation: Simulation, failing: set[int]) -> None:
    chat, message = started(Chat(simulation, dict.fromkeys(failing, "fails")), interval_ms=1000)
    await asyncio.sleep(0.5)
    for n in range(1, 5):
        message.handle_event(TextDelta(text=f"{n} "))
        await asyncio.sleep(1)
    assert chat.messages == {"m1": "1 2 3 4 \n⏳ Processing... (4s)"}
    assert [at for at, _kind in chat.kinds] == [1.0, 2.0, 3.0, 4.0]
    await message.stop()
    assert chat.messages == {"m1": "1 2 3 4 "}


@in_virtual_time
async def test_a_failed_last_update_is_repeated_once(simulation: Simulation) -> None:
    for faults, left in (({2: "fails"}, "🔧 Bash: ls"), ({2: "fails", 3: "fails"}, "⏳ Processing... (5s)")):
        chat = Chat(simulation, faults)
        began = chat.clock()
        message = accumulator(chat)
        message.start()
        message.handle_event(LS)
        await asyncio.sleep(6)
        await message.stop()
        assert len(chat.calls) == 3
        assert chat.messages["m1"].endswith(left)
        assert chat.clock() - began == 7.0


@in_virtual_time
async def test_a_hanging_adapter_delays_the_answer_only_for_a_while(
    simulation: Simulation,
) -> None:
    chat, message = started(Chat(simulation, {1: "hangs"}))
    message.handle_event(LS)
    await asyncio.sleep(100)
    assert chat.kinds == [(5.0, "create")]
    await message.stop()
    assert chat.clock() == 105.0
    await asyncio.sleep(100)
    assert len(chat.calls) == 1
    assert chat.in_flight == 0
    assert chat.complaints == []


@in_virtual_time
async def test_a_slow_adapter_does_not_create_the_message_twice(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation, takes_s=2.0))
    message.handle_event(LS)
    await asyncio.sleep(6)
    await message.stop()
    assert chat.kinds == [(5.0, "create"), (7.0, "update")]
    assert chat.complaints == []
    assert chat.messages == {"m1": "🔧 Bash: ls"}


@in_virtual_time
async def test_stopping_shows_what_was_not_shown_yet(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation))
    message.handle_event(LS)
    await message.stop()
    assert chat.calls == [(0.0, "create", "🔧 Bash: ls")]
    message.handle_event(TextDelta(text="late"))
    message.start()
    await asyncio.sleep(100)
    await message.stop()
    assert len(chat.calls) == 1


@in_virtual_time
async def test_the_end_of_the_turn_removes_the_last_line(
    simulation: Simulation,
) -> None:
    chat, message = started(Chat(simulation))
    message.handle_event(LS)
    await asyncio.sleep(6)
    message.handle_event(TurnCompleted(text="the answer"))
    await asyncio.sleep(5)
    assert chat.messages == {"m1": "🔧 Bash: ls"}
    await message.stop()
    assert len(chat.calls) == 2


@in_virtual_time
async def test_a_turn_that_did_nothing_leaves_no_message(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation))
    message.handle_event(TurnCompleted(text="the answer"))
    await asyncio.sleep(6)
    await message.stop()
    assert chat.calls == []


@in_virtual_time
async def test_retracted_text_leaves_a_placeholder(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation))
    message.handle_event(TextDelta(text="forbidden"))
    await asyncio.sleep(6)
    message.handle_event(TextRetracted(scope="turn"))
    await message.stop()
    assert chat.messages == {"m1": "…"}


@in_virtual_time
async def test_an_update_after_a_failed_one_is_always_made(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation, {3: "fails late"}))
    message.handle_event(LS)
    await asyncio.sleep(6)
    message.handle_event(TurnCompleted())
    await asyncio.sleep(5)
    message.handle_event(TextDelta(text="late"))
    await asyncio.sleep(5)
    assert chat.messages == {"m1": "🔧 Bash: ls\nlate"}
    message.handle_event(TextRetracted())
    await message.stop()
    assert chat.messages == {"m1": "🔧 Bash: ls"}


@in_virtual_time
async def test_start_and_stop_may_be_called_twice(simulation: Simulation) -> None:
    chat = Chat(simulation)
    never_started = accumulator(chat)
    never_started.handle_event(LS)
    await never_started.stop()
    await never_started.stop()
    never_started.start()
    message = accumulator(chat)
    message.start()
    message.start()
    message.handle_event(LS)
    await asyncio.sleep(6)
    assert chat.kinds == [(5.0, "create")]
    await asyncio.gather(message.stop(), message.stop())
    await message.stop()
    await asyncio.sleep(100)
    assert chat.kinds == [(5.0, "create"), (6.0, "update")]
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_cancelled_stop_still_removes_the_last_line(simulation: Simulation) -> None:
    chat, message = started(Chat(simulation, takes_s=2.0))
    message.handle_event(LS)
    await asyncio.sleep(8)
    stopping = asyncio.create_task(message.stop())
    await asyncio.sleep(1)
    stopping.cancel()
    await asyncio.sleep(5)
    assert chat.messages == {"m1": "🔧 Bash: ls"}


def test_an_adapter_may_have_plain_functions() -> None:
    class Printer:
        def __init__(self) -> None:
            self.said: list[str] = []

        def create_processing_message(self, _source_id: str, text: str, _metadata: Any) -> str:
            self.said.append(text)
            return "id"

        def update_processing_message(self, _source_id: str, message_id: str, text: str, _metadata: Any) -> None:
            self.said.append(f"{message_id}: {text}")

    async def scene(simulation: Simulation) -> None:
        printer = Printer()
        assert isinstance(printer, ProcessingMessages)
        message = ProcessingMessageAccumulator(printer, "here", clock=simulation.clock.monotonic, interval_ms=1)
        message.start()
        message.handle_event(LS)
        await asyncio.sleep(1)
        await message.stop()
        assert printer.said == ["🔧 Bash: ls\n⏳ Processing... (0s)", "id: 🔧 Bash: ls"]

    run(scene)


def test_broken_events_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[Any] = [None, {"type": "text_delta"}, TextDelta(text=None), ToolStarted(id=[], name=7)]  # type: ignore[arg-type]  # on purpose

    async def scene(simulation: Simulation) -> None:
        chat = Chat(simulation)
        message = accumulator(chat)
        message.start()
        for event in [LS, *broken, TextDelta(text="on")]:
            message.handle_event(event)
        await message.stop()
        assert chat.messages == {"m1": "🔧 Bash: ls\non"}

    with caplog.at_level(logging.ERROR):
        run(scene)
    assert [record.getMessage() for record in caplog.records] == ["the processing message cannot show a ToolStarted"]


@in_virtual_time
async def test_wrong_options_are_refused(simulation: Simulation) -> None:
    chat = Chat(simulation)
    with pytest.raises(ValueError, match="interval_ms is 0"):
        accumulator(chat, interval_ms=0)
    with pytest.raises(ValueError, match=r"limit is 63; .* 64 characters"):
        accumulator(chat, limit=63)
    accumulator(chat, interval_ms=1, limit=64)


@settings(max_examples=60)
@given(
    st.lists(any_event | st.just(TextDelta(text="some words\n" * 9)), max_size=20),
    st.dictionaries(st.integers(1, 12), st.just("fails"), max_size=6),
    st.sampled_from([0.0, 0.4, 1.7]),
)
@in_virtual_time
async def test_there_is_at_most_one_message_within_its_limit(
    simulation: Simulation, events: Sequence[Event], faults: dict[int, str], takes_s: float
) -> None:
    chat, message = started(Chat(simulation, faults, takes_s), interval_ms=1000, limit=100)
    for event in events:
        message.handle_event(event)
        await asyncio.sleep(simulation.source.random())
    chat.faults = {}
    await message.stop()
    assert chat.complaints == []
    assert len(chat.messages) <= 1
    assert all(len(text) <= 100 for _at, _kind, text in chat.calls)
    assert not any("⏳" in text for text in chat.messages.values())
    times = [at for at, _kind in chat.kinds[:-1]]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
