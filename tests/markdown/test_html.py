"""The dialect `html`: a fragment that shows what the source says and can do nothing else, as that of `matrix`."""

from __future__ import annotations

import pytest
from hostile_texts import hostile_texts
from hypothesis import given, settings
from reading_html import Fragment

from example_counts import examples
from tailrace.markdown import render

TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "ul", "ol", "li", "hr", "br"),
    *("strong", "em", "del", "code", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {("a", "href"), ("code", "class"), ("ol", "start")}
# What the fragments of a dialect may have besides: attributes, and schemes of addresses.
ALSO = {"html": ({("a", "rel"), ("th", "align"), ("td", "align")}, set()), "matrix": (set(), {"ftp", "magnet"})}


def shown(source: str) -> str:
    html = render(source, "html").html
    assert html is not None
    return html


@pytest.mark.parametrize(
    ("source", "html"),
    [
        # markup
        ("a **b *c*** ~~d~~ `e & f`", "<p>a <strong>b <em>c</em></strong> <del>d</del> <code>e &amp; f</code></p>"),
        ("# One\n\n###### Six", "<h1>One</h1><h6>Six</h6>"),
        ("a\nb  \nc", "<p>a<br>b<br>c</p>"),
        ("```py title\nx < 1\n\n  y\n```", '<pre><code class="language-py">x &lt; 1\n\n  y\n</code></pre>'),
        ('```"><script>\nx\n```', "<pre><code>x\n</code></pre>"),
        ("    code", "<pre><code>code</code></pre>"),
        ("> a\n>\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>"),
        ("3. a\n\n4. b", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'),
        ("- [ ] open\n- [x] done", "<ul><li>☐ open</li><li>☑ done</li></ul>"),
        (
            "- [x] a\n\n  b\n\n- ```\n  c\n  ```",
            "<ul><li><p>☑ a</p><p>b</p></li><li><pre><code>c\n</code></pre></li></ul>",
        ),
        ("a\n\n***", "<p>a</p><hr>"),
        (
            "| a | b |\n|---|--:|\n| 1 | **2** | 3 |",
            (
                '<table><thead><tr><th>a</th><th align="right">b</th></tr></thead>'
                '<tbody><tr><td>1</td><td align="right"><strong>2</strong></td><td>3</td></tr></tbody></table>'
            ),
        ),
        ("| a |\n|---|", "<table><thead><tr><th>a</th></tr></thead></table>"),
        # HTML of the source
        ("<b>x</b> & List<T>", "<p>&lt;b&gt;x&lt;/b&gt; &amp; List&lt;T&gt;</p>"),
        ("<div onclick='x'>\n*a*\n</div>", "<p>&lt;div onclick=&#x27;x&#x27;&gt;<br>*a*<br>&lt;/div&gt;</p>"),
        ("<!-- a -->", "<p>&lt;!-- a --&gt;</p>"),
        ("[r]: /u\n\n[a][r]", "<p>[r]: /u</p><p>[a][r]</p>"),
        ("&lt;i&gt; \\<i\\>", "<p>&lt;i&gt; &lt;i&gt;</p>"),
    ],
)
def test_markdown_becomes_html(source: str, html: str) -> None:
    assert shown(source) == html


def link(url: str, text: str) -> str:
    return f'<a href="{url}" rel="noopener noreferrer">{text}</a>'


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("[a *b*](https://x.y/?a=1&b=2)", link("https://x.y/?a=1&amp;b=2", "a <em>b</em>")),
        ("<me@x.y>", link("mailto:me@x.y", "me@x.y")),
        ("[](http://x.y)", link("http://x.y", "http://x.y")),
        ("![alt](http://x.y/i.png)", link("http://x.y/i.png", "alt")),
        ("[![alt](http://x.y/i.png)](http://z.w)", link("http://z.w", "alt")),
        ('[a](http://x.y/"onclick="z)', link("http://x.y/&quot;onclick=&quot;z", "a")),
        ("see http://x.y/a_(b).", f"see {link('http://x.y/a_(b)', 'http://x.y/a_(b)')}."),
        ('http://x.y/z`"a', link("http://x.y/z", "http://x.y/z") + "`&quot;a"),
        ("[a](javascript:alert(1))", "a (javascript:alert(1))"),
        ("[a](JavaScript:alert`1`)", "a (JavaScript:alert`1`)"),
        ("[a](data:text/html,x)", "a (data:text/html,x)"),
        ("[a](/settings)", "a (/settings)"),
        ("![a](i.png)", "a (i.png)"),
        ("[http://b.a](http://e.v)", f"{link('http://b.a', 'http://b.a')} ({link('http://e.v', 'http://e.v')})"),
    ],
)
def test_links_show_where_they_lead(source: str, html: str) -> None:
    assert shown(source) == f"<p>{html}</p>"


@pytest.mark.parametrize("source", ["```@x\n```", "#", ">", "##"])
def test_invisible_markdown_is_shown_as_written(source: str) -> None:
    body = render(source, "html")
    assert body.text == source
    assert Fragment(body.html or "").text == source


def test_text_is_readable_without_tags() -> None:
    assert render("# A\n\n**b** [c](http://d.e)", "html").text == "A\n\nb c (http://d.e)"


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "> - ", "- > "])
def test_deep_containers_end_but_their_text_stays(mark: str) -> None:
    fragment = Fragment(shown(mark * 60 + "deep text"))
    assert fragment.max_depth <= 20
    assert fragment.text.endswith("deep text")


def test_deep_styles_end_but_their_text_stays() -> None:
    opened = "".join(f"{mark}a " for mark in ("**", "_", "~~") * 5)
    closed = "".join(f" b{mark}" for mark in ("~~", "_", "**") * 5)
    fragment = Fragment(shown(f"{'> ' * 12}{opened}[deep](https://x.y){closed}"))
    assert fragment.max_depth == 20
    assert fragment.targets == ["https://x.y"]
    assert fragment.text == "a " * 15 + "deep" + " b" * 15


def test_items_too_deep_for_a_list_keep_their_marks() -> None:
    lines = ["  " * depth + f"- [x] level {depth}" for depth in range(9)]
    text = Fragment(shown("\n".join(lines))).text
    assert text.endswith("• ☑ level 6• ☑ level 7• ☑ level 8")


@pytest.mark.parametrize("dialect", ALSO)
@settings(max_examples=examples(120, search=1500))
@given(source=hostile_texts())
def test_no_text_becomes_a_tag_or_an_attribute(dialect: str, source: str) -> None:
    fragment = Fragment(render(source, dialect).html or "")
    attributes, schemes = ALSO[dialect]
    assert fragment.errors == []
    assert fragment.tags <= TAGS
    assert fragment.attributes <= ATTRIBUTES | attributes
    found = {target.partition(":")[0].lower() for target in fragment.targets}
    assert found <= {"http", "https", "mailto"} | schemes
    assert fragment.max_depth <= 20
