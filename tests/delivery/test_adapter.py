from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_strategies import any_event
from tailrace.delivery import BridgeCallbacks, DeliveryAdapter, DeliveryAdapterOptions, ReplyPayload
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    Media,
    ModelChanged,
    Notice,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

DONE = TurnCompleted()


def text(*pieces: str) -> list[Event]:
    return [TextDelta(text=piece) for piece in pieces]


class Bridge:
    """Callbacks that record their payloads; those named in `broken` raise."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[tuple[str, ReplyPayload]] = []
        self.broken = broken

    def callbacks(self) -> BridgeCallbacks:
        return BridgeCallbacks(
            on_partial_reply=self.taking("partial"),
            on_block_reply=self.taking("block"),
            on_tool_result=self.taking("tool"),
            on_thinking=self.taking("thinking"),
        )

    def taking(self, name: str) -> Any:
        async def take(payload: ReplyPayload) -> None:
            await asyncio.sleep(0)
            assert payload.delivered is False
            self.calls.append((name, payload))
            if name in self.broken:
                raise RuntimeError(f"{name} is broken")

        return take

    @property
    def replies(self) -> list[tuple[str, str]]:
        return [(name, payload.text) for name, payload in self.calls]


async def stream(events: Sequence[Any]) -> AsyncIterator[Event]:
    for event in events:
        await asyncio.sleep(0)
        if isinstance(event, Exception):
            raise event
        yield event


def process(
    events: Sequence[Any], bridge: Bridge | None = None, *, limit: int = 4000, paragraphs: bool = False
) -> tuple[list[ReplyPayload], Bridge]:
    bridge = bridge or Bridge()
    adapter = DeliveryAdapter(DeliveryAdapterOptions(chunk_limit=limit, flush_at_paragraphs=paragraphs))
    return asyncio.run(adapter.process(stream(events), bridge.callbacks())), bridge


LS = ToolStarted(id="1", name="ls")
AFTER_CALL = [*text("A "), LS, *text("b")]


def result(value: Any) -> list[Event]:
    return [LS, ToolFinished(id="1", result=value), DONE]


# By what it shows: the events of a turn, and its replies by callback.
REPLIES: dict[str, tuple[list[Event], list[tuple[str, str]]]] = {
    "text is one block": ([*text("Hel", "lo, ", "world."), DONE], [("block", "Hello, world.")]),
    "empty deltas are skipped": ([*text("", "a", "", "b", ""), DONE], [("block", "ab")]),
    "empty deltas are no text": ([*text("", ""), DONE], []),
    "the start of a tool does nothing": ([*text("Hel"), LS, *text("lo"), DONE], [("block", "Hello")]),
    "text comes before the result of a tool": (
        [*text("Look."), LS, ToolFinished(id="1", result="found"), *text("There."), DONE],
        [("partial", "Look."), ("tool", "ls: found"), ("block", "There.")],
    ),
    "a result is text": (result("plain"), [("tool", "ls: plain")]),
    "an empty result is the name": (result(""), [("tool", "ls")]),
    "a long result starts on its own line": (result("two\nlines"), [("tool", "ls:\ntwo\nlines")]),
    "another result is JSON": (result({"a": [1, "ü", None]}), [("tool", 'ls: {"a": [1, "ü", null]}')]),
    "a result of null is JSON": (result(None), [("tool", "ls: null")]),
    "a result of 0 is JSON": (result(0), [("tool", "ls: 0")]),
    "a result with a lone surrogate": (result("half \ud83d"), [("tool", "ls: half \ufffd")]),
    "JSON with a lone surrogate": (result(["\ud83d"]), [("tool", 'ls: ["\ufffd"]')]),
    "the result of an unknown tool has no name": ([ToolFinished(id="9", result="r"), DONE], [("tool", "r")]),
    "a late result": (
        [LS, *text("a"), DONE, ToolFinished(id="1", result="r")],
        [("block", "a"), ("tool", "ls: r")],
    ),
    "a medium without url and path is skipped": (
        [*text("a"), Media(caption="c"), Media(url="", path=""), *text("b"), DONE],
        [("block", "ab")],
    ),
    "reasoning": (
        [ReasoningDelta(text="h"), ReasoningDelta(text="m"), *text("a"), DONE],
        [("thinking", "h"), ("thinking", "m"), ("block", "a")],
    ),
    "text comes before a failure": (
        [*text("a"), TurnFailed(message="broken")],
        [("partial", "a"), ("block", "broken")],
    ),
    "a cancelled turn gives its text": (
        [*text("half an ans"), TurnCancelled(reason="stop")],
        [("block", "half an ans")],
    ),
    "a cancelled turn without text": ([TurnCancelled()], []),
    "an answer at the end": ([TurnCompleted(text="answer")], [("block", "answer")]),
    "an answer at the end after text": ([*text("a"), TurnCompleted(text="answer")], [("block", "a")]),
    "an answer at the end after text and a tool": (
        [*text("a"), ToolFinished(id="1"), TurnCompleted(text="answer")],
        [("partial", "a"), ("tool", "")],
    ),
    "an answer at the end after a retraction": (
        [*text("a"), TextRetracted(), TurnCompleted(text="answer")],
        [("block", "answer")],
    ),
    "two blocks": ([*text("One."), BlockFinal(), *text("Two."), DONE], [("partial", "One."), ("block", "Two.")]),
    "no second block": ([*text("One."), BlockFinal(), *text("", ""), DONE], [("block", "One.")]),
    "a final text that is equal": ([*text("Hel", "lo"), BlockFinal(text="Hello"), DONE], [("block", "Hello")]),
    "a final text that is longer": (
        [*text("Hel", "lo"), BlockFinal(text="Hello, you"), DONE],
        [("block", "Hello, you")],
    ),
    "a final text that differs": ([*text("Hel", "lo"), BlockFinal(text="Howdy"), DONE], [("block", "Howdy")]),
    "a final text that is shorter": ([*text("Hel", "lo"), BlockFinal(text="Hell"), DONE], [("block", "Hell")]),
    "final texts without deltas": (
        [BlockFinal(text="a"), BlockFinal(text="b"), DONE],
        [("partial", "a"), ("block", "b")],
    ),
    "an empty final text removes the block": ([*text("a"), BlockFinal(text=""), DONE], []),
    "a final text replaces the block after a call": ([*AFTER_CALL, BlockFinal(text="c"), DONE], [("block", "A c")]),
    "a final text after a call is a block": (
        [*text("A "), LS, BlockFinal(text="c"), DONE],
        [("partial", "A"), ("block", "c")],
    ),
    "a retracted block": ([*text("a"), TextRetracted(), *text("b"), DONE], [("block", "b")]),
    "a retracted final block": ([*text("a"), BlockFinal(), TextRetracted(), *text("b"), DONE], [("block", "b")]),
    "a retracted block after a call": ([*AFTER_CALL, TextRetracted(), *text("c"), DONE], [("block", "A c")]),
    "a retracted turn": ([*AFTER_CALL, TextRetracted(scope="turn"), *text("c"), DONE], [("block", "c")]),
}


@pytest.mark.parametrize(("events", "replies"), REPLIES.values(), ids=REPLIES)
def test_events_become_replies(events: list[Event], replies: list[tuple[str, str]]) -> None:
    payloads, bridge = process(events)
    assert bridge.replies == replies
    shown = [payload for name, payload in bridge.calls if name in {"partial", "block"}]
    assert payloads == shown
    assert [payload.text for payload in payloads if payload.is_error] == [
        event.message for event in events if isinstance(event, TurnFailed)
    ]


def test_strings_are_text_deltas_alone_and_among_events() -> None:
    payloads, bridge = process(["Hel", "lo, ", "world."])
    assert bridge.replies == [("block", "Hello, world.")]
    assert payloads == [ReplyPayload(text="Hello, world.", delivered=True)]
    call = [ToolStarted(id="1", name="ls"), ToolFinished(id="1", result="a.py")]
    _, bridge = process(["Look", *text(": "), *call, "done", DONE])
    assert bridge.replies == [("partial", "Look:"), ("tool", "ls: a.py"), ("block", "done")]


def test_strings_among_events_need_a_terminal_event() -> None:
    payloads, _ = process(["a", *text("b")])
    assert payloads[0].text == "ab"
    assert "missing_terminal" in payloads[-1].text


def test_a_generator_of_strings_that_raises_fails_the_turn() -> None:
    payloads, _ = process(["a", ValueError("no such model")])
    assert [payload.text for payload in payloads] == ["a", "ValueError: no such model [runtime_raised]"]


def test_parts_past_the_limit_are_replied_while_the_turn_runs() -> None:
    bridge = Bridge()
    seen: list[int] = []

    async def events() -> AsyncIterator[Event]:
        for event in text(*["word "] * 10):
            yield event
            seen.append(len(bridge.calls))
        yield DONE

    adapter = DeliveryAdapter(DeliveryAdapterOptions(chunk_limit=20))
    payloads = asyncio.run(adapter.process(events(), bridge.callbacks()))
    assert 0 < seen[-1] < len(bridge.calls)
    assert [name for name, _ in bridge.replies] == ["partial"] * (len(payloads) - 1) + ["block"]
    assert all(len(payload.text) <= 20 for payload in payloads)
    assert " ".join(payload.text for payload in payloads) == ("word " * 10).strip()
    assert all(payload.delivered for payload in payloads)


def test_text_of_exactly_the_limit_is_one_payload() -> None:
    payloads, bridge = process([*text("a" * 20), DONE], limit=20)
    assert bridge.replies == [("block", "a" * 20)]
    assert len(payloads) == 1
    assert len(process([*text("a" * 21), DONE], limit=20)[0]) == 2


def test_the_default_limit_is_4000() -> None:
    assert DeliveryAdapterOptions() == DeliveryAdapterOptions(chunk_limit=4000, flush_at_paragraphs=False)
    adapter = DeliveryAdapter()
    assert len(asyncio.run(adapter.process(stream([*text("a" * 4000), DONE])))) == 1
    assert len(asyncio.run(adapter.process(stream([*text("a" * 4001), DONE])))) == 2


def test_a_code_block_is_closed_and_reopened_at_a_cut() -> None:
    code = "```python\n" + "x = 1\n" * 10 + "```\n"
    payloads, _ = process([*text(code), DONE], limit=40)
    assert len(payloads) > 1
    for payload in payloads:
        assert len(payload.text) <= 40
        assert payload.text.startswith("```python\n")
        assert payload.text.rstrip().endswith("\n```")


def test_paragraphs_are_replied_one_by_one_if_asked_for() -> None:
    source = "One.\n\nTwo.\n\n```\na\n\nb\n```\n\nThree."
    _, bridge = process([*text(*source), DONE], paragraphs=True)
    assert bridge.replies == [
        ("partial", "One."),
        ("partial", "Two."),
        ("partial", "```\na\n\nb\n```"),
        ("block", "Three."),
    ]
    assert process([*text(*source), DONE])[1].replies == [("block", source)]


def test_a_turn_without_text_and_error_has_no_payload() -> None:
    quiet = [
        TurnStarted(turn_id="t"),
        ToolStarted(id="1", name="ls"),
        ToolInput(id="1", arguments={}),
        ToolProgress(id="1"),
        ToolOutput(data="x"),
        ToolFinished(id="1"),
        ReasoningDelta(text="hm"),
        ReasoningEnd(metadata={}),
        Status(text="s"),
        Notice(text="n"),
        ModelChanged(model_id="m"),
        ConfigReloaded(),
        PlanUpdated(items=()),
        Usage(input_tokens=1, output_tokens=1, scope="turn"),
        BlockFinal(),
        TextRetracted(),
        DONE,
    ]
    assert process(quiet)[0] == []
    assert process([*text(" \n\n "), DONE])[0] == []


@pytest.mark.parametrize("is_error", [True, False])
def test_a_tool_result_is_an_error_as_the_event_says(is_error: bool) -> None:
    _, bridge = process([ToolFinished(id="1", result="r", is_error=is_error), DONE])
    [(_, payload)] = bridge.calls
    assert payload == ReplyPayload(text="r", is_error=is_error, delivered=True)


def test_text_comes_before_media() -> None:
    picture, sound = Media(url="http://x/a.png", caption="A"), Media(path="/b.ogg")
    payloads, bridge = process([*text("Look: "), picture, sound, *text("Nice?"), DONE])
    assert bridge.replies == [("partial", "Look:"), ("block", "A"), ("block", ""), ("block", "Nice?")]
    assert [payload.media for payload in payloads] == [(), (picture,), (sound,), ()]


def test_the_same_medium_is_not_repeated() -> None:
    media = [
        Media(url="u"),
        Media(url="u", caption="again"),
        Media(path="u2"),
        Media(path="u2"),
        Media(url="u", path="u3"),
        Media(url="u4", path="u2"),
        Media(url="u5"),
    ]
    payloads, _ = process([*media, DONE])
    assert [payload.media for payload in payloads] == [
        (Media(url="u"),),
        (Media(path="u2"),),
        (Media(url="u5"),),
    ]


def test_the_same_medium_is_shown_again_in_the_next_turn() -> None:
    adapter = DeliveryAdapter()
    for _ in range(2):
        assert len(asyncio.run(adapter.process(stream([Media(url="u"), DONE])))) == 1


def test_text_comes_before_an_error_and_the_turn_continues() -> None:
    payloads, bridge = process([*text("a"), Error(message="slow down", code="rate"), *text("b"), DONE])
    assert [(name, payload.is_error) for name, payload in bridge.calls] == [
        ("partial", False),
        ("block", True),
        ("block", False),
    ]
    assert "slow down" in payloads[1].text
    assert "rate" in payloads[1].text
    assert payloads[2].text == "b"


def test_a_stream_without_a_terminal_event_fails() -> None:
    for events in ([], text("a")):
        payloads, bridge = process(events)
        assert payloads[-1].is_error
        assert "missing_terminal" in payloads[-1].text
        assert bridge.replies[-1][0] == "block"


def test_an_exception_of_the_agent_is_a_failure() -> None:
    payloads, _ = process([*text("a"), ValueError("no such model")])
    assert [payload.text for payload in payloads] == ["a", "ValueError: no such model [runtime_raised]"]


def test_a_value_that_is_not_an_event_is_a_failure() -> None:
    payloads, _ = process([*text("a"), b"garbage", *text("b")])
    assert payloads[0].text == "a"
    assert payloads[1].is_error
    assert "not_an_event" in payloads[1].text
    assert len(payloads) == 2


def test_all_parts_but_the_last_are_partial() -> None:
    _, bridge = process([*text("word " * 5), DONE], limit=10)
    assert [name for name, _ in bridge.replies] == ["partial"] * (len(bridge.replies) - 1) + ["block"]
    assert len(bridge.replies) > 1


def test_a_final_text_adds_only_what_was_not_replied_yet() -> None:
    words = "word " * 5
    _, bridge = process([*text(words), BlockFinal(text=words + "end"), DONE], limit=10)
    assert " ".join(shown for _, shown in bridge.replies) == words + "end"
    _, bridge = process([*text(words + "oops"), BlockFinal(text=words + "end"), DONE], limit=10)
    assert " ".join(shown for _, shown in bridge.replies) == words + "end"


def test_a_different_final_text_follows_what_was_replied() -> None:
    _, bridge = process([*text("wrong " * 5), BlockFinal(text="right"), DONE], limit=10)
    assert bridge.replies[-1] == ("block", "right")
    assert "wrong" in bridge.replies[0][1]


def test_text_that_was_replied_cannot_be_retracted() -> None:
    _, bridge = process([*text("word " * 5), TextRetracted(), *text("new"), DONE], limit=10)
    assert bridge.replies[-1] == ("block", "new")
    assert all("word" in shown for _, shown in bridge.replies[:-1])


def test_a_callback_that_raises_does_not_stop_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    events = [
        *text("a"),
        ToolFinished(id="1", result="r"),
        ReasoningDelta(text="hm"),
        Error(message="m"),
        *text("b"),
        DONE,
    ]
    with caplog.at_level(logging.WARNING):
        payloads, bridge = process(events, Bridge("partial", "tool", "thinking"))
    assert [name for name, _ in bridge.replies] == ["partial", "tool", "thinking", "block", "block"]
    assert [(payload.text, payload.delivered) for payload in payloads] == [
        ("a", False),
        ("m", True),
        ("b", True),
    ]
    assert [record.exc_info for record in caplog.records] == [None] * 3
    assert "on_partial_reply" in caplog.text


def test_without_callbacks_nothing_is_delivered() -> None:
    events = [
        *text("a"),
        ToolFinished(id="1"),
        ReasoningDelta(text="x"),
        Media(url="u"),
        Error(message="m"),
        DONE,
    ]
    for callbacks in (None, BridgeCallbacks()):
        payloads = asyncio.run(DeliveryAdapter().process(stream(events), callbacks))
        assert [payload.text for payload in payloads] == ["a", "", "m"]
        assert not any(payload.delivered for payload in payloads)


def test_cancellation_passes_through_and_closes_the_agent() -> None:
    closed = asyncio.Event()
    inside = asyncio.Event()

    async def events() -> AsyncIterator[Event]:
        try:
            yield Error(message="m")
        finally:
            closed.set()

    async def stuck(_payload: ReplyPayload) -> None:
        inside.set()
        await asyncio.Event().wait()

    async def go() -> None:
        task = asyncio.create_task(DeliveryAdapter().process(events(), BridgeCallbacks(on_block_reply=stuck)))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert closed.is_set()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="chunk_limit"):
        DeliveryAdapterOptions(chunk_limit=limit)


def test_a_limit_of_one_works() -> None:
    assert "".join(payload.text for payload in process([*text("abc"), DONE], limit=1)[0]) == "abc"


def test_one_adapter_processes_several_turns_at_once() -> None:
    adapter = DeliveryAdapter()

    async def go() -> list[list[ReplyPayload]]:
        return await asyncio.gather(
            *(adapter.process(stream([*text("turn ", str(number)), DONE])) for number in range(5))
        )

    assert [[payload.text for payload in turn] for turn in asyncio.run(go())] == [[f"turn {n}"] for n in range(5)]


@given(st.lists(any_event, max_size=12), st.integers(1, 12), st.booleans())
def test_the_order_is_kept_for_any_events(events: list[Event], limit: int, paragraphs: bool) -> None:
    payloads, bridge = process(events, limit=limit, paragraphs=paragraphs)
    shown = [payload for name, payload in bridge.calls if name in {"partial", "block"}]
    assert shown == payloads
    assert all(payload.delivered for payload in payloads)
    assert all(len(payload.text) <= limit for name, payload in bridge.calls if name == "partial")


@given(st.text("ab \n`#-*", max_size=60), st.integers(3, 20), st.data())
def test_the_size_of_deltas_does_not_matter(source: str, limit: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=8)))
    pieces = [source[a:b] for a, b in zip([0, *cuts], [*cuts, len(source)], strict=True)]
    assert process([*text(*pieces), DONE], limit=limit)[0] == process([*text(source), DONE], limit=limit)[0]


SECRET = "123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"


def test_errors_of_a_callback_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_payload: ReplyPayload) -> None:
        raise ConnectionError(f"POST https://api.example/bot{SECRET}/sendMessage: reset")

    adapter = DeliveryAdapter()
    caplog.set_level(logging.DEBUG)
    asyncio.run(adapter.process(stream([*text("a"), DONE]), BridgeCallbacks(on_block_reply=fail)))
    assert "ConnectionError: POST https://api.example/bot" in caplog.text
    assert SECRET not in caplog.text


def test_error_messages_of_an_agent_are_shown_on_one_line_without_secrets() -> None:
    failure = ConnectionError("no answer from\npostgresql://app:hunter22@db/main")
    payloads, _ = process([*text("a"), failure])
    assert payloads[1].text == ("ConnectionError: no answer from postgresql://app:[redacted]@db/main [runtime_raised]")


def test_faults_of_the_adapter_are_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    payloads, _ = process([*text("a"), object()])
    assert payloads[1].text == "The answer failed. [not_an_event]"
    assert "is no event" in caplog.text
