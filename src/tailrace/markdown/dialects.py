"""The dialects into which a text can be rendered, and `Measurer`, which measures the rendered text.

A dialect is a function that renders Markdown to a `Body` for one platform. If a limit applies to more than the body's
text, a second function measures the body. The splitter measures only with a `Measurer` and never counts source
characters itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from tailrace.markdown import matrix, slack, telegram_rich, units
from tailrace.markdown.discord import discord
from tailrace.markdown.html import html
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.plain import plain
from tailrace.markdown.telegram import telegram
from tailrace.operations import Body

_MAX_GUESSES = 6  # after so many guesses, halving is usually as fast


def text_size(body: Body, unit: str) -> int:
    """The size of the body's text. This is the size that most platforms limit."""
    return units.size(body.text, unit)


class Renderer(msgspec.Struct, frozen=True):
    """One dialect: `render` makes the body, `measure` gives the size of a body in a unit."""

    render: Callable[[str], Body]
    measure: Callable[[Body, str], int] = text_size


def _markdown(source: str) -> Body:
    return Body(text=source)


RENDERERS: dict[str, Renderer] = {
    "markdown": Renderer(_markdown),
    "plain": Renderer(plain),
    "telegram": Renderer(telegram),
    "telegram_rich": Renderer(telegram_rich.telegram_rich, telegram_rich.size),
    "slack": Renderer(slack.slack, slack.size),
    "discord": Renderer(discord),
    "matrix": Renderer(matrix.matrix, matrix.size),
    "html": Renderer(html),
}


def renderer(dialect: str) -> Renderer:
    """Look up a dialect by its name. Raises ValueError if there is none."""
    try:
        return RENDERERS[dialect]
    except KeyError:
        raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(RENDERERS)}") from None


def render(text: str, dialect: str) -> Body:
    """Render a Markdown text for a dialect.

    Text that renders to nothing visible, such as a lone `#`, is shown as it is, so no message is empty.
    """
    body = renderer(dialect).render(text)
    return body if body.text.strip() else Body(text=replace_surrogates(text).strip())


class Measurer:
    """Renders a text for one dialect and compares the result with a limit.

    With `lines`, a body with more lines than that exceeds the limit too: each line counts as at least `limit / lines`.
    """

    def __init__(self, limit: int, unit: str, dialect: str, *, lines: int | None = None) -> None:
        units.check_limit(limit, unit)
        self.limit = limit
        self.unit = unit
        self.dialect = dialect
        self.max_character_size = units.MAX_CHARACTER_SIZE[unit]  # the most that one character can take
        self.is_verbatim = dialect == "markdown" and lines is None
        self._measure = renderer(dialect).measure
        self._line = limit // lines if lines else 0
        self._rendered = "", Body(text="")  # the last text and its body: a measured text is often rendered next

    def body(self, text: str) -> Body:
        """The body of the text, as it will be sent."""
        if self.is_verbatim:
            return Body(text=text)
        rendered = self._rendered
        if text != rendered[0]:
            rendered = self._rendered = text, render(text, self.dialect)
        return rendered[1]

    def size(self, text: str) -> int:
        """How much of the limit the text takes after rendering."""
        if self.is_verbatim:
            return units.size(text, self.unit)
        body = self.body(text)
        # A single line of the source cannot be cut between lines, so it counts as one line.
        return self.body_size(body) if "\n" in text.strip() else max(self._measure(body, self.unit), self._line)

    def body_size(self, body: Body) -> int:
        """How much of the limit a rendered body takes."""
        return max(self._measure(body, self.unit), (body.text.strip().count("\n") + 1) * self._line)

    def fits(self, text: str) -> bool:
        """Whether the text is within the limit after rendering."""
        return self.size(text) <= self.limit

    def spare_characters(self, text: str) -> int:
        """How many more characters certainly fit after the text."""
        return max(self.limit - units.size(text, self.unit), 0) // self.max_character_size

    def source_size(self, text: str) -> int:
        """The size of a text as it is, without rendering. It is used for markup that is added to a part."""
        return units.size(text, self.unit)

    def fitting_length(self, opened: str, text: str) -> int:
        """How many characters of the text fit into a part that begins with `opened`."""
        if self.is_verbatim:
            return units.fitting_length(text, self.limit - units.size(opened, self.unit), self.unit)
        return _fitting(lambda length: self.size(opened + text[:length]), len(text), self.limit)


def _fitting(size: Callable[[int], int], length: int, limit: int) -> int:
    """The longest length that fits the limit, found with few calls of `size`.

    `size` gives the rendered size of the first characters of a text. It grows nearly evenly, so the next guess between
    a length that fits and one that does not is computed from their two sizes. Each guess goes a little beyond the
    result, so that the two lengths come close from both sides. After too many guesses, the middle is tried.
    """
    fits, exceeds, size_fits, size_exceeds = 0, length, 0, size(length)
    if size_exceeds <= limit:
        return length
    beyond, guesses = 1, 0
    while (between := exceeds - fits) > 1:
        if guesses < _MAX_GUESSES:
            step = (limit - size_fits) * between // (size_exceeds - size_fits) + beyond * (between // 256)
        else:
            step = between // 2
        guesses += 1
        at = fits + min(max(step, 1), between - 1)
        here = size(at)
        if here <= limit:
            fits, size_fits, beyond = at, here, 1
        else:
            exceeds, size_exceeds, beyond = at, here, -1
    return fits


@lru_cache(maxsize=64)
def shared_measurer(limit: int, unit: str, dialect: str, lines: int | None = None) -> Measurer:
    """A measurer that all turns of a channel share: the same arguments give the same object."""
    return Measurer(limit, unit, dialect, lines=lines)
