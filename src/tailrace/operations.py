"""What a channel is asked to do, and the rendered body it is asked to do it with.

A `Body` is what leaves the process: rendered for one dialect by `tailrace.markdown`, sent by a channel that
needs to know nothing about Markdown.
"""

from __future__ import annotations

import msgspec


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """A style over a range of a body's text, for platforms that take styles beside the text; offsets are UTF-16."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A message as one platform takes it: its text, and the styles or the HTML where the platform has them apart."""

    text: str
    entities: tuple[Entity, ...] = ()
    html: str | None = None
