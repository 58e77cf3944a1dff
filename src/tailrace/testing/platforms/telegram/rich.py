"""Rich messages: which markup the platform accepts, the limits of their sizes, and how people see them.

A message in GitHub's Markdown is first converted to HTML. Of a message made of blocks, only the texts are shown. What
people see is written as HTML with tags that are safe inside a page.
"""

from __future__ import annotations

from html import escape, unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import msgspec
import pyromark

from tailrace.testing.platforms.telegram.rules import ApiRefusal

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.rules import TelegramSettings

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
# The tags and the named characters of TG-RICH, "Rich HTML style". `_SHOWN` are those that the page shows as they are.
_BLOCK_NAMES = "p h1 h2 h3 h4 h5 h6 ul ol li table tr pre blockquote details aside footer hr"
_STYLE_NAMES = "b strong i em u ins s strike del code mark sub sup"
_OTHER_SHOWN_NAMES = "br td th caption summary cite"
_HIDDEN_NAMES = (
    "a tg-spoiler tg-reference tg-emoji tg-time tg-math tg-math-block tg-map tg-collage tg-slideshow tg-thinking"
    " img video audio figure figcaption input"
)
_BLOCKS, _STYLES = frozenset(_BLOCK_NAMES.split()), frozenset(_STYLE_NAMES.split())
_SHOWN = _BLOCKS | _STYLES | frozenset(_OTHER_SHOWN_NAMES.split())
_TAGS = _SHOWN | frozenset(_HIDDEN_NAMES.split())
_EMPTY = frozenset(["br", "hr", "img", "input", "tg-map"])
_LINES = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "tr", "pre", "summary", "br", "hr"])
_CHARACTER_NAMES = "lt gt amp quot apos nbsp hellip mdash ndash lsquo rsquo ldquo rdquo"
_CHARACTERS = frozenset(_CHARACTER_NAMES.split())


class InputRichMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a rich message: exactly one of `html`, `markdown` and `blocks`."""

    html: str | None = None
    markdown: str | None = None
    blocks: list[dict[str, Any]] | None = None
    media: list[dict[str, Any]] = []


class RichContent(msgspec.Struct, frozen=True):
    """What people see of a rich message: as plain text, and as HTML that is safe inside a page."""

    text: str
    html: str


class _Sizes(msgspec.Struct):
    characters: int = 0
    blocks: int = 0
    levels: int = 0
    columns: int = 0
    media: int = 0


def read_rich(rich: InputRichMessage, settings: TelegramSettings, *, in_draft: bool = False) -> RichContent:
    """Convert a rich message to what people see. Raises `ApiRefusal` for markup or sizes that the platform refuses."""
    if sum(form is not None for form in (rich.html, rich.markdown, rich.blocks)) != 1:
        raise ApiRefusal("rich_content_wrong")
    if rich.blocks is None:
        is_markdown = rich.html is None
        source = pyromark.html(rich.markdown or "", options=_OPTIONS) if is_markdown else rich.html or ""
        reader = _HtmlReader(takes_any_tag=is_markdown)
        reader.feed(source)
        content, sizes, thinks = reader.end(), reader.sizes, "tg-thinking" in reader.names
    else:
        sizes = _Sizes()
        _measure_blocks(rich.blocks, sizes, 0)
        texts = _texts(rich.blocks)
        content = RichContent("\n".join(texts), "".join(f"<p>{escape(text)}</p>" for text in texts))
        thinks = any(block.get("type") == "thinking" for block in rich.blocks)
    sizes.media += len(rich.media)
    for of, limit in (
        ("characters", settings.rich_text_limit),
        ("blocks", settings.rich_block_limit),
        ("levels", settings.rich_depth_limit),
        ("columns", settings.rich_column_limit),
        ("media", settings.rich_media_limit),
    ):
        if getattr(sizes, of) > limit:
            raise ApiRefusal("rich_too_large", of=of)
    if not content.text.strip():
        raise ApiRefusal("text_empty")
    if thinks and not in_draft:
        raise ApiRefusal("thinking_outside_draft")
    return content


class _HtmlReader(HTMLParser):
    """Parses HTML: measures it, and collects what people see of it as text and as safe HTML."""

    def __init__(self, *, takes_any_tag: bool) -> None:
        super().__init__(convert_charrefs=False)
        self.sizes = _Sizes()
        self.names: set[str] = set()
        self._takes_any_tag = takes_any_tag
        self._open: list[str] = []
        self._columns = 0
        self._html: list[str] = []
        self._text: list[str] = []

    def end(self) -> RichContent:
        """End the parsing. Returns what people see. Raises `ApiRefusal` if a tag is still open."""
        self.close()
        if self._open:
            raise ApiRefusal("rich_markup_wrong", detail=f'can\'t find end tag of "{self._open[-1]}"')
        return RichContent("".join(self._text).strip("\n"), "".join(self._html))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            if self._takes_any_tag:
                return
            raise ApiRefusal("rich_markup_wrong", detail=f'unsupported start tag "{tag}"')
        given = {name: value or "" for name, value in attrs}
        if tag not in _EMPTY:
            self._open.append(tag)
        self._measure(tag)
        if tag in {"td", "th"} and self._columns > 1:
            self._text.append(" | ")
        elif tag == "input":
            self._show("☑ " if "checked" in given else "☐ ")
        if tag in _SHOWN:
            align = f' align="{given["align"]}"' if given.get("align") in {"left", "center", "right"} else ""
            self._html.append(f"<{tag}{align}>")
        if tag == "code" and self._open[-2:-1] == ["pre"] and (language := given.get("class", "")):
            shown = escape(language.removeprefix("language-"))
            self._html.insert(-1, f'<span class="language">{shown}</span>')
        if tag in _EMPTY & _LINES:
            self._text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _EMPTY or (self._takes_any_tag and tag not in _TAGS):
            return
        if not self._open or self._open[-1] != tag:
            raise ApiRefusal("rich_markup_wrong", detail=f'unmatched end tag "{tag}"')
        self._open.pop()
        if tag in _SHOWN:
            self._html.append(f"</{tag}>")
        if tag in _LINES and not "".join(self._text[-1:]).endswith("\n"):
            self._text.append("\n")

    def handle_data(self, data: str) -> None:
        # Between blocks, the ends of lines have no meaning.
        self._show(data if "pre" in self._open else data.strip("\n"))

    def handle_entityref(self, name: str) -> None:
        if name not in _CHARACTERS and not self._takes_any_tag:
            raise ApiRefusal("rich_markup_wrong", detail=f'unsupported character "&{name};"')
        self._show(unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        self._show(unescape(f"&#{name};"))

    def _measure(self, tag: str) -> None:
        sizes = self.sizes
        self.names.add(tag)
        sizes.blocks += tag in _BLOCKS
        sizes.media += tag in {"img", "video", "audio"}
        sizes.levels = max(sizes.levels, sum(name in _BLOCKS or name in _STYLES for name in self._open))
        self._columns = 0 if tag == "tr" else self._columns + (tag in {"td", "th"})
        sizes.columns = max(sizes.columns, self._columns)

    def _show(self, text: str) -> None:
        self.sizes.characters += len(text)
        self._text.append(text)
        self._html.append(escape(text))


def _measure_blocks(value: object, sizes: _Sizes, depth: int) -> None:
    """Add the sizes of these blocks. An object with a `type` counts as a block, and so does each row of a table."""
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
        sizes.levels = max(sizes.levels, deeper)
        for name, item in value.items():
            if name != "type":
                _measure_blocks(item, sizes, deeper)


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for name, item in value.items() if name not in {"type", "language"} for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
