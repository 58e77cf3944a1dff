"""What a turn says according to the judge: which text and media are valid after each event, and in which order.

It shares no code with the projector: it keeps blocks as they came and reads them again each time. It understands only
what `random_turns.turns` writes: reasoning in `<think>` at the start of a line, silent replies alone in their line,
code in fences of three backticks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Media,
    ModelChanged,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import Event

SILENT = "NO_REPLY"
WORD = re.compile(r"(?<![A-Za-z0-9])[wekm]\d+z")
"""A word that occurs once in a run: of the answer (w), of an error (e), of a caption (k), of a medium (m)."""

_CUT_OFF = "The answer ended before it was complete."
_REASONING_FIRST = re.compile(r"\A\s*(?:<think>.*?(?:</think>|\Z)\s*)+", re.DOTALL)
_REASONING = re.compile(r"^<think>.*?(?:</think>|\Z)", re.DOTALL | re.MULTILINE)
_SILENT_LAST = re.compile(rf"^{SILENT}\s*\Z", re.MULTILINE)
_ENDS_TEXT = (ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded)


class Item(msgspec.Struct, frozen=True):
    """One part of the answer: text of the agent as Markdown, a line of ours about it, or a medium with its caption."""

    kind: Literal["text", "note", "media"]
    text: str
    url: str = ""

    @property
    def words(self) -> list[str]:
        return WORD.findall(f"{self.url} {self.text}")


def visible(block: str) -> str:
    """What people may read of a block, complete or not."""
    if _opener_is_missing(block):
        block = block.rpartition("</think>")[2].lstrip()
    block = _REASONING_FIRST.sub("", block)
    return _SILENT_LAST.sub("", _REASONING.sub("", block))


class ExpectedTurn:
    """What one turn says so far. `was_revised`: text that people could read was taken back or replaced."""

    def __init__(self, events: Iterable[Event] = (), *, usage: bool = False) -> None:
        self._done: list[Item] = []  # what ended before the open text
        self._blocks: list[str] = []  # of the open text
        self._run = 0  # from this block on there is nothing but text between the blocks
        self._is_open = False  # the last block is open
        self._was_silenced = False  # text that ended contains a silent reply
        self._urls: set[str] = set()
        self._shows_usage = usage
        self._usage = ""
        self.was_revised = False
        self.is_over = False
        self.is_cancelled = False
        for event in events:
            self.feed(event)

    def feed(self, event: Event) -> None:
        if getattr(event, "parent_tool_id", None) is not None or self.is_over:
            return
        if isinstance(event, _ENDS_TEXT):
            self._is_open, self._run = False, len(self._blocks)
        match event:
            case TextDelta():
                self._add_text(event.text)
            case BlockFinal():
                self._close_block(event.text)
            case TextRetracted():
                self._retract(everything=event.scope == "turn")
            case Media(url=str(url)) if url not in self._urls:
                self._urls.add(url)
                self._add_item(Item("media", event.caption, url))
            case Error():
                self._add_item(_error_line(event.message, event.code))
            case Usage():
                self._usage = f"{event.input_tokens:,} tokens in, {event.output_tokens:,} out"
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._end(event)
            case _:
                pass

    def close(self) -> None:
        """No more events come; a turn without an end was cut off."""
        self.feed(TurnFailed(message=_CUT_OFF))

    @property
    def items(self) -> list[Item]:
        text = self.text
        return [*self._done, Item("text", text)] if text.strip() else self._done

    @property
    def text(self) -> str:
        """The text after the last item that is not text."""
        text = ""
        for block in filter(str.strip, map(visible, self._blocks)):
            if text:
                text += _end_of_code(text)
                text += "" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
            text += block
        return text if self._is_open else text + _end_of_code(text)

    @property
    def words(self) -> list[str]:
        return [word for item in self.items for word in item.words]

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if self._is_open:
            self._blocks[-1] += text
        else:
            self._blocks.append(text)
        self._is_open = True
        self.was_revised = self.was_revised or (">" in text and _opener_is_missing(self._blocks[-1]))

    def _close_block(self, text: str | None) -> None:
        if text is not None:
            if self._is_open:
                before = visible(self._blocks.pop())
                self.was_revised = self.was_revised or not visible(text).startswith(before)
            if text:
                self._blocks.append(text)
        self._is_open = False

    def _retract(self, *, everything: bool) -> None:
        self.was_revised = True
        if everything:
            self._done = [item for item in self._done if item.kind != "text"]
            self._run = 0
        del self._blocks[self._run :]
        self._is_open = False
        if not any(item.kind == "text" for item in self.items):
            self._blocks, self._run, self._was_silenced = [], 0, False

    def _add_item(self, item: Item) -> None:
        self._was_silenced = self._is_silenced
        self._done = [*self.items, item]
        self._blocks, self._run, self._is_open = [], 0, False

    def _end(self, event: TurnCompleted | TurnFailed | TurnCancelled) -> None:
        self.is_over = True
        self.is_cancelled = isinstance(event, TurnCancelled)
        has_answer = self._is_silenced or any(item.kind == "text" for item in self.items)
        if isinstance(event, TurnCompleted) and event.text and not has_answer:
            self._blocks.append(event.text)
            self._is_open = True
        if isinstance(event, TurnFailed):
            self._add_item(_error_line(event.message, event.code))
        if self._shows_usage and self._usage and not self.is_cancelled:
            self._add_item(Item("note", self._usage))

    @property
    def _is_silenced(self) -> bool:
        return self._was_silenced or any(SILENT in block for block in self._blocks)


def _opener_is_missing(block: str) -> bool:
    return "</think>" in block and "<think>" not in block


def _error_line(message: str, code: str | None) -> Item:
    return Item("note", f"⚠️ {message} [{code}]" if code else f"⚠️ {message}")


def _end_of_code(text: str) -> str:
    """The fence that closes code which the text leaves open."""
    fences = [line for line in text.split("\n") if line.startswith("```")]
    if len(fences) % 2 == 0:
        return ""
    return "```" if text.endswith("\n") else "\n```"
