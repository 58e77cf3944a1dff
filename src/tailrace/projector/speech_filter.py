"""What of a turn's text is for people: thinking in tags becomes reasoning, and a silent reply leaves no trace.

Text goes in in pieces of any size, and what of it is to be shown comes out, the same however it was cut. Who shows the
answer or the reasoning, and when, is for others to say.

Tags are `<think>` and `<thinking>`, in letters of any case. They count at the start of a block, after whitespace, and
at the start of a line, after at most three spaces; in fenced code and behind other text they are text.
- Up to the next closing tag of its name, or the end of the block, an opening tag makes text reasoning. Where the turn
  says nothing else, what was never closed is the answer after all.
- A closing tag in a block that opened none has its opener in the prompt: all before it in the block was reasoning and
  is taken back. In the first block, and in one after a thought that was never closed, it counts within a line too,
  glued to the text before it or last in the line; but not in a code span (which ends with its line here), behind a
  quote or among words, where it is spoken of. Any other closing tag at the start of a line is dropped.

A silent reply is a token alone in its line, with whitespace around it and at most five marks on each side: emphasis,
quotes, brackets, paired or not, and behind it `.` and `!`. Backticks make it code, which is text. An answer of such
lines alone is silent; from the end of any other block they are left out. Text that could still become one waits, and
so does whitespace that begins a turn; all else is given out at once.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import ClassVar

import msgspec

_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_REACH = max(map(len, _TAGS)) + 1  # of a tag and what it is glued to
_NAME = "(?ai:think(?:ing)?)"
_TAG = re.compile(rf" {{0,3}}<(/?)({_NAME})>")
_OPENERS = re.compile(rf"\A(?:\s*<{_NAME}>)+")
_CLOSERS = {tag: re.compile(f"(?ai:{tag})") for tag in _TAGS if tag.startswith("</")}
_CLOSER_LAST = re.compile(rf"</{_NAME}>\s*\Z")
_TAG_BEHIND_TEXT = re.compile(rf"([^\s\"'“‘«(\[`])?<(/?){_NAME}>\Z")  # the first group: what a tag can be glued to
_FENCE = re.compile(r" {0,3}(`{3,}+(?=[^`]*\Z)|~{3,})")
_FENCE_END = re.compile(r" {0,3}(`{3,}|~{3,})[ \t\r\n]*\Z")
_BLANK = re.compile(r"\s+")
_LINE_OR_TAG_END = re.compile("[\n>]")
_MARKS = "*_\"'“”‘’«»()\\[\\]"


class Heard(msgspec.Struct, frozen=True):
    """What comes of a piece. `retract`: what the block gave out before is taken back: it was thought (`thought_in`).

    `of_tag`: so many of the last characters that were given out belong to the tag that says so.
    """

    text: str = ""
    reasoning: str = ""
    retract: bool = False
    of_tag: int = 0

    def thought_in(self, shown: str) -> str:
        """What was thought of a block that is taken back, given all that it gave out."""
        return shown[: len(shown) - self.of_tag]


# Where in a text one stands is nearly all that has to be known of the text before:
#   LINE_START   an opening tag                                       → THINKING
#                a closing tag; whitespace before anything is said    → LINE_START
#                a token alone                                        → AFTER_TOKEN
#                what could still become one of these                 → it waits, and is read again with what comes
#                anything else                                        → IN_LINE
#   AFTER_TOKEN  whitespace → AFTER_TOKEN, with a line end → LINE_START; anything else → IN_LINE, and the token is text
#   IN_LINE      a line end → LINE_START, but IN_LINE in fenced code; a closing tag that counts → LINE_START
#   THINKING     the closing tag                                      → LINE_START
#
# What waits is never longer than a tag, or a token with its marks. Lines are kept in pieces and joined once:
# a line at its end, where it is known to be a fence or not. What is out of earlier lines is not kept: cost is linear.
_Place = Enum("_Place", ["LINE_START", "AFTER_TOKEN", "IN_LINE", "THINKING"])


class SpeechFilter:
    """The text of one turn: `feed` the pieces of a block, `block_end` it, and at last `close` the turn."""

    __slots__ = (
        *(
            "_begun",
            "_closer",
            "_expects_closer",
            "_fence",
            "_fresh",
            "_head",
            "_is_out",
            "_of_tag",
            "_held",
            "_line",
            "_new",
        ),
        *("_place", "_reasoning", "_retract", "_said", "_said_token", "_spoke", "_spoke_before", "_swallows"),
        *("_tagged", "_thought", "_token_alone", "_tokens", "_unclosed", "_watches"),
    )

    def __init__(self, silent: tuple[str, ...] = ("NO_REPLY",)) -> None:
        self._tokens = tuple(token.strip() for token in silent if token.strip())
        self._begun, self._token_alone = _beginnings(self._tokens)
        self.reset_turn()

    @property
    def silent(self) -> bool:
        """Whether the turn, now that it is closed, said a token and nothing else."""
        return self._said_token and not self._spoke

    def reset_turn(self) -> None:
        """Forget all that was heard."""
        self._spoke_before = self._said_token = False
        self._unclosed: list[str] = []
        self._expects_closer = True  # also within a line
        self.reset_block()

    def reset_block(self) -> None:
        """Forget what was heard since the last `block_end`."""
        self._spoke = self._spoke_before  # anything but whitespace and tokens
        self._held: list[str] = []  # whitespace and tokens, until it is known what follows them
        self._begin_block()

    def _begin_block(self) -> None:
        self._place = _Place.LINE_START
        self._head = ""  # what waits
        self._said: list[str] = []  # what was said of it since the line before this one, or since the call began
        self._line = 0  # where in it the line begins
        self._is_out = False  # people were given something of it
        self._fence = ""
        self._fresh = True  # nothing but whitespace, tokens and thoughts so far
        self._tagged = False  # it opened a thought, or spoke of the tag that does
        self._swallows = False  # whitespace, behind a thought that the block begins with
        self._watches = False  # for tags within this line
        self._thought: list[str] = []

    def _begin_call(self) -> None:
        del self._said[: self._line]
        self._line = 0
        self._new = len(self._said)  # where in it that begins which is not out yet
        self._reasoning: list[str] = []
        self._retract = False
        self._of_tag = 0

    def feed(self, text: str) -> Heard:
        """More text of the block."""
        # Nearly every piece stands within a line and changes nothing.
        if self._place is _Place.IN_LINE and "\n" not in text and not (self._watches and ">" in text):
            if text:
                self._said.append(text)
            return Heard(text)
        self._begin_call()
        text, self._head = self._head + text, ""
        at = 0
        while at < len(text):
            at = self._READERS[self._place](self, text, at)
        return self._heard()

    def block_end(self) -> Heard:
        """The block ends, and what waits for more of it is decided; whitespace that begins the turn waits on."""
        self._begin_call()
        is_thinking = self._place is _Place.THINKING
        if is_thinking:
            self._think(self._head)
            self._unclosed.append("".join(self._thought))
        elif self._place is _Place.IN_LINE:
            self._end_line()
        elif self._token_alone.fullmatch(self._head):
            self._held.append(self._head)
        elif self._head:
            self._speak()
            self._said.append(self._head)
        if not all(piece.isspace() for piece in self._held):
            self._said_token = True
            self._held = []
        heard = self._heard()
        self._expects_closer = is_thinking or (self._expects_closer and self._fresh)
        self._spoke_before = self._spoke
        self._begin_block()
        return heard

    def close(self) -> Heard:
        """The turn ends, and its last block with it."""
        last = self.block_end()
        if self._spoke or self._said_token:
            return last
        if not self._unclosed:
            return Heard("".join(self._held), last.reasoning, last.retract, last.of_tag)
        # What was never closed is heard once more, as if no tag had opened it.
        again = SpeechFilter(self._tokens)
        first, rest = again.feed(_OPENERS.sub("", "\n\n".join(self._unclosed))), again.block_end()
        self._spoke, self._said_token = again._spoke, again._said_token
        text = rest.text if rest.retract else first.text + rest.text
        return Heard(text, last.reasoning, last.retract, last.of_tag)

    def _heard(self) -> Heard:
        text = "".join(self._said[self._new :])
        self._is_out = self._is_out or bool(text)
        return Heard(text, "".join(self._reasoning), self._retract, self._of_tag)

    def _read_line_start(self, text: str, at: int) -> int:
        if (self._fresh or self._held) and (blank := _BLANK.match(text, at)):
            if not self._swallows:
                (self._held if self._held or not self._spoke else self._said).append(blank[0])
            return blank.end()
        if tag := _TAG.match(text, at):
            if not tag[1]:
                self._place = _Place.THINKING
                self._closer = f"</{tag[2].lower()}>"
                self._tagged = True
            elif not self._tagged:
                self._said += [*self._held, tag[0]]
                self._take_back()
            return tag.end()
        if self._begun.fullmatch(text, at):
            self._head = text[at:]
            return len(text)
        if token := self._token_alone.match(text, at):
            self._place = _Place.AFTER_TOKEN
            self._held.append(token[0])
            self._swallows = False
            return token.end()
        self._speak()
        self._line = len(self._said)
        return at

    def _read_after_token(self, text: str, at: int) -> int:
        if blank := _BLANK.match(text, at):
            self._held.append(blank[0])
            if "\n" in blank[0]:
                self._place = _Place.LINE_START
            return blank.end()
        self._line = len(self._said)
        self._speak()
        return at

    def _read_in_line(self, text: str, at: int) -> int:
        found = _LINE_OR_TAG_END.search(text, at)
        end = found.end() if found else len(text)
        self._said.append(text[at:end])
        if found and found[0] == "\n":
            self._end_line()
        elif found and self._watches:
            self._end_tag()
        return end

    def _read_thinking(self, text: str, at: int) -> int:
        if closer := _CLOSERS[self._closer].search(text, at):
            self._think(text[at : closer.start()])
            self._thought = []
            self._place = _Place.LINE_START
            self._swallows = self._fresh
            return closer.end()
        end = text.rfind("<", at)
        if end < 0 or not self._closer.startswith(text[end:].lower()):
            end = len(text)
        self._think(text[at:end])
        self._head = text[end:]
        return len(text)

    _READERS: ClassVar = {
        _Place.LINE_START: _read_line_start,
        _Place.AFTER_TOKEN: _read_after_token,
        _Place.IN_LINE: _read_in_line,
        _Place.THINKING: _read_thinking,
    }

    def _think(self, text: str) -> None:
        self._reasoning.append(text)
        self._thought.append(text)

    def _speak(self) -> None:
        """What comes is for people, and so is what was held."""
        self._place = _Place.IN_LINE
        self._said += self._held
        self._held = []
        self._spoke, self._fresh = True, False
        self._watches = not self._tagged

    def _end_tag(self) -> None:
        """Prose has come to a `>`, perhaps that of a tag."""
        tag = _TAG_BEHIND_TEXT.search("".join(piece[-_REACH:] for piece in self._said[-_REACH:]))
        if not tag or (tag[2] and not (tag[1] and self._expects_closer)):
            return
        if _ends_in_code("".join(self._said[self._line :])):
            self._watches = False  # or a line full of such tags would be looked through for each of them
        elif tag[2]:
            self._take_back()
        else:
            self._tagged, self._watches = True, False

    def _end_line(self) -> None:
        line = "".join(self._said[self._line :])
        self._line = len(self._said)
        if self._fence:
            end = _FENCE_END.match(line)
            self._fence = "" if end and end[1].startswith(self._fence) else self._fence
        elif self._watches and self._expects_closer and _CLOSER_LAST.search(line) and not _ends_in_code(line):
            self._take_back()
        elif fence := _FENCE.match(line):
            self._fence, self._watches = fence[1], False
        self._place = _Place.IN_LINE if self._fence else _Place.LINE_START

    def _take_back(self) -> None:
        """A closing tag, which is the last that was said, makes reasoning of all before it in the block."""
        out, fresh = "".join(self._said[: self._new]), "".join(self._said[self._new :])
        tag = (out + fresh).rindex("<")
        self._reasoning.append(fresh[: max(tag - len(out), 0)])
        self._of_tag = max(len(out) - tag, 0)
        self._retract, self._is_out = self._is_out, False
        self._said, self._held = [], []
        self._new = self._line = 0
        self._place = _Place.LINE_START
        self._spoke = self._spoke_before
        self._fresh = self._tagged = self._swallows = True


@cache
def _beginnings(tokens: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns: what may become a tag or a token alone at the start of a line, and a token alone."""
    tag = f"(?ai:{_any_prefix(_TAGS)})?"
    if not tokens:
        return re.compile(f" {{0,3}}{tag}"), re.compile("(?!)")
    # Of two tokens that begin alike the longer one is meant.
    token = "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))
    alone = f"[{_MARKS}]{{0,5}}(?:{token})[{_MARKS}.!]{{0,5}}"
    begun = f" {{0,3}}(?:{tag}|[{_MARKS}]{{0,5}}(?:{_any_prefix(tokens)})?|{alone})"
    return re.compile(begun), re.compile(f" {{0,3}}{alone}")


def _any_prefix(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word[:length]) for word in words for length in range(len(word), 0, -1))


def _ends_in_code(line: str) -> bool:
    opened = ""
    for run in re.findall("`+", line):
        opened = "" if run == opened else opened or run
    return bool(opened)
