"""How streams of AG-UI and the AI SDK end, which runs they belong to, and characters that were cut in two.

What single events become is in `made_turns`, and recordings are in `test_recordings`.
"""

from __future__ import annotations

from typing import Any

import pytest
from agui_events import FINISHED, STARTED, arguments, call, text
from turns import turn_of
from vercel_chunks import DONE as VERCEL_DONE
from vercel_chunks import FINISH

from tailrace.events import Event, Status, TextDelta, TurnCompleted, TurnFailed
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.vercel import VercelTranslator

DONE = TurnCompleted()
Native = dict[str, Any]


def translated(translator: AguiTranslator | VercelTranslator, *natives: Any) -> list[Event]:
    """The events of a stream that ends after these."""
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


def thought(name: str, *deltas: str) -> list[Native]:
    pieces = [{"type": "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": delta} for delta in deltas]
    start, end = ({"type": kind, "messageId": name} for kind in ("REASONING_START", "REASONING_END"))
    return [start, *pieces, end]


def chunk(kind: str, **fields: Any) -> Native:
    return {"type": f"{kind}_CHUNK", **fields}


def error(message: Any, **more: Any) -> Native:
    return {"type": "RUN_ERROR", "message": message, **more}


LOST = TurnFailed(message="lost", code="cut_off", status_code=502)


@pytest.mark.parametrize(
    ("kind", "natives", "end"),
    [
        (AguiTranslator, [], LOST),
        (AguiTranslator, [FINISHED], DONE),
        (VercelTranslator, [], LOST),
        (VercelTranslator, [FINISH], TurnCompleted(stop_reason="stop")),
    ],
)
def test_a_broken_stream_fails_the_turn_unless_it_has_ended(
    kind: type[AguiTranslator | VercelTranslator], natives: list[Any], end: Event
) -> None:
    translator = kind()
    for native in natives:
        translator.feed(native)
    translator.fail("lost", code="cut_off", status_code=502)
    assert translator.close() == [end]
    assert translator.close() == []


def test_an_older_run_in_the_stream_does_not_end_the_turn() -> None:
    translator = AguiTranslator("mine")
    for native in (STARTED | {"runId": "old"}, error("long ago"), STARTED | {"runId": "mine"}, *text("m", "now")):
        translator.feed(native)
        assert not translator.is_done
    translator.feed(FINISHED | {"runId": "mine"})
    assert translator.is_done
    assert translator.close() == [DONE]


def test_a_status_is_cut_at_200_characters() -> None:
    customs = [{"type": "CUSTOM", "name": "progress"}, {"type": "CUSTOM", "name": "state", "value": {"x": "y" * 999}}]
    assert [len(event.text) for event in translated(AguiTranslator(), *customs) if isinstance(event, Status)] == [
        8,
        200,
    ]


def test_characters_in_two_pieces_of_agui_are_joined() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\ud83c\\udff3 \\ud83d"', '"no other half"']
    pieces = [
        frame_value(f'{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": {delta}}}') for delta in deltas
    ]
    assert "".join(turn_of(translated(AguiTranslator(), *pieces, FINISHED)).answer) == "a👋🏳 �no other half"
    halves = [frame_value(f'{{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": {delta}}}') for delta in deltas[:2]]
    assert [
        c.arguments for c in turn_of(translated(AguiTranslator(), call("c"), *halves, *arguments("c"), FINISHED)).calls
    ] == ["a👋"]
    assert frame_value('{"content": ["\\ud83d"], "\\ud83d": 1}') == {"content": ["�"], "�": 1}


def test_ten_thousand_events_of_each_kind_are_translated() -> None:
    many = 10_000
    chunks = [chunk("TOOL_CALL", toolCallId="k", toolCallName="look", delta="1")] * many
    natives = [*text("m", *["x"] * many), call("c"), *arguments("c", *["1"] * many), *chunks]
    natives += [native for n in range(many) for native in thought(f"t{n}", "z")]
    natives += [native for n in range(many) for native in text(f"m{n}", "y")]
    long = turn_of(translated(AguiTranslator(), *natives, FINISHED))
    assert "".join(long.thoughts).count("z") == many
    assert (long.answer[0], len(long.answer)) == ("x" * many, many + 1)
    assert [c.arguments for c in long.calls] == ["1" * many] * 2


def piece(block: str, delta: str) -> dict[str, Any]:
    return {"type": "text-delta", "id": block, "delta": delta}


def test_an_application_may_send_more_after_a_finish() -> None:
    translator = VercelTranslator()
    translator.feed(FINISH)
    assert not translator.is_done
    assert translator.feed(piece("1", "and more")) == [TextDelta(text="and more")]
    translator.feed(VERCEL_DONE)
    assert translator.is_done


def test_characters_in_two_pieces_of_the_ai_sdk_are_joined() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\udc4b"', '"\\ud83d"']
    pieces = [frame_value(f'{{"type": "text-delta", "id": "0", "delta": {delta}}}') for delta in deltas]
    assert "".join(turn_of(translated(VercelTranslator(), *pieces, FINISH)).answer) == "a👋�"
