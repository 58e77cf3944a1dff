"""What the chunks of the AI SDK become. Recordings are in `test_recordings`."""

from __future__ import annotations

from typing import Any

from turns import Case, case, table, turn_of
from vercel_chunks import DONE, FINISH, STEP, called, output, text

from tailrace.events import (
    Event,
    Media,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.vercel import VercelTranslator

COMPLETED = TurnCompleted(stop_reason="stop")
RESET = {"type": "reset-step"}
DENIED = {"type": "tool-output-denied", "toolCallId": "c"}


def translated(*natives: Any) -> list[Event]:
    """The events of a stream that ends after these."""
    translator = VercelTranslator()
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


def piece(block: str, delta: str) -> dict[str, Any]:
    return {"type": "text-delta", "id": block, "delta": delta}


def thought(block: str, *pieces: str, sealed: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """A reasoning block. Its chunks with these indexes carry metadata."""
    deltas = [{"type": "reasoning-delta", "id": block, "delta": piece} for piece in pieces]
    chunks: list[dict[str, Any]] = [
        {"type": "reasoning-start", "id": block},
        *deltas,
        {"type": "reasoning-end", "id": block},
    ]
    for index in sealed:
        chunks[index]["providerMetadata"] = {"p": {"n": index}}
    return chunks


def asked(call: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool-approval-request", "approvalId": f"a-{call}", "toolCallId": call, **more}


def answered(call: str, *, approved: bool, **more: Any) -> dict[str, Any]:
    return {"type": "tool-approval-response", "approvalId": f"a-{call}", "approved": approved, **more}


APPLICATION_METADATA: list[Any] = [{}, [], "x", {"totalUsage": 7}, {"usage": {"inputTokens": 1}}]
LOOKED = [STEP, *text("0", "before"), called("c"), output("c"), STEP]


@table(
    case("an open block ends with its step", STEP, piece("0", "one"), STEP, *text("0", "two"), answer=["one", "two"]),
    case("blocks overlap", piece("0", "a"), piece("1", "b"), piece("0", "c"), answer=["a", "b", "c"]),
    case("null fields are dropped", piece("0", "hi") | {"providerMetadata": None}, answer=["hi"]),
    case(
        "a reset retracts a finished block",
        *[*LOOKED, *text("0", "false ", "start"), RESET, *text("0", "right")],
        answer=["before", "right"],
    ),
    case(
        "a reset retracts nothing of earlier steps",
        *[STEP, *text("0", "before"), STEP, RESET, *text("0", "after")],
        answer=["before", "after"],
    ),
    case(
        "consecutive reasoning blocks are paragraphs",
        *[*thought("a", "first", " one"), *thought("b", "second"), called("c"), *thought("d", "third")],
        thoughts=["first one\n\nsecond", "third"],
    ),
    *(
        case(
            f"reasoning with metadata in {sealed}",
            *thought("r", "hm", sealed=sealed),
            events=[ReasoningDelta(text="hm"), ReasoningEnd(metadata=metadata), COMPLETED],
        )
        for sealed, metadata in (((), None), *(((n,), {"p": {"n": n}}) for n in range(3)), ((0, 1, 2), {"p": {"n": 2}}))
    ),
)
def test_blocks(case: Case) -> None:
    case.check(translated(*case.natives, FINISH))


def test_a_reset_of_an_empty_step_retracts_nothing() -> None:
    events = translated(STEP, *text("0", "before"), STEP, RESET)
    assert not any(isinstance(event, TextRetracted) for event in events)


@table(
    case(
        "results in any order, after text and without a call",
        *[called("a"), called("b"), *text("0", "meanwhile"), output("b"), output("a", None), output("stranger")],
        tools=[("look", False), ("look", False), ("tool", False)],
    ),
    case("denied", called("c"), DENIED, calls=[("look", {}, "denied")], tools=[("look", True)]),
    case(
        "denied with a reason",
        *[called("c"), asked("c", isAutomatic=True), answered("c", approved=False, reason="Nobody may."), DENIED],
        calls=[("look", {}, "Nobody may.")],
        tools=[("look", True)],
    ),
    case(
        "waiting for approval, but not for calls that a rule or a person has decided",
        *text("0", "One moment."),
        *(called(call, tool) for call, tool in (("c", "transfer"), ("d", "look"), ("e", "erase"))),
        *[asked("c"), asked("d", isAutomatic=True), asked("e"), answered("e", approved=True)],
        answer=["One moment.", "Waiting for approval: transfer"],
        terminal=TurnCompleted(stop_reason="approval"),
    ),
    case(
        "files and sources",
        {"type": "file", "url": "https://x/y.png", "mediaType": "image/png"},
        {"type": "source-document", "sourceId": "s", "mediaType": "file", "title": "Tides"},
        {"type": "source-url", "sourceId": "u", "url": "https://x"},
        {"type": "data-weather", "data": {"a": "b" * 999, "c": 1}, "transient": True},
        {"type": "reasoning-file", "url": "https://x/z.png", "mediaType": "image/png"},
        {"type": "custom", "kind": "openai.compaction"},
        events=[
            Media(url="https://x/y.png", mime="image/png"),
            *(Status(text="Source: Tides"), Status(text="Source: https://x")),
            *(Status(text=f'{{"a":"{"b" * 194}'), COMPLETED),
        ],
    ),
)
def test_tools_and_files(case: Case) -> None:
    case.check(translated(*case.natives, FINISH))


@table(
    case("finished by [DONE] alone", *text("0", "hi"), DONE, terminal=TurnCompleted()),
    case("finished without a reason", {"type": "finish", "finishReason": None}, terminal=TurnCompleted()),
    case("an error as an object", {"type": "error", "errorText": {"n": 7}}, terminal=TurnFailed(message='{"n":7}')),
    case(
        "finished with an error",
        *[{"type": "finish", "finishReason": "error"}, DONE],
        terminal=TurnFailed(message="the model has failed"),
    ),
    *(
        case(f"metadata of the application {metadata}", FINISH | {"messageMetadata": metadata}, events=[COMPLETED])
        for metadata in APPLICATION_METADATA
    ),
)
def test_end_of_an_answer(case: Case) -> None:
    case.check(translated(*case.natives))


def test_a_broken_stream_fails_the_turn_unless_the_answer_was_complete() -> None:
    lost = TurnFailed(message="lost", code="cut_off", status_code=502)
    for natives, terminal in (([], lost), ([FINISH], COMPLETED)):
        translator = VercelTranslator()
        for native in natives:
            translator.feed(native)
        translator.fail("lost", code="cut_off", status_code=502)
        assert translator.close() == [terminal]


def test_an_application_may_send_more_after_a_finish() -> None:
    translator = VercelTranslator()
    translator.feed(FINISH)
    assert not translator.is_done
    assert translator.feed(piece("1", "and more")) == [TextDelta(text="and more")]
    translator.feed(DONE)
    assert translator.is_done


def test_characters_that_were_cut_between_two_pieces_are_joined() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\udc4b"', '"\\ud83d"']
    pieces = [frame_value(f'{{"type": "text-delta", "id": "0", "delta": {delta}}}') for delta in deltas]
    assert "".join(turn_of(translated(*pieces, FINISH)).answer) == "a👋�"
