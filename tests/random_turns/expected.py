"""What a turn says, by an account of its own: which text stands after each event, in which order, beside what else.

It is the examiner's and knows nothing of the projector: blocks are kept as they were said and read anew whenever
somebody asks. It reads only what `random_turns.turns` writes: thoughts in `<think>` at the start of a line,
silent replies alone in their line, code in fences of three backticks.
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
    from tailrace.events import Event

SILENT = "NO_REPLY"
CUT_OFF = "The answer ended before it was complete."
WORD = re.compile(r"(?<![A-Za-z0-9])[wekm]\d+z")
"""A word that stands once in a turn: of the answer (w), of an error (e), of a caption (k), or a medium (m)."""

_THOUGHT_FIRST = re.compile(r"\A\s*(?:<think>.*?(?:</think>|\Z)\s*)+", re.DOTALL)
_THOUGHT = re.compile(r"^<think>.*?(?:</think>|\Z)", re.DOTALL | re.MULTILINE)
_SILENT_LAST = re.compile(rf"^{SILENT}\s*\Z", re.MULTILINE)
_BREAKS = (ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded)


class Said(msgspec.Struct, frozen=True):
    """One thing in its place: text of the agent as Markdown, words of ours about it, or a medium with its caption."""

    kind: Literal["text", "note", "media"]
    text: str
    url: str = ""

    @property
    def words(self) -> list[str]:
        """Its words in their order."""
        return WORD.findall(f"{self.url} {self.text}")


def visible(block: str) -> str:
    """What people are told of a block as it was said, complete or not."""
    if _opener_is_missing(block):
        block = block.rpartition("</think>")[2].lstrip()
    block = _THOUGHT_FIRST.sub("", block)
    return _SILENT_LAST.sub("", _THOUGHT.sub("", block))


class Account:
    """The account of one turn so far. `was_revised`: something that could be seen was taken back or replaced."""

    def __init__(self, *, usage: bool = False) -> None:
        self._done: list[Said] = []  # what ended before the text that is open
        self._blocks: list[str] = []  # of the text that is open
        self._run = 0  # the blocks from here on have nothing but text between them
        self._is_open = False  # the last of them goes on
        self._was_hushed = False  # a silent reply stands in text that ended
        self._urls: set[str] = set()
        self._wants_usage = usage
        self._usage = ""
        self.was_revised = False
        self.is_over = False
        self.is_cancelled = False

    def feed(self, event: Event) -> None:
        """Take in one event."""
        if getattr(event, "parent_tool_id", None) is not None or self.is_over:
            return
        if isinstance(event, _BREAKS):
            self._is_open, self._run = False, len(self._blocks)
        match event:
            case TextDelta():
                self._say(event.text)
            case BlockFinal():
                self._settle(event.text)
            case TextRetracted():
                self._take_back(everything=event.scope == "turn")
            case Media(url=str(url)) if url not in self._urls:
                self._urls.add(url)
                self._put(Said("media", event.caption, url))
            case Error():
                self._put(_complaint(event.message, event.code))
            case Usage():
                self._usage = f"{event.input_tokens:,} tokens in, {event.output_tokens:,} out"
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._end(event)
            case _:
                pass

    def close(self) -> None:
        """The events are over, with or without an end."""
        self.feed(TurnFailed(message=CUT_OFF))

    @property
    def items(self) -> list[Said]:
        """All that stands, in order."""
        text = self.text
        return [*self._done, Said("text", text)] if text.strip() else self._done

    @property
    def text(self) -> str:
        """The text that stands behind the last thing that was none."""
        said = ""
        for block in filter(str.strip, map(visible, self._blocks)):
            if said:
                said += _closing(said)
                said += "" if said.endswith("\n\n") else "\n" if said.endswith("\n") else "\n\n"
            said += block
        return said if self._is_open else said + _closing(said)

    @property
    def words(self) -> list[str]:
        """The words of all that stands, in order."""
        return [word for item in self.items for word in item.words]

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._is_open:
            self._blocks[-1] += text
        else:
            self._blocks.append(text)
        self._is_open = True
        self.was_revised = self.was_revised or (">" in text and _opener_is_missing(self._blocks[-1]))

    def _settle(self, text: str | None) -> None:
        if text is not None:
            if self._is_open:
                before = visible(self._blocks.pop())
                self.was_revised = self.was_revised or not visible(text).startswith(before)
            if text:
                self._blocks.append(text)
        self._is_open = False

    def _take_back(self, *, everything: bool) -> None:
        self.was_revised = True
        if everything:
            self._done = [item for item in self._done if item.kind != "text"]
            self._run = 0
        del self._blocks[self._run :]
        self._is_open = False
        if not any(item.kind == "text" for item in self.items):
            self._blocks, self._run, self._was_hushed = [], 0, False  # where nothing stands, nothing was said

    def _put(self, item: Said) -> None:
        self._was_hushed = self._is_hushed
        self._done = [*self.items, item]
        self._blocks, self._run, self._is_open = [], 0, False

    def _end(self, event: TurnCompleted | TurnFailed | TurnCancelled) -> None:
        self.is_over = True
        self.is_cancelled = isinstance(event, TurnCancelled)
        if isinstance(event, TurnCompleted) and event.text and not self._is_answered:
            self._blocks.append(event.text)
            self._is_open = True
        if isinstance(event, TurnFailed):
            self._put(_complaint(event.message, event.code))
        if self._wants_usage and self._usage and not self.is_cancelled:
            self._put(Said("note", self._usage))

    @property
    def _is_answered(self) -> bool:
        return self._is_hushed or any(item.kind == "text" for item in self.items)

    @property
    def _is_hushed(self) -> bool:
        return self._was_hushed or any(SILENT in block for block in self._blocks)


def _opener_is_missing(block: str) -> bool:
    return "</think>" in block and "<think>" not in block


def _complaint(message: str, code: str | None) -> Said:
    return Said("note", f"⚠️ {message} [{code}]" if code else f"⚠️ {message}")


def _closing(text: str) -> str:
    """What closes the code that the text leaves open."""
    fences = [line for line in text.split("\n") if line.startswith("```")]
    if len(fences) % 2 == 0:
        return ""
    return "```" if text.endswith("\n") else "\n```"
