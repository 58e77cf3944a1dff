"""The dialect `slack`: both forms show what the source says, and neither mentions anybody."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest
from hostile_texts import hostile_texts
from hypothesis import assume, example, given, settings
from strategies import documents, proses

from cutting_laws.reading import read
from example_counts import examples
from tailrace.markdown import render
from tailrace.markdown.graphemes import is_one_character
from tailrace.markdown.slack import size
from tailrace.operations import Body

LINK = re.compile(r"<(?:https?:|mailto:)[^<>|\s]*(?:\|[^<>]*)?>", re.IGNORECASE)
QUOTE = re.compile(r"^(?:(?:• |\d+\. |[☐☑] )*(?:> )| +)+", re.MULTILINE)


def text(source: str) -> str:
    return render(source, "slack").text


def markdown(source: str) -> str:
    shown = render(source, "slack").markdown
    assert shown is not None
    return shown


@pytest.mark.parametrize(
    ("source", "mrkdwn"),
    [
        ("**a** *b* ~~c~~ `d` ***e***", "*a* _b_ ~c~ `d` _*e*_"),
        ("# a\n\n###### b **c**", "*a*\n\n*b c*"),
        ("foo**bar**baz", "foo\u200b*bar*\u200bbaz"),
        ("**a***b*", "*a*\u200b_b_"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("- a\n  - b\n\n1. c\n2. d", "• a\n  • b\n\n1. c\n2. d"),
        ("- [ ] a\n- [x] b", "• ☐ a\n• ☑ b"),
        ("> a\n> b\n> > c", "> a\n> b\n> \n> > c"),
        ("\\> a", "\u200b&gt; a"),
        ("```py\nx < 1 & y\n```", "```\nx &lt; 1 &amp; y\n```"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\n```"),
        ("`` a`b ``", "a`b"),
        ("| a | b |\n|---|--:|\n| 1 | **2** |", "```\na  b\n-  -\n1  2\n```"),
        ("a\n\n***", "a\n\n———"),
        ("<b>x</b> & List<T>", "&lt;b&gt;x&lt;/b&gt; &amp; List&lt;T&gt;"),
    ],
)
def test_markdown_becomes_mrkdwn(source: str, mrkdwn: str) -> None:
    assert text(source) == mrkdwn


@pytest.mark.parametrize(
    ("source", "mrkdwn", "same_as_markdown"),
    [
        ("[a **b**](https://x.y/?a=1&b=2)", "<https://x.y/?a=1&amp;b=2|a b>", "[a **b**](https://x.y/?a=1&b=2)"),
        ("<https://x.y/a_b>", "<https://x.y/a_b>", "[https://x.y/a\\_b](https://x.y/a_b)"),
        ("<me@x.y>", "<mailto:me@x.y|me@x.y>", "[me@x.y](mailto:me@x.y)"),
        ("[](https://x.y)", "<https://x.y>", "[https://x.y](https://x.y)"),
        ("[a](<https://x.y/|b c>)", "<https://x.y/%7Cb%20c|a>", "[a](https://x.y/%7Cb%20c)"),
        ('[a](https://x.y "<!here>")', "<https://x.y|a>", "[a](https://x.y)"),
        ("[a>|b](https://x.y)", "<https://x.y|a&gt;|b>", "[a&gt;|b](https://x.y)"),
        ("[a](javascript:b_c)", "a (javascript:b_c)", "a (javascript:b\\_c)"),
        ("![a](https://x.y/i.png)", "<https://x.y/i.png|a>", "![a](https://x.y/i.png)"),
        ("[![a](https://x.y/i.png)](https://z.w)", "<https://z.w|a>", "[a](https://z.w)"),
        ("[https://b.a](https://e.v)", "https://b.a (https://e.v)", "https://b.a (https://e.v)"),
    ],
)
def test_links_show_where_they_lead(source: str, mrkdwn: str, same_as_markdown: str) -> None:
    assert text(source) == mrkdwn
    assert markdown(source) == same_as_markdown


@pytest.mark.parametrize(
    ("source", "safe"),
    [
        *(
            (source, source)
            for source in (
                "# A\n\n**b** *c* ~~d~~ `e`\n\n- f\n  1. g\n\n> h\n> > i\n\n***\n",
                "- [ ] a\n- [x] b\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n",
                "\\*a\\* 1\\. b  \nc\\\nd",
                "```py title\nx = 1\n\n    y\n```\n\n~~~~\n```\n~~~~\n",
                "- > - a\n  > b\n\n> ```\n> c\n> ```\n",
                "https://x.y/?a=1&b=2 &copy; &#42;",
                "[a] [b][c] [d](https://x.y 'e')",
                "a\r\n\r\n\tb\r\n",
            )
        ),
        ("a <!channel> <@U1> <#C1|x>", "a &lt;!channel&gt; &lt;@U1&gt; &lt;#C1|x&gt;"),
        ("a & b &lt;!here&gt; \\&lt;", "a &amp; b &lt;!here&gt; \\&amp;lt;"),
        ("`<!here> &lt;`", "`&lt;!here&gt; &amp;lt;`"),
        ("```<!here>\n<!here> > &\n```", "```&lt;!here>\n&lt;!here&gt; &gt; &amp;\n```"),
        ("> a > b\n> <!here>", "> a &gt; b\n> &lt;!here&gt;"),
        ("<div>\n*a*\n</div>", "&lt;div&gt;\n\\*a\\*\n&lt;/div&gt;"),
        ("[https://b.a][r]\n\n[r]: https://e.v", "[https://b.a][r]\n\n[r]\\: https://e.v"),
    ],
)
def test_markdown_is_escaped_only_where_slack_reads_it_differently(source: str, safe: str) -> None:
    assert markdown(source) == safe


@pytest.mark.parametrize("source", ["&", "<", ">", "👍🏽", "  *  ", "    <"])
def test_one_character_alone_stays_as_it_is(source: str) -> None:
    assert (text(source), markdown(source)) == (source.strip(), source.strip())


@pytest.mark.parametrize("source", ["```<!channel>\n```", "~~~ <@U1>"])
def test_invisible_markdown_is_shown_without_mentions(source: str) -> None:
    assert unescape(text(source)) == source
    assert "<" not in text(source) + markdown(source)


@settings(max_examples=examples(150, search=2000))
@given(hostile_texts())
def test_no_text_mentions_anybody(source: str) -> None:
    assume(source.strip() and not is_one_character(source.strip()))
    assert "<" not in markdown(source)
    bare = QUOTE.sub("", LINK.sub("", text(source)))
    assert "<" not in bare
    assert ">" not in bare


@settings(max_examples=examples(50, search=500))
@given(documents())
def test_both_forms_show_every_letter(source: str) -> None:
    seen = Counter(glyph.char for glyph in read(source).glyphs if glyph.char.isalpha())
    assert seen - Counter(unescape(markdown(source))) == Counter()
    assert seen - Counter(unescape(text(source))) == Counter()


@settings(max_examples=examples(30, search=300))
@given(proses())
@example("# A & B <C>\n\nSome **bold** text, a `code` & more > less.\n\n> a quote\n> <!here>\n\n- one\n- two\n")
@example("```py\nif a < b & c > d:\n    print('&lt;')\n```\n\nThen 1 < 2, and [a link](https://x.y/?a=1&b=2) ends it.")
@example("| a | b<c |\n|---|---|\n| 1 & 2 | `x > y` |\n\nAT&T says: https://x.y/?a=1&b=2 is **it**.")
def test_markdown_of_an_answer_only_grows_at_its_end(source: str) -> None:
    whole = markdown(source)
    assert all(whole.startswith(markdown(source[:length])) for length in range(2, len(source)))


def test_size_is_that_of_the_larger_form() -> None:
    assert size(Body(text="abc", markdown="abcd"), "code_points") == 4
    assert size(Body(text="äb", markdown="a"), "utf8_bytes") == 3


def test_text_nested_too_deeply_hides_no_link_and_mentions_nobody() -> None:
    body = render("> " * 40 + "[bank.com](https://evil.com) <!channel> @x", "slack")
    assert "<!" not in body.text
    assert "<!" not in (body.markdown or "")
    assert "[bank.com\\](https://evil.com)" in (body.markdown or "").replace("\\[", "[")
