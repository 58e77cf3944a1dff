"""Texts that are hard to cut: documents of one construct, and small texts that once broke a law."""

from __future__ import annotations

from itertools import product

import pytest
from lawful import breaches, changes_of_meaning

from cutting_laws.feeding import check_feeding
from example_counts import share
from tailrace.markdown.dialects import RENDERERS

W = "river stone wheel water mill "
Y = "y" * 90
NIHON = "日本" * 9
ROW = "| a | a |\n"
LINK = "[a](http://a.example/b)"

DOCUMENTS = {
    "a rest that looks like something else": "Some words then - dash and + plus and # hash and 1. one and 12) two "
    "and > quote and ~~~ tilde and ``` ticks and === equals and --- dashes and | pipe | and * star end of it.",
    "setext headings": "Alpha beta gamma delta\n=====\n\nBody text follows here and goes on for a while.\n\n"
    "Second\n---\nmore",
    "code in nested lists": "- alpha\n  - beta\n    - gamma\n\n      ```py\n      def f():\n          return 1\n\n"
    "      x = f()\n      ```\n\n      after code\n    - delta\n  - epsilon\n- zeta\n" * 2,
    "code in ordered lists": "1. first item\n\n   ```sh\n   echo one\n\n   echo three\n   ```\n\n2. second item\n\n"
    "       indented code in item\n       more of it\n\n10. tenth\n\n    para in tenth\n\n"
    "    ~~~~\n    ```\n    inner\n    ```\n    ~~~~\n",
    "a fence set in further than its item": "- a\n\n    ```\n    code one\n      code two\n"
    "    code three\n    ```\n\n  b\n",
    "styles in styles": "***both are on here for long* only strong is left now** and ~~struck out **with strong words "
    "inside** and more~~ plain _emph with **strong** inside it_ done. " * 2,
    "a long bold": f"Start **{W * 12}end** tail.",
    "three long styles": f"Start **{W * 4}*{W * 4}~~{W * 4}x~~ x* y** tail of it.",
    "a table": "| name | value |\n|:--|--:|\n" + "".join(f"| row {n} | [l{n}](/u/{n}) `c{n}` |\n" for n in range(12)),
    "a table in a quote": "> intro\n>\n> | name | value |\n> |:--|--:|\n"
    + "".join(f"> | row {n} | **v{n}** |\n" for n in range(12))
    + "\nafter",
    "a table in a list": "- intro\n\n  | name | value |\n  |:--|--:|\n"
    + "".join(f"  | row {n} | v{n} |\n" for n in range(12))
    + "\nafter",
    "carriage returns": "# Head\r\n\r\nSome text here.\r\nmore text there.\r\n\r\n"
    "```py\r\na = 1\r\n\r\n    b = 2\r\nc = 3\r\n```\r\n\r\n- x\r\n- y\r\n",
    "fences in fences": "~~~~ info string\n```\ninner fence\n```\n~~~\nstill code\n~~~~~   \n\n   ```\n"
    "   indented fence\n     two more\n   ```\n\n``` text\ncode ``` text\n``` not a closer\n```\n\nend",
    "a fence in quotes": "> > ```rust\n> > fn main() {\n> >     let x = 1;\n> >\n> >     let y = 2;\n> > }\n"
    "> > ```\n> back\n",
    "links": "See [the first link](http://example.com/a) and ![an image](/i.png 'title') and <http://auto.example/x> "
    "then `code span here` and [nested **bold** text](/u) fin. " * 2,
    "no spaces": "水車は川の流れで回る。石臼が穀物を挽き、粉になる。磨坊在河边，水流不停。"
    "방앗간의 물레방아가 돌아간다。" * 4,
    "clusters": "👨‍👩‍👧‍👦👍🏽🇩🇪🇫🇷🏳️‍🌈👩🏿‍🚀क्षिe\u0301\u0302" * 8,
    "indented code": "para\n\n    code one\n\n\n    code two\n      deeper\n\n    code three\n\npara",
    "quoted paragraphs": f"> {W * 6}\n> {W * 3}\n\n> > nested {W * 4}",
    "tasks": f"- [ ] {W * 2}\n- [x] done **bold** item\n  - [ ] nested task {W}\n- [ ] last",
    "escapes": "\\*not emph\\* and \\[no link\\](x) &amp; &lt; 1\\. no list "
    "\\# no head \\- no item \\> no quote \\| x " * 2,
    "long code lines": f"```js\n{'x' * 150}\nshort\n{'    y' * 40}\n```",
    "a fence never closed": "text before\n\n```py\n" + "line of code\n" * 12,
}

ONCE_BROKEN = [
    ("a\n\n\na ", 1),
    ("``` 0", 1),
    ("```\nx = 1\n```", 1),
    ("```\n```\n", 4),
    ("```\n\na [a](http://a.example/b)", 30),
    (f"{ROW}|---|:-:|\n\na {LINK}\n\n```\n# no heading\n```\n\n`code` `code` a a river stone, a", 61),
    ("a\n\n> a\n>\n> - a\n>\n>   a\n>\n>   | a | a |\n>   |---|:-:|\n" + ">   | a | a |\n" * 4, 96),
    (f"a\n\n> a\n>\n> > `code`\n> >\n> > ```\n> > {Y}\n> > ```", 47),
    ("a\n\n# 👩🏿‍🚀", 4),
    ("## 🇩🇪🇫🇷", 2),
    (" \u0300", 2),
    ("00000000<A0:;>", 6),
    ("a ![a](/i.png)", 12),
    ("```000000000\n0000000000000000", 32),
    ("*`code` <http://a.example/b>*\r\n\r\n```\r\nx = 1\r\n```\r\n\r\n| a | a |\r\n|---|:-:|\r\n| a | a |", 46),
    ("a\n\n````` rust title\n    deep\n`````", 30),
    (f"> `code`\n>\n> ````\n> {Y}\n> x = 1\n> ````", 30),
    (f"> ```\n> {NIHON}\n> ```", 30),
    (f"`code`\n\n- | a | a |\n  |---|:-:|\n\n  > ```\n  > {NIHON}\n  > ```", 34),
    (f"`code`\r\n\r\n> a\r\n>\r\n> > a\r\n> >\r\n> > ```py\r\n> > {Y}\r\n> >\r\n> > ```", 111),
    (("a\n\n> - | a | a |\n>   |---|:-:|\n>\n>   ```\n>   x = 1\n>   x = 1\n>   ```\n>\n>   a a a `code` a a"), 61),
    (f"1. a\n1. ``` rust title\n    x = 1\n    {Y}\n    ```", 99),
    ("| a | **b** |\n|---|:-:|\n\na a a a `code` *[a](http://a.example/b) a river ***a****", 80),
    (" ```\n aaa\naaa\n```\n", 40),
    ("  10.  foo\n\n           bar\n", 40),
    (" -    one\n\n     two\n", 24),
    (" 1.  A paragraph\n     with two lines.\n\n         indented code\n\n     > A block quote.\n", 30),
    ("```000000000000?`", 16),
    (f"```{'0' * 60}?`", 40),
    (f"``````{'0' * 30}? `x` more words here", 40),
    ("- ```000000000000? `x` more words here", 16),
    (f"> ```{'0' * 60}`\nsecond line of it", 24),
]


# Dialects in turn, every second one `markdown`: its parts are judged by more laws.
DIALECTS = [dialect for other in RENDERERS if other != "markdown" for dialect in ("markdown", other)]


def _assert_lawful(source: str, limit: int, dialect: str) -> None:
    assert breaches(source, limit, dialect=dialect) == []
    assert changes_of_meaning(source, limit, dialect) == []
    assert check_feeding(source, range(len(source)), limit, dialect=dialect) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_of_one_construct_keeps_the_laws(name: str) -> None:
    cases = list(product((1, 3, 17, 41, *range(16, 120, 4), 150, 300), DIALECTS))
    for limit, dialect in share(cases, list(DOCUMENTS).index(name), 29):
        _assert_lawful(DOCUMENTS[name], limit, dialect)


@pytest.mark.parametrize("dialect", ["telegram", "telegram_rich", "slack"])
def test_list_marker_that_takes_the_whole_part_is_dropped(dialect: str) -> None:
    source = "- foo\n  - bar\n    - baz\n\n\n      bim\n"
    assert breaches(source, 4, "utf8_bytes", dialect) == []


@pytest.mark.parametrize(("source", "limit"), ONCE_BROKEN)
def test_text_that_once_broke_a_law_keeps_it(source: str, limit: int) -> None:
    for dialect in {"markdown", "plain", *share(DIALECTS, limit, 7)}:
        _assert_lawful(source, limit, dialect)
