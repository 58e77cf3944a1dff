"""The dialect `matrix`: a readable body, HTML that every client accepts, and no `@room` mention."""

from __future__ import annotations

import json

import pytest
from hostile_texts import hostile_texts
from hypothesis import example, given, settings
from strategies import documents

from example_counts import examples
from tailrace.capabilities import MATRIX
from tailrace.markdown import render, split
from tailrace.markdown.matrix import size
from tailrace.operations import Body


@pytest.mark.parametrize(
    ("source", "text", "html"),
    [
        ("# A\n\n**b** `c`", "A\n\nb c", "<h1>A</h1><p><strong>b</strong> <code>c</code></p>"),
        ("[a](https://x.y)", "a (https://x.y)", '<p><a href="https://x.y">a</a></p>'),
        ("[a](magnet:?xt=1)", "a (magnet:?xt=1)", '<p><a href="magnet:?xt=1">a</a></p>'),
        ("[a](javascript:b)", "a (javascript:b)", "<p>a (javascript:b)</p>"),
        (
            "| a |\n|--:|\n| 1 |",
            "a\n1",
            "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
        ),
        # HTML that would add nothing is left out
        *((text, text, None) for text in ("hello", "two\nlines", "a\n\nb & c", "List<T>", "1 < 2")),
        # mentions of the room; code stays as written in HTML
        ("@room", "@\u200broom", None),
        ("hey @ROOM!", "hey @\u200bROOM!", None),
        ("@**room**", "@\u200broom", "<p>@<strong>room</strong></p>"),
        ("@&#114;oom", "@\u200broom", None),
        ("```@room\n```", "```@\u200broom\n```", None),
        (
            "say `@room` or\n\n```\n@room\n```\n\n@room",
            "say @\u200broom or\n\n@\u200broom\n\n@\u200broom",
            "<p>say <code>@room</code> or</p><pre><code>@room\n</code></pre><p>@\u200broom</p>",
        ),
        ("![a](http://x.y/i.png)", "a (http://x.y/i.png)", '<p><a href="http://x.y/i.png">a</a></p>'),
    ],
)
def test_body_has_text_and_html(source: str, text: str, html: str | None) -> None:
    body = render(source, "matrix")
    assert (body.text, body.html) == (text, html)


@settings(max_examples=examples(120, search=1500))
@given(hostile_texts())
def test_no_text_mentions_the_room(source: str) -> None:
    assert "@room" not in render(source, "matrix").text.lower()


def test_size_is_that_of_the_text_if_markup_is_short() -> None:
    assert size(Body(text="añ"), "utf8_bytes") == 3
    assert size(Body(text="añ", html="<p>añ</p>" + " " * 900), "utf8_bytes") == 3


def test_size_is_a_share_of_a_whole_edit_if_that_is_more() -> None:
    body = Body(text='"' * 10, html="<hr>" * 1000)
    carried = len(json.dumps(body.text)) + len(json.dumps(body.html))
    assert size(body, "utf8_bytes") == -(-(carried - 1024) // 4)


@settings(max_examples=examples(15, search=200))
@given(documents(max_blocks=3))
@example("- **a**\n" * 90)
@example('"\\\t' * 90)
def test_edit_of_a_part_fits_an_event(source: str) -> None:
    source = "\n\n".join([source] * 40)
    for part in split(source, MATRIX.limit, unit=MATRIX.unit, dialect="matrix"):
        content = {"body": part.body.text, "formatted_body": part.body.html, "format": "org.matrix.custom.html"}
        event = {**content, "m.new_content": content}
        assert len(json.dumps(event, ensure_ascii=False).encode()) < 65_536 - 2_048
