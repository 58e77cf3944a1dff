"""MarkdownV2 and HTML as the simulated Telegram reads them: the text, the entities, and the words of each mistake."""

from __future__ import annotations

import pytest

from tailrace.testing.platforms.telegram.entities import FormattedText, MessageEntity, finished
from tailrace.testing.platforms.telegram.history import formatted
from tailrace.testing.platforms.telegram.markup import parsed
from tailrace.testing.platforms.telegram.rules import ApiRefusal


def entities(read: FormattedText) -> list[tuple[str, int, int, str]]:
    return [(each.type, each.offset, each.length, each.url or each.language) for each in read.entities]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("plain", "plain", []),
        (r"1\.5 \* \_ \\", r"1.5 * _ \\"[:-1], []),
        ("*b* _i_ __u__ ~s~ ||p||", "b i u s p", ["bold", "italic", "underline", "strikethrough", "spoiler"]),
        ("*b _i_*", "b i", ["bold", "italic"]),
        ("`a*b` \\*", "a*b *", ["code"]),
        ("```py\na = 1\\\\\n```", "a = 1\\\n", ["pre"]),
        ("```\na.b\n```", "a.b\n", ["pre"]),
        ("[a*b*](http://x/\\))", "ab", ["text_link", "bold"]),
        ("[a]", "a", []),
        ("![👍](tg://emoji?id=5)", "👍", ["custom_emoji"]),
        (">a\n>b\nc", "a\nb\nc", ["blockquote"]),
        ("**>a\n>b||", "a\nb", ["expandable_blockquote"]),
    ],
)
def test_markdown_v2(source: str, text: str, expected: list[str]) -> None:
    read = parsed(source, "MarkdownV2")
    assert (read.text, [entity.type for entity in read.entities]) == (text, expected)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        *(
            (mark, f"Character '{mark}' is reserved and must be escaped with the preceding '\\'")
            for mark in "])#+-=|{}.!"
        ),
        ("🏟 🏟_abacaba", "Can't find end of Italic entity at byte offset 9"),
        ("🏟 🏟_abac * asd ", "Can't find end of Bold entity at byte offset 15"),
        ("🏟 🏟`", "Can't find end of Code entity at byte offset 9"),
        ("🏟 🏟```a", "Can't find end of Pre entity at byte offset 9"),
        ("🏟 🏟```a ", "Can't find end of PreCode entity at byte offset 9"),
        ("🏟 🏟_🏟 🏟__", "Can't find end of Underline entity at byte offset 19"),
        ("[a](b", "Can't find end of a URL at byte offset 4"),
        ("[a", "Can't find end of TextUrl entity at byte offset 0"),
        ("![a]", "Custom emoji entity must contain a tg://emoji URL at byte offset 0"),
    ],
)
def test_mistakes_in_markdown_v2(source: str, problem: str) -> None:
    with pytest.raises(ApiRefusal) as refused:
        parsed(source, "MarkdownV2")
    assert refused.value.description == f"Bad Request: can't parse entities: {problem}"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("a &lt;b&gt; &amp; &quot;c&quot; &#65; &nbsp;", 'a <b> & "c" A &nbsp;', []),
        ("<b>x</b><strong>x</strong>", "xx", [("bold", 0, 1, ""), ("bold", 1, 1, "")]),
        ("<i>😀</i><u>y</u>", "😀y", [("italic", 0, 2, ""), ("underline", 2, 1, "")]),
        ('<span class="tg-spoiler">x</span>', "x", [("spoiler", 0, 1, "")]),
        ('<a href="http://x/?a=1&amp;b">t</a>', "t", [("text_link", 0, 1, "http://x/?a=1&b")]),
        ("<a>http://y</a>", "http://y", [("text_link", 0, 8, "http://y")]),
        ('<pre><code class="language-py">a\n</code></pre>', "a\n", [("pre", 0, 2, "py")]),
        ("<blockquote expandable>q</blockquote>", "q", [("expandable_blockquote", 0, 1, "")]),
    ],
)
def test_html(source: str, text: str, expected: list[tuple[str, int, int, str]]) -> None:
    read = parsed(source, "HTML")
    assert (read.text, entities(read)) == (text, expected)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("<h1>a</h1>", 'Unsupported start tag "h1" at byte offset 0'),
        ("<span>a</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("é<b>a</i>", 'Unmatched end tag at byte offset 6, expected "</b>", found "</i>"'),
        ("</b>", "Unexpected end tag at byte offset 0"),
        ("<b>a", 'Can\'t find end tag corresponding to start tag "b"'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("a<b", "Unclosed start tag at byte offset 1"),
    ],
)
def test_mistakes_in_html(source: str, problem: str) -> None:
    with pytest.raises(ApiRefusal) as refused:
        parsed(source, "HTML")
    assert refused.value.description == f"Bad Request: can't parse entities: {problem}"


def test_commands_links_and_mentions_are_detected_outside_code() -> None:
    source = "/start@tail_bot see https://x.org/a @tail_bot </b> <code>/no</code>".replace("</b>", "&lt;/b&gt;")
    found = finished(parsed(source, "HTML"), entity_limit=100)
    assert [(each.type, found.text[each.offset : each.end]) for each in found.entities] == [
        ("bot_command", "/start@tail_bot"),
        ("url", "https://x.org/a"),
        ("mention", "@tail_bot"),
        ("code", "/no"),
    ]


def test_a_text_ends_with_its_last_visible_character() -> None:
    found = finished(parsed("<b>a \n</b>", "HTML"), entity_limit=100)
    assert (found.text, entities(found)) == ("a", [("bold", 0, 1, "")])


def test_entities_are_shown_as_markup_that_is_safe_in_a_page() -> None:
    read = parsed('<b>😀<i>&lt;x&gt;</i></b> <pre><code class="language-&quot;&gt;">a</code></pre>\n<u>u</u>', "HTML")
    assert formatted(read.text, read.entities) == (
        '<b>😀<i>&lt;x&gt;</i></b> <pre><span class="language">&quot;&gt;</span><code>a</code></pre><u>u</u>'
    )
    crossed = (MessageEntity("bold", 0, 2), MessageEntity("italic", 1, 2))
    assert formatted("abc", crossed) == "<b>a<i>b</i></b><i>c</i>"
