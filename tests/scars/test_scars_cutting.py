"""Cutting text and code: failures reported elsewhere, checked on every chat platform."""

from __future__ import annotations

import re

import pytest
import regex
from reading_bodies import Code, bold_in, code_in, sizes
from scar_chat import CHATS, SAMPLES, THREAD, TOOL, Script, cases, chats, limits_of, present_turn, presented

from tailrace.capabilities import Capabilities
from tailrace.events import BlockFinal, ReasoningDelta, ToolStarted
from tailrace.markdown import Part, render, split
from tailrace.operations import Body
from tailrace.projector import Presentation

SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(60)]
PARAGRAPHS = "\n\n".join(" ".join(SENTENCES[at : at + 3]) for at in range(0, 60, 3))


def parts_of(source: str, limits: Capabilities) -> list[Part]:
    return split(source, limits.limit, unit=limits.unit, dialect=limits.dialect)


@presented()
def test_scar_05_paragraphs_stay_apart_in_and_between_messages(channel: str, presentation: Presentation) -> None:
    chat = present_turn([PARAGRAPHS], limits_of(channel, limit=700), length=30, presentation=presentation)
    blocks = [block for text in chat.texts for block in text.split("\n\n")]
    assert blocks == PARAGRAPHS.split("\n\n")


TEXTS = [
    "水車は川の流れで回る。石臼が穀物を挽き、粉になる。磨坊在河边，水流不停。방앗간의 물레방아가 돌아간다.",
    "Look into /var/lib/backup/index.sqlite3-wal and https://a.example/path/to/thing?x=1111&y=22 please.",
    "Hmmmm... 1111 2222, aaaa bbbb!!!! ———— 哈哈哈哈哈 ha ha ha ha, no no no, that that is is.",
]


@pytest.mark.parametrize(("channel", "presentation", "text"), cases(SAMPLES, TEXTS))
def test_scar_06_deltas_are_joined_without_spaces_or_loss(channel: str, presentation: Presentation, text: str) -> None:
    chat = present_turn([text], limits_of(channel), length=1, presentation=presentation)
    assert [message.body for message in chat.messages] == [render(text, channel)]


TABLE = "| step | took | result |\n|---|--:|---|\n" + "".join(
    f"| step number {number} | {number} s | done and checked {number} |\n" for number in range(60)
)


@chats
def test_scar_07_table_is_cut_between_rows_and_repeats_its_header(channel: str) -> None:
    limits = limits_of(channel, limit=900)
    live = present_turn([f"The steps:\n\n{TABLE}\nThat is all."], limits, length=40)
    for bodies in ([part.body for part in parts_of(TABLE, limits)], [message.body for message in live.messages]):
        assert len(bodies) >= 3
        shown = [body.html or body.text for body in bodies]
        rows = [number for text in shown for number in map(int, re.findall(r"step number (\d+)", text))]
        assert rows == list(range(60))
        for text in (text for text in shown if "step number" in text):
            first, last = (re.findall(r"step number (\d+)", text)[nth] for nth in (0, -1))
            assert 0 <= text.find("result") < text.find(f"done and checked {first}")
            assert text.find(f"done and checked {last}") > text.rfind(f"step number {last}")


LINK = "[the report number {0}](https://reports.example/2026/11/{0}/index.html?sort=date&page={0})"
LINKS = " and ".join(LINK.format(number) for number in range(40))
ADDRESSES = " and ".join(f"https://reports.example/2026/11/{number}/index.html" for number in range(40))


@chats
@pytest.mark.parametrize("source", [LINKS, ADDRESSES], ids=["links", "addresses"])
def test_scar_07_links_and_addresses_are_never_cut(channel: str, source: str) -> None:
    chat = present_turn([source], limits_of(channel, limit=300), length=10)
    assert len(chat.messages) > 3
    found: list[str] = []
    for message in chat.messages:
        body = message.body
        targets = " ".join(entity.url or "" for entity in body.entities)
        found += re.findall(r"reports\.example/2026/11/(\d+)/index\.html", f"{targets} {body.html or body.text}")
        assert not re.match(r"[a-z.]*example|/|\d+/|2026|index|page=", body.text)
    assert found == [str(number) for number in range(40)]


@chats
def test_scar_08_bold_text_across_a_cut_is_bold_on_both_sides(channel: str) -> None:
    words = [f"word{number}" for number in range(300)]
    source = f"Start **{' '.join(words)}** and end."
    limits = limits_of(channel, limit=600)
    live = present_turn([source], limits, length=20)
    for bodies in ([part.body for part in parts_of(source, limits)], [message.body for message in live.messages]):
        assert len(bodies) > 3
        assert " ".join(bold_in(channel, body) for body in bodies).split() == words


CLUSTERS = "👨‍👩‍👧‍👦👍🏽🇩🇪🇫🇷🏳️‍🌈👩🏿‍🚀क्षिe\u0301\u0302नमस्ते"


@chats
def test_scar_09_graphemes_of_a_live_answer_are_not_cut(channel: str) -> None:
    source = " ".join([CLUSTERS] * 40)
    chat = present_turn([source], limits_of(channel, limit=300), length=1)
    assert len(chat.messages) > 3
    shown = "".join(" ".join(chat.texts).split())
    assert regex.findall(r"\X", shown) == regex.findall(r"\X", CLUSTERS) * 40


ODD = ["#", "---", "```\n```", "[](x)", "<!-- x -->", "**", "> ", "- ", "\\", "![](a)", "&nbsp;", "|a|\n|-|", "``` py"]


@chats
@pytest.mark.parametrize("text", ODD)
def test_scar_10_text_that_is_not_empty_is_a_message(channel: str, text: str) -> None:
    [shown] = present_turn([text], limits_of(channel)).texts
    assert shown.strip()


@pytest.mark.parametrize(("channel", "length"), cases(CHATS, [1, 7, 200]))
def test_scar_11_no_block_ends_within_a_sentence(channel: str, length: int) -> None:
    chat = present_turn([PARAGRAPHS], limits_of(channel), length=length, presentation="blocks", block_characters=20)
    assert chat.texts == PARAGRAPHS.split("\n\n")


@presented()
def test_scar_12_long_answer_is_split_and_not_truncated(channel: str, presentation: Presentation) -> None:
    answer = "\n\n".join(f"{number}. {PARAGRAPHS}" for number in range(11))
    chat = present_turn([answer], limits_of(channel), target=THREAD, length=400, presentation=presentation)
    assert " ".join(chat.texts).split() == answer.split()
    assert len(answer) > 30_000


@presented()
@pytest.mark.parametrize("seal", [[], [BlockFinal(text="Let me look.")]], ids=["open", "sealed"])
def test_scar_12_text_before_and_after_a_tool_stays_apart(
    channel: str, presentation: Presentation, seal: Script
) -> None:
    script: Script = ["Let me look.", *seal, *TOOL, "Found it."]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
    shown = "\n\n".join(text for text in chat.texts if "🔧" not in text)
    assert shown == "Let me look.\n\nFound it."
    assert not any("look.Found" in seen for seen in chat.ever_shown())


THOUGHTS = ["<think>the secret plan</think>", "<thinking>\nthe secret plan\n</thinking>\n\n"]


@pytest.mark.parametrize(("channel", "presentation", "length", "thought"), cases(SAMPLES, [1, 4, 1000], THOUGHTS))
def test_scar_13_reasoning_is_never_shown(channel: str, presentation: Presentation, length: int, thought: str) -> None:
    more: Script = [2.0, ReasoningDelta(text="another secret plan"), 2.0, "And more."]
    script: Script = [f"{thought}Here is the answer.", *more]
    chat = present_turn(script, limits_of(channel), target=THREAD, length=length, presentation=presentation)
    assert "\n\n".join(chat.texts) == "Here is the answer.\n\nAnd more."
    assert not any("secret" in seen or "think" in seen for seen in chat.ever_shown())


MENTIONS = (
    "Hello @everyone and @here, <!channel> <!here|x> <@U024BE7LH> <@123> <@&9> @room, <#C1|x>: &lt;!channel&gt; done."
)


def mentions_somebody(channel: str, text: str) -> bool:
    """Whether the platform would notify people because of this text."""
    match channel:
        case "discord":
            return re.search(r"@everyone|@here|<@[!&]?\d+>", text) is not None
        case "slack":
            return re.search(r"<[!@#]", text) is not None
        case "matrix":
            return "@room" in text
        case _:
            return False  # Telegram notifies by entities, and a body has none for that


@pytest.mark.parametrize(("channel", "presentation", "length"), cases(SAMPLES, [1, 1000, 3, 1]))
def test_scar_13_text_of_an_agent_mentions_nobody(channel: str, presentation: Presentation, length: int) -> None:
    script: Script = [MENTIONS, 3.0, "\n\n", MENTIONS]
    chat = present_turn(script, limits_of(channel), target=THREAD, length=length, presentation=presentation)
    assert [seen for seen in chat.ever_shown() if mentions_somebody(channel, seen)] == []
    entities = {entity.type for message in chat.messages for entity in message.body.entities}
    assert not entities & {"mention", "text_mention"}
    assert all("everyone" in text and "done." in text for text in chat.texts)


@presented()
def test_scar_13_name_and_arguments_of_a_tool_mention_nobody(channel: str, presentation: Presentation) -> None:
    tool = ToolStarted(id="1", name="@everyone", arguments={"command": MENTIONS})
    script: Script = [tool, 7.0, "Here is what came of it."]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert [seen for seen in chat.ever_shown() if mentions_somebody(channel, seen)] == []


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
