"""The limits of rich messages (channel facts 1): characters, blocks, depth, columns and media.

The three forms of a rich message are measured each in its own way; what the platform makes of them is not rendered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pyromark

from tailrace.testing.platforms.telegram.rules import ApiRefusal

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.rules import TelegramSettings

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
_MARKDOWN_BLOCKS = frozenset(
    {"Paragraph", "Heading", "BlockQuote", "CodeBlock", "List", "Item", "Table", "TableHead", "TableRow"}
)
_HTML_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)")
_HTML_BLOCK_NAMES = "p h1 h2 h3 h4 h5 h6 ul ol li table tr pre blockquote details"
_HTML_BLOCKS = frozenset(_HTML_BLOCK_NAMES.split())


class InputRichMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a rich message: exactly one of `html`, `markdown` and `blocks`."""

    html: str | None = None
    markdown: str | None = None
    blocks: list[dict[str, Any]] | None = None
    media: list[dict[str, Any]] = []


class _Sizes(msgspec.Struct):
    characters: int = 0
    blocks: int = 0
    depth: int = 0
    columns: int = 0
    media: int = 0


def source_of(rich: InputRichMessage, settings: TelegramSettings, *, in_draft: bool = False) -> str:
    """The source that people see in the simulator, if the content is within the limits."""
    given = [form for form in (rich.html, rich.markdown, rich.blocks) if form is not None]
    if len(given) != 1:
        raise ApiRefusal("rich_content_wrong")
    sizes = _Sizes(media=len(rich.media))
    if rich.markdown is not None:
        _measure_markdown(rich.markdown, sizes)
    elif rich.html is not None:
        _measure_html(rich.html, sizes)
    else:
        _measure_blocks(rich.blocks, sizes, 0)
    for of, size, limit in (
        ("characters", sizes.characters, settings.rich_text_limit),
        ("blocks", sizes.blocks, settings.rich_block_limit),
        ("levels", sizes.depth, settings.rich_depth_limit),
        ("columns", sizes.columns, settings.rich_column_limit),
        ("media", sizes.media, settings.rich_media_limit),
    ):
        if size > limit:
            raise ApiRefusal("rich_too_large", of=of)
    source = "\n".join(_texts(rich.blocks)) if rich.blocks is not None else str(given[0])
    if not source.strip():
        raise ApiRefusal("text_empty")
    thinks = "<tg-thinking" in source or any(block.get("type") == "thinking" for block in rich.blocks or ())
    if thinks and not in_draft:
        raise ApiRefusal("thinking_outside_draft")
    return source


def _measure_markdown(source: str, sizes: _Sizes) -> None:
    sizes.characters = len(source)
    depth = 0
    for event in pyromark.events(source, options=_OPTIONS):
        begun, ended = (event.get("Start"), event.get("End")) if isinstance(event, dict) else (None, None)
        name = next(iter(begun)) if isinstance(begun, dict) else begun
        if name in _MARKDOWN_BLOCKS:
            depth += 1
            sizes.blocks += 1
            sizes.depth = max(sizes.depth, depth)
            if isinstance(begun, dict) and name == "Table":
                sizes.columns = max(sizes.columns, len(begun["Table"]))
        elif (next(iter(ended)) if isinstance(ended, dict) else ended) in _MARKDOWN_BLOCKS:
            depth -= 1


def _measure_html(source: str, sizes: _Sizes) -> None:
    sizes.characters = len(source)
    depth = columns = 0
    for closing, tag in _HTML_TAG.findall(source):
        name = tag.lower()
        columns = 0 if name == "tr" else columns + (name in {"td", "th"} and not closing)
        sizes.columns = max(sizes.columns, columns)
        if name in _HTML_BLOCKS:
            depth += -1 if closing else 1
            sizes.blocks += not closing
            sizes.depth = max(sizes.depth, depth)


def _measure_blocks(value: object, sizes: _Sizes, depth: int) -> None:
    """Each object with a `type` counts as a block, each list of lists as a table."""
    if isinstance(value, str):
        sizes.characters += len(value)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, list):
                sizes.columns = max(sizes.columns, len(item))
                sizes.blocks += 1
            _measure_blocks(item, sizes, depth)
    elif isinstance(value, dict):
        deeper = depth + ("type" in value)
        sizes.blocks += "type" in value
        sizes.depth = max(sizes.depth, deeper)
        for name, item in value.items():
            if name != "type":
                _measure_blocks(item, sizes, deeper)


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for name, item in value.items() if name not in {"type", "language"} for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
