"""Removes reasoning in tags and silent replies from a turn's text, because they are not for people.

Text comes in pieces of any size. The visible text comes out, and does not depend on how the text was divided into
pieces. The caller shows the answer and the reasoning.

Tags are `<think>` and `<thinking>` in upper or lower case. A tag counts at the start of a block, also after whitespace,
and at the start of a line, also after at most three spaces. In fenced code and after other text a tag is text.

- An opening tag begins reasoning, up to the next closing tag of its name or the end of the block. If the turn has no
  other text and was not cancelled, reasoning that was never closed is the answer after all.
- A closing tag in a block without an opening tag belongs to an opening tag in the prompt: the block's text before it is
  reasoning and is retracted. In the first block, and after reasoning that was never closed, this also holds within a
  line, if the tag directly follows text or ends the line. It does not hold in a code span (a line end also ends the
  span here), after a quote, or between words, where the text only mentions the tag. Any other closing tag at the start
  of a line is removed.

A silent word is an answer such as `NO_REPLY`: the agent does not want to answer. A silent reply is a silent word alone
in its line. There may be whitespace around the word and, on each side, at most five marks: emphasis, quotes, brackets
(in pairs or not), after the word also `.` and `!`. In backticks the word is code, which is text. An answer that has
only such lines is silent; at the end of any other block such lines are removed. Text that may still become such a line
is held back, and so is whitespace that begins a turn. All other text comes out at once.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import ClassVar

import msgspec

_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_TAG_REACH = max(map(len, _TAGS)) + 1  # the length of a tag and the character before it
_NAME = "(?ai:think(?:ing)?)"
_TAG = re.compile(rf" {{0,3}}<(/?)({_NAME})>")
_OPENERS = re.compile(rf"\A(?:\s*<{_NAME}>)+")
_CLOSERS = {tag: re.compile(f"(?ai:{tag})") for tag in _TAGS if tag.startswith("</")}
_CLOSER_LAST = re.compile(rf"</{_NAME}>\s*\Z")
_TAG_BEHIND_TEXT = re.compile(rf"([^\s\"'“‘«(\[`])?<(/?){_NAME}>\Z")  # the first group: text that a tag may follow
_FENCE = re.compile(r" {0,3}(`{3,}+(?=[^`]*\Z)|~{3,})")
_FENCE_END = re.compile(r" {0,3}(`{3,}|~{3,})[ \t\r\n]*\Z")
_BLANK = re.compile(r"\s+")
_LINE_OR_TAG_END = re.compile("[\n>]")
_MARKS = "*_\"'“”‘’«»()\\[\\]"


class FilteredText(msgspec.Struct, frozen=True):
    """What the filter found in one piece: visible `text` and `reasoning`.

    `retract`: the visible text that the filter returned for this block before is reasoning after all, and must be
    removed; `reasoning_in` gives the reasoning in it. `tag_length`: how many characters at the end of that text belong
    to the closing tag.
    """

    text: str = ""
    reasoning: str = ""
    retract: bool = False
    tag_length: int = 0

    def reasoning_in(self, shown: str) -> str:
        """The reasoning in `shown`, the text of the block that is retracted: all of it except the closing tag."""
        return shown[: len(shown) - self.tag_length]


# The state is nearly all that the filter must know of the text before. The next text decides the next state:
#   LINE_START   an opening tag                                          → REASONING
#                a closing tag; whitespace before the turn's first text  → LINE_START
#                a silent word alone                                     → AFTER_WORD
#                text that may still become one of these                 → is held back, and read again with more text
#                anything else                                           → IN_LINE
#   AFTER_WORD   whitespace → AFTER_WORD, with a line end → LINE_START; anything else → IN_LINE, and the word is text
#   IN_LINE      a line end → LINE_START, but IN_LINE in fenced code; a closing tag that counts → LINE_START
#   REASONING    the closing tag                                         → LINE_START
#
# Cost is linear: the text held back is never longer than a tag, or a silent word with its marks; a line is kept in
# pieces and joined once, at its end, to see whether it is a fence; earlier lines that came out are not kept.
_State = Enum("_State", ["LINE_START", "AFTER_WORD", "IN_LINE", "REASONING"])


class SpeechFilter:
    """Filters the text of one turn.

    Call `feed` for each piece of a block, `end_block` after it, and `close` at the end.
    """

    def __init__(self, silent: tuple[str, ...] = ("NO_REPLY",)) -> None:
        self._words = tuple(word.strip() for word in silent if word.strip())
        self._prefix, self._word_alone = _line_patterns(self._words)
        self.reset_turn()

    @property
    def is_silent(self) -> bool:
        """Whether the agent did not want to answer: the turn has ended, and its text has only silent words."""
        return self._has_word and not self._has_text

    def reset_turn(self) -> None:
        """Forget all text of the turn, because it was retracted."""
        self._had_text = self._has_word = False
        self._unclosed: list[str] = []
        self._allows_inline_closer = True
        self.reset_block()

    def reset_block(self) -> None:
        """Forget the text of the present block, because it was retracted or is fed again."""
        self._has_text = self._had_text  # anything but whitespace and silent words
        self._held: list[str] = []  # whitespace and silent words, until it is known what follows them
        self._begin_block()

    def _begin_block(self) -> None:
        self._state = _State.LINE_START
        self._head = ""  # text held back, to be read again with the next piece
        self._out: list[str] = []  # visible text since the start of the previous line, or of this call
        self._line_start = 0  # the index in `_out` of the line's first piece
        self._is_visible = False  # some text of the block came out
        self._fence = ""
        self._is_at_start = True  # only whitespace, silent words and reasoning so far
        self._saw_opener = False
        self._drops_whitespace = False  # after reasoning that begins the block
        self._looks_for_tags = False  # within this line
        self._block_reasoning: list[str] = []

    def _begin_call(self) -> None:
        del self._out[: self._line_start]
        self._line_start = 0
        self._out_start = len(self._out)  # the index in `_out` of the first piece of this call
        self._reasoning: list[str] = []
        self._retract = False
        self._tag_length = 0

    def feed(self, text: str) -> FilteredText:
        """Take the next text of the block, and return what is known to be visible or reasoning."""
        # Nearly every piece is within a line and changes nothing.
        if self._state is _State.IN_LINE and "\n" not in text and not (self._looks_for_tags and ">" in text):
            if text:
                self._out.append(text)
            return FilteredText(text)
        self._begin_call()
        text, self._head = self._head + text, ""
        at = 0
        while at < len(text):
            at = self._READERS[self._state](self, text, at)
        return self._result()

    def end_block(self) -> FilteredText:
        """End the block.

        Text that was held back is returned or dropped; only whitespace that begins the turn still waits.
        """
        self._begin_call()
        is_reasoning = self._state is _State.REASONING
        if is_reasoning:
            self._add_reasoning(self._head)
            self._unclosed.append("".join(self._block_reasoning))
        elif self._state is _State.IN_LINE:
            self._end_line()
        elif self._word_alone.fullmatch(self._head):
            self._held.append(self._head)
        elif self._head:
            self._begin_text()
            self._out.append(self._head)
        if not all(piece.isspace() for piece in self._held):
            self._has_word = True
            self._held = []
        result = self._result()
        self._allows_inline_closer = is_reasoning or (self._allows_inline_closer and self._is_at_start)
        self._had_text = self._has_text
        self._begin_block()
        return result

    def close(self, *, is_cancelled: bool = False) -> FilteredText:
        """End the turn and its last block.

        If the turn has only reasoning without a closing tag, that reasoning is the answer, except in a cancelled turn.
        """
        last = self.end_block()
        if self._has_text or self._has_word or (is_cancelled and self._unclosed):
            return last
        if not self._unclosed:
            return FilteredText("".join(self._held), last.reasoning, last.retract, last.tag_length)
        # Reasoning that was never closed is the answer: filter it again without its opening tag.
        again = SpeechFilter(self._words)
        first, rest = again.feed(_OPENERS.sub("", "\n\n".join(self._unclosed))), again.end_block()
        self._has_text, self._has_word = again._has_text, again._has_word
        text = rest.text if rest.retract else first.text + rest.text
        return FilteredText(text, last.reasoning, last.retract, last.tag_length)

    def _result(self) -> FilteredText:
        text = "".join(self._out[self._out_start :])
        self._is_visible = self._is_visible or bool(text)
        return FilteredText(text, "".join(self._reasoning), self._retract, self._tag_length)

    def _read_line_start(self, text: str, at: int) -> int:
        if (self._is_at_start or self._held) and (blank := _BLANK.match(text, at)):
            if not self._drops_whitespace:
                (self._held if self._held or not self._has_text else self._out).append(blank[0])
            return blank.end()
        if tag := _TAG.match(text, at):
            if not tag[1]:
                self._state = _State.REASONING
                self._closer = f"</{tag[2].lower()}>"
                self._saw_opener = True
            elif not self._saw_opener:
                self._out += [*self._held, tag[0]]
                self._take_back()
            return tag.end()
        if self._prefix.fullmatch(text, at):
            self._head = text[at:]
            return len(text)
        if word := self._word_alone.match(text, at):
            self._state = _State.AFTER_WORD
            self._held.append(word[0])
            self._drops_whitespace = False
            return word.end()
        self._begin_text()
        self._line_start = len(self._out)
        return at

    def _read_after_word(self, text: str, at: int) -> int:
        if blank := _BLANK.match(text, at):
            self._held.append(blank[0])
            if "\n" in blank[0]:
                self._state = _State.LINE_START
            return blank.end()
        self._line_start = len(self._out)
        self._begin_text()
        return at

    def _read_in_line(self, text: str, at: int) -> int:
        found = _LINE_OR_TAG_END.search(text, at)
        end = found.end() if found else len(text)
        self._out.append(text[at:end])
        if found and found[0] == "\n":
            self._end_line()
        elif found and self._looks_for_tags:
            self._end_tag()
        return end

    def _read_reasoning(self, text: str, at: int) -> int:
        if closer := _CLOSERS[self._closer].search(text, at):
            self._add_reasoning(text[at : closer.start()])
            self._block_reasoning = []
            self._state = _State.LINE_START
            self._drops_whitespace = self._is_at_start
            return closer.end()
        end = text.rfind("<", at)
        if end < 0 or not self._closer.startswith(text[end:].lower()):
            end = len(text)
        self._add_reasoning(text[at:end])
        self._head = text[end:]
        return len(text)

    _READERS: ClassVar = {
        _State.LINE_START: _read_line_start,
        _State.AFTER_WORD: _read_after_word,
        _State.IN_LINE: _read_in_line,
        _State.REASONING: _read_reasoning,
    }

    def _add_reasoning(self, text: str) -> None:
        self._reasoning.append(text)
        self._block_reasoning.append(text)

    def _begin_text(self) -> None:
        """Note that visible text begins. The text that was held back before it is visible too."""
        self._state = _State.IN_LINE
        self._out += self._held
        self._held = []
        self._has_text, self._is_at_start = True, False
        self._looks_for_tags = not self._saw_opener

    def _end_tag(self) -> None:
        """Handle a `>` in visible text, which may be the end of a tag."""
        tag = _TAG_BEHIND_TEXT.search("".join(piece[-_TAG_REACH:] for piece in self._out[-_TAG_REACH:]))
        if not tag or (tag[2] and not (tag[1] and self._allows_inline_closer)):
            return
        if _ends_in_code("".join(self._out[self._line_start :])):
            self._looks_for_tags = False  # otherwise each further tag would search the line again
        elif tag[2]:
            self._take_back()
        else:
            self._saw_opener, self._looks_for_tags = True, False

    def _end_line(self) -> None:
        line = "".join(self._out[self._line_start :])
        self._line_start = len(self._out)
        if self._fence:
            end = _FENCE_END.match(line)
            self._fence = "" if end and end[1].startswith(self._fence) else self._fence
        elif (
            self._looks_for_tags
            and self._allows_inline_closer
            and _CLOSER_LAST.search(line)
            and not _ends_in_code(line)
        ):
            self._take_back()
        elif fence := _FENCE.match(line):
            self._fence, self._looks_for_tags = fence[1], False
        self._state = _State.IN_LINE if self._fence else _State.LINE_START

    def _take_back(self) -> None:
        """Make reasoning of all text of the block so far, because it ends with a closing tag such as `</think>`."""
        before, new = "".join(self._out[: self._out_start]), "".join(self._out[self._out_start :])
        tag = (before + new).rindex("<")
        self._reasoning.append(new[: max(tag - len(before), 0)])
        self._tag_length = max(len(before) - tag, 0)
        self._retract, self._is_visible = self._is_visible, False
        self._out, self._held = [], []
        self._out_start = self._line_start = 0
        self._state = _State.LINE_START
        self._has_text = self._had_text
        self._is_at_start = self._saw_opener = self._drops_whitespace = True


@cache
def _line_patterns(words: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two patterns for the start of a line.

    The first matches text that may become a tag or a silent word when more text comes, the second a silent word alone.
    """
    tag = f"(?ai:{_any_prefix(_TAGS)})?"
    if not words:
        return re.compile(f" {{0,3}}{tag}"), re.compile("(?!)")
    # The longer word comes first, because two words may begin alike.
    word = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    alone = f"[{_MARKS}]{{0,5}}(?:{word})[{_MARKS}.!]{{0,5}}"
    prefix = f" {{0,3}}(?:{tag}|[{_MARKS}]{{0,5}}(?:{_any_prefix(words)})?|{alone})"
    return re.compile(prefix), re.compile(f" {{0,3}}{alone}")


def _any_prefix(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word[:length]) for word in words for length in range(len(word), 0, -1))


def _ends_in_code(line: str) -> bool:
    opened = ""
    for run in re.findall("`+", line):
        opened = "" if run == opened else opened or run
    return bool(opened)
