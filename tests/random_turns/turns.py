"""Writes random turns: events with the seconds before each, of every kind and in every order that may occur.

Every word is numbered, so each occurs once in a run and is found again however a platform renders it: `w7z` in the
answer, `e7z` in an error, `k7z` in a caption, `m7z` in the address of a medium, `s7z` in reasoning. The last letter
shows that a word is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_turns.expected import SILENT
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Media,
    ModelChanged,
    Notice,
    PlanItem,
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
    from collections.abc import Callable
    from random import Random

    from tailrace.events import Event

_PAUSES_S = (0.05, 0.4, 3.0, 30.0)
"""The longest pause between two events, for most of them; one of these for each turn."""
_ODD_LETTERS = ("", "", "", "", "", "😀", "é", "漢字", "&", "<b>", "👨‍👩‍👧")
_DELTA_SIZES = (1, 3, 8, 40, 1000)


class Speech:
    """Makes words and Markdown of them; no word twice."""

    def __init__(self, chance: Random, first_word: int = 0) -> None:
        self._chance = chance
        self._count = first_word

    def word(self, kind: str = "w") -> str:
        self._count += 1
        return f"{kind}{self._count}z"

    def words(self, least: int, most: int, kind: str = "w") -> str:
        return " ".join(self.word(kind) for _ in range(self._chance.randint(least, most)))

    def block(self) -> str:
        """A block of text, sometimes with reasoning in tags, a silent reply or code that is left open."""
        chance = self._chance
        text = self.markdown()
        kinds = (
            SILENT,
            *3 * (f"<think>{self.words(1, 9, 's')}</think>\n\n{text}",),
            f"{text}\n<think>{self.words(1, 9, 's')}</think>\n{self.words(1, 9)}",
            f"{self.words(2, 20)}\n</think>\n{text}",
            f"{text}\n{SILENT}",
            f"{text}\n\n```py\n{self.words(1, 5)}",
        )
        return chance.choice(kinds) if chance.random() < 0.25 else text + chance.choice(("", "", "", "\n", "\n\n"))

    def markdown(self) -> str:
        count = self._chance.choice((1, 1, 1, 2, 3, 5))
        return "\n\n".join(self._chance.choice(self._KINDS)(self) for _ in range(count))

    def _paragraph(self) -> str:
        chance = self._chance
        lines = [
            " ".join(self._inline() for _ in range(chance.randint(1, 9))) + chance.choice((".", "", "!"))
            for _ in range(chance.choice((1, 1, 2, 4)))
        ]
        return chance.choice((" ", "\n")).join(lines)

    def _inline(self) -> str:
        word = self.word() + self._chance.choice(_ODD_LETTERS)
        chance = self._chance.random()
        if chance < 0.06:
            return f"**{word} {self.words(1, 3)}**"
        if chance < 0.1:
            return f"`{word}`"
        return f"[{word}](http://a.b/)" if chance < 0.13 else word

    def _code(self) -> str:
        lines = ["    " * self._chance.randint(0, 2) + self.words(1, 2) for _ in range(self._chance.randint(1, 6))]
        return "\n".join(["```py", *lines, "```"])

    def _list(self) -> str:
        return "\n".join(f"- {self.words(1, 6)}" for _ in range(self._chance.randint(1, 5)))

    def _quote(self) -> str:
        return f"> {self.words(1, 6)}\n> {self.words(1, 6)}"

    def _heading(self) -> str:
        return f"## {self.words(1, 4)}"

    def _table(self) -> str:
        rows = "\n".join(f"| {self.word()} | {self.word()} |" for _ in range(self._chance.randint(1, 4)))
        return f"| a | b |\n|---|---|\n{rows}"

    _KINDS: tuple[Callable[[Speech], str], ...] = (*4 * (_paragraph,), *2 * (_code,), _list, _quote, _heading, _table)


class TurnWriter:
    """Writes one turn; its words are numbered from `first_word` on."""

    def __init__(self, chance: Random, first_word: int = 0) -> None:
        self._chance = chance
        self._speech = Speech(chance, first_word)
        self._longest_pause_s = chance.choice(_PAUSES_S)
        self._tools: list[str] = []
        self._block = ""  # the open block of text
        self._events: list[tuple[float, Event]] = []

    def write(self) -> list[tuple[float, Event]]:
        """The events of the turn, each with the seconds before it."""
        chance = self._chance
        self._add(TurnStarted())
        if chance.random() < 0.04:
            self._add_text(SILENT)
            if chance.random() < 0.5:
                self._add_tool()
        else:
            for _ in range(chance.choice((0, 1, 1, 2, 3, 4, 6, 9))):
                self._add_anything()
        self._add_end()
        return self._events

    def _add_anything(self) -> None:
        chance = self._chance.random()
        if chance < 0.5:
            if not self._may_continue:
                self._close_block()
            self._add_text(f"\n\n{self._speech.markdown()}" if self._block else self._speech.block())
        elif chance < 0.6:
            self._close_block()
        elif chance < 0.64:
            self._block = ""
            self._add(TextRetracted(scope="block" if self._chance.random() < 0.7 else "turn"))
        elif chance < 0.78:
            self._add_tool()
        elif chance < 0.84:
            self._block = ""
            self._add(Error(message=self._speech.word("e"), code=self._chance.choice((None, "c1"))))
        elif chance < 0.9:
            self._add_media()
        else:
            self._add_remark()

    def _add(self, event: Event) -> None:
        chance = self._chance
        pause_s = 0.0 if chance.random() < 0.2 else chance.random() * self._longest_pause_s
        if chance.random() < 0.01:
            pause_s += chance.choice((8.0, 40.0, 400.0))
        self._events.append((pause_s, event))

    def _add_text(self, text: str) -> None:
        self._block += text
        size = self._chance.choice(_DELTA_SIZES)
        while text:
            length = self._chance.randint(1, size)
            self._add(TextDelta(text=text[:length]))
            text = text[length:]
        if self._chance.random() < 0.3:
            self._close_block()

    @property
    def _may_continue(self) -> bool:
        """True if more text in the open block is only more text."""
        return SILENT not in self._block and self._block.count("```") % 2 == 0

    def _close_block(self) -> None:
        """Close the open block in one of the ways that runtimes have: its final text may be any other text."""
        speech, chance = self._speech, self._chance.random() if self._may_continue else 0.0
        block, self._block = self._block, ""
        if chance < 0.4:
            final = None
        elif chance < 0.7:
            final = block or speech.block()
        elif chance < 0.8:
            final = f"{block}\n\n{speech.words(1, 9)}".lstrip()
        elif chance < 0.95:
            kept = block[: self._chance.randint(0, len(block))].rpartition("\n\n")[0]
            final = f"{kept}\n\n{speech.words(1, 30)}".lstrip()
        else:
            final = ""
        self._add(BlockFinal(text=final))

    def _add_tool(self) -> None:
        chance = self._chance
        name = f"t{chance.randint(1, 3)}"
        parent = chance.choice(self._tools) if self._tools and chance.random() < 0.3 else None
        if parent is None:
            self._block = ""
        self._tools.append(name)
        self._add(ToolStarted(id=name, name="look_up", arguments={"path": "a/b"}, parent_tool_id=parent))
        events = (
            ToolInput(id=name, arguments={"command": "ls *"}),
            ToolProgress(id=name, elapsed_s=chance.random() * 9),
            ToolOutput(id=name, data="printed"),
            TextDelta(text="under it", parent_tool_id=name),
            Error(message="under it", parent_tool_id=name),
        )
        for _ in range(chance.choice((0, 0, 1, 3))):
            self._add(chance.choice(events))
        if chance.random() < 0.8:
            self._add(ToolFinished(id=name, result="found", is_error=chance.random() < 0.3))

    def _add_media(self) -> None:
        self._block = ""
        caption = self._speech.words(0, self._chance.choice((3, 3, 30)), "k")
        media = Media(url=f"http://a.b/{self._speech.word('m')}", mime="image/png", caption=caption)
        self._add(media)
        if self._chance.random() < 0.2:
            self._add(media)

    def _add_remark(self) -> None:
        event = self._chance.choice(
            (
                ReasoningDelta(text=self._speech.words(1, 9, "s")),
                ReasoningEnd(),
                Status(text="reading"),
                Notice(text="by the way"),
                ModelChanged(model_id="larger"),
                ConfigReloaded(),
                PlanUpdated(items=(PlanItem(title="first", status="in_progress"),)),
                Usage(input_tokens=1200, output_tokens=30, scope="turn"),
                Media(),
            )
        )
        if not isinstance(event, ReasoningEnd | Status | PlanUpdated | Usage | Media):
            self._block = ""
        self._add(event)

    def _add_end(self) -> None:
        """End the turn, or leave it without an end."""
        chance = self._chance.random()
        if chance < 0.6:
            self._add(TurnCompleted())
        elif chance < 0.7:
            has_text = any(isinstance(event, TextDelta) for _, event in self._events)
            self._add(TurnCompleted(text=self._block or ("" if has_text else self._speech.block())))
        elif chance < 0.75:
            self._add(TurnCompleted(text=self._speech.block()))
        elif chance < 0.85:
            self._add(TurnFailed(message=self._speech.word("e"), code=self._chance.choice((None, "c1"))))
        elif chance < 0.95:
            self._add(TurnCancelled())
        if chance < 0.9 and self._tools and self._chance.random() < 0.2:
            self._add(ToolFinished(id=self._tools[-1]))
