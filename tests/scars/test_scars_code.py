"""Cutting code: failures reported elsewhere, checked on every chat platform, for whole and live answers."""

from __future__ import annotations

import pytest
from reading_bodies import Code, code_in, sizes
from scar_chat import CHATS, cases, chats, limits_of, present_turn

from tailrace.capabilities import Capabilities
from tailrace.markdown import render, split
from tailrace.operations import Body

PYTHON = "\n".join(
    line
    for number in range(40)
    for line in (
        f"def step_{number}(x):",
        "    if x:",
        "",
        "        return {",
        f"            'n': {number},",
        "        }",
    )
)
PYTHON_LINES = [line for line in PYTHON.split("\n") if line]


def cut(source: str, limits: Capabilities) -> list[Body]:
    return [part.body for part in split(source, limits.limit, unit=limits.unit, dialect=limits.dialect)]


def whole_and_live(source: str, limits: Capabilities) -> list[list[Body]]:
    """The bodies of the text cut as a whole, and the messages after a live turn."""
    live = present_turn([source], limits, length=40)
    return [cut(source, limits), [message.body for message in live.messages]]


def code_of(channel: str, bodies: list[Body]) -> list[Code]:
    return [code for body in bodies for code in code_in(channel, body)]


def lines_of(codes: list[Code]) -> list[str]:
    """The lines that are not empty: people do not see empty ones at the start or end of a message."""
    return [line.rstrip() for code in codes for line in code.text.split("\n") if line.strip()]


@pytest.mark.parametrize(("channel", "limit"), cases(CHATS, [120, 200, 333]))
def test_scar_01_closing_fence_of_a_live_message_fits_the_limit(channel: str, limit: int) -> None:
    script = [f"Here it is:\n\n```python\n{PYTHON}\n```\n\nDone."]
    chat = present_turn(script, limits_of(channel, limit=limit), length=30)
    assert len(chat.messages) > 4
    assert all(size <= limit for message in chat.messages for size in sizes(channel, message.body))


@pytest.mark.parametrize(("channel", "filling"), cases(CHATS, ["x", "ab ", "日本", "    y"]))
def test_scar_02_code_line_longer_than_the_limit_is_cut(channel: str, filling: str) -> None:
    line = (filling * 10_000)[:10_000].rstrip()
    for bodies in whole_and_live(f"```js\n{line}\n```", limits_of(channel, limit=900)):
        shown = "".join(code.text for code in code_of(channel, bodies))
        assert "".join(shown.split()) == "".join(line.split())


@chats
def test_scar_03_reopened_code_block_keeps_its_language(channel: str) -> None:
    source = f"Look:\n\n```python\n{PYTHON}\n```\n\nThat is all."
    for bodies in whole_and_live(source, limits_of(channel, limit=700)):
        codes = code_of(channel, bodies)
        assert len(codes) > 3
        assert {code.language for code in codes} == {"python"}


OPENERS = ["```print('it is here')```", "```print('it is here')", "```\nprint('it is here')"]


@pytest.mark.parametrize(("channel", "source"), cases(CHATS, OPENERS))
def test_scar_03_code_in_the_opening_line_is_not_taken_as_language(channel: str, source: str) -> None:
    for bodies in ([render(source, channel)], *whole_and_live(source, limits_of(channel))):
        assert "it is here" in " ".join(body.text for body in bodies)


@pytest.mark.parametrize(("channel", "ending"), cases(CHATS, ["", "\n", "\n```"]))
def test_scar_03_open_fence_is_never_shown_without_its_code(channel: str, ending: str) -> None:
    script = [f"A small example for you to try:\n\n```python\nprint('it is here'){ending}"]
    [message] = present_turn(script, limits_of(channel)).messages
    assert code_in(channel, message.body) == [Code("python", "print('it is here')")]


# Name, source, and the lines of code in it.
NESTED = {
    "words behind ticks": (
        "``` text\ncode ``` text\n``` not a closer\nstill code\n```\n\nend",
        ["code ``` text", "``` not a closer", "still code"],
    ),
    "ticks in tildes": (
        "~~~~ text\n```\ninner\n```\n~~~\nstill code\n~~~~\n\nend",
        ["```", "inner", "```", "~~~", "still code"],
    ),
    "ticks in more ticks": (
        "`````md\n```py\ninner\n```\nstill code\n`````\n\nend",
        ["```py", "inner", "```", "still code"],
    ),
    "in a list": ("1. one\n\n   ```\n   in the list\n     set in\n   ```\n\n2. two", ["in the list", "  set in"]),
    "in a quote": (
        "> said\n>\n> ```\n> in the quote\n>\n>   set in\n> ```\n\nend",
        ["in the quote", "  set in"],
    ),
    "with carriage returns": ("```\r\nfirst\r\n\r\n    second\r\n```\r\n\r\nend", ["first", "    second"]),
}


@chats
@pytest.mark.parametrize("name", NESTED)
def test_scar_04_fence_like_text_in_code_does_not_close_it(channel: str, name: str) -> None:
    source, code = NESTED[name]
    chat = present_turn([source], limits_of(channel), length=1)
    shown = " ".join(chat.texts).replace("\u200b", "").replace("\xa0", " ")
    assert all(line in shown.replace("&gt;", ">") for line in code)
    is_indented = name in ("in a list", "in a quote")
    if channel in ("telegram", "matrix") or (channel == "discord" and not is_indented):
        # Elsewhere the fences are text as they were written, or are not at the start of a line.
        assert lines_of(code_of(channel, [message.body for message in chat.messages])) == code


@pytest.mark.parametrize(("channel", "wrapper"), cases([*CHATS, "telegram", "matrix"], ["", "> ", "   "]))
def test_scar_04_code_in_a_list_or_a_quote_is_cut_as_code(channel: str, wrapper: str) -> None:
    inside = "\n".join(wrapper + line for line in f"```python\n{PYTHON}\n```".split("\n"))
    source = f"1. item\n\n{inside}" if wrapper == "   " else f"before\n\n{inside}"
    for bodies in whole_and_live(source, limits_of(channel, limit=600)):
        assert len(bodies) > 3
        if channel in ("telegram", "matrix"):
            assert lines_of(code_of(channel, bodies)) == PYTHON_LINES


@pytest.mark.parametrize(("channel", "limit"), cases(CHATS, [90, 150, 301]))
def test_scar_05_cut_keeps_indentation_and_blank_lines_of_code(channel: str, limit: int) -> None:
    for bodies in whole_and_live(f"```python\n{PYTHON}\n```", limits_of(channel, limit=limit)):
        codes = code_of(channel, bodies)
        assert lines_of(codes) == PYTHON_LINES
        assert all(code.text in PYTHON for code in codes), "the code of one message is as it was written"


@pytest.mark.parametrize("channel", ["slack", "discord"])
def test_scar_10_closing_fence_is_alone_in_its_line(channel: str) -> None:
    source = f"```python\n{PYTHON}\n```\n\nThat is all."
    for bodies in whole_and_live(source, limits_of(channel, limit=500)):
        shown = [body.markdown or body.text for body in bodies]
        fences = [line for text in shown for line in text.split("\n") if "```" in line]
        assert fences == ["```python", "```"] * (len(fences) // 2)
        assert len(fences) // 2 == sum("step_" in text for text in shown), "each message opens and closes its code"
