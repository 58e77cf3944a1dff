"""The dialect `matrix`: a body that reads well alone, HTML that every client takes, and nobody called by accident."""

from __future__ import annotations

import json

import pytest
from hostile_texts import hostile_texts
from hypothesis import example, given, settings
from reading_html import Fragment
from strategies import documents

from example_counts import examples
from tailrace.capabilities import MATRIX
from tailrace.markdown import render, split
from tailrace.markdown.matrix import size
from tailrace.operations import Body

# What the specification allows and we have a use for.
TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "ul", "ol", "li", "hr", "br"),
    *("strong", "em", "del", "code", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {("a", "href"), ("code", "class"), ("ol", "start")}


@pytest.mark.parametrize(
    ("source", "text", "html"),
    [
        ("# A\n\n**b** `c`", "A\n\nb c", "<h1>A</h1><p><strong>b</strong> <code>c</code></p>"),
        ("[a](https://x.y)", "a (https://x.y)", '<p><a href="https://x.y">a</a></p>'),
        ("[a](magnet:?xt=1)", "a (magnet:?xt=1)", '<p><a href="magnet:?xt=1">a</a></p>'),
        ("[a](javascript:b)", "a (javascript:b)", "<p>a (javascript:b)</p>"),
        ("![a](http://x.y/i.png)", "a (http://x.y/i.png)", '<p><a href="http://x.y/i.png">a</a></p>'),
    ],
)
def test_text_and_html_say_the_same(source: str, text: str, html: str) -> None:
    body = render(source, "matrix")
    assert (body.text, body.html) == (text, html)


def test_cells_are_not_aligned_for_that_is_no_attribute_of_the_specification() -> None:
    body = render("| a |\n|--:|\n| 1 |", "matrix")
    assert body.html == "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>"


@pytest.mark.parametrize("source", ["hello", "two\nlines", "a\n\nb & c", "List<T>", "1 < 2", "```@room\n```"])
def test_html_that_would_say_nothing_more_is_left_out(source: str) -> None:
    assert render(source, "matrix").html is None


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("@room", "@\u200broom"),
        ("hey @ROOM!", "hey @\u200bROOM!"),
        ("@**room**", "@\u200broom"),
        ("@&#114;oom", "@\u200broom"),
        ("```@room\n```", "```@\u200broom\n```"),
    ],
)
def test_nobody_is_called_to_the_room(source: str, text: str) -> None:
    assert render(source, "matrix").text == text


def test_code_stands_as_it_was_written_in_html_and_calls_nobody_in_the_text() -> None:
    body = render("say `@room` or\n\n```\n@room\n```\n\n@room", "matrix")
    assert body.text == "say @\u200broom or\n\n@\u200broom\n\n@\u200broom"
    assert body.html == "<p>say <code>@room</code> or</p><pre><code>@room\n</code></pre><p>@\u200broom</p>"


@settings(max_examples=examples(120, search=1500))
@given(hostile_texts())
def test_no_text_calls_anybody_or_gets_a_tag_of_its_own(source: str) -> None:
    body = render(source, "matrix")
    assert "@room" not in body.text.lower()
    fragment = Fragment(body.html or "")
    assert fragment.tags <= TAGS
    assert fragment.attributes <= ATTRIBUTES
    assert fragment.deepest <= 20
    schemes = {target.partition(":")[0].lower() for target in fragment.targets}
    assert schemes <= {"https", "http", "ftp", "mailto", "magnet"}


def test_the_size_is_that_of_the_text_while_the_markup_is_small() -> None:
    assert size(Body(text="añ"), "utf8_bytes") == 3
    assert size(Body(text="añ", html="<p>añ</p>" + " " * 900), "utf8_bytes") == 3


def test_the_size_is_a_share_of_all_that_an_edit_carries_where_that_is_more() -> None:
    body = Body(text='"' * 10, html="<hr>" * 1000)
    carried = len(json.dumps(body.text)) + len(json.dumps(body.html))
    assert size(body, "utf8_bytes") == -(-(carried - 1024) // 4)


@settings(max_examples=examples(15, search=200))
@given(documents(max_blocks=3))
@example("- **a**\n" * 90)
@example('"\\\t' * 90)
def test_every_part_leaves_room_in_an_event_for_text_and_html_twice(source: str) -> None:
    source = "\n\n".join([source] * 40)
    for part in split(source, MATRIX.limit, unit=MATRIX.unit, dialect="matrix"):
        content = {"body": part.body.text, "formatted_body": part.body.html, "format": "org.matrix.custom.html"}
        event = {**content, "m.new_content": content}
        assert len(json.dumps(event, ensure_ascii=False).encode()) < 65_536 - 2_048
