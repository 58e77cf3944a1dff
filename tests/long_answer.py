"""A long answer with a mark in each of its lines, and what is wrong with the messages that show it.

It has 60 KB: 613 lines in paragraphs, lists, 17 code blocks and 6 tables, with emoji. A missing, repeated or misplaced
line is found by its mark, and a broken code block by lines that are not shown as code.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tailrace.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from tailrace.testing.platforms.telegram.world import TelegramMessage

LINES, CODE_BLOCKS, TABLES = 613, 17, 6
_CODE_LINES, _TABLE_ROWS = 12, 8
_MARK = re.compile(r"\bL\d{3}\b")
_WORDS = "Each line has **bold**, `code` or a [link](https://example.org/) and a smile 👩‍👩‍👧‍👦 🇫🇷 😀.\n"
_TOKEN = 4  # characters
_TICK_S = 0.1
_SECTIONS_PER_TOOL = 5
_TOOL_S = 0.5


class LongAnswer(msgspec.Struct, frozen=True):
    """The text, and the marks of the lines of each code block."""

    text: str
    code: tuple[tuple[str, ...], ...]

    @property
    def marks(self) -> list[str]:
        return _MARK.findall(self.text)


def long_answer(lines: int = LINES) -> LongAnswer:
    """The answer, or a shorter one with the same share of everything."""
    marks = iter([f"L{number:03d}" for number in range(lines)])
    text: list[str] = []
    code: list[tuple[str, ...]] = []
    sections = max(1, CODE_BLOCKS * lines // LINES)
    tables = TABLES * lines // LINES
    prose = (lines - sections * _CODE_LINES - tables * _TABLE_ROWS) // sections
    for section in range(sections):
        text.append(f"## Section {section}\n\n")
        for number in range(prose):
            begin = "- " if number % 3 else "\n"
            text.append(f"{begin}{next(marks)}: {_WORDS}")
        code.append(tuple(next(marks) for _ in range(_CODE_LINES)))
        body = "".join(f"    value = compute({mark!r}, {'x' * 53!r})\n" for mark in code[-1])
        text.append(f"\n```python\n{body}```\n\n")
        if section < tables:
            rows = "".join(f"| {next(marks)} | {'y' * 40} | 😀 |\n" for _ in range(_TABLE_ROWS))
            text.append(f"| name | value | mood |\n|---|---|---|\n{rows}\n")
    text += [f"\n{mark}: {_WORDS}" for mark in marks]
    return LongAnswer("".join(text), tuple(code))


async def streamed(text: str, *, tokens_per_s: int, turn_id: str = "turn") -> AsyncIterator[Event]:
    """The text as an agent writes it, with a tool before every fifth section."""
    size = max(1, round(tokens_per_s * _TICK_S * _TOKEN))
    yield TurnStarted(turn_id=turn_id)
    for number, section in enumerate(re.split(r"(?=^## )", text, flags=re.MULTILINE)):
        if number % _SECTIONS_PER_TOOL == 1:
            yield ToolStarted(id=f"tool {number}", name="read", arguments={"path": "a.py"})
            await asyncio.sleep(_TOOL_S)
            yield ToolFinished(id=f"tool {number}", result="done")
        for at in range(0, len(section), size):
            yield TextDelta(text=section[at : at + size])
            await asyncio.sleep(_TICK_S)
    yield TurnCompleted()


def marks_in(texts: Iterable[str]) -> list[str]:
    """The marks of all lines, in their order."""
    return [mark for text in texts for mark in _MARK.findall(text)]


def lost_lines(answer: LongAnswer, texts: Sequence[str]) -> list[str]:
    """The marks of the lines that no message shows."""
    return sorted(set(answer.marks) - set(marks_in(texts)))


def repeated_lines(texts: Sequence[str]) -> list[str]:
    """The marks of the lines that are there more than once."""
    return [mark for mark, count in Counter(marks_in(texts)).items() if count > 1]


def broken_code(answer: LongAnswer, messages: Sequence[TelegramMessage]) -> int:
    """How many code blocks have a line that is shown, and not as code of their language; or a fence that is text."""
    as_code: set[str] = set()
    shown: set[str] = set()
    for message in messages:
        units = message.content.text.encode("utf-16-le")
        shown |= set(marks_in([message.content.text]))
        for entity in message.content.entities:
            if entity.type == "pre" and entity.language == "python":
                as_code |= set(marks_in([units[2 * entity.offset : 2 * entity.end].decode("utf-16-le")]))
    fences = sum("```" in message.content.text for message in messages)
    return sum(bool(set(block) & shown - as_code) for block in answer.code) + fences
