"""Cutting text: failures reported elsewhere, checked on every chat platform."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import regex
from reading_bodies import bold_in
from scar_chat import CHATS, SAMPLES, THREAD, TOOL, Script, cases, chats, limits_of, present_turn, presented

from tailrace.events import BlockFinal, ReasoningDelta, ToolStarted
from tailrace.markdown import render, split

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.markdown import Part
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
