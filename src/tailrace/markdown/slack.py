"""The dialect `slack`: Markdown for `markdown_text`, and the same in Slack's own `mrkdwn` for `text`.

Owns `mrkdwn`: one mark for each style, no headings, no tables, no languages, and no way to escape a mark, so a star
that is only a star may be read as one. `&`, `<` and `>` are escaped wherever they come from the agent: only links of
ours and the marks of quotes are angle brackets, and nobody is called. The other form is `slack_markdown`'s.
"""

from __future__ import annotations

import re
from html import escape
from typing import assert_never

from tailrace.markdown import graphemes, units
from tailrace.markdown.addresses import percent_encode
from tailrace.markdown.layout import Leaf, TextLine, layout_text, mark_lines
from tailrace.markdown.links import deceives, link_as_text, scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.slack_markdown import SCHEMES, safe_markdown
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

_ZERO_WIDTH_SPACE = "\u200b"
_STYLES: dict[type, str] = {Strong: "*", Emphasis: "_", Strike: "~"}
_FENCE = re.compile("`{3,}")
_QUOTED = re.compile(r"^(?= *&gt;)", re.MULTILINE)
_IN_TARGET = re.compile(r"[\s<>|]")


def slack(source: str) -> Body:
    """The text as `mrkdwn` and as Markdown."""
    source = replace_surrogates(source)
    if graphemes.is_one_character(alone := source.strip()):
        return Body(text=alone, markdown=alone)  # a character alone calls nobody, and must fit any limit
    text = layout_text(parse(source), _leaf_lines, bullet="• ")
    return Body(text=text if text.strip() else _escaped(source.strip()), markdown=safe_markdown(source))


def size(body: Body, unit: str) -> int:
    """How much of a limit the body takes: the larger of its two forms, as sent; how Slack counts it is not known."""
    return max(units.size(body.text, unit), units.size(body.markdown or "", unit))


def _leaf_lines(block: Leaf) -> list[TextLine]:
    match block:
        case Paragraph(inlines=inlines):
            return _text_lines(_inlines(inlines))
        case Heading(inlines=inlines):
            return _text_lines(_inlines((Strong(inlines),)))
        case CodeBlock(content=content):
            return _code_lines(content.rstrip("\n")) if content.strip() else []
        case _:
            assert_never(block)


def _text_lines(shown: str) -> list[TextLine]:
    """Lines of text; one that begins like a quote begins with a character of no width instead."""
    return (
        [TextLine(line) for line in _QUOTED.sub(_ZERO_WIDTH_SPACE, shown.strip()).split("\n")] if shown.strip() else []
    )


def _code_lines(content: str) -> list[TextLine]:
    code = _FENCE.sub(lambda fence: _ZERO_WIDTH_SPACE.join(fence[0]), _escaped(content))
    return [TextLine(line, code=True) for line in ("```", *code.split("\n"), "```")]


def _inlines(inlines: Inlines, around: frozenset[type] = frozenset()) -> str:
    """The inlines as text, within styles of the kinds that are `around` them.

    A mark counts for Slack only at the border of a word, so a character of no width makes one where there is none.
    """
    shown = ""
    styled = False
    for inline in inlines:
        match inline:
            case Strong(inner) | Emphasis(inner) | Strike(inner) if type(inline) in around:
                piece, styles = _inlines(inner, around), False
            case Strong(inner) | Emphasis(inner) | Strike(inner):
                mark = _STYLES[type(inline)]
                piece = mark_lines(_inlines(inner, around | {type(inline)}), f"{mark}{{}}{mark}".format)
                styles = True
            case _:
                piece, styles = _inline(inline, around), isinstance(inline, CodeSpan)
        joined = shown[-1:].isalnum() if styles else styled and piece[:1].isalnum()
        shown += _ZERO_WIDTH_SPACE + piece if joined or (styled and styles) else piece
        styled = styles
    return shown


def _inline(
    inline: Text | InlineHtml | CodeSpan | Link | Image | SoftBreak | HardBreak, around: frozenset[type]
) -> str:
    match inline:
        case Text(text) | InlineHtml(text):
            return _escaped(text)
        case CodeSpan(text):
            return _escaped(text) if "`" in text else f"`{_escaped(text)}`"  # no mark holds a mark of its own kind
        case Link(url=url, inlines=inlines):
            return _link(url, inlines, around)
        case Image(url=url, alt=alt):
            return _link(url, (Text(alt),), around)
        case SoftBreak() | HardBreak():
            return "\n"
        case _:
            assert_never(inline)


def _link(url: str, inlines: Inlines, around: frozenset[type]) -> str:
    """A link, whose text takes no styles in it; or text and target where Slack can have no link."""
    text = visible_text(inlines)
    if scheme(url) not in SCHEMES or deceives(text, url):
        return _inlines(inlines, around) + _escaped(link_as_text(text, url).removeprefix(text))
    target = _escaped(_IN_TARGET.sub(lambda found: percent_encode(found[0]), url))
    label = _escaped(" ".join(text.split()))
    return f"<{target}|{label}>" if label and label != target else f"<{target}>"


def _escaped(text: str) -> str:
    return escape(text, quote=False)
