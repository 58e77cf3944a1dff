"""What is read of an answer while it is shown live: what has ended once, seldom twice, and the open end each time.

Counted at the parser's door, not timed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from tailrace.capabilities import CHANNELS
from tailrace.delivery.dry_run import dry_run
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.markdown.fast_scan import independent_pieces
from tailrace.operations import Edit, Post, Target

if TYPE_CHECKING:
    from types import FrameType

_DELTA, _PER_S = 4, 50.0
_READERS = ("_Builder.__init__", "_Copy.__init__")  # all that hand a text to the parser
_LOOKS = 8  # at what is open, while it is not known where a message ends


class _Parser:
    """How many characters were given to it to read, and in how many texts."""

    def __init__(self) -> None:
        self.read = 0
        self.texts = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, happens: str, _: Any) -> None:
        if happens == "call" and frame.f_code.co_qualname in _READERS:
            self.read += len(frame.f_locals["source"])
            self.texts += 1


def _answer(about: str, paragraphs: int = 120) -> str:
    """Many kinds of blocks, each much shorter than a message; no two are the same."""
    said = []
    for nth in range(paragraphs):
        said += [
            f"## Step {nth} of {about}",
            f"Take number {nth}, **boldly**, and see [the page](https://example.org/{nth}/{about}). " * 3,
            f"- one of {nth} of {about}\n- two of {nth}\n  - and within",
            f"```python\nfor n in range({nth}):  # {about}\n\n    print(n)\n```",
            f"> what was said of {nth} of {about}",
        ]
    return "\n\n".join(said)


@pytest.mark.parametrize(("channel", "forms"), [("telegram", 1), ("discord", 1), ("slack", 2), ("matrix", 1)])
def test_what_ended_is_not_read_again_each_time_something_is_shown(channel: str, forms: int) -> None:
    text = _answer(channel)  # no other channel has read it before
    pieces = [TextDelta(text=text[at : at + _DELTA]) for at in range(0, len(text), _DELTA)]
    events: list[tuple[float, Event]] = [(0.0, TurnStarted(turn_id="t"))]
    events += [(nth / _PER_S, piece) for nth, piece in enumerate(pieces, 1)]
    events.append((events[-1][0], TurnCompleted()))
    with _Parser() as parser:
        moments = list(dry_run(events, Target(channel=channel, chat="1"), CHANNELS[channel]))
    shown = [moment.at for moment in moments if isinstance(moment.operation, Edit | Post)]
    messages = sum(isinstance(moment.operation, Post) for moment in moments)
    assert len(shown) > 3 * messages > 9
    open_ends = sum(len(independent_pieces(text[: int(at * _PER_S) * _DELTA])[-1]) for at in shown)
    looked_at = messages * _LOOKS * max(map(len, independent_pieces(text)))
    # A block that ends what is kept as rendered is read once more; the open end first for what is open in it.
    assert parser.read <= forms * (1.4 * len(text) + open_ends + looked_at) + open_ends
