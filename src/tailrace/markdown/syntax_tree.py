"""The syntax tree of a Markdown text: the blocks and inlines that every dialect renders. `parsing.parse` builds it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

Alignment: TypeAlias = Literal["none", "left", "center", "right"]


class Text(msgspec.Struct, frozen=True, gc=False):
    """Plain text. Escapes and entities are already resolved: `&amp;` is `&` here."""

    text: str


class CodeSpan(msgspec.Struct, frozen=True, gc=False):
    """Code inside a line."""

    text: str


class Strong(msgspec.Struct, frozen=True, gc=False):
    """Strong emphasis, which is usually shown in bold."""

    inlines: Inlines


class Emphasis(msgspec.Struct, frozen=True, gc=False):
    """Emphasis, which is usually shown in italics."""

    inlines: Inlines


class Strike(msgspec.Struct, frozen=True, gc=False):
    """Text that is struck through."""

    inlines: Inlines


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link with its target. `<https://a.b>` is a link too; the target of a mail address has the scheme `mailto`."""

    url: str
    title: str
    inlines: Inlines


class Image(msgspec.Struct, frozen=True, gc=False):
    """An image with its address. `inlines` are its alternative text."""

    url: str
    title: str
    inlines: Inlines

    @property
    def alt(self) -> str:
        """The alternative text, without styles."""
        return visible_text(self.inlines)


class SoftBreak(msgspec.Struct, frozen=True, gc=False):
    """A line end inside a paragraph that has no meaning; a dialect shows it as a space or as a line end."""


class HardBreak(msgspec.Struct, frozen=True, gc=False):
    """A line end that the author asked for, with a backslash or two spaces; every dialect shows it."""


class InlineHtml(msgspec.Struct, frozen=True, gc=False):
    """Text in a line that looks like an HTML tag, as written."""

    text: str


Inline: TypeAlias = Text | CodeSpan | Strong | Emphasis | Strike | Link | Image | SoftBreak | HardBreak | InlineHtml
Inlines: TypeAlias = tuple[Inline, ...]


class Paragraph(msgspec.Struct, frozen=True, gc=False):
    """A paragraph. `tight`: it is the text of a list item without blank lines around it."""

    inlines: Inlines
    tight: bool = False


class Heading(msgspec.Struct, frozen=True, gc=False):
    """A heading of level 1 to 6."""

    level: int
    inlines: Inlines


class CodeBlock(msgspec.Struct, frozen=True, gc=False):
    """Code exactly as written, with its last line end. All line ends are line feeds."""

    content: str
    info: str = ""

    @property
    def language(self) -> str:
        """The language of the code, which is the first word after the opening fence."""
        return self.info.split(maxsplit=1)[0] if self.info.strip() else ""


class Quote(msgspec.Struct, frozen=True, gc=False):
    """A block quote."""

    blocks: Blocks


class ListItem(msgspec.Struct, frozen=True, gc=False):
    """One item of a list, possibly empty. For a task such as `- [x]`, `done` is True or False; else it is None."""

    blocks: Blocks
    done: bool | None = None


class List(msgspec.Struct, frozen=True, gc=False):
    """A list. Its items are numbered from `first` on, or have bullets if `first` is None."""

    items: tuple[ListItem, ...]
    first: int | None = None

    @property
    def tight(self) -> bool:
        """Whether there are no blank lines between the items."""
        blocks = chain.from_iterable(item.blocks for item in self.items)
        return all(block.tight for block in blocks if isinstance(block, Paragraph))


class Table(msgspec.Struct, frozen=True, gc=False):
    """A table. A row has at least as many cells as the header, and more if the source has more.

    `source_length` is the length of the table's Markdown.
    """

    alignments: tuple[Alignment, ...]
    header: Cells
    rows: tuple[Cells, ...]
    source_length: int  # in characters


class ThematicBreak(msgspec.Struct, frozen=True, gc=False):
    """A horizontal rule."""


class HtmlBlock(msgspec.Struct, frozen=True, gc=False):
    """Lines of HTML, as written."""

    text: str


class Definition(msgspec.Struct, frozen=True, gc=False):
    """Definitions of link targets such as `[docs]: https://a.b`, as written."""

    text: str


Cells: TypeAlias = tuple[Inlines, ...]
Block: TypeAlias = Paragraph | Heading | CodeBlock | Quote | List | Table | ThematicBreak | HtmlBlock | Definition
Blocks: TypeAlias = tuple[Block, ...]


def visible_text(inlines: Sequence[Inline]) -> str:
    """Only the visible text: no styles, link targets or image addresses. Line ends become line feeds."""
    return "".join(map(_visible_text, inlines))


def _visible_text(inline: Inline) -> str:
    match inline:
        case Text(text) | CodeSpan(text) | InlineHtml(text):
            return text
        case SoftBreak() | HardBreak():
            return "\n"
        case _:
            return visible_text(inline.inlines)


def are_tight(before: Block, after: Block) -> bool:
    """Whether no blank line is between two neighbours, because both are text or lists in an item of a tight list."""
    return _is_tight(before) and _is_tight(after)


def _is_tight(block: Block) -> bool:
    return isinstance(block, Paragraph | List) and block.tight
