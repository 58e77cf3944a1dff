"""Converts HTML to objects of the library rich, which shows them in a terminal.

It reads only the HTML of `body_html`, which has few tags, all well nested. So the page and the terminal show the same.
"""

from __future__ import annotations

from html.parser import HTMLParser

from rich.align import Align
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tailrace.channels.terminal.visible import visible

_STYLES = {"strong": "bold", "em": "italic", "del": "strike", "u": "underline", "code": "cyan", "a": "underline"}
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_CELLS = frozenset(("td", "th"))
_CONTAINERS = frozenset(("blockquote", "ol", "ul", "li", "pre", "table", "p")) | _HEADINGS | _CELLS


def html_to_rich(html: str) -> RenderableType:
    """Convert HTML to an object that rich can print in a terminal."""
    writer = _Writer()
    writer.feed(html)
    writer.close()
    return writer.finished()


class _Block:
    """A block element that has begun but not ended: its content so far, and whether the last piece of it is a block."""

    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[RenderableType] = []
        self.rows: list[list[RenderableType]] = []  # the rows of a table, or the items of a list
        self.ends_with_block = False


class _Writer(HTMLParser):
    """Reads HTML tag by tag and writes its text into the innermost block.

    A block that ends is added to the one around it.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._blocks = [_Block("", {})]
        self._styles: list[tuple[str, str | None]] = []
        self._text = Text()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin the block or the style that this tag opens."""
        attributes = dict(attrs)
        if tag == "tr":
            self._blocks[-1].rows.append([])
        elif tag in _CONTAINERS:
            self._end_text()
            self._blocks.append(_Block(tag, attributes))
        elif tag == "br":
            self._text.append("\n")
        elif tag == "hr":
            self._end_text()
            self._put(Text("———", style="dim"))
        elif tag in _STYLES:
            self._styles.append((tag, attributes.get("href")))

    def handle_endtag(self, tag: str) -> None:
        """End the block or the style that this tag closes."""
        if tag in _CONTAINERS:
            self._end_text()
            self._end_block(self._blocks.pop())
        elif tag in _STYLES:
            _, url = self._styles.pop()
            if url is not None and not self._text.plain.endswith(url):
                self._text.append(f" ({visible(url)})", style="dim")

    def handle_data(self, data: str) -> None:
        """Write text with the styles that are open."""
        heading = ["bold"] if self._blocks[-1].tag in _HEADINGS | {"th"} else []
        style = " ".join([*heading, *(_STYLES[tag] for tag, _ in self._styles)])
        self._text.append(visible(data), style=style)

    def finished(self) -> RenderableType:
        """Everything that was written, as one object that rich can print."""
        self._end_text()
        return Group(*self._blocks[0].children)

    def _end_text(self) -> None:
        """Add the text that was collected to its block.

        Its last line end is removed, because the next block begins a new line.
        """
        if not self._text.plain:
            return
        if self._text.plain.endswith("\n"):
            self._text.right_crop(1)
        self._blocks[-1].children.append(self._text)
        self._blocks[-1].ends_with_block = False
        self._text = Text()

    def _put(self, block: RenderableType) -> None:
        """Add a finished block to the block around it, with a blank line before it if it follows another block."""
        around = self._blocks[-1]
        if around.ends_with_block:
            around.children.append(Text())
        around.children.append(block)
        around.ends_with_block = True

    def _end_block(self, block: _Block) -> None:
        inner = Group(*block.children)
        match block.tag:
            case "li":
                self._blocks[-1].rows.append([inner])
            case "td" | "th":
                side = block.attributes.get("align")
                cell = {"right": Align.right, "center": Align.center}.get(side or "", Align.left)(inner)
                self._blocks[-1].rows[-1].append(cell)
            case "ul" | "ol":
                self._put(_list(block))
            case "table":
                self._put(_table(block))
            case "pre":
                self._put(Padding(inner, (0, 0, 0, 2), style="cyan"))
            case "blockquote":
                self._put(Padding(inner, (0, 0, 0, 2), style="italic"))
            case _:
                self._put(inner)


def _list(block: _Block) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    first = int(block.attributes.get("start") or 1)
    for nth, (item,) in enumerate(block.rows, first):
        grid.add_row("•" if block.tag == "ul" else f"{nth}.", item)
    return grid


def _table(block: _Block) -> Table:
    header, *rows = block.rows
    table = Table(show_edge=False, pad_edge=False)
    for cell in header:
        table.add_column(cell)
    for row in rows:
        table.add_row(*row)
    return table
