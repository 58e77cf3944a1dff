"""Cutting text and code: failures reported elsewhere, checked for every chat platform."""

from __future__ import annotations

import re

import pytest
import regex
from reading_bodies import Code, bold_in, code_in, sizes
from scar_chat import ANSWER, CHATS, PARAGRAPHS, SAMPLES, THREAD, Script, cases, chats, limits_of, present_turn

from tailrace.events import ToolStarted
from tailrace.markdown import split
from tailrace.operations import Body
from tailrace.projector import Presentation


def cut(source: str, channel: str, limit: int | None = None) -> list[Body]:
    """The bodies of the text for a platform, with its own limit or a smaller one."""
    limits = limits_of(channel)
    return [part.body for part in split(source, limit or limits.limit, unit=limits.unit, dialect=limits.dialect)]


def codes_of(channel: str, bodies: list[Body]) -> list[Code]:
    return [code for body in bodies for code in code_in(channel, body)]


def lines_of(codes: list[Code]) -> list[str]:
    """The lines that are not empty: people do not see empty ones at the start or end of a message."""
    return [line.rstrip() for code in codes for line in code.text.split("\n") if line.strip()]


STEP = "def step_{0}(x):\n    if x:\n\n        return {{\n            'n': {0},\n        }}\n"
PYTHON = "".join(STEP.format(number) for number in range(40)).rstrip("\n")
FENCED = f"```python\n{PYTHON}\n```"


@pytest.mark.parametrize(("channel", "limit"), cases(CHATS, [120, 200, 333]))
def test_scar_01_part_with_its_closing_fence_fits_the_limit(channel: str, limit: int) -> None:
    bodies = cut(f"Here it is:\n\n{FENCED}\n\nDone.", channel, limit)
    assert len(bodies) > 4
    assert all(size <= limit for body in bodies for size in sizes(channel, body))


@pytest.mark.parametrize(("channel", "filling"), cases(CHATS, ["x", "ab ", "日本", "    y"]))
def test_scar_02_code_line_longer_than_the_limit_is_cut(channel: str, filling: str) -> None:
    line = (filling * 10_000)[:10_000].rstrip()
    shown = "".join(code.text for code in codes_of(channel, cut(f"```js\n{line}\n```", channel, 900)))
    assert "".join(shown.split()) == "".join(line.split())


@chats
def test_scar_03_reopened_code_block_keeps_its_language(channel: str) -> None:
    codes = codes_of(channel, cut(f"Look:\n\n{FENCED}\n\nThat is all.", channel, 700))
    assert len(codes) > 3
    assert {code.language for code in codes} == {"python"}


@chats
@pytest.mark.parametrize("source", ["```print('here')```", "```print('here')", "```\nprint('here')"])
def test_scar_03_code_in_the_opening_line_is_not_taken_as_language(channel: str, source: str) -> None:
    [body] = cut(source, channel)
    assert "here" in body.text


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
    "in a quote": ("> said\n>\n> ```\n> in the quote\n>\n>   set in\n> ```\n\nend", ["in the quote", "  set in"]),
    "with carriage returns": ("```\r\nfirst\r\n\r\n    second\r\n```\r\n\r\nend", ["first", "    second"]),
}


@chats
@pytest.mark.parametrize("name", NESTED)
def test_scar_04_fence_like_text_in_code_does_not_close_it(channel: str, name: str) -> None:
    source, code = NESTED[name]
    [body] = cut(source, channel)
    shown = body.text.replace("\u200b", "").replace("\xa0", " ").replace("&gt;", ">")
    assert all(line in shown for line in code)
    is_indented = name in ("in a list", "in a quote")
    if channel in ("telegram", "matrix") or (channel == "discord" and not is_indented):
        # Elsewhere the fences are text as they were written, or are not at the start of a line.
        assert lines_of(code_in(channel, body)) == code


@pytest.mark.parametrize(("channel", "limit"), cases(CHATS, [90, 150, 301]))
def test_scar_05_cut_keeps_indentation_and_blank_lines_of_code(channel: str, limit: int) -> None:
    codes = codes_of(channel, cut(FENCED, channel, limit))
    assert lines_of(codes) == [line for line in PYTHON.split("\n") if line]
    assert all(code.text in PYTHON for code in codes), "the code of one message is as it was written"


@chats
def test_scar_05_paragraphs_stay_apart_in_and_between_messages(channel: str) -> None:
    assert [block for body in cut(ANSWER, channel, 400) for block in body.text.split("\n\n")] == PARAGRAPHS


TABLE = "| step | took | result |\n|---|--:|---|\n" + "".join(
    f"| step number {number} | {number} s | done and checked {number} |\n" for number in range(60)
)


@chats
def test_scar_07_table_is_cut_between_rows_and_repeats_its_header(channel: str) -> None:
    shown = [body.html or body.text for body in cut(TABLE, channel, 900)]
    assert len(shown) >= 3
    assert [int(number) for text in shown for number in re.findall(r"step number (\d+)", text)] == list(range(60))
    for text in shown:
        first, last = (re.findall(r"step number (\d+)", text)[nth] for nth in (0, -1))
        assert 0 <= text.find("result") < text.find(f"done and checked {first}")
        assert text.find(f"done and checked {last}") > text.rfind(f"step number {last}")


LINK = "[the report number {0}](https://reports.example/2026/11/{0}/index.html?sort=date&page={0})"
ADDRESS = "https://reports.example/2026/11/{0}/index.html"


@chats
@pytest.mark.parametrize("link", [LINK, ADDRESS], ids=["links", "addresses"])
def test_scar_07_links_and_addresses_are_never_cut(channel: str, link: str) -> None:
    bodies = cut(" and ".join(link.format(number) for number in range(40)), channel, 300)
    assert len(bodies) > 3
    found: list[str] = []
    for body in bodies:
        targets = " ".join(entity.url or "" for entity in body.entities)
        found += re.findall(r"reports\.example/2026/11/(\d+)/index\.html", f"{targets} {body.html or body.text}")
        assert not re.match(r"[a-z.]*example|/|\d+/|2026|index|page=", body.text)
    assert found == [str(number) for number in range(40)]


@chats
def test_scar_08_bold_text_across_a_cut_is_bold_on_both_sides(channel: str) -> None:
    words = [f"word{number}" for number in range(300)]
    bodies = cut(f"Start **{' '.join(words)}** and end.", channel, 600)
    assert len(bodies) > 3
    assert " ".join(bold_in(channel, body) for body in bodies).split() == words


CLUSTERS = "👨‍👩‍👧‍👦👍🏽🇩🇪🇫🇷🏳️‍🌈👩🏿‍🚀क्षिe\u0301\u0302नमस्ते"


@chats
def test_scar_09_graphemes_are_not_cut(channel: str) -> None:
    bodies = cut(" ".join([CLUSTERS] * 40), channel, 300)
    assert len(bodies) > 3
    shown = "".join("".join(body.text.split()) for body in bodies)
    assert regex.findall(r"\X", shown) == regex.findall(r"\X", CLUSTERS) * 40


ODD = ["#", "---", "```\n```", "[](x)", "<!-- x -->", "**", "> ", "- ", "\\", "![](a)", "&nbsp;", "|a|\n|-|", "``` py"]


@chats
@pytest.mark.parametrize("text", ODD)
def test_scar_10_text_that_is_not_empty_is_a_message(channel: str, text: str) -> None:
    [body] = cut(text, channel)
    assert body.text.strip()


@pytest.mark.parametrize("channel", ["slack", "discord"])
def test_scar_10_closing_fence_is_alone_in_its_line(channel: str) -> None:
    shown = [body.markdown or body.text for body in cut(f"{FENCED}\n\nThat is all.", channel, 500)]
    fences = [line for text in shown for line in text.split("\n") if "```" in line]
    assert fences == ["```python", "```"] * (len(fences) // 2)
    assert len(fences) // 2 == sum("step_" in text for text in shown), "each message opens and closes its code"


MENTIONS = (
    "Hello @everyone and @here, <!channel> <!here|x> <@U024BE7LH> <@123> <@&9> @room, <#C1|x>: &lt;!channel&gt; done."
)
# What notifies people because of a text. Telegram notifies by entities, and a body has none for that.
NOTIFYING = {"discord": r"@everyone|@here|<@[!&]?\d+>", "slack": r"<[!@#]", "matrix": "@room", "telegram": r"(?!)"}


@pytest.mark.parametrize(("channel", "presentation", "length"), cases(SAMPLES, [1, 1000, 3, 1]))
def test_scar_13_neither_text_nor_tools_mention_anybody(channel: str, presentation: Presentation, length: int) -> None:
    tool = ToolStarted(id="1", name="@everyone", arguments={"command": MENTIONS})
    script: Script = [tool, 7.0, MENTIONS, 3.0, "\n\n", MENTIONS]
    chat = present_turn(script, limits_of(channel), target=THREAD, length=length, presentation=presentation)
    assert [seen for seen in chat.ever_shown() if re.search(NOTIFYING[channel], seen)] == []
    entities = {entity.type for message in chat.messages for entity in message.body.entities}
    assert not entities & {"mention", "text_mention"}
    assert all("everyone" in text and "done." in text for text in chat.texts if "🔧" not in text)
