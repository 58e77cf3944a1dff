"""The dialect `discord`: the text looks the same there and mentions nobody."""

from __future__ import annotations

import re

import pytest
from hostile_texts import hostile_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NASTY

from example_counts import examples
from stable_strategies import texts
from tailrace.markdown import render

# Discord reads an escape or code before anything else that could begin there.
CODE = re.compile(r"\\[^0-9A-Za-z\s]|```.+?```|``.+?``|`.+?`", re.DOTALL)
CALL = re.compile(
    r"@everyone|@here|<(?:@[!&]?|#)\d+>|</[^>]+:\d+>|<a?:\w+:\d+>|<t:\d+(?::\w)?>|<id:\w+>", re.IGNORECASE
)
ESCAPE = re.compile(r"\\([^0-9A-Za-z\s])")
MARKUP = re.compile(r"[*_`\[]|~~|\|\||^ *(?:#{1,3}|-#|>|>>>|[-+]|\d+\.) ", re.MULTILINE)
PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def shown(source: str) -> str:
    return render(source, "discord").text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # markup
        ("**a** *b* ~~c~~ `d` ***e***", "**a** _b_ ~~c~~ `d` _**e**_"),
        ("__strong__, not underlined", "**strong**, not underlined"),
        ("foo*bar*baz", "foo*bar*baz"),
        ("*a `b_c` d*", "*a `b_c` d*"),
        ("*a ~~b~~*", "*a ~~b~~*"),
        ("*a*__b__", "*a*\u200b**b**"),
        ("**a **b** c**", "**a b c**"),
        ("**two\nlines**", "**two**\n**lines**"),
        ("# a\n\n### b\n\n#### c *d*", "# a\n\n### b\n\n**c _d_**"),
        ("a\n===\nb\n---", "# a\n\n## b"),
        ("- a\n\n  b\n  1. c\n* * *", "- a\n  b\n  1. c\n\n———"),
        ("7. a\n8. b", "7. a\n8. b"),
        ("- [ ] a\n- [x] b", "- ☐ a\n- ☑ b"),
        ("> a\n>\n> b\n> > c", "> a\n> \n> b\n> \n> > c"),
        ("```py title\nx = 1\n\n  y\n```", "```py\nx = 1\n\n  y\n```"),
        ("    x\n      y", "```\nx\n  y\n```"),
        ("- a\n\n  ```\n  x\n\n    y\n  ```\n- b", "- a\n```\nx\n\n  y\n```\n- b"),
        ("> ```\n> x\n> ```", "> ```\n> x\n> ```"),
        ("| a | b |\n|---|--:|\n| 1 | **2** |", "```\na  b\n-  -\n1  2\n```"),
        ("<div>\n*a*\n</div>", "<div>\n\\*a\\*\n</div>"),
        ("[r]: /u\n\n[a][r]", "\\[r]: /u\n\n\\[a]\\[r]"),
        # text that looks like markup
        ("\\*a\\* \\_b\\_ \\`c\\`", "\\*a\\* \\_b\\_ \\`c\\`"),
        ("snake_case_name 2 * 3", "snake\\_case\\_name 2 \\* 3"),
        ("\\||no spoiler|| a|b ~~~ ~", "\\|\\|no spoiler\\|\\| a|b \\~\\~\\~ ~"),
        ("C:\\new\\\\x", "C:\\\\new\\\\x"),
        ("\\[a\\](http://x.y)", "\\[a](http://x.y)"),
        ("\\# a\n\\## b\n#c", "\\# a\n\\## b\n#c"),
        ("-# a", "\\-# a"),
        ("\\> a\n\\>>> b\n\\- c\n\\+ d", "\\> a\n\\>>> b\n\\- c\n\\+ d"),
        ("1986\\. A year", "1986\\. A year"),
        ("- \\# a\n- \\- b", "- \\# a\n- \\- b"),
        ("*️⃣ #️⃣", "*️⃣ #️⃣"),
        # links
        ("[a *b*](https://x.y/z)", "[a _b_](<https://x.y/z>)"),
        ("[[1]](https://x.y)", "[\\[1]](<https://x.y>)"),
        ("[a\\] b](https://x.y)", "a] b (https://x.y)"),
        ("[a](https://x.y/(z\\)* w>)", "\\[a](https://x.y/(z)\\* w>)"),
        ("[a](<https://x.y/(z)* w>)", "[a](<https://x.y/%28z%29%2A%20w>)"),
        ("[a](https://x.y/z.)", "[a](<https://x.y/z%2E>)"),
        ("<https://x.y/a_b>", "https://x.y/a_b"),
        ("<https://x.y/a.>", "<https://x.y/a.>"),
        ("https://x.y/a_b_c*d, and", "https://x.y/a_b_c*d, and"),
        ("**https://x.y/a_b*c**", "**https://x.y/a_b%2Ac**"),
        ("[see https://x.y](https://x.y)", "see https://x.y (https://x.y)"),
        ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
        ("[a](mailto:b@c.d) <b@c.d>", "a (mailto:b@c.d) b@c.d"),
        ("[a](javascript:b_c)", "a (javascript:b\\_c)"),
        ("![a](https://x.y/i_1.png) ![](https://x.y/j.png)", "a (https://x.y/i_1.png) https://x.y/j.png"),
        ("[![a](https://x.y/i.png)](https://z.w)", "[a](<https://z.w>)"),
        # mentions
        ("@everyone and @here", "@\u200beveryone and @\u200bhere"),
        ("<@1> <@!1> <@&1> <#1>", "<\u200b@1> <\u200b@!1> <\u200b@&1> <\u200b#1>"),
        ("</a b:1> <a:b:1> <:b:1> <t:1:R>", "<\u200b/a b:1> <\u200ba:b:1> <\u200b:b:1> <\u200bt:1:R>"),
        ("#### @**everyone**", "**@\u200beveryone**"),
        ("#### <**@1**>", "**<\u200b@1>**"),
        ("@&#101;veryone", "@\u200beveryone"),
        ("[@here](https://x.y/@here)", "[@\u200bhere](<https://x.y/%40here>)"),
        ("https://x.y/@everyone/z", "https://x.y/%40everyone/z"),
        ("https://x.y/```@here\n```\na", "https://x.y/\\`\\`\\`@\u200bhere\n\n```\na\n```"),
        ("<https://x.y/`@here>", "https://x.y/\\`@\u200bhere"),
        ("me@x.y, @ever and </b>", "me@x.y, @ever and </b>"),
        # one character alone
        *((mark, mark.strip()) for mark in ("*", "_", "\\", "[", "@", "<", "👍🏽", "  *  ", "    x")),
        # code
        ("`@everyone <@1> a_b \\*`", "`@everyone <@1> a_b \\*`"),
        ("```\n@here <#1> **a** \\ _\n```", "```\n@here <#1> **a** \\ _\n```"),
        ("`` a`b ``", "`` a`b ``"),
        ("``` a``b ```", "`` a`\u200b`b ``"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\n```"),
    ],
)
def test_markdown_becomes_discord_markdown(source: str, text: str) -> None:
    assert shown(source) == text


def test_table_wider_than_a_screen_becomes_labelled_lines() -> None:
    source = f"| name | what |\n|---|---|\n| a | {'long words ' * 9}|\n| b | **c** |"
    assert shown(source) == (f"**name**: a\n**what**: {'long words ' * 9}".rstrip() + "\n**name**: b\n**what**: **c**")


@pytest.mark.parametrize("source", ["```@everyone\n```", ">", ""])
def test_invisible_markdown_is_shown_without_mentions(source: str) -> None:
    assert CALL.search(shown(source)) is None
    assert shown(source).replace("\u200b", "").replace("\\", "") == source


@settings(max_examples=examples(200, search=2000))
@given(hostile_texts())
def test_no_text_mentions_anybody(source: str) -> None:
    assert CALL.findall(CODE.sub(" ", shown(source))) == []


@settings(max_examples=examples(150, search=1500))
@given(st.lists(texts(NASTY.replace("\n", "").replace("\t", ""), min_size=1, max_size=12), min_size=1, max_size=3))
def test_escaped_text_has_no_markup_on_discord(lines: list[str]) -> None:
    text = "\n".join(f"{line.strip()}." for line in lines)
    read = shown(PUNCTUATION.sub(r"\\\g<0>", text))
    assert ESCAPE.sub(r"\1", read).replace("\u200b", "") == text
    assert MARKUP.findall(ESCAPE.sub("x", read)) == []
