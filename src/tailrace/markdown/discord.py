"""The dialect `discord`: Discord's own Markdown.

Discord reads a subset of Markdown, with rules of its own. Text is escaped where Discord would read it as markup. What
Discord has no markup for (tables, deep headings, rules, images) is written with the markup that Discord has. A
zero-width space breaks mentions, references to channels and commands, emoji and timestamps: an agent's text must not
notify anyone. Code stays as written, because Discord finds no mentions in code.
"""

from __future__ import annotations

import re
from typing import assert_never

from tailrace.markdown import graphemes
from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.addresses import ADDRESS, percent_encode, split_addresses
from tailrace.markdown.layout import ZERO_WIDTH_SPACE, Leaf, TextLine, code_lines, layout_text, mark_lines, text_lines
from tailrace.markdown.links import deceives, link_as_text, scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.operations import Body

_MAX_HEADING = 3
_SCHEMES = frozenset(("http", "https"))

# Marks are escaped everywhere, except in a keycap emoji. Two tildes or two bars are one mark.
_RUN_OF_MARKS = re.compile(r"(?:[\\*_`\[](?!\ufe0f?\u20e3)|~(?=~)|(?<=~)~|\|(?=\|)|(?<=\|)\|)+")
_MARKS = frozenset("*_~`|")
_TICKS = re.compile("`{2,}")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.-]+")
_LINE_MARK = re.compile(r"^( *(?:\d+(?=\.))?)(?=(?:#{1,3}|-#|>(?:>>)?|[-+]|\.) )", re.MULTILINE)


def _begins(word: str) -> str:
    """A regular expression for a word. At the end of a text its beginning is enough: `here` also matches a final `he`.

    Later text may complete the word.
    """
    return rf"{word}|(?:{'|'.join(word[:length] for length in range(len(word)))})\Z"


_MENTION = re.compile(rf"@(?={_begins('everyone')}|{_begins('here')})", re.IGNORECASE)
_TOKEN = re.compile(r"<(?=[@#:]|[at]:|id:|/[^<>\n]*(?::|\Z)|(?:[at]|id?)?\Z)")

_IN_ADDRESS = re.compile(rf"[<>]|{_MENTION.pattern}", re.IGNORECASE)
_IN_STYLED_ADDRESS = re.compile(rf"[*~]|{_IN_ADDRESS.pattern}", re.IGNORECASE)
_IN_TARGET = re.compile(rf"[\s\"\\()`|]|[.,:;'\]]\Z|{_IN_STYLED_ADDRESS.pattern}", re.IGNORECASE)
# Discord reads no link if brackets in its text are not in pairs, or if its text contains an address.
_LINK_TEXT = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])*")


def discord(source: str) -> Body:
    """Render Markdown for Discord."""
    source = replace_surrogates(source)
    if graphemes.is_one_character(character := source.strip()):
        return Body(text=character)  # one character alone is no markup; without escapes it fits any limit
    rendered = layout_text(parse(source), _leaf_lines, bullet="- ")
    return Body(text=rendered if rendered.strip() else _literal(source.strip()))


def _leaf_lines(block: Leaf) -> list[TextLine]:
    match block:
        case tree.Paragraph(inlines=inlines):
            return _text_lines(_inlines(inlines))
        case tree.Heading():
            return _heading_lines(block)
        case tree.CodeBlock(content=content):
            return code_lines(content, block.language if _LANGUAGE.fullmatch(block.language) else "")
        case _:
            assert_never(block)


def _text_lines(rendered: str) -> list[TextLine]:
    return text_lines(_LINE_MARK.sub(r"\1\\", rendered.strip()))


def _literal(source: str) -> str:
    return _LINE_MARK.sub(r"\1\\", _text(source))


def _heading_lines(heading: tree.Heading) -> list[TextLine]:
    if heading.level > _MAX_HEADING:
        return _text_lines(_inlines((tree.Strong(heading.inlines),)))
    return [TextLine(f"{'#' * heading.level} {line.text}") for line in _text_lines(_inlines(heading.inlines))]


def _inlines(inlines: tree.Inlines, open_styles: frozenset[type] = frozenset()) -> str:
    """Write inlines (text, styles, links) as Discord's Markdown. `open_styles` are the kinds of styles around them."""
    rendered = ""
    for nth, inline in enumerate(inlines):
        match inline:
            case tree.Strong(inner) | tree.Emphasis(inner) | tree.Strike(inner) if type(inline) in open_styles:
                piece = _inlines(inner, open_styles)
            case tree.Strong(inner):
                piece = _styled("**", _inlines(inner, open_styles | {tree.Strong}))
            case tree.Strike(inner):
                piece = _styled("~~", _inlines(inner, open_styles | {tree.Strike}))
            case tree.Emphasis(inner):
                piece = _emphasis(_inlines(inner, open_styles | {tree.Emphasis}), *_neighbours(inlines, nth))
            case _:
                piece = _inline(inline, open_styles)
        rendered += ZERO_WIDTH_SPACE + piece if rendered[-1:] == piece[:1] and piece[:1] in _MARKS else piece
    return rendered


def _neighbours(inlines: tree.Inlines, nth: int) -> tuple[str, str]:
    """The character before and the character after the inline with this index; "" at an end."""
    return tree.visible_text(inlines[max(nth - 1, 0) : nth])[-1:], tree.visible_text(inlines[nth + 1 : nth + 2])[:1]


def _emphasis(rendered: str, before: str, after: str) -> str:
    """Write emphasis with underscores, because a star may be read as half of `**`.

    `before` and `after` are the characters around it. Inside a word Discord ignores underscores, so stars are used
    there.
    """
    in_word = before.isalnum() or after.isalnum()
    return _styled("*" if in_word or "_" in rendered.replace("\\_", "") or rendered.endswith("~~") else "_", rendered)


def _styled(mark: str, rendered: str) -> str:
    """Put the mark before and after each line of the text.

    A quote or an item adds its own marks at each line, which would otherwise be inside the style.
    """

    def marked(words: str) -> str:
        before = ZERO_WIDTH_SPACE if words[0] == mark[0] else ""
        after = ZERO_WIDTH_SPACE if words[-1] == mark[0] else ""
        return f"{mark}{before}{words}{after}{mark}"

    return mark_lines(rendered, marked)


def _inline(
    inline: tree.Text | tree.InlineHtml | tree.CodeSpan | tree.Link | tree.Image | tree.SoftBreak | tree.HardBreak,
    open_styles: frozenset[type],
) -> str:
    match inline:
        case tree.Text(text) | tree.InlineHtml(text):
            return _text(text, open_styles)
        case tree.CodeSpan(text):
            return _code_span(text)
        case tree.Link():
            return _link(inline, open_styles)
        case tree.Image(url=url, alt=alt):
            return _text(alt if tree.Link in open_styles else link_as_text(alt, url), open_styles)
        case tree.SoftBreak() | tree.HardBreak():
            return "\n"
        case _:
            assert_never(inline)


def _link(link: tree.Link, open_styles: frozenset[type]) -> str:
    text = tree.visible_text(link.inlines)
    rendered = _inlines(link.inlines, open_styles | {tree.Link})
    if scheme(link.url) in _SCHEMES and (not text.strip() or text == link.url):
        return _address(link.url, open_styles)
    if scheme(link.url) not in _SCHEMES or deceives(text, link.url):
        return rendered + _text(link_as_text(text, link.url).removeprefix(text), open_styles)
    if "://" in text or not _LINK_TEXT.fullmatch(text):
        return f"{rendered} ({_address(link.url, open_styles)})"
    return f"[{rendered.replace(chr(10), ' ')}](<{_IN_TARGET.sub(_encoded, link.url)}>)"


def _address(url: str, open_styles: frozenset[type]) -> str:
    """Write an address so that people can click it. It gets angle brackets if Discord would not find its end."""
    if "`" in url:
        return _escaped(url)  # a backtick would begin code
    url = (_IN_STYLED_ADDRESS if open_styles else _IN_ADDRESS).sub(_encoded, url)
    return url if ADDRESS.fullmatch(url) else f"<{url}>"


def _encoded(found: re.Match[str]) -> str:
    return percent_encode(found[0])


def _code_span(code: str) -> str:
    if "`" not in code:
        return f"`{code}`"
    return f"`` {_TICKS.sub(lambda ticks: ZERO_WIDTH_SPACE.join(ticks[0]), code)} ``"


def _text(text: str, open_styles: frozenset[type] = frozenset()) -> str:
    """Escape text so that Discord shows it as it is. Web addresses stay, because escapes would break them."""
    pieces = split_addresses(text)
    return "".join(_address(piece, open_styles) if is_address else _escaped(piece) for piece, is_address in pieces)


def _escaped(text: str) -> str:
    marked = _RUN_OF_MARKS.sub(lambda run: "\\" + "\\".join(run[0]), text)
    return _MENTION.sub(f"@{ZERO_WIDTH_SPACE}", _TOKEN.sub(f"<{ZERO_WIDTH_SPACE}", marked))
