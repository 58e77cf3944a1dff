"""The dialect `plain`: what a person reads where nothing renders Markdown."""

from __future__ import annotations

import pytest

from tailrace.markdown import render


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# Title\n\n**bold**, *em*, ~~old~~ and `code`", "Title\n\nbold, em, old and code"),
        ("[a link](http://x.y) and <http://auto.z>", "a link (http://x.y) and http://auto.z"),
        ("![picture](i.png) [](/u) [http://a.b](http://a.b)", "picture (i.png) /u http://a.b"),
        ("<me@x.y>", "me@x.y"),
        ("a  \nb\nc", "a\nb\nc"),
        ("1. one\n2. two\n   - [x] done\n   - [ ] open", "1. one\n2. two\n   - [x] done\n   - [ ] open"),
        ("> quoted\n> more", "> quoted\n> more"),
        ("```py\nif x:\n    y\n\nz\n```", "if x:\n    y\n\nz"),
        ("| a | b |\n|---|---|\n| | [l](/u) |", "a | b\n | l (/u)"),
        ("&amp; \\*literal\\* List<String>", "& *literal* List<String>"),
        ("[see][ref] and [ref]\n\n[ref]: http://r.e 'T'", "[see][ref] and [ref]\n\n[ref]: http://r.e 'T'"),
        ("***", "---"),
    ],
)
def test_markup_becomes_text_that_reads_well(source: str, shown: str) -> None:
    assert render(source, "plain").text == shown


@pytest.mark.parametrize("source", ["#", "-", ">", "```\n```", "<!-- -->", "[a]: /x"])
def test_what_would_show_nothing_is_shown_as_it_is(source: str) -> None:
    assert render(source, "plain").text == source


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use one of markdown, plain"):
        render("x", "wordperfect")
