"""The questions that people ask in the trials, and what they must be able to read in the end.

A `Question` is an inbound event together with its answer: every worker answers the same event with the same text, so a
worker that continues after a kill says what the killed one would have said. `kills.worker` asks and answers them,
`kills.judge` compares them with what people read.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities
from tailrace.testing.wire import capabilities_of

CHANNEL = "simulated"

Shape: TypeAlias = Literal["parts", "tool", "live", "abandon"]

# A snapshot is saved every 4,096 characters: one for each stage of a live message.
_STAGE = " ".join(["tide"] * 850)
_STAGES = 2
_LIMIT = 20_000


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a chat, and the shape of its answer.

    parts    so many messages, the last one together with the end of the turn
    tool     the same, one by one, with a pause before each as for a tool
    live     a message that is edited while it grows, then for the last time, and another message
    abandon  the same, but a worker that did not begin the turn leaves it to recovery
    """

    event_id: str
    chat: str
    shape: Shape = "parts"
    parts: int = 2

    @property
    def is_live(self) -> bool:
        return self.shape in {"live", "abandon"}

    @property
    def texts(self) -> list[str]:
        """The messages of the complete answer."""
        if self.is_live:
            return [f"{self.stages[-1]} That is all.", f"{self.event_id}: afterwards"]
        return [f"{self.event_id}: part {number} of {self.parts}" for number in range(1, self.parts + 1)]

    @property
    def preview(self) -> str:
        """The live message when it is posted."""
        return f"{self.event_id}: Well"

    @property
    def stages(self) -> list[str]:
        """The live message while it grows."""
        return [f"{self.preview} {' '.join([_STAGE] * count)}" for count in range(1, _STAGES + 1)]


def matrix_questions() -> tuple[Question, ...]:
    """Six questions of all shapes, in four conversations."""
    return (
        Question(event_id="e1", chat="parts", parts=3),
        Question(event_id="e2", chat="parts", parts=2),
        Question(event_id="e3", chat="live", shape="live"),
        Question(event_id="e4", chat="tool", shape="tool", parts=2),
        Question(event_id="e5", chat="left", shape="abandon"),
        Question(event_id="e6", chat="left", parts=1),
    )


def load_questions(count: int, *, chats: int = 40) -> tuple[Question, ...]:
    """The first questions of an endless list from many chats, the same for every count."""
    shapes: tuple[Shape, ...] = ("parts", "tool", "parts", "live", "parts", "abandon", "tool")
    return tuple(
        Question(
            event_id=f"q{number}",
            chat=f"chat {number * 7 % chats}",
            shape=shapes[number % len(shapes)],
            parts=1 + number % 3,
        )
        for number in range(count)
    )


def questions_of(name: str) -> tuple[Question, ...]:
    """The questions of a name: `matrix`, `load:COUNT`, or `chat:CHAT:COUNT` with three parts in one chat."""
    kind, _, rest = name.partition(":")
    match kind:
        case "matrix":
            return matrix_questions()
        case "load":
            return load_questions(int(rest))
        case "chat":
            chat, _, count = rest.partition(":")
            return tuple(
                Question(event_id=f"{chat} {number}", chat=chat, parts=3) for number in range(1, int(count) + 1)
            )
    raise ValueError(f"there are no questions named {name!r}: use matrix, load:COUNT or chat:CHAT:COUNT")


def kill_capabilities(kind: str, *, deadline_s: float = 30.0) -> Capabilities:
    """The capabilities of a platform with room for these answers; `kind` as for `capabilities_of`."""
    declared = capabilities_of(kind, limit=_LIMIT)
    return msgspec.structs.replace(declared, deadline_s=deadline_s)
