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
    """Callbacks that write down what they are given; those named in `broken` raise."""

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
    def said(self) -> list[tuple[str, str]]:
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


def test_text_is_buffered_and_the_last_part_is_the_block_reply() -> None:
    payloads, bridge = process([*text("Hel", "lo, ", "world."), DONE])
    assert bridge.said == [("block", "Hello, world.")]
    assert payloads == [ReplyPayload(text="Hello, world.", delivered=True)]


def test_strings_are_text_deltas_alone_and_among_events() -> None:
    payloads, bridge = process(["Hel", "lo, ", "world."])
    assert bridge.said == [("block", "Hello, world.")]
    assert payloads == [ReplyPayload(text="Hello, world.", delivered=True)]
    call = [ToolStarted(id="1", name="ls"), ToolFinished(id="1", result="a.py")]
    _, bridge = process(["Look", *text(": "), *call, "done", DONE])
    assert bridge.said == [("partial", "Look:"), ("tool", "ls: a.py"), ("block", "done")]


def test_strings_among_events_need_a_terminal_event() -> None:
    payloads, _ = process(["a", *text("b")])
    assert payloads[0].text == "ab"
    assert "missing_terminal" in payloads[-1].text


def test_a_generator_of_strings_that_raises_fails_the_turn() -> None:
    payloads, _ = process(["a", ValueError("no such model")])
    assert [payload.text for payload in payloads] == ["a", "ValueError: no such model [runtime_raised]"]


def test_past_the_limit_parts_are_given_while_the_turn_goes_on() -> None:
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
    assert [name for name, _ in bridge.said] == ["partial"] * (len(payloads) - 1) + ["block"]
    assert all(len(payload.text) <= 20 for payload in payloads)
    assert " ".join(payload.text for payload in payloads) == ("word " * 10).strip()
    assert all(payload.delivered for payload in payloads)


def test_text_of_exactly_the_limit_is_one_payload() -> None:
    payloads, bridge = process([*text("a" * 20), DONE], limit=20)
    assert bridge.said == [("block", "a" * 20)]
    assert len(payloads) == 1
    assert len(process([*text("a" * 21), DONE], limit=20)[0]) == 2


def test_the_default_limit_is_4000() -> None:
    assert DeliveryAdapterOptions() == DeliveryAdapterOptions(chunk_limit=4000, flush_at_paragraphs=False)
    adapter = DeliveryAdapter()
    assert len(asyncio.run(adapter.process(stream([*text("a" * 4000), DONE])))) == 1
    assert len(asyncio.run(adapter.process(stream([*text("a" * 4001), DONE])))) == 2


def test_code_is_closed_and_opened_again_where_it_is_cut() -> None:
    code = "```python\n" + "x = 1\n" * 10 + "```\n"
    payloads, _ = process([*text(code), DONE], limit=40)
    assert len(payloads) > 1
    for payload in payloads:
        assert len(payload.text) <= 40
        assert payload.text.startswith("```python\n")
        assert payload.text.rstrip().endswith("\n```")


def test_paragraphs_are_given_one_by_one_if_that_is_wished() -> None:
    told = "One.\n\nTwo.\n\n```\na\n\nb\n```\n\nThree."
    _, bridge = process([*text(*told), DONE], paragraphs=True)
    assert bridge.said == [
        ("partial", "One."),
        ("partial", "Two."),
        ("partial", "```\na\n\nb\n```"),
        ("block", "Three."),
    ]
    assert process([*text(*told), DONE])[1].said == [("block", told)]


def test_an_empty_delta_is_skipped() -> None:
    assert process([*text("", "a", "", "b", ""), DONE])[1].said == [("block", "ab")]
    assert process([*text("", ""), DONE])[0] == []


def test_no_text_and_no_error_is_nothing() -> None:
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


def test_a_tool_that_starts_does_nothing() -> None:
    _, bridge = process([*text("Hel"), ToolStarted(id="1", name="ls"), *text("lo"), DONE])
    assert bridge.said == [("block", "Hello")]


def test_text_goes_before_the_result_of_a_tool() -> None:
    payloads, bridge = process(
        [
            *text("Let me look."),
            ToolStarted(id="1", name="search"),
            ToolFinished(id="1", result="found"),
            *text("There."),
            DONE,
        ]
    )
    assert bridge.said == [("partial", "Let me look."), ("tool", "search: found"), ("block", "There.")]
    assert [payload.text for payload in payloads] == ["Let me look.", "There."]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("plain", "ls: plain"),
        ("", "ls"),
        ("two\nlines", "ls:\ntwo\nlines"),
        ({"a": [1, "ü", None]}, 'ls: {"a": [1, "ü", null]}'),
        (None, "ls: null"),
        (0, "ls: 0"),
        ("half a pair \ud83d", "ls: half a pair \ufffd"),
        (["\ud83d"], 'ls: ["\ufffd"]'),
    ],
)
def test_a_result_is_shown_as_text(result: Any, shown: str) -> None:
    _, bridge = process([ToolStarted(id="1", name="ls"), ToolFinished(id="1", result=result), DONE])
    assert bridge.said == [("tool", shown)]


def test_the_result_of_an_unknown_tool_has_no_name() -> None:
    assert process([ToolFinished(id="9", result="r"), DONE])[1].said == [("tool", "r")]


@pytest.mark.parametrize("is_error", [True, False])
def test_a_result_is_an_error_as_the_event_says(is_error: bool) -> None:
    _, bridge = process([ToolFinished(id="1", result="r", is_error=is_error), DONE])
    [(_, payload)] = bridge.calls
    assert payload == ReplyPayload(text="r", is_error=is_error, delivered=True)


def test_a_late_result_is_given_too() -> None:
    _, bridge = process([ToolStarted(id="1", name="ls"), *text("a"), DONE, ToolFinished(id="1", result="r")])
    assert bridge.said == [("block", "a"), ("tool", "ls: r")]


def test_media_follow_the_text_before_them() -> None:
    picture, sound = Media(url="http://x/a.png", caption="A"), Media(path="/b.ogg")
    payloads, bridge = process([*text("Look: "), picture, sound, *text("Nice?"), DONE])
    assert bridge.said == [("partial", "Look:"), ("block", "A"), ("block", ""), ("block", "Nice?")]
    assert [payload.media for payload in payloads] == [(), (picture,), (sound,), ()]


def test_a_medium_that_is_nowhere_is_skipped() -> None:
    _, bridge = process([*text("a"), Media(caption="c"), Media(url="", path=""), *text("b"), DONE])
    assert bridge.said == [("block", "ab")]


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


def test_what_is_remembered_of_media_ends_with_the_turn() -> None:
    adapter = DeliveryAdapter()
    for _ in range(2):
        assert len(asyncio.run(adapter.process(stream([Media(url="u"), DONE])))) == 1


def test_reasoning_is_for_thinking_alone() -> None:
    payloads, bridge = process([ReasoningDelta(text="h"), ReasoningDelta(text="m"), *text("a"), DONE])
    assert bridge.said == [("thinking", "h"), ("thinking", "m"), ("block", "a")]
    assert [payload.text for payload in payloads] == ["a"]


def test_an_error_follows_the_text_before_it_and_the_turn_goes_on() -> None:
    payloads, bridge = process([*text("a"), Error(message="slow down", code="rate"), *text("b"), DONE])
    assert [(name, payload.is_error) for name, payload in bridge.calls] == [
        ("partial", False),
        ("block", True),
        ("block", False),
    ]
    assert "slow down" in payloads[1].text
    assert "rate" in payloads[1].text
    assert payloads[2].text == "b"


def test_a_failure_follows_the_text_before_it() -> None:
    payloads, bridge = process([*text("a"), TurnFailed(message="broken")])
    assert bridge.said == [("partial", "a"), ("block", "broken")]
    assert [payload.is_error for payload in payloads] == [False, True]


def test_an_end_without_a_terminal_is_a_failure() -> None:
    for events in ([], text("a")):
        payloads, bridge = process(events)
        assert payloads[-1].is_error
        assert "missing_terminal" in payloads[-1].text
        assert bridge.said[-1][0] == "block"


def test_what_the_agent_raises_is_a_failure() -> None:
    payloads, _ = process([*text("a"), ValueError("no such model")])
    assert [payload.text for payload in payloads] == ["a", "ValueError: no such model [runtime_raised]"]


def test_what_is_no_event_is_a_failure() -> None:
    payloads, _ = process([*text("a"), b"garbage", *text("b")])
    assert payloads[0].text == "a"
    assert payloads[1].is_error
    assert "not_an_event" in payloads[1].text
    assert len(payloads) == 2


def test_at_the_end_parts_before_the_last_are_partial() -> None:
    _, bridge = process([*text("word " * 5), DONE], limit=10)
    assert [name for name, _ in bridge.said] == ["partial"] * (len(bridge.said) - 1) + ["block"]
    assert len(bridge.said) > 1


def test_a_cancelled_turn_gives_what_was_said_and_no_error() -> None:
    payloads, bridge = process([*text("half an ans"), TurnCancelled(reason="stop")])
    assert bridge.said == [("block", "half an ans")]
    assert not payloads[0].is_error
    assert process([TurnCancelled()])[0] == []


def test_an_answer_at_the_end_counts_only_where_none_came() -> None:
    assert process([TurnCompleted(text="answer")])[1].said == [("block", "answer")]
    assert process([*text("a"), TurnCompleted(text="answer")])[1].said == [("block", "a")]
    tool = [*text("a"), ToolFinished(id="1"), TurnCompleted(text="answer")]
    assert process(tool)[1].said == [("partial", "a"), ("tool", "")]
    assert process([*text("a"), TextRetracted(), TurnCompleted(text="answer")])[1].said == [("block", "answer")]
    long = process([TurnCompleted(text="word " * 5)], limit=10)[1].said
    assert [name for name, _ in long] == ["partial"] * (len(long) - 1) + ["block"]


def test_a_sealed_block_is_not_glued_to_the_next() -> None:
    assert process([*text("One."), BlockFinal(), *text("Two."), DONE])[1].said == [
        ("partial", "One."),
        ("block", "Two."),
    ]
    assert process([*text("One."), BlockFinal(), *text("", ""), DONE])[1].said == [("block", "One.")]


@pytest.mark.parametrize(
    ("final", "shown"),
    [("Hello", "Hello"), ("Hello, world", "Hello, world"), ("Howdy", "Howdy"), ("Hell", "Hell")],
)
def test_a_final_text_completes_or_replaces_what_is_buffered(final: str, shown: str) -> None:
    assert process([*text("Hel", "lo"), BlockFinal(text=final), DONE])[1].said == [("block", shown)]


def test_a_final_text_without_a_block_is_one() -> None:
    assert process([BlockFinal(text="a"), BlockFinal(text="b"), DONE])[1].said == [
        ("partial", "a"),
        ("block", "b"),
    ]
    assert process([*text("a"), BlockFinal(text=""), DONE])[0] == []


def test_a_final_text_leaves_the_block_before_a_tool_alone() -> None:
    events = [*text("A "), ToolStarted(id="1", name="ls"), *text("b"), BlockFinal(text="c"), DONE]
    assert process(events)[1].said == [("block", "A c")]
    events = [*text("A "), ToolStarted(id="1", name="ls"), BlockFinal(text="c"), DONE]
    assert process(events)[1].said == [("partial", "A"), ("block", "c")]


def test_what_was_given_away_is_not_said_again() -> None:
    said = "word " * 5
    _, bridge = process([*text(said), BlockFinal(text=said + "end"), DONE], limit=10)
    assert " ".join(shown for _, shown in bridge.said) == said + "end"
    _, bridge = process([*text(said + "oops"), BlockFinal(text=said + "end"), DONE], limit=10)
    assert " ".join(shown for _, shown in bridge.said) == said + "end"


def test_what_was_given_away_and_is_wrong_is_followed_by_what_is_right() -> None:
    _, bridge = process([*text("wrong " * 5), BlockFinal(text="right"), DONE], limit=10)
    assert bridge.said[-1] == ("block", "right")
    assert "wrong" in bridge.said[0][1]


def test_what_is_buffered_can_be_taken_back() -> None:
    assert process([*text("a"), TextRetracted(), *text("b"), DONE])[1].said == [("block", "b")]
    assert process([*text("a"), BlockFinal(), TextRetracted(), *text("b"), DONE])[1].said == [("block", "b")]
    tool = [*text("a "), ToolStarted(id="1", name="ls"), *text("b")]
    assert process([*tool, TextRetracted(), *text("c"), DONE])[1].said == [("block", "a c")]
    assert process([*tool, TextRetracted(scope="turn"), *text("c"), DONE])[1].said == [("block", "c")]


def test_what_was_given_away_cannot_be_taken_back() -> None:
    _, bridge = process([*text("word " * 5), TextRetracted(), *text("new"), DONE], limit=10)
    assert bridge.said[-1] == ("block", "new")
    assert all("word" in shown for _, shown in bridge.said[:-1])


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
    assert [name for name, _ in bridge.said] == ["partial", "tool", "thinking", "block", "block"]
    assert [(payload.text, payload.delivered) for payload in payloads] == [
        ("a", False),
        ("m", True),
        ("b", True),
    ]
    assert [record.exc_info for record in caplog.records] == [None] * 3
    assert "on_partial_reply" in caplog.text


def test_without_callbacks_nothing_is_delivered_and_all_is_returned() -> None:
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


def test_a_cancelled_task_is_not_caught_and_closes_the_agent() -> None:
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


def test_one_adapter_serves_turns_side_by_side() -> None:
    adapter = DeliveryAdapter()

    async def go() -> list[list[ReplyPayload]]:
        return await asyncio.gather(
            *(adapter.process(stream([*text("turn ", str(number)), DONE])) for number in range(5))
        )

    assert [[payload.text for payload in turn] for turn in asyncio.run(go())] == [[f"turn {n}"] for n in range(5)]


@given(st.lists(any_event, max_size=12), st.integers(1, 12), st.booleans())
def test_whatever_comes_the_order_is_kept_and_nothing_escapes(
    events: list[Event], limit: int, paragraphs: bool
) -> None:
    payloads, bridge = process(events, limit=limit, paragraphs=paragraphs)
    shown = [payload for name, payload in bridge.calls if name in {"partial", "block"}]
    assert shown == payloads
    assert all(payload.delivered for payload in payloads)
    assert all(len(payload.text) <= limit for name, payload in bridge.calls if name == "partial")


@given(st.text("ab \n`#-*", max_size=60), st.integers(3, 20), st.data())
def test_how_text_is_cut_into_deltas_does_not_matter(told: str, limit: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(told)), max_size=8)))
    pieces = [told[a:b] for a, b in zip([0, *cuts], [*cuts, len(told)], strict=True)]
    assert process([*text(*pieces), DONE], limit=limit)[0] == process([*text(told), DONE], limit=limit)[0]


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
