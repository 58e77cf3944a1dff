"""The dialect `slack`: Markdown for the field `markdown_text`, and Slack's own format `mrkdwn` for the field `text`.

This module owns `mrkdwn`: one mark for each style, no headings, no tables, no languages. A mark cannot be escaped, so
Slack may read a plain star as a mark. `&`, `<` and `>` of the agent are always escaped: the only angle brackets are
those of our links and quotes, so an agent's text cannot mention people. `slack_markdown` makes the Markdown.
"""

from __future__ import annotations

import re
from html import escape
from typing import assert_never

from tailrace.markdown import graphemes, units
from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.addresses import percent_encode
from tailrace.markdown.layout import ZERO_WIDTH_SPACE, Leaf, TextLine, code_lines, layout_text, mark_lines, text_lines
from tailrace.markdown.links import deceives, link_as_text, scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.slack_markdown import SCHEMES, safe_markdown
from tailrace.operations import Body

_STYLES: dict[type, str] = {tree.Strong: "*", tree.Emphasis: "_", tree.Strike: "~"}
_QUOTED = re.compile(r"^(?= *&gt;)", re.MULTILINE)
_IN_TARGET = re.compile(r"[\s<>|]")


def slack(source: str) -> Body:
    """Render Markdown for Slack, as `mrkdwn` and as safe Markdown."""
    source = replace_surrogates(source)
    if graphemes.is_one_character(character := source.strip()):
        return Body(text=character, markdown=character)  # one character is no mention; as it is, it fits any limit
    text = layout_text(parse(source), _leaf_lines, bullet="• ")
    return Body(text=text if text.strip() else _escaped(source.strip()), markdown=safe_markdown(source))


def size(body: Body, unit: str) -> int:
    """How much of the limit a body takes: the size of its `mrkdwn` or of its Markdown, whichever is larger.

    Slack does not say which of the two it counts.
    """
    return max(units.size(body.text, unit), units.size(body.markdown or "", unit))


def _leaf_lines(block: Leaf) -> list[TextLine]:
    match block:
        case tree.Paragraph(inlines=inlines):
            return _text_lines(_inlines(inlines))
        case tree.Heading(inlines=inlines):
            return _text_lines(_inlines((tree.Strong(inlines),)))
        case tree.CodeBlock(content=content):
            return code_lines(_escaped(content))
        case _:
            assert_never(block)


def _text_lines(rendered: str) -> list[TextLine]:
    """Split rendered text into lines. A zero-width space comes before a line that Slack would read as a quote."""
    return text_lines(_QUOTED.sub(ZERO_WIDTH_SPACE, rendered.strip()))


def _inlines(inlines: tree.Inlines, open_styles: frozenset[type] = frozenset()) -> str:
    """Write inlines (text, styles, links) as `mrkdwn`. `open_styles` are the kinds of styles around them.

    Slack reads a mark only at the edge of a word. Inside a word, a zero-width space makes such an edge.
    """
    rendered = ""
    styled = False
    for inline in inlines:
        match inline:
            case tree.Strong(inner) | tree.Emphasis(inner) | tree.Strike(inner) if type(inline) in open_styles:
                piece, styles = _inlines(inner, open_styles), False
            case tree.Strong(inner) | tree.Emphasis(inner) | tree.Strike(inner):
                mark = _STYLES[type(inline)]
                piece = mark_lines(_inlines(inner, open_styles | {type(inline)}), f"{mark}{{}}{mark}".format)
                styles = True
            case _:
                piece, styles = _inline(inline, open_styles), isinstance(inline, tree.CodeSpan)
        needs_edge = rendered[-1:].isalnum() if styles else styled and piece[:1].isalnum()
        rendered += ZERO_WIDTH_SPACE + piece if needs_edge or (styled and styles) else piece
        styled = styles
    return rendered


def _inline(
    inline: tree.Text | tree.InlineHtml | tree.CodeSpan | tree.Link | tree.Image | tree.SoftBreak | tree.HardBreak,
    open_styles: frozenset[type],
) -> str:
    match inline:
        case tree.Text(text) | tree.InlineHtml(text):
            return _escaped(text)
        case tree.CodeSpan(text):
            return _escaped(text) if "`" in text else f"`{_escaped(text)}`"  # a backtick cannot be inside backticks
        case tree.Link(url=url, inlines=inlines):
            return _link(url, inlines, open_styles)
        case tree.Image(url=url, alt=alt):
            return _link(url, (tree.Text(alt),), open_styles)
        case tree.SoftBreak() | tree.HardBreak():
            return "\n"
        case _:
            assert_never(inline)


def _link(url: str, inlines: tree.Inlines, open_styles: frozenset[type]) -> str:
    """Write a link, without styles in its text. If Slack cannot link to the target, the target follows the text."""
    text = tree.visible_text(inlines)
    if scheme(url) not in SCHEMES or deceives(text, url):
        return _inlines(inlines, open_styles) + _escaped(link_as_text(text, url).removeprefix(text))
    target = _escaped(_IN_TARGET.sub(lambda found: percent_encode(found[0]), url))
    label = _escaped(" ".join(text.split()))
    return f"<{target}|{label}>" if label and label != target else f"<{target}>"


def _escaped(text: str) -> str:
    return escape(text, quote=False)
