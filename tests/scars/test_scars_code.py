"""Code that is cut: what people reported of it elsewhere, shown not to happen on any chat platform, whole or live."""

from __future__ import annotations

import pytest
from chat_room import CHATS, carried, limits_of
from reading_bodies import Code, code_in, sizes

from tailrace.capabilities import Capabilities
from tailrace.markdown import render, split
from tailrace.operations import Body

chats = pytest.mark.parametrize("channel", CHATS)

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


def cut(source: str, limits: Capabilities) -> list[Body]:
    """The bodies of the text, cut as a whole."""
    return [part.body for part in split(source, limits.limit, unit=limits.unit, dialect=limits.dialect)]


def both(source: str, limits: Capabilities) -> list[list[Body]]:
    """The bodies of the text cut as a whole, and those that stand after it was said live."""
    live = carried([source], limits, length=40)
    return [cut(source, limits), [message.body for message in live.messages]]


def code_of(channel: str, bodies: list[Body]) -> list[Code]:
    return [code for body in bodies for code in code_in(channel, body)]


def lines_of(*codes: Code) -> list[str]:
    """The lines that say something: those that are empty are not seen where a message begins or ends."""
    return [line.rstrip() for code in codes for line in code.text.split("\n") if line.strip()]


@chats
def test_scar_01_no_message_is_over_the_limit_for_the_fence_that_closes_it(channel: str) -> None:
    limits = limits_of(channel)
    line = "value = 'seventy characters of code, none of which is any larger than that'\n"
    for spare in range(-8, 12):
        before = "x" * (limits.limit - spare - 5 * len(line))
        code = f"{before}\n\n```\n{line * 40}```"
        bodies = cut(code, limits)
        assert max(size for body in bodies for size in sizes(channel, body)) <= limits.limit
        assert lines_of(*code_of(channel, bodies)) == [line.rstrip()] * 40


@chats
@pytest.mark.parametrize("limit", [120, 200, 333])
def test_scar_01_no_live_message_is_over_the_limit_for_the_fence_that_closes_it(channel: str, limit: int) -> None:
    room = carried([f"Here it is:\n\n```python\n{PYTHON}\n```\n\nDone."], limits_of(channel, limit=limit), length=30)
    assert len(room.messages) > 4
    assert all(size <= limit for message in room.messages for size in sizes(channel, message.body))


@chats
@pytest.mark.parametrize("filling", ["x", "ab ", "日本", "    y"])
def test_scar_02_a_line_of_code_that_is_longer_than_the_limit_comes_to_an_end(channel: str, filling: str) -> None:
    line = (filling * 10_000)[:10_000].rstrip()
    for bodies in both(f"```js\n{line}\n```", limits_of(channel, limit=900)):
        shown = "".join(code.text for code in code_of(channel, bodies))
        assert "".join(shown.split()) == "".join(line.split())


@chats
def test_scar_03_a_block_that_is_opened_again_keeps_its_language(channel: str) -> None:
    for bodies in both(f"Look:\n\n```python\n{PYTHON}\n```\n\nThat is all.", limits_of(channel, limit=700)):
        codes = code_of(channel, bodies)
        assert len(codes) > 3
        assert {code.language for code in codes} == {"python"}


@chats
@pytest.mark.parametrize("source", ["```print('it is here')```", "```print('it is here')", "```\nprint('it is here')"])
def test_scar_03_code_whose_opener_has_no_line_end_is_not_taken_for_a_language(channel: str, source: str) -> None:
    for bodies in ([render(source, channel)], *both(source, limits_of(channel))):
        assert "it is here" in " ".join(body.text for body in bodies)


@chats
@pytest.mark.parametrize("ending", ["", "\n", "\n```"])
def test_scar_03_half_a_fence_is_never_seen_without_the_code_behind_it(channel: str, ending: str) -> None:
    room = carried([f"A small example for you to try:\n\n```python\nprint('it is here'){ending}"], limits_of(channel))
    [message] = room.messages
    assert code_in(channel, message.body) == [Code("python", "print('it is here')")]


NESTED = {
    "words behind ticks": "``` text\ncode ``` text\n``` not a closer\nstill code\n```\n\nend",
    "ticks in tildes": "~~~~ text\n```\ninner\n```\n~~~\nstill code\n~~~~\n\nend",
    "ticks in more ticks": "`````md\n```py\ninner\n```\nstill code\n`````\n\nend",
    "in a list": "1. one\n\n   ```\n   in the list\n     set in\n   ```\n\n2. two",
    "in a quote": "> said\n>\n> ```\n> in the quote\n>\n>   set in\n> ```\n\nend",
    "with carriage returns": "```\r\nfirst\r\n\r\n    second\r\n```\r\n\r\nend",
}
INSIDE = {
    "words behind ticks": ["code ``` text", "``` not a closer", "still code"],
    "ticks in tildes": ["```", "inner", "```", "~~~", "still code"],
    "ticks in more ticks": ["```py", "inner", "```", "still code"],
    "in a list": ["in the list", "  set in"],
    "in a quote": ["in the quote", "  set in"],
    "with carriage returns": ["first", "    second"],
}


@chats
@pytest.mark.parametrize("name", NESTED)
def test_scar_04_what_looks_like_a_fence_within_code_does_not_end_it(channel: str, name: str) -> None:
    room = carried([NESTED[name]], limits_of(channel), length=1)
    shown = " ".join(room.texts).replace("\u200b", "").replace("\xa0", " ")
    assert all(line in shown.replace("&gt;", ">") for line in INSIDE[name])
    is_set_in = name in ("in a list", "in a quote")
    if channel in ("telegram", "matrix") or (channel == "discord" and not is_set_in):
        # Elsewhere the fences stand as they were written, or not where a line begins.
        assert lines_of(*code_of(channel, [message.body for message in room.messages])) == INSIDE[name]


@chats
@pytest.mark.parametrize("wrapper", ["", "> ", "   "])
def test_scar_04_a_block_in_a_list_or_a_quote_is_cut_as_code(channel: str, wrapper: str) -> None:
    block = f"```python\n{PYTHON}\n```"
    inside = "\n".join(wrapper + line for line in block.split("\n"))
    source = f"1. item\n\n{inside}" if wrapper == "   " else f"before\n\n{inside}"
    for bodies in both(source, limits_of(channel, limit=600)):
        assert len(bodies) > 3
        if channel in ("telegram", "matrix"):
            assert lines_of(*code_of(channel, bodies)) == [line for line in PYTHON.split("\n") if line]


@chats
@pytest.mark.parametrize("limit", [90, 150, 301])
def test_scar_05_no_indentation_and_no_blank_line_of_code_is_eaten_at_a_cut(channel: str, limit: int) -> None:
    for bodies in both(f"```python\n{PYTHON}\n```", limits_of(channel, limit=limit)):
        codes = code_of(channel, bodies)
        assert lines_of(*codes) == [line for line in PYTHON.split("\n") if line]
        assert all(code.text in PYTHON for code in codes), "what stands in one message stands as it was written"


@pytest.mark.parametrize("channel", ["slack", "discord"])
def test_scar_10_nothing_stands_in_the_line_that_closes_code(channel: str) -> None:
    source = f"```python\n{PYTHON}\n```\n\nThat is all."
    for bodies in both(source, limits_of(channel, limit=500)):
        shown = [body.markdown or body.text for body in bodies]
        fences = [line for text in shown for line in text.split("\n") if "```" in line]
        assert fences == ["```python", "```"] * (len(fences) // 2)
        assert len(fences) // 2 == sum("step_" in text for text in shown), "each message has code, opened and closed"
