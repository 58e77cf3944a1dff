"""Texts with entities: checks the ranges, detects commands and links, and measures texts.

An entity is a range of a text with a style or a meaning. Offsets and lengths count UTF-16 code units, and the limits of
texts count code points. `tailrace.testing.platforms.telegram.markup` reads texts with a parse mode.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tailrace.testing.platforms.telegram.rules import ApiRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The types that a bot may send. Detected types among them are ignored, as the platform does.
_SENT_NAMES = (
    "bold italic underline strikethrough spoiler blockquote expandable_blockquote code pre text_link text_mention"
    " custom_emoji date_time"
)
_SENT_TYPES = frozenset(_SENT_NAMES.split())
_DETECTED_TYPES = frozenset(["mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"])
_DETECTED = re.compile(
    r"(?P<url>https?://[^\s<>]+)|(?P<bot_command>(?<![\w/<>])/[A-Za-z0-9_]{1,32}(?:@\w{3,32})?)(?![\w/<>])"
    r"|(?P<mention>(?<!\w)@[A-Za-z]\w{3,31})"
)


class MessageEntity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A range of a text with a meaning. `offset` and `length` count UTF-16 code units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""
    custom_emoji_id: str = ""
    user: dict[str, Any] | None = None
    unix_time: int | None = None
    date_time_format: str = ""

    @property
    def end(self) -> int:
        """The offset of the first unit after the range."""
        return self.offset + self.length


class FormattedText(msgspec.Struct, frozen=True):
    """A text and its entities."""

    text: str
    entities: tuple[MessageEntity, ...] = ()


def utf16_length(text: str) -> int:
    """The length of the text in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def checked(text: str, entities: Iterable[MessageEntity]) -> FormattedText:
    """Check that these entities lie inside the text. Raises `ApiRefusal` for an entity that the platform refuses."""
    units = text.encode("utf-16-le", "surrogatepass")
    kept = []
    for entity in entities:
        if entity.type in _DETECTED_TYPES:
            continue
        if entity.type not in _SENT_TYPES:
            raise ApiRefusal("entity_type_unknown")
        if entity.offset > len(units) // 2 or entity.offset < 0:
            raise ApiRefusal("entity_begins_late", offset=entity.offset)
        if entity.end > len(units) // 2:
            raise ApiRefusal("entity_ends_late", offset=entity.offset, end=entity.end)
        for edge, offset in (("begins", entity.offset), ("ends", entity.end)):
            if 0xDC <= (units[2 * offset + 1] if 2 * offset < len(units) else 0) <= 0xDF:
                raise ApiRefusal("entity_cuts_character", edge=edge)
        if entity.length > 0:
            kept.append(entity)
    return FormattedText(text, tuple(sorted(kept, key=lambda entity: (entity.offset, -entity.length))))


def finished(content: FormattedText, *, entity_limit: int) -> FormattedText:
    """The text as the platform stores it: without white space at its end, and with entities that it detects."""
    text = content.text.rstrip(" \n\t\r\u200b")
    size = utf16_length(text)
    entities = [
        replace(entity, length=min(entity.end, size) - entity.offset)
        for entity in content.entities
        if entity.offset < size
    ]
    entities += _detected(text, entities)
    entities.sort(key=lambda entity: (entity.offset, -entity.length))
    return FormattedText(text, tuple(entities[:entity_limit]))


def _detected(text: str, entities: list[MessageEntity]) -> Iterator[MessageEntity]:
    if "/" not in text and "@" not in text:
        return
    blocked = [entity for entity in entities if entity.type in {"code", "pre", "text_link"}]
    for match in _DETECTED.finditer(text):
        offset, length = utf16_length(text[: match.start()]), utf16_length(match[0])
        if all(offset >= entity.end or offset + length <= entity.offset for entity in blocked):
            yield MessageEntity(type=str(match.lastgroup), offset=offset, length=length)
