"""Laws of the projector that hold for every text: the same messages however it arrives, at linear cost."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from projected_turn import Turn, text_of

from example_counts import examples
from stable_strategies import integers
from tailrace.capabilities import CHANNELS, DISCORD, MATRIX, SLACK, TELEGRAM, TERMINAL, Capabilities
from tailrace.delivery.dry_run import dry_run
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.markdown.dialects import RENDERERS, Renderer
from tailrace.markdown.fast_scan import independent_pieces
from tailrace.operations import Body, Edit, Post, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


def final_bodies(pieces: list[str], limits: Capabilities, presentation: str) -> list[Body]:
    """The bodies of the messages at the end, on a platform that answers at once."""
    turn = Turn(limits, presentation=presentation)
    bodies: dict[str, Body] = {}
    for piece in [*pieces, None]:
        turn.now += 0.7
        for operation in turn.end(TurnCompleted()) if piece is None else turn.say(piece):
            assert isinstance(operation, Post | Edit)
            bodies[operation.message_id if isinstance(operation, Edit) else str(len(bodies) + 1)] = operation.body
    return list(bodies.values())


BLOCKS = [
    *("A sentence **of its own** and [a page](https://a.example/b).", "# Heading", "> a quote\n> of two lines", "---"),
    *("- one\n- two\n  - within", "1. one\n\n   more of it", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"),
    *(
        "```py\nif x:\n\n    print(x)\n```",
        "~~~\n```\n~~~",
        "word " * 60,
        "`code` *and* _more_",
        "日本語のテキスト。" * 9,
    ),
]


@pytest.mark.parametrize("presentation", ["final", "live", "blocks"])
@pytest.mark.parametrize("limits", [TELEGRAM, SLACK, DISCORD, MATRIX], ids=lambda limits: limits.dialect)
@settings(max_examples=examples(12, search=200))
@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=12), cuts=st.lists(integers(0, 1000), max_size=20))
def test_scar_06_messages_do_not_depend_on_the_deltas(
    limits: Capabilities, presentation: str, blocks: list[str], cuts: list[int]
) -> None:
    small = replace(limits, limit=200, lines=None)
    text = "\n\n".join(blocks)
    pieces = [text[a:b] for a, b in pairwise(sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)}))]
    assert final_bodies(pieces, small, presentation) == final_bodies([text], small, presentation)


def words(count: int) -> list[str]:
    return [f"word{nth} " + "\n\n" * (nth % 40 == 39) for nth in range(count)]


@pytest.fixture
def rendered() -> Iterator[list[int]]:
    """The sizes of all texts that are rendered for the dialect `counted`."""
    sizes: list[int] = []

    def counted(source: str) -> Body:
        sizes.append(len(source))
        return Body(text=source)

    RENDERERS["counted"] = Renderer(counted)
    try:
        yield sizes
    finally:
        del RENDERERS["counted"]


@pytest.mark.parametrize("presentation", ["live", "blocks", "final"])
def test_twice_the_text_costs_about_twice_the_rendering(presentation: str, rendered: list[int]) -> None:
    limits = replace(TELEGRAM, dialect="counted")
    costs = []
    for count in (2_000, 4_000, 8_000):
        rendered.clear()
        final_bodies(words(count), limits, presentation)
        costs.append(sum(rendered))
    assert costs[2] < 2.6 * costs[1] < 2.6 * 2.6 * costs[0]


def test_stream_gets_each_character_once() -> None:
    turn = Turn(TERMINAL)
    appended = 0
    for word in words(3_000):
        turn.now += 0.01
        appended += sum(len(text_of(operation)) for operation in turn.say(word))
    assert appended <= sum(map(len, words(3_000)))


class _ParserCalls:
    """Counts the texts and characters that the Markdown parser gets."""

    _ENTRIES = ("_Builder.__init__", "_Copy.__init__")  # all callers of the parser

    def __init__(self) -> None:
        self.characters = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_qualname in self._ENTRIES:
            self.characters += len(frame.f_locals["source"])


def long_answer(topic: str, sections: int = 120) -> str:
    """Blocks of many kinds, each much shorter than a message, and no two of them equal."""
    blocks = []
    for nth in range(sections):
        blocks += [
            f"## Step {nth} of {topic}",
            f"Take number {nth}, **boldly**, and see [the page](https://example.org/{nth}/{topic}). " * 3,
            f"- one of {nth} of {topic}\n- two of {nth}\n  - and within",
            f"```python\nfor n in range({nth}):  # {topic}\n\n    print(n)\n```",
            f"> what was said of {nth} of {topic}",
        ]
    return "\n\n".join(blocks)


@pytest.mark.parametrize(("channel", "forms"), [("telegram", 1), ("discord", 1), ("slack", 2), ("matrix", 1)])
def test_blocks_that_ended_are_not_parsed_again_for_each_edit(channel: str, forms: int) -> None:
    text = long_answer(channel)  # no other channel has parsed it before
    step, per_s = 16, 12.5
    pieces = [TextDelta(text=text[at : at + step]) for at in range(0, len(text), step)]
    events: list[tuple[float, Event]] = [(0.0, TurnStarted(turn_id="t"))]
    events += [(nth / per_s, piece) for nth, piece in enumerate(pieces, 1)]
    events.append((events[-1][0], TurnCompleted()))
    with _ParserCalls() as parser:
        calls = list(dry_run(events, Target(channel=channel, chat="1"), CHANNELS[channel]))
    shown = [call.at for call in calls if isinstance(call.operation, Edit | Post)]
    messages = sum(isinstance(call.operation, Post) for call in calls)
    assert len(shown) > 3 * messages > 9
    open_ends = sum(len(independent_pieces(text[: int(at * per_s) * step])[-1]) for at in shown)
    # While it is not known where a message ends, its open end is parsed up to 8 times.
    searched = messages * 8 * max(map(len, independent_pieces(text)))
    # A block that ends is rendered once more, and the open end is first parsed for its open markup.
    assert parser.characters <= forms * (1.4 * len(text) + open_ends + searched) + open_ends
