"""The kinds of platforms, and the input of the turns that are delivered there.

An answer has four paragraphs, and each fills one message. Every marked word occurs once in a run, so a missing or a
repeated part is found by its words.
"""

from __future__ import annotations

import json
import re
from typing import Literal

import msgspec

from tailrace.capabilities import Capabilities, EditRules
from tailrace.testing.wire import capabilities_of

Presentation = Literal["parts", "live", "processing", "final"]
PRESENTATIONS: tuple[Presentation, ...] = ("parts", "live", "processing", "final")
WORD = re.compile(r"\bw\d+x\d+\b")
_PARAGRAPHS, _WORDS = 4, 13
_LIMIT = 100
_TOOL_S = 1.55  # longer than the processing message waits for a tool


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A platform, and what is done if it is unknown whether a message arrived.

    `in_doubt`: that can always be found out (`ask`), the message is held, or it is sent again. `chat`: the only chat of
    the platform; None if it has any. `filler`: what follows each word, so that a paragraph fills a message. `parts`: in
    how many parts the trials run in parallel, because most of their time they wait for the pace of the platform.
    """

    platform: str
    in_doubt: Literal["ask", "hold", "resend"] = "ask"
    channel: str = "simulated"
    chat: str | None = None
    filler: str = ""
    parts: int = 1


KINDS = {
    "keyed": Kind(platform="keyed:300"),
    "readback": Kind(platform="readback:0.02"),
    "repeatable": Kind(platform="repeatable"),
    "unkeyed, hold": Kind(platform="unkeyed", in_doubt="hold"),
    "unkeyed, resend": Kind(platform="unkeyed", in_doubt="resend"),
    "telegram": Kind(
        platform="telegram", in_doubt="hold", channel="telegram", chat="1001", filler=" and so on" * 29, parts=4
    ),
    "slack": Kind(platform="slack", channel="slack", chat="D0ADA", filler=" and so on" * 87, parts=4),
}


def kill_capabilities(platform: str, *, deadline_s: float = 30.0) -> Capabilities:
    """The capabilities of a platform on which an answer takes four messages."""
    declared = capabilities_of(platform, limit=_LIMIT)
    return msgspec.structs.replace(declared, deadline_s=deadline_s, edits=EditRules(every_s=0.02), deletes=True)


class TurnInput(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: its number in the run, its chat, and how it is presented. The turn id is in the input."""

    number: int
    chat: str = "room"
    presentation: Presentation = "parts"
    channel: str = "simulated"
    filler: str = ""

    @property
    def turn_id(self) -> str:
        return f"turn{self.number}"

    @property
    def paragraphs(self) -> list[str]:
        numbers = range(_PARAGRAPHS * _WORDS)
        words = [f"w{self.number % 100}x{number:02}{self.filler}" for number in numbers]
        return [" ".join(words[at : at + _WORDS]) for at in numbers[::_WORDS]]

    @property
    def words(self) -> list[str]:
        return WORD.findall(" ".join(self.paragraphs))

    @property
    def lines(self) -> list[tuple[float, str]]:
        """The lines of standard input, each with the seconds before it."""
        events: list[tuple[float, dict[str, str]]] = [(0.0, {"type": "turn_started", "turn_id": self.turn_id})]
        if self.presentation == "processing":
            events.append((0.0, {"type": "tool_started", "id": "t", "name": "look_up"}))
            events.append((_TOOL_S, {"type": "tool_finished", "id": "t"}))
        pause_s = 0.03 if self.presentation == "live" else 0.0
        text = "\n\n".join(self.paragraphs)
        size = len(text) // 8 + 1
        events += [(pause_s, {"type": "text_delta", "text": text[at : at + size]}) for at in range(0, len(text), size)]
        events.append((pause_s, {"type": "turn_completed"}))
        return [(pause, json.dumps(event)) for pause, event in events]

    @property
    def arguments(self) -> list[str]:
        """The arguments of `tailrace deliver`."""
        return ["deliver", "--channel", self.channel, "--to", self.chat, "--presentation", self.presentation]
