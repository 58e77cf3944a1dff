"""Turns at random: what agents say and do, as events with their times, of every kind and in every order that may be.

All words are numbered, so that each stands once in what was said and can be found again on any platform, however it is
rendered: `w7z` in the answer, `e7z` in an error, `k7z` in a caption, `m7z` as a medium, `s7z` in a thought; the last
letter tells a whole word from the beginning of one. Texts are short: limits on the stage are small, and cuts happen
often all the same.
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

_TEMPOS = (0.05, 0.4, 3.0, 30.0)
"""The seconds that pass between two events at most, in most cases."""
_ODD_LETTERS = ("", "", "", "", "", "😀", "é", "漢字", "&", "<b>", "👨‍👩‍👧")
_PIECES = (1, 3, 8, 40, 1000)


class Speech:
    """Words and what is made of them; no word is said twice."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._count = 0

    def word(self, kind: str = "w") -> str:
        """Another word."""
        self._count += 1
        return f"{kind}{self._count}z"

    def words(self, least: int, most: int, kind: str = "w") -> str:
        """Some words with spaces between them."""
        return " ".join(self.word(kind) for _ in range(self._dice.randint(least, most)))

    def block(self) -> str:
        """A block of text, with thoughts and the like at times."""
        dice = self._dice
        text = self.markdown()
        kinds = (
            SILENT,
            *3 * (f"<think>{self.words(1, 9, 's')}</think>\n\n{text}",),
            f"{text}\n<think>{self.words(1, 9, 's')}</think>\n{self.words(1, 9)}",
            f"{self.words(2, 20)}\n</think>\n{text}",
            f"{text}\n{SILENT}",
            f"{text}\n\n```py\n{self.words(1, 5)}",
        )
        return dice.choice(kinds) if dice.random() < 0.25 else text + dice.choice(("", "", "", "\n", "\n\n"))

    def markdown(self) -> str:
        """One to five pieces of Markdown."""
        count = self._dice.choice((1, 1, 1, 2, 3, 5))
        return "\n\n".join(self._dice.choice(self._KINDS)(self) for _ in range(count))

    def _paragraph(self) -> str:
        dice = self._dice
        lines = [
            " ".join(self._inline() for _ in range(dice.randint(1, 9))) + dice.choice((".", "", "!"))
            for _ in range(dice.choice((1, 1, 2, 4)))
        ]
        return dice.choice((" ", "\n")).join(lines)

    def _inline(self) -> str:
        word = self.word() + self._dice.choice(_ODD_LETTERS)
        chance = self._dice.random()
        if chance < 0.06:
            return f"**{word} {self.words(1, 3)}**"
        if chance < 0.1:
            return f"`{word}`"
        if chance < 0.13:
            return f"[{word}](http://a.b/)"
        return word

    def _code(self) -> str:
        lines = ["    " * self._dice.randint(0, 2) + self.words(1, 2) for _ in range(self._dice.randint(1, 6))]
        return "\n".join(["```py", *lines, "```"])

    def _list(self) -> str:
        return "\n".join(f"- {self.words(1, 6)}" for _ in range(self._dice.randint(1, 5)))

    def _quote(self) -> str:
        return f"> {self.words(1, 6)}\n> {self.words(1, 6)}"

    def _heading(self) -> str:
        return f"## {self.words(1, 4)}"

    def _table(self) -> str:
        rows = "\n".join(f"| {self.word()} | {self.word()} |" for _ in range(self._dice.randint(1, 4)))
        return f"| a | b |\n|---|---|\n{rows}"

    _KINDS: tuple[Callable[[Speech], str], ...] = (
        *(_paragraph, _paragraph, _paragraph, _paragraph, _code, _code, _list, _quote, _heading, _table),
    )


class TurnWriter:
    """Writes one turn: `events` with the seconds that pass before each."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._speech = Speech(dice)
        self._tempo = dice.choice(_TEMPOS)
        self._tools: list[str] = []
        self._block = ""  # the text that is open
        self.events: list[tuple[float, Event]] = []

    def write(self) -> list[tuple[float, Event]]:
        """The whole turn."""
        dice = self._dice
        self._add(TurnStarted())
        if dice.random() < 0.04:
            self._say(SILENT)
            if dice.random() < 0.5:
                self._tool()
        else:
            for _ in range(dice.choice((0, 1, 1, 2, 3, 4, 6, 9))):
                self._something()
        self._end()
        return self.events

    def _something(self) -> None:
        chance = self._dice.random()
        if chance < 0.5:
            if not self._can_go_on:
                self._settle()
            self._say(f"\n\n{self._speech.markdown()}" if self._block else self._speech.block())
        elif chance < 0.6:
            self._settle()
        elif chance < 0.64:
            self._retract("block" if self._dice.random() < 0.7 else "turn")
        elif chance < 0.78:
            self._tool()
        elif chance < 0.84:
            self._error()
        elif chance < 0.9:
            self._media()
        else:
            self._remark()

    def _add(self, event: Event) -> None:
        dice = self._dice
        gap = 0.0 if dice.random() < 0.2 else dice.random() * self._tempo
        if dice.random() < 0.01:
            gap += dice.choice((8.0, 40.0, 400.0))
        self.events.append((gap, event))

    def _say(self, text: str) -> None:
        self._block += text
        size = self._dice.choice(_PIECES)
        while text:
            length = self._dice.randint(1, size)
            self._add(TextDelta(text=text[:length]))
            text = text[length:]
        if self._dice.random() < 0.3:
            self._settle()

    @property
    def _can_go_on(self) -> bool:
        """Whether more text in the open block is nothing but more text."""
        return SILENT not in self._block and self._block.count("```") % 2 == 0

    def _settle(self) -> None:
        """The open block ends; what it says in the end is told in one of the ways runtimes have."""
        chance = self._dice.random() if self._can_go_on else 0.0
        block, self._block = self._block, ""
        if chance < 0.4:
            self._add(BlockFinal())
        elif chance < 0.7:
            self._add(BlockFinal(text=block or self._speech.block()))
        elif chance < 0.8:
            self._add(BlockFinal(text=f"{block}\n\n{self._speech.words(1, 9)}" if block else self._speech.words(1, 9)))
        elif chance < 0.95:
            kept = block[: self._dice.randint(0, len(block))].rpartition("\n\n")[0]
            self._add(BlockFinal(text=f"{kept}\n\n{self._speech.words(1, 30)}".lstrip()))
        else:
            self._add(BlockFinal(text=""))

    def _retract(self, scope: str) -> None:
        self._block = ""
        self._add(TextRetracted(scope="turn" if scope == "turn" else "block"))

    def _tool(self) -> None:
        dice = self._dice
        name = f"t{dice.randint(1, 3)}"
        parent = dice.choice(self._tools) if self._tools and dice.random() < 0.3 else None
        if parent is None:
            self._block = ""
        self._tools.append(name)
        self._add(ToolStarted(id=name, name="look_up", arguments={"path": "a/b"}, parent_tool_id=parent))
        for _ in range(dice.choice((0, 0, 1, 3))):
            self._add(
                dice.choice(
                    (
                        ToolInput(id=name, arguments={"command": "ls *"}),
                        ToolProgress(id=name, elapsed_s=dice.random() * 9),
                        ToolOutput(id=name, data="printed"),
                        TextDelta(text="under it", parent_tool_id=name),
                        Error(message="under it", parent_tool_id=name),
                    )
                )
            )
        if dice.random() < 0.8:
            self._add(ToolFinished(id=name, result="found", is_error=dice.random() < 0.3))

    def _error(self) -> None:
        self._block = ""
        self._add(Error(message=self._speech.word("e"), code=self._dice.choice((None, "c1"))))

    def _media(self) -> None:
        self._block = ""
        caption = self._speech.words(0, self._dice.choice((3, 3, 30)), "k")
        media = Media(url=f"http://a.b/{self._speech.word('m')}", mime="image/png", caption=caption)
        self._add(media)
        if self._dice.random() < 0.2:
            self._add(media)

    def _remark(self) -> None:
        dice = self._dice
        event = dice.choice(
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

    def _end(self) -> None:
        dice = self._dice
        chance = dice.random()
        if chance < 0.6:
            self._add(TurnCompleted())
        elif chance < 0.7:
            has_spoken = any(isinstance(event, TextDelta) for _, event in self.events)
            self._add(TurnCompleted(text=self._block or ("" if has_spoken else self._speech.block())))
        elif chance < 0.75:
            self._add(TurnCompleted(text=self._speech.block()))
        elif chance < 0.85:
            self._add(TurnFailed(message=self._speech.word("e"), code=dice.choice((None, "c1"))))
        elif chance < 0.95:
            self._add(TurnCancelled())
        if chance < 0.9 and self._tools and dice.random() < 0.2:
            self._add(ToolFinished(id=self._tools[-1]))
