"""The dialects a text can be rendered to, and the ruler that measures a text as rendered.

A dialect is one function from Markdown to a `Body`. A limit is always on the body, in the platform's unit, so the
splitter measures through a `Ruler` and never counts source characters itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.markdown import units
from tailrace.markdown.plain import plain
from tailrace.operations import Body

Renderer = Callable[[str], Body]


def _markdown(source: str) -> Body:
    return Body(text=source)


def _plain(source: str) -> Body:
    return Body(text=plain(source))


RENDERERS: dict[str, Renderer] = {"markdown": _markdown, "plain": _plain}


def renderer(dialect: str) -> Renderer:
    """The dialect's function; ValueError where there is none of that name."""
    try:
        return RENDERERS[dialect]
    except KeyError:
        raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(RENDERERS)}") from None


def render(text: str, dialect: str) -> Body:
    """The Markdown text as the dialect's body.

    Text that renders to nothing visible, such as a lone `#`, is shown as it is: no message is empty.
    """
    body = renderer(dialect)(text)
    return body if body.text.strip() else Body(text=text)


class Ruler:
    """A limit on the rendered body, and what it takes to ask how a text stands to it."""

    def __init__(self, limit: int, unit: str, dialect: str) -> None:
        units.check(limit, unit)
        renderer(dialect)
        self.limit = limit
        self.unit = unit
        self.dialect = dialect
        self.widest = units.SMALLEST[unit]  # how much one character can take
        self.verbatim = dialect == "markdown"

    def body(self, text: str) -> Body:
        """The text as it will be sent."""
        return Body(text=text) if self.verbatim else render(text, self.dialect)

    def size(self, text: str) -> int:
        """How much of the limit the text takes."""
        return units.size(text if self.verbatim else self.body(text).text, self.unit)

    def fits(self, text: str) -> bool:
        """Whether the text is within the limit."""
        return self.size(text) <= self.limit

    def room(self, text: str) -> int:
        """How many further characters are sure to fit behind the text."""
        return max(self.limit - units.size(text, self.unit), 0) // self.widest

    def source_size(self, text: str) -> int:
        """The size of the text as written, which is what a wrapper is held to."""
        return units.size(text, self.unit)

    def fitting(self, opened: str, text: str) -> int:
        """How many characters of the text fit behind what is opened."""
        if self.verbatim:
            return units.fitting(text, 0, self.limit - units.size(opened, self.unit), self.unit)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(opened + text[:middle]):
                low = middle
            else:
                high = middle - 1
        return low
