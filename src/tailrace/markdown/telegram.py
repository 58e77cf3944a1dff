"""The dialect `telegram`: text, and the styles beside it as entities.

Nothing is escaped there and no markup can be wrong, but a message is refused for an entity beyond its text and for a
link that leads nowhere, and what is nested wrongly is taken apart. What Telegram takes is read in the source of its own
library (td: MessageEntity.cpp, LinkManager.cpp, misc.cpp). What it has no style for is said in text: lists, tables,
rules, and targets that it cannot link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from tailrace.markdown import tables
from tailrace.markdown.addresses import split_addresses
from tailrace.markdown.entity_text import EntityText
from tailrace.markdown.links import deceives, link_as_text
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.syntax_tree import (
    Block,
    CodeBlock,
    CodeSpan,
    Definition,
    Emphasis,
    HardBreak,
    Heading,
    HtmlBlock,
    Image,
    Inline,
    InlineHtml,
    Link,
    List,
    Paragraph,
    Quote,
    SoftBreak,
    Strike,
    Strong,
    Table,
    Text,
    ThematicBreak,
    are_tight,
    visible_text,
)
from tailrace.operations import Body

_PHONE_WIDTH = 36  # columns of a table that a phone shows without breaking its lines
_MAX_ENTITIES = 100  # the server drops what is beyond
_MAX_URL_LENGTH = 2048  # nobody states it; no address of a page that people share is longer
_RULE = "———"
_TASK = {None: "", False: "☐ ", True: "☑ "}
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
# The library knows a host by its dot, so `localhost` is refused, and with it the message.
_HOST = r"(?:[\w-]+\.)+[\w-]+(?::[1-9]\d{0,3}|:[1-5]\d{4})?"
# A link to a user is a mention, and nobody is called by what an agent says.
_LINKABLE = re.compile(rf"(?:https?://{_HOST}|tg://(?!user\b)[a-z0-9_-]+)(?:[/?#]\S*)?", re.IGNORECASE)
# What Telegram would take for somebody's name, with what comes next; it looks for none in an address or in code.
_MENTION = re.compile(r"(?<![A-Za-z0-9_])@(?=[^ \n]|\Z)")
# What Telegram takes for nothing at all: a message of these alone is empty to it.
_VISIBLE = re.compile(
    "[^\\x00-\\x20\\xa0\u030a\u0333\u033f\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f\u2800\u3000\ufeff\ufffc"
    "\U000e0000-\U000e007f]"
)
# Which entities stay where there are more than the server takes: a link without its target would be a loss.
_PRIORITY = {"text_link": 0, "pre": 1, "blockquote": 2, "code": 3}


def telegram(source: str) -> Body:
    """The text and its entities."""
    if (alone := replace_surrogates(source).strip()) == "@":
        return Body(text=alone)  # which calls nobody, and must fit any limit
    message = _MessageWriter()
    message.add_blocks(parse(source))
    text, entities = message.out.finish()
    if not is_visible(text):
        return Body(text=_visible_source(alone))
    if len(entities) > _MAX_ENTITIES:
        ranked = sorted(range(len(entities)), key=lambda nth: _PRIORITY.get(entities[nth].type, len(_PRIORITY)))
        entities = [entities[nth] for nth in sorted(ranked[:_MAX_ENTITIES])]
    return Body(text=text, entities=tuple(entities))


def is_linkable(url: str) -> bool:
    """Whether Telegram takes the address for the target of a link."""
    return len(url) <= _MAX_URL_LENGTH and _LINKABLE.fullmatch(url) is not None


def break_mentions(text: str) -> str:
    """The text with every name in it, but for addresses, parted from its sign by a character of no width."""
    return "".join(
        piece if is_address else _MENTION.sub("@\u200b", piece) for piece, is_address in split_addresses(text)
    )


def is_visible(text: str) -> bool:
    """Whether Telegram finds anything in the text: what it does not is an empty message to it."""
    return _VISIBLE.search(text) is not None


def _visible_source(source: str) -> str:
    """The source as it stands, where it has anything to see; else with a sign for each character."""
    return break_mentions(source) if is_visible(source) else re.sub(r"\S", "\ufffd", source)


class _MessageWriter:
    """One walk over a tree. What a line begins with is only written once the line has something to say.

    `gap` holds the line ends that are due before the next line, None within a line; `lead` what that line begins with,
    where it is other than the `prefix` that every line has.
    """

    def __init__(self) -> None:
        self.out = EntityText()
        self.line_ends: str | None = ""
        self.line_start: str | None = None
        self.prefix = ""
        self.styles: dict[str, int] = {}  # the open ones, and where each began
        self.links = 0
        self.in_link = self.in_quote = False

    def add_blocks(self, blocks: Sequence[Block]) -> None:
        before: Block | None = None
        for block in blocks:
            if before is not None and self.line_ends is None:
                self.line_ends = "\n" if are_tight(before, block) else "\n\n"
            self._add_block(block)
            before = block

    def _add_block(self, block: Block) -> None:
        match block:
            case Paragraph():
                self._add_inlines(block.inlines)
            case Heading():
                self._add_styled("bold", block.inlines)
            case CodeBlock():
                language = block.language if _LANGUAGE.fullmatch(block.language) else None
                self._add_code(block.content, language)
            case Quote():
                self._add_quote(block)
            case List():
                self._add_list(block)
            case Table():
                self._add_table(block)
            case ThematicBreak():
                self._write(_RULE)
            case HtmlBlock() | Definition():
                self._write(break_mentions(block.text.strip()))
            case _:
                assert_never(block)

    def _begin_line(self) -> None:
        if self.line_ends is not None:
            self.out.write(self.line_ends)
            self.out.write(self.prefix if self.line_start is None else self.line_start)
            self.line_ends = self.line_start = None

    def _write(self, text: str) -> None:
        if text:
            self._begin_line()
            self.out.write(text.replace("\n", "\n" + self.prefix))

    def _begin_block(self) -> None:
        """What is a block to Telegram does not begin behind a list mark: that gets a line of its own."""
        if self.line_start is not None:
            self._end_mark()
            self.line_ends = "\n"

    def _end_mark(self) -> None:
        if self.line_start is not None:
            self.line_start = self.line_start.rstrip()
            self._begin_line()

    def _add_code(self, code: str, language: str | None = None) -> None:
        # Tabs are shown as one space, and spaces or line ends at the start of a message or an entity are taken away.
        code = code.rstrip().expandtabs(4)
        if not code:
            return
        if code[0] in " \n":
            code = "\u00a0" + code[code[0] == " " :]
        self._begin_block()
        start = self.out.position
        self.out.write((self.line_ends or "") + code)
        self.line_ends = None
        self.out.mark("pre", start, language=language)

    def _add_quote(self, quote: Quote) -> None:
        prefix, line_start = self.prefix, self.line_start
        if self.in_quote:
            self._indent("> ", "> ")
            self.add_blocks(quote.blocks)
            if self.line_ends is not None:
                self.line_start = line_start  # the quote is empty
        else:
            self._begin_block()
            start = self.out.position
            self.in_quote, self.prefix = True, ""
            self.add_blocks(quote.blocks)
            self.in_quote = False
            self.out.mark("blockquote", start)
        self.prefix = prefix

    def _indent(self, mark: str, after: str) -> None:
        self.line_start = (self.prefix if self.line_start is None else self.line_start) + mark
        self.prefix += after

    def _add_list(self, block: List) -> None:
        prefix, tight = self.prefix, block.tight
        for nth, item in enumerate(block.items):
            if nth:
                self.line_ends = "\n" if tight else "\n\n"
            number = "" if block.first is None else f"{block.first + nth}. "
            mark = number + (_TASK[item.done] or ("" if number else "• "))
            self._indent(mark, " " * len(mark))
            self.add_blocks(item.blocks)
            self._end_mark()
            self.prefix = prefix

    def _add_table(self, table: Table) -> None:
        if tables.aligned_width(table) <= _PHONE_WIDTH:
            self._add_code("\n".join(tables.aligned_lines(table)))
            return
        for group in tables.labelled_rows(table):
            between = "\n\n"
            for label, value in group:
                if self.line_ends is None:
                    self.line_ends = between
                self._add_styled("bold", label)
                self._write((": " if value else ":") if label else "")
                self._add_inlines(value)
                between = "\n"

    def _add_inlines(self, inlines: Sequence[Inline]) -> None:
        for inline in inlines:
            match inline:
                case Text(text) | InlineHtml(text):
                    self._write(break_mentions(text))
                case CodeSpan(text):
                    self._add_code_span(text)
                case SoftBreak() | HardBreak():
                    self._write("\n")
                case Strong(inner):
                    self._add_styled("bold", inner)
                case Emphasis(inner):
                    self._add_styled("italic", inner)
                case Strike(inner):
                    self._add_styled("strikethrough", inner)
                case Link() | Image():
                    self._add_link(inline)
                case _:
                    assert_never(inline)

    def _add_styled(self, style: str, inlines: Sequence[Inline]) -> None:
        if style in self.styles or not inlines:
            self._add_inlines(inlines)
            return
        self._begin_line()
        self.styles[style] = self.out.position
        self._add_inlines(inlines)
        self.out.mark(style, self.styles.pop(style))

    def _add_code_span(self, text: str) -> None:
        """Code has no style and is in none, so the open ones end before it and begin again after it."""
        if self.in_link:
            self._write(break_mentions(text))
            return
        self._begin_line()
        for style, start in self.styles.items():
            self.out.mark(style, start)
        start = self.out.position
        self._write(text)
        self.out.mark("code", start)
        self.styles = dict.fromkeys(self.styles, self.out.position)

    def _add_link(self, link: Link | Image) -> None:
        text = visible_text(link.inlines)
        if not text.strip() and not _has_link(link.inlines):
            self._write(break_mentions(link.url))
        elif not self._can_link(link, text):
            self._add_inlines(link.inlines)
            self._write("" if link_as_text(text, link.url) == text else break_mentions(f" ({link.url})"))
        else:
            self._begin_line()
            start = self.out.position
            self.in_link = True
            self._add_inlines(link.inlines)
            self.in_link = False
            self.out.mark("text_link", start, url=link.url)
            self.links += 1

    def _can_link(self, link: Link | Image, text: str) -> bool:
        """Whether a target may stand behind its text; not one of a link around a picture, which has its own."""
        if self.links == _MAX_ENTITIES or not is_linkable(link.url):
            return False
        return not _has_link(link.inlines) and not deceives(text, link.url)


def _has_link(inlines: Sequence[Inline]) -> bool:
    for inline in inlines:
        match inline:
            case Link() | Image():
                return True
            case Strong(inner) | Emphasis(inner) | Strike(inner):
                if _has_link(inner):
                    return True
    return False
