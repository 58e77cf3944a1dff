"""The dialect `telegram_rich`: its HTML, none of which Telegram would refuse."""

from __future__ import annotations

import pytest
from hostile_texts import hostile_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_rich import RichMessage
from strategies import documents, raw_texts
from test_hard_texts import DOCUMENTS
from test_spec_examples import EXAMPLES

from example_counts import examples
from tailrace.capabilities import TELEGRAM_RICH
from tailrace.markdown import Splitter, join, render, split
from tailrace.markdown.dialects import Measurer


def read(source: str) -> RichMessage:
    return RichMessage(render(source, "telegram_rich").html or "")


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("# a\n\n###### b", "<h1>a</h1><h6>b</h6>"),
        ("**a** *b* ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>"),
        ("a ||b||", "<p>a ||b||</p>"),
        ("```py\na < b\n```", '<pre><code class="language-py">a &lt; b\n</code></pre>'),
        ("- a\n  1. b\n- c", "<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>"),
        ("- [x] a\n- [ ] b", '<ul><li><input type="checkbox" checked>a</li><li><input type="checkbox">b</li></ul>'),
        (
            "| a | b |\n|---|--:|\n| 1 | **2** |",
            (
                '<table><tr><th>a</th><th align="right">b</th></tr>'
                '<tr><td>1</td><td align="right"><strong>2</strong></td></tr></table>'
            ),
        ),
        ("[a](https://x.y) [b](tg://user?id=1)", '<p><a href="https://x.y">a</a> b (tg://user?id=1)</p>'),
        ("[a](http://localhost:3000) http://localhost", "<p>a (http://localhost:3000) http://localhost</p>"),
        ("![a](https://x.y/i.png)", '<p><a href="https://x.y/i.png">a</a></p>'),
        ("<b>x</b> <tg-map/> $x$ ==y== [^1]", "<p>&lt;b&gt;x&lt;/b&gt; &lt;tg-map/&gt; $x$ ==y== [^1]</p>"),
        ("@ann and `@bob`", "<p>@\u200bann and <code>@bob</code></p>"),
    ],
)
def test_markdown_becomes_rich_html(source: str, html: str) -> None:
    body = render(source, "telegram_rich")
    assert body.html == html
    assert RichMessage(html).errors == []
    plain = render(source, "telegram")
    assert (body.text, body.entities) == (plain.text, plain.entities)


def test_reader_refuses_html_over_each_limit() -> None:
    assert RichMessage("<p>" + "a" * 32_769 + "</p>").errors == ["32769 characters"]
    assert RichMessage("<p>a</p>" * 501).errors == ["501 blocks"]
    assert RichMessage("<ul>" + "<li>a</li>" * 250 + "</ul>").errors == ["501 blocks"]
    assert RichMessage("<blockquote>" * 15 + "<p>a</p>" + "</blockquote>" * 15).errors == ["17 levels"]
    assert RichMessage("<table><tr>" + "<td>a</td>" * 21 + "</tr></table>").errors == ["21 columns"]
    assert RichMessage("<p>a").errors
    assert RichMessage("<p><u>a</u></p>").errors
    assert RichMessage('<p><a href="tg://user?id=1">a</a></p>').errors


def test_wide_table_becomes_labelled_lines() -> None:
    head = "|".join(f"h{number}" for number in range(21))
    source = f"|{head}|\n|{'-|' * 21}\n|{'|'.join(f'v{number}' for number in range(21))}|"
    message = read(source)
    assert message.errors == []
    assert "h0: v0\nh1: v1\n" in message.text
    assert message.text.endswith("h20: v20")
    assert read(source.replace("|h20|", "|").replace("|-|", "|", 1).replace("|v20|", "|")).columns == 20


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "> - ", "- > "])
def test_deep_nesting_is_flattened_and_readable(mark: str) -> None:
    message = read(f"{mark * 60}***~~[deep](https://x.y) `text`~~***")
    assert message.errors == []
    assert "deep" in message.text
    table = read(f"{mark * 9}| a |\n{mark.replace('-', ' ').replace('1.', '  ') * 9}|---|\n")
    assert table.errors == []


@pytest.mark.parametrize("line", ["a\n\n", "- a\n", "> a\n\n", "# a\n", "|a|\n", "1. a\n   - b\n"])
def test_message_is_cut_before_it_has_too_many_blocks(line: str) -> None:
    source = ("|a|\n|-|\n" if line.startswith("|") else "") + line * 1200
    splitter = Splitter(TELEGRAM_RICH.limit, TELEGRAM_RICH.unit, TELEGRAM_RICH.dialect)
    parts = splitter.feed(source) + splitter.close()
    assert join(parts) == source
    assert 3 <= len(parts) <= 13
    for part in parts:
        assert RichMessage(part.body.html or "").errors == []


def test_message_is_as_long_as_telegram_accepts() -> None:
    source = "A sentence of some words. " * 2600
    parts = split(source, TELEGRAM_RICH.limit, dialect="telegram_rich")
    assert len(parts) == 3
    assert len(RichMessage(parts[0].body.html or "").text) > 32_700


@settings(max_examples=examples(100, search=1000))
@given(st.one_of(hostile_texts(), raw_texts(), documents()))
def test_telegram_refuses_no_text(source: str) -> None:
    message = read(source)
    assert message.errors == []
    assert bool(message.text.strip()) or not source.strip()


@settings(max_examples=examples(30, search=400))
@given(st.one_of(hostile_texts(), documents()), st.integers(1, 60))
def test_telegram_refuses_no_part(source: str, limit: int) -> None:
    measurer = Measurer(limit, "code_points", "telegram_rich")
    for part in split(source, limit, dialect="telegram_rich"):
        message = RichMessage(part.body.html or "")
        assert (message.errors, measurer.fits(part.text)) == ([], True)
        assert len(message.text.replace("\n", "")) <= limit


def test_telegram_refuses_no_example() -> None:
    for source in (*EXAMPLES, *DOCUMENTS.values()):
        assert (source, read(source).errors) == (source, [])
