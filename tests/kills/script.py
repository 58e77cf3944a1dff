"""What people ask in the trials that kill processes, and what each of them must be able to read in the end.

A `Question` is an inbound event and its answer in one: the same event is answered by the same words in every process,
so that a process that goes on where another was killed says what that one would have said. Pure: asking and answering
is left to `kills.worker`, comparing with what was seen to `kills.judge`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tailrace.capabilities import Capabilities
from tailrace.testing.wire import capabilities_of

CHANNEL = "simulated"

Manner: TypeAlias = Literal["parts", "tool", "live", "abandon"]

# A snapshot is kept every 4,096 characters: each stage of a live message is worth one.
_STAGE = " ".join(["tide"] * 850)
_STAGES = 2
_LIMIT = 20_000


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a chat, and the manner in which it is answered.

    parts    so many messages, the last of them with the end of the turn
    tool     the same, one by one, with a pause before each as for a tool
    live     a message that is edited while it grows, then for good, and a further one
    abandon  the same; a process that finds it begun by another leaves it to recovery
    """

    event_id: str
    chat: str
    manner: Manner = "parts"
    parts: int = 2

    @property
    def is_live(self) -> bool:
        """Whether its first message grows."""
        return self.manner in {"live", "abandon"}

    @property
    def texts(self) -> list[str]:
        """What is read in the end, message by message, where nothing is cut off and nothing is uncertain."""
        if self.is_live:
            return [f"{self.stages[-1]} That is all.", f"{self.event_id}: afterwards"]
        return [f"{self.event_id}: part {number} of {self.parts}" for number in range(1, self.parts + 1)]

    @property
    def preview(self) -> str:
        """The live message as it is posted."""
        return f"{self.event_id}: Well"

    @property
    def stages(self) -> list[str]:
        """The live message as it grows."""
        return [f"{self.preview} {' '.join([_STAGE] * count)}" for count in range(1, _STAGES + 1)]


def matrix_questions() -> tuple[Question, ...]:
    """Few questions, of every manner, in conversations side by side and behind one another."""
    return (
        Question(event_id="e1", chat="parts", parts=3),
        Question(event_id="e2", chat="parts", parts=2),
        Question(event_id="e3", chat="live", manner="live"),
        Question(event_id="e4", chat="tool", manner="tool", parts=2),
        Question(event_id="e5", chat="left", manner="abandon"),
        Question(event_id="e6", chat="left", parts=1),
    )


def load_questions(count: int, *, chats: int = 40) -> tuple[Question, ...]:
    """The first so many of an endless row of questions, from many chats; the same for every count."""
    manners: tuple[Manner, ...] = ("parts", "tool", "parts", "live", "parts", "abandon", "tool")
    return tuple(
        Question(
            event_id=f"q{number}",
            chat=f"chat {number * 7 % chats}",
            manner=manners[number % len(manners)],
            parts=1 + number % 3,
        )
        for number in range(count)
    )


def questions_of(name: str) -> tuple[Question, ...]:
    """The questions by one word: `matrix`, `load:COUNT`, or `chat:CHAT:COUNT` for so many of three parts in one."""
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
    """The capabilities of a platform for these questions; `kind` as for `capabilities_of`."""
    declared = capabilities_of(kind, limit=_LIMIT)
    return msgspec.structs.replace(declared, deadline_s=deadline_s)
