"""Texts that grow when rendered: no part waits until the source exceeds the limit too."""

from __future__ import annotations

import pytest

from tailrace.markdown import Splitter, join


@pytest.mark.parametrize(
    ("text", "limit", "dialect", "lines"),
    [
        pytest.param("fish & chips, " * 30, 450, "slack", None, id="escapes"),
        pytest.param("".join(f"line {nth}\n" for nth in range(90)), 2000, "discord", 60, id="lines"),
        pytest.param(f"| {'a' * 40} | b |\n|---|---|\n" + "| x | y |\n" * 50, 600, "discord", None, id="table"),
    ],
)
def test_part_is_given_when_its_rendered_text_exceeds_the_limit(
    text: str, limit: int, dialect: str, lines: int | None
) -> None:
    assert len(text) <= limit, "the source alone would not tell"
    splitter = Splitter(limit, dialect=dialect, lines=lines)
    fed = [part for character in text for part in splitter.feed(character)]
    assert fed
    assert join(fed + splitter.close()) == text


@pytest.mark.parametrize(("dialect", "text", "grown"), [("slack", "a & b ", 10), ("telegram", "@a ", 4)])
def test_part_is_given_soon_after_its_rendered_text_is_too_long(dialect: str, text: str, grown: int) -> None:
    splitter = Splitter(1000, dialect=dialect)
    fed = 0
    while not splitter.feed(text):
        fed += len(text)
    rendered = fed * grown / len(text)
    assert 1000 - grown <= rendered <= 1100
