"""The dialect `discord`: Markdown as Discord reads it, which is not as it was written.

Discord takes a subset with rules of its own. What is no markup in the source must be none there, so text is escaped
where Discord would take it for some; what Discord has no markup for (tables, deep headings, rules, pictures) is written
in what it has. Mentions, references to channels and commands, emoji and times by number are parted by a character of no
width, since nobody is called by what an agent says; in code they are text already, and code stands as it was written.
"""

from __future__ import annotations

import re
from typing import assert_never

from tailrace.markdown import graphemes
from tailrace.markdown.addresses import ADDRESS, percent_encode, split_addresses
from tailrace.markdown.layout import Leaf, TextLine, layout_text, mark_lines
from tailrace.markdown.links import deceives, link_as_text, scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.syntax_tree import (
    CodeBlock,
    CodeSpan,
    Emphasis,
    HardBreak,
    Heading,
    Image,
    InlineHtml,
    Inlines,
    Link,
    Paragraph,
    SoftBreak,
    Strike,
    Strong,
    Text,
    visible_text,
)
from tailrace.operations import Body

_MAX_HEADING = 3
_SCHEMES = frozenset(("http", "https"))
_ZERO_WIDTH_SPACE = "\u200b"

# A mark is escaped wherever it stands, but for those that are an emoji of a key; two tildes or bars are one mark.
_RUN_OF_MARKS = re.compile(r"(?:[\\*_`\[](?!\ufe0f?\u20e3)|~(?=~)|(?<=~)~|\|(?=\|)|(?<=\|)\|)+")
_MARKS = frozenset("*_~`|")
_FENCE = re.compile("`{3,}")
_TICKS = re.compile("`{2,}")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.-]+")
_LINE_MARK = re.compile(r"^( *(?:\d+(?=\.))?)(?=(?:#{1,3}|-#|>(?:>>)?|[-+]|\.) )", re.MULTILINE)


def _begins(word: str) -> str:
    """A pattern for the word, or for its beginning at the end of a text: what comes next may complete it."""
    return rf"{word}|(?:{'|'.join(word[:length] for length in range(len(word)))})\Z"


_MENTION = re.compile(rf"@(?={_begins('everyone')}|{_begins('here')})", re.IGNORECASE)
_TOKEN = re.compile(r"<(?=[@#:]|[at]:|id:|/[^<>\n]*(?::|\Z)|(?:[at]|id?)?\Z)")

_IN_ADDRESS = re.compile(rf"[<>]|{_MENTION.pattern}", re.IGNORECASE)
_IN_STYLED_ADDRESS = re.compile(rf"[*~]|{_IN_ADDRESS.pattern}", re.IGNORECASE)
_IN_TARGET = re.compile(rf"[\s\"\\()`|]|[.,:;'\]]\Z|{_IN_STYLED_ADDRESS.pattern}", re.IGNORECASE)
# Brackets in the text of a link must be in pairs, and an address in it would keep it from being a link.
_LINK_TEXT = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])*")


def discord(source: str) -> Body:
    """The text as Discord's Markdown."""
    source = replace_surrogates(source)
    if graphemes.is_one_character(alone := source.strip()):
        return Body(text=alone)  # a character alone is no markup, and must fit any limit
    shown = layout_text(parse(source), _leaf_lines, bullet="- ")
    return Body(text=shown if shown.strip() else _literal(source.strip()))


def _leaf_lines(block: Leaf) -> list[TextLine]:
    match block:
        case Paragraph(inlines=inlines):
            return _text_lines(_inlines(inlines))
        case Heading():
            return _heading_lines(block)
        case CodeBlock(content=content):
            return _code_lines(content.rstrip("\n"), block.language) if content.strip() else []
        case _:
            assert_never(block)


def _text_lines(shown: str) -> list[TextLine]:
    return [TextLine(line) for line in _LINE_MARK.sub(r"\1\\", shown.strip()).split("\n")] if shown.strip() else []


def _literal(source: str) -> str:
    return _LINE_MARK.sub(r"\1\\", _text(source))


def _heading_lines(heading: Heading) -> list[TextLine]:
    if heading.level > _MAX_HEADING:
        return _text_lines(_inlines((Strong(heading.inlines),)))
    return [TextLine(f"{'#' * heading.level} {line.text}") for line in _text_lines(_inlines(heading.inlines))]


def _code_lines(code: str, language: str) -> list[TextLine]:
    word = _LANGUAGE.fullmatch(language)
    code = _FENCE.sub(lambda fence: _ZERO_WIDTH_SPACE.join(fence[0]), code)
    return [TextLine(line, code=True) for line in (f"```{word[0] if word else ''}", *code.split("\n"), "```")]


def _inlines(inlines: Inlines, around: frozenset[type] = frozenset()) -> str:
    """The inlines as text, within styles of the kinds that are `around` them."""
    shown = ""
    for nth, inline in enumerate(inlines):
        match inline:
            case Strong(inner) | Emphasis(inner) | Strike(inner) if type(inline) in around:
                piece = _inlines(inner, around)
            case Strong(inner):
                piece = _styled("**", _inlines(inner, around | {Strong}))
            case Strike(inner):
                piece = _styled("~~", _inlines(inner, around | {Strike}))
            case Emphasis(inner):
                piece = _emphasis(_inlines(inner, around | {Emphasis}), *_neighbours(inlines, nth))
            case _:
                piece = _inline(inline, around)
        shown += _ZERO_WIDTH_SPACE + piece if shown[-1:] == piece[:1] and piece[:1] in _MARKS else piece
    return shown


def _neighbours(inlines: Inlines, nth: int) -> tuple[str, str]:
    """The characters before and after an inline."""
    return visible_text(inlines[max(nth - 1, 0) : nth])[-1:], visible_text(inlines[nth + 1 : nth + 2])[:1]


def _emphasis(shown: str, before: str, after: str) -> str:
    """Underscores, which are never taken for half of a strong mark; stars where Discord takes no underscores."""
    in_word = before.isalnum() or after.isalnum()
    return _styled("*" if in_word or "_" in shown.replace("\\_", "") or shown.endswith("~~") else "_", shown)


def _styled(mark: str, shown: str) -> str:
    """Each line in marks of its own: a quote or an item has its own marks in between."""

    def marked(words: str) -> str:
        before = _ZERO_WIDTH_SPACE if words[0] == mark[0] else ""
        after = _ZERO_WIDTH_SPACE if words[-1] == mark[0] else ""
        return f"{mark}{before}{words}{after}{mark}"

    return mark_lines(shown, marked)


def _inline(
    inline: Text | InlineHtml | CodeSpan | Link | Image | SoftBreak | HardBreak, around: frozenset[type]
) -> str:
    match inline:
        case Text(text) | InlineHtml(text):
            return _text(text, around)
        case CodeSpan(text):
            return _code_span(text)
        case Link():
            return _link(inline, around)
        case Image(url=url, alt=alt):
            return _text(alt if Link in around else link_as_text(alt, url), around)
        case SoftBreak() | HardBreak():
            return "\n"
        case _:
            assert_never(inline)


def _link(link: Link, around: frozenset[type]) -> str:
    text = visible_text(link.inlines)
    shown = _inlines(link.inlines, around | {Link})
    if scheme(link.url) in _SCHEMES and (not text.strip() or text == link.url):
        return _address(link.url, around)
    if scheme(link.url) not in _SCHEMES or deceives(text, link.url):
        return shown + _text(link_as_text(text, link.url).removeprefix(text), around)
    if "://" in text or not _LINK_TEXT.fullmatch(text):
        return f"{shown} ({_address(link.url, around)})"
    return f"[{shown.replace(chr(10), ' ')}](<{_IN_TARGET.sub(_encoded, link.url)}>)"


def _address(url: str, around: frozenset[type]) -> str:
    """An address that people can follow; in brackets where Discord would not see its end."""
    if "`" in url:
        return _escaped(url)  # code would begin there
    url = (_IN_STYLED_ADDRESS if around else _IN_ADDRESS).sub(_encoded, url)
    return url if ADDRESS.fullmatch(url) else f"<{url}>"


def _encoded(found: re.Match[str]) -> str:
    return percent_encode(found[0])


def _code_span(code: str) -> str:
    if "`" not in code:
        return f"`{code}`"
    return f"`` {_TICKS.sub(lambda ticks: _ZERO_WIDTH_SPACE.join(ticks[0]), code)} ``"


def _text(text: str, around: frozenset[type] = frozenset()) -> str:
    """Text that says on Discord what it says; an address in it needs no escapes, and would break by them."""
    return "".join(
        _address(piece, around) if is_address else _escaped(piece) for piece, is_address in split_addresses(text)
    )


def _escaped(text: str) -> str:
    marked = _RUN_OF_MARKS.sub(lambda run: "\\" + "\\".join(run[0]), text)
    return _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", _TOKEN.sub(f"<{_ZERO_WIDTH_SPACE}", marked))
