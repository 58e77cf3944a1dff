"""A text as a tree of blocks and inlines: what every dialect renders from.

Owns the kinds of nodes and the words they say. `parsing.parse` makes a tree of a text; how anything looks is a
dialect's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

Alignment: TypeAlias = Literal["none", "left", "center", "right"]


class Text(msgspec.Struct, frozen=True, gc=False):
    """Words as people read them: escapes and entities are resolved."""

    text: str


class CodeSpan(msgspec.Struct, frozen=True, gc=False):
    """Code inside a line."""

    text: str


class Strong(msgspec.Struct, frozen=True, gc=False):
    """Strong emphasis."""

    inlines: Inlines


class Emphasis(msgspec.Struct, frozen=True, gc=False):
    """Emphasis."""

    inlines: Inlines


class Strike(msgspec.Struct, frozen=True, gc=False):
    """What was struck out."""

    inlines: Inlines


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link with its target; an address in angle brackets is one, and a mail address has the scheme `mailto`."""

    url: str
    title: str
    inlines: Inlines


class Image(msgspec.Struct, frozen=True, gc=False):
    """A picture with its address and what is said in its place."""

    url: str
    title: str
    inlines: Inlines

    @property
    def alt(self) -> str:
        """What is said in its place, as text."""
        return visible_text(self.inlines)


class SoftBreak(msgspec.Struct, frozen=True, gc=False):
    """A line end that means a space or a line end, as the dialect likes."""


class HardBreak(msgspec.Struct, frozen=True, gc=False):
    """A line end that is meant."""


class InlineHtml(msgspec.Struct, frozen=True, gc=False):
    """What looks like a tag, as it was written."""

    text: str


Inline: TypeAlias = Text | CodeSpan | Strong | Emphasis | Strike | Link | Image | SoftBreak | HardBreak | InlineHtml
Inlines: TypeAlias = tuple[Inline, ...]


class Paragraph(msgspec.Struct, frozen=True, gc=False):
    """Running text; `tight` where it is the text of a list item without blank lines around it."""

    inlines: Inlines
    tight: bool = False


class Heading(msgspec.Struct, frozen=True, gc=False):
    """A heading of level 1 to 6."""

    level: int
    inlines: Inlines


class CodeBlock(msgspec.Struct, frozen=True, gc=False):
    """Code, every byte as it was written, its last line end included; line ends are line feeds."""

    content: str
    info: str = ""

    @property
    def language(self) -> str:
        """The first word of the info string."""
        return self.info.split(maxsplit=1)[0] if self.info.strip() else ""


class Quote(msgspec.Struct, frozen=True, gc=False):
    """Blocks that somebody else said."""

    blocks: Blocks


class ListItem(msgspec.Struct, frozen=True, gc=False):
    """One item of a list; `done` is None where it is no task. It may be empty."""

    blocks: Blocks
    done: bool | None = None


class List(msgspec.Struct, frozen=True, gc=False):
    """Items, numbered from `first` on, or with bullets where that is None."""

    items: tuple[ListItem, ...]
    first: int | None = None

    @property
    def tight(self) -> bool:
        """Whether no blank lines stand between its items."""
        blocks = chain.from_iterable(item.blocks for item in self.items)
        return all(block.tight for block in blocks if isinstance(block, Paragraph))


class Table(msgspec.Struct, frozen=True, gc=False):
    """A table: `header` and `rows` hold cells; a row has as many as the header, or more where more were written."""

    alignments: tuple[Alignment, ...]
    header: Cells
    rows: tuple[Cells, ...]
    source_length: int  # in how many characters


class ThematicBreak(msgspec.Struct, frozen=True, gc=False):
    """A line across."""


class HtmlBlock(msgspec.Struct, frozen=True, gc=False):
    """Lines of HTML, as they were written."""

    text: str


class Definition(msgspec.Struct, frozen=True, gc=False):
    """Definitions of link targets, as they were written."""

    text: str


Cells: TypeAlias = tuple[Inlines, ...]
Block: TypeAlias = Paragraph | Heading | CodeBlock | Quote | List | Table | ThematicBreak | HtmlBlock | Definition
Blocks: TypeAlias = tuple[Block, ...]


def visible_text(inlines: Sequence[Inline]) -> str:
    """The visible text alone: styles, targets and pictures' addresses left out, line ends as line feeds."""
    said = []
    for inline in inlines:
        match inline:
            case Text(text) | CodeSpan(text) | InlineHtml(text):
                said.append(text)
            case SoftBreak() | HardBreak():
                said.append("\n")
            case _:
                said.append(visible_text(inline.inlines))
    return "".join(said)


def are_tight(before: Block, after: Block) -> bool:
    """Whether no blank line belongs between two neighbours: both are text or lists of a tight item."""
    return _is_tight(before) and _is_tight(after)


def _is_tight(block: Block) -> bool:
    return isinstance(block, Paragraph | List) and block.tight
