"""The dialect `telegram`: a text, and beside it a list of its styles as entities.

Nothing in the text needs an escape, and no markup can be wrong. But Telegram refuses a message with an entity that ends
after its text, or with a link that is not valid, and splits entities that overlap. The rules are from the source of
Telegram's library (td: MessageEntity.cpp, LinkManager.cpp, misc.cpp). What has no entity becomes text: lists, tables,
rules, and targets that cannot be linked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from tailrace.markdown import syntax_tree as tree
from tailrace.markdown import tables
from tailrace.markdown.addresses import split_addresses
from tailrace.markdown.entity_text import EntityText
from tailrace.markdown.layout import RULE, TASK_MARKS
from tailrace.markdown.links import deceives, link_as_text
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.operations import Body

_PHONE_WIDTH = 36  # columns of a table that a phone shows without wrapping
_MAX_ENTITIES = 100  # the server drops further ones
_MAX_URL_LENGTH = 2048  # undocumented; pages that people share have shorter addresses
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
# A host must have a dot: the library refuses a message with a link to `localhost`.
_HOST = r"(?:[\w-]+\.)+[\w-]+(?::[1-9]\d{0,3}|:[1-5]\d{4})?"
# A link to a user is a mention, and an agent's text must not notify anyone.
_LINKABLE = re.compile(rf"(?:https?://{_HOST}|tg://(?!user\b)[a-z0-9_-]+)(?:[/?#]\S*)?", re.IGNORECASE)
# The start of what Telegram reads as a mention. Telegram does not look for mentions in addresses and in code.
_MENTION = re.compile(r"(?<![A-Za-z0-9_])@(?=[^ \n]|\Z)")
# Telegram regards a message of only these characters as empty.
_VISIBLE = re.compile(
    "[^\\x00-\\x20\\xa0\u030a\u0333\u033f\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f\u2800\u3000\ufeff\ufffc"
    "\U000e0000-\U000e007f]"
)
# Which entities stay if there are too many. Links come first, because without its entity a link loses its target.
_PRIORITY = {"text_link": 0, "pre": 1, "blockquote": 2, "code": 3}


def telegram(source: str) -> Body:
    """Render Markdown as a text with entities for Telegram."""
    if (source_text := replace_surrogates(source).strip()) == "@":
        return Body(text=source_text)  # one character is no mention; as it is, it fits any limit
    message = _MessageWriter()
    message.add_blocks(parse(source))
    text, entities = message.out.finish()
    if not is_visible(text):
        return Body(text=_visible_source(source_text))
    if len(entities) > _MAX_ENTITIES:
        by_priority = sorted(range(len(entities)), key=lambda nth: _PRIORITY.get(entities[nth].type, len(_PRIORITY)))
        entities = [entities[nth] for nth in sorted(by_priority[:_MAX_ENTITIES])]
    return Body(text=text, entities=tuple(entities))


def is_linkable(url: str) -> bool:
    """Whether Telegram accepts the address as the target of a link."""
    return len(url) <= _MAX_URL_LENGTH and _LINKABLE.fullmatch(url) is not None


def break_mentions(text: str) -> str:
    """Put a zero-width space after each `@` that begins a mention, except in addresses, to notify no one."""
    pieces = split_addresses(text)
    return "".join(piece if is_address else _MENTION.sub("@\u200b", piece) for piece, is_address in pieces)


def is_visible(text: str) -> bool:
    """Whether the text has a character that Telegram shows. Telegram treats a message without one as empty."""
    return _VISIBLE.search(text) is not None


def _visible_source(source: str) -> str:
    """The source as it is, if Telegram shows any of it. Otherwise a visible replacement for each character."""
    return break_mentions(source) if is_visible(source) else re.sub(r"\S", "\ufffd", source)


class _MessageWriter:
    """Writes a syntax tree as a text with entities. The start of a line is only written once the line has text.

    `line_ends` are the line ends to write before the next text; None inside a line. The next line begins with
    `line_start`, or with the usual `prefix` if `line_start` is None.
    """

    def __init__(self) -> None:
        self.out = EntityText()
        self.line_ends: str | None = ""
        self.line_start: str | None = None
        self.prefix = ""
        self.styles: dict[str, int] = {}  # the open styles and where each began
        self.links = 0
        self.in_link = self.in_quote = False

    def add_blocks(self, blocks: Sequence[tree.Block]) -> None:
        before: tree.Block | None = None
        for block in blocks:
            if before is not None and self.line_ends is None:
                self.line_ends = "\n" if tree.are_tight(before, block) else "\n\n"
            self._add_block(block)
            before = block

    def _add_block(self, block: tree.Block) -> None:
        match block:
            case tree.Paragraph():
                self._add_inlines(block.inlines)
            case tree.Heading():
                self._add_styled("bold", block.inlines)
            case tree.CodeBlock():
                language = block.language if _LANGUAGE.fullmatch(block.language) else None
                self._add_code(block.content, language)
            case tree.Quote():
                self._add_quote(block)
            case tree.List():
                self._add_list(block)
            case tree.Table():
                self._add_table(block)
            case tree.ThematicBreak():
                self._write(RULE)
            case tree.HtmlBlock() | tree.Definition():
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
        """Begin a new line if this line has only a list mark so far.

        In Telegram, code and quotes must begin at the start of a line.
        """
        if self.line_start is not None:
            self._end_mark()
            self.line_ends = "\n"

    def _end_mark(self) -> None:
        if self.line_start is not None:
            self.line_start = self.line_start.rstrip()
            self._begin_line()

    def _add_code(self, code: str, language: str | None = None) -> None:
        # Telegram shows a tab as one space and removes spaces and line ends at the start of a message or an entity.
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

    def _add_quote(self, quote: tree.Quote) -> None:
        prefix, line_start = self.prefix, self.line_start
        if self.in_quote:
            self._indent("> ", "> ")
            self.add_blocks(quote.blocks)
            if self.line_ends is not None:
                self.line_start = line_start  # the quote is empty, so the start of the line is still due
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

    def _add_list(self, block: tree.List) -> None:
        prefix, tight = self.prefix, block.tight
        for nth, item in enumerate(block.items):
            if nth:
                self.line_ends = "\n" if tight else "\n\n"
            number = "" if block.first is None else f"{block.first + nth}. "
            mark = number + (TASK_MARKS[item.done] or ("" if number else "• "))
            self._indent(mark, " " * len(mark))
            self.add_blocks(item.blocks)
            self._end_mark()
            self.prefix = prefix

    def _add_table(self, table: tree.Table) -> None:
        if tables.aligned_width(table) <= _PHONE_WIDTH:
            self._add_code("\n".join(tables.aligned_lines(table)))
            return
        for group in tables.labelled_rows(table):
            separator = "\n\n"
            for label, value in group:
                if self.line_ends is None:
                    self.line_ends = separator
                self._add_styled("bold", label)
                self._write((": " if value else ":") if label else "")
                self._add_inlines(value)
                separator = "\n"

    def _add_inlines(self, inlines: Sequence[tree.Inline]) -> None:
        for inline in inlines:
            match inline:
                case tree.Text(text) | tree.InlineHtml(text):
                    self._write(break_mentions(text))
                case tree.CodeSpan(text):
                    self._add_code_span(text)
                case tree.SoftBreak() | tree.HardBreak():
                    self._write("\n")
                case tree.Strong(inner):
                    self._add_styled("bold", inner)
                case tree.Emphasis(inner):
                    self._add_styled("italic", inner)
                case tree.Strike(inner):
                    self._add_styled("strikethrough", inner)
                case tree.Link() | tree.Image():
                    self._add_link(inline)
                case _:
                    assert_never(inline)

    def _add_styled(self, style: str, inlines: Sequence[tree.Inline]) -> None:
        if style in self.styles or not inlines:
            self._add_inlines(inlines)
            return
        self._begin_line()
        self.styles[style] = self.out.position
        self._add_inlines(inlines)
        self.out.mark(style, self.styles.pop(style))

    def _add_code_span(self, text: str) -> None:
        """Write a code span.

        Telegram allows no code inside a style, so the open styles end before the code and begin again after it.
        """
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

    def _add_link(self, link: tree.Link | tree.Image) -> None:
        text = tree.visible_text(link.inlines)
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

    def _can_link(self, link: tree.Link | tree.Image, text: str) -> bool:
        """Whether the text can be linked to this target. A text with an image cannot: the image has its own target."""
        if self.links == _MAX_ENTITIES or not is_linkable(link.url):
            return False
        return not _has_link(link.inlines) and not deceives(text, link.url)


def _has_link(inlines: Sequence[tree.Inline]) -> bool:
    for inline in inlines:
        match inline:
            case tree.Link() | tree.Image():
                return True
            case tree.Strong(inner) | tree.Emphasis(inner) | tree.Strike(inner):
                if _has_link(inner):
                    return True
    return False
