"""Texts with a parse mode: MarkdownV2 and HTML, as strict as the platform. The old Markdown is not simulated.

The rules of both dialects are those of the Bot API ("Formatting options"). A mistake refuses the whole call, and
the refusal names the offset in bytes, as the platform does.
"""

from __future__ import annotations

import html
import re

from tailrace.testing.platforms.telegram.entities import FormattedText, MessageEntity, checked, utf16_length
from tailrace.testing.platforms.telegram.rules import ApiRefusal

_RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
# Longest first: `__` is always an underline, `||` always a spoiler.
_MARKS = (
    ("__", "underline"),
    ("||", "spoiler"),
    ("*", "bold"),
    ("_", "italic"),
    ("~", "strikethrough"),
    ("![", "custom_emoji"),
    ("[", "text_link"),
)
_NAMES = {
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
    "blockquote": "BlockQuote",
    "expandable_blockquote": "ExpandableBlockQuote",
}
_TAGS = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)([^<>]*)>")
_ATTRIBUTE = re.compile(r"""([a-zA-Z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_CHARACTER = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#[xX][0-9a-fA-F]+);")
_PLAIN = re.compile(r"[^<&]+|&")
_LANGUAGE = re.compile(r"([^\s`]+)(?=\s)")


def parsed(source: str, parse_mode: str) -> FormattedText:
    """Parse a text in MarkdownV2 or HTML. Returns the plain text and its entities."""
    match parse_mode.lower():
        case "":
            return FormattedText(source)
        case "markdownv2":
            return _markdown_v2(source)
        case "html":
            return _html(source)
        case _:
            raise ApiRefusal("parse_mode_unknown")


class _Reading:
    """The state while a text is parsed: the plain text so far, and the entities that have ended or are open."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.text: list[str] = []
        self.size = 0
        self.closed: list[MessageEntity] = []
        self.open: list[tuple[str, int, int]] = []  # type, offset in UTF-16 code units, position in the source

    def add(self, text: str) -> None:
        self.text.append(text)
        self.size += utf16_length(text)

    def begin(self, kind: str, position: int) -> None:
        self.open.append((kind, self.size, position))

    def end(self, *, url: str = "", language: str = "", custom_emoji_id: str = "") -> None:
        kind, offset, _ = self.open.pop()
        self.closed.append(MessageEntity(kind, offset, self.size - offset, url, language, custom_emoji_id))

    @property
    def innermost(self) -> str:
        return self.open[-1][0] if self.open else ""

    def fail(self, problem: str, position: int) -> ApiRefusal:
        offset = len(self.source[:position].encode("utf-8", "surrogatepass"))
        return ApiRefusal("markup_invalid", detail=f"{problem} at byte offset {offset}")

    def result(self) -> FormattedText:
        return checked("".join(self.text), [entity for entity in self.closed if entity.length > 0])


def _markdown_v2(source: str) -> FormattedText:
    reading, position = _Reading(source), 0
    while position < len(source):
        position = _markdown_step(reading, position)
    if reading.innermost.endswith("blockquote"):
        reading.end()
    if reading.open:
        kind, _, begin = reading.open[-1]
        raise reading.fail(f"Can't find end of {_NAMES.get(kind, kind.capitalize())} entity", begin)
    return reading.result()


def _markdown_step(reading: _Reading, position: int) -> int:
    """Read one character or one mark of MarkdownV2. Returns the position behind it."""
    source, character = reading.source, reading.source[position]
    escaped = source[position + 1 : position + 2] if character == "\\" else ""
    at_line_start = position == 0 or source[position - 1] == "\n"
    if escaped and 0 < ord(escaped) <= 126:
        reading.add(escaped)
        return position + 2
    if at_line_start and (end := _quote_step(reading, position)) is not None:
        return end
    if character == "`":
        return _code_step(reading, position)
    if character == "]" and reading.innermost in {"text_link", "custom_emoji"}:
        return _end_link(reading, position)
    for mark, kind in _MARKS:
        if source.startswith(mark, position):
            ends_quote = mark == "||" and reading.innermost == "expandable_blockquote"
            if reading.innermost == kind or (ends_quote and _ends_line(source, position + 2)):
                reading.end()
            else:
                reading.begin(kind, position)
            return position + len(mark)
    if character in _RESERVED:
        detail = f"Character '{character}' is reserved and must be escaped with the preceding '\\'"
        raise ApiRefusal("markup_invalid", detail=detail)
    reading.add(character)
    return position + 1


def _ends_line(source: str, position: int) -> bool:
    return position == len(source) or source[position] == "\n"


def _quote_step(reading: _Reading, position: int) -> int | None:
    """Begin, continue or end a quote at the start of a line.

    Returns the position behind the mark; None if there is none.
    """
    quoted = reading.innermost.endswith("blockquote")
    if reading.source.startswith("**>", position):
        if quoted:
            reading.end()
        reading.begin("expandable_blockquote", position)
        return position + 3
    if reading.source[position] == ">":
        if not quoted:
            reading.begin("blockquote", position)
        return position + 1
    if quoted:
        reading.end()
    return None


def _code_step(reading: _Reading, position: int) -> int:
    """Read `code` or a ```block``` to its end. Inside, only the backtick and the backslash have a meaning."""
    source = reading.source
    mark, kind, language = ("```", "pre", "") if source.startswith("```", position) else ("`", "code", "")
    begin, name = position, "Code" if mark == "`" else "Pre"
    reading.begin(kind, begin)
    position += len(mark)
    if mark == "```":
        named = _LANGUAGE.match(source, position)
        if named is not None:
            language, position, name = named[1], named.end(), "PreCode"
        if source.startswith("\n", position):
            position += 1
    while position < len(source) and not source.startswith(mark, position):
        escaped = source[position] == "\\" and source[position + 1 : position + 2] in {"`", "\\"}
        position += escaped
        reading.add(source[position])
        position += 1
    if position >= len(source):
        raise reading.fail(f"Can't find end of {name} entity", begin)
    reading.end(language=language)
    return position + len(mark)


def _end_link(reading: _Reading, position: int) -> int:
    """Read `](address)` at the end of a link or of a custom emoji."""
    source, kind = reading.source, reading.innermost
    if not source.startswith("(", position + 1):
        if kind == "custom_emoji":
            raise reading.fail("Custom emoji entity must contain a tg://emoji URL", reading.open[-1][2])
        reading.open.pop()  # without an address it is no link
        return position + 1
    address, end = "", position + 2
    while end < len(source) and source[end] != ")":
        end += source[end] == "\\"
        address += source[end : end + 1]
        end += 1
    if end >= len(source):
        raise reading.fail("Can't find end of a URL", position + 2)
    if kind == "custom_emoji":
        reading.end(custom_emoji_id=address.partition("id=")[2])
    else:
        reading.end(url=address)
    return end + 1


def _html(source: str) -> FormattedText:
    reading, position = _Reading(source), 0
    names: list[str] = []
    attributes: list[dict[str, str]] = []
    while position < len(source):
        character = source[position]
        if character == "&" and (named := _CHARACTER.match(source, position)):
            reading.add(html.unescape(named[0]))
            position = named.end()
        elif character != "<":
            following = _PLAIN.match(source, position)
            assert following is not None, "a character that is no tag and no reference is text"
            reading.add(following[0])
            position = following.end()
        else:
            tag = _TAG.match(source, position)
            if tag is None:
                name, ends = source[position + 1 :].partition(">")[0].partition(" ")[0], ">" in source[position:]
                known = name.lower() in _TAGS and not ends
                problem = "Unclosed start tag" if known else f'Unsupported start tag "{name}"'
                raise reading.fail(problem, position)
            if tag[1]:
                _end_tag(reading, tag, names, attributes)
            else:
                names.append(tag[2].lower())
                attributes.append(_begin_tag(reading, tag))
            position = tag.end()
    if names:
        raise ApiRefusal("markup_invalid", detail=f'Can\'t find end tag corresponding to start tag "{names[-1]}"')
    return reading.result()


def _begin_tag(reading: _Reading, tag: re.Match[str]) -> dict[str, str]:
    name = tag[2].lower()
    found = {
        match[1].lower(): html.unescape(match[2] or match[3] or match[4] or "") for match in _ATTRIBUTE.finditer(tag[3])
    }
    if name not in _TAGS:
        raise reading.fail(f'Unsupported start tag "{name}"', tag.start())
    if name == "span" and found.get("class") != "tg-spoiler":
        raise reading.fail('Tag "span" must have class "tg-spoiler"', tag.start())
    kind = _TAGS[name]
    reading.begin("expandable_blockquote" if kind == "blockquote" and "expandable" in found else kind, tag.start())
    return found


def _end_tag(reading: _Reading, tag: re.Match[str], names: list[str], attributes: list[dict[str, str]]) -> None:
    if not names:
        raise reading.fail("Unexpected end tag", tag.start())
    name, found = names.pop(), attributes.pop()
    if tag[2].lower() != name:
        problem = f'Unmatched end tag at byte offset {{}}, expected "</{name}>", found "</{tag[2]}>"'
        offset = len(reading.source[: tag.start()].encode("utf-8", "surrogatepass"))
        raise ApiRefusal("markup_invalid", detail=problem.format(offset))
    if name == "a" and not found.get("href"):
        shown = "".join(reading.text).encode("utf-16-le", "surrogatepass")[2 * reading.open[-1][1] :]
        found = {"href": shown.decode("utf-16-le", "surrogatepass")}
    language = found.get("class", "").removeprefix("language-") if name == "code" else ""
    if name == "code" and reading.open[-2:-1] and reading.open[-2][0] == "pre":
        attributes[-1] = {"class": f"language-{language}"}  # `<pre><code class=…>` is one block with a language
        reading.open.pop()
        return
    language = found.get("class", "").removeprefix("language-") if name == "pre" else ""
    reading.end(
        url=found.get("href", "") if name == "a" else "",
        language=language,
        custom_emoji_id=found.get("emoji-id", ""),
    )
