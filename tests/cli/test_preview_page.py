"""The page of a preview: what is on it, and that nothing an agent writes is more than text there."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from tailrace.capabilities import CHANNELS
from tailrace.cli.preview.body_html import escaped, to_html
from tailrace.cli.preview.channel_preview import ChannelPreview, preview_on
from tailrace.cli.preview.page import page
from tailrace.cli.preview.sample import sample_turn
from tailrace.events import Event, Media, TextDelta, ToolStarted, TurnCompleted
from tailrace.markdown import render
from tailrace.operations import Body, Entity
from tailrace.projector import Presentation, ProjectorSettings

VOID = {"br", "hr", "input", "meta"}
HOSTILE = """\
<script>alert(1)</script> </script><img src=x onerror=alert(1)> "><svg onload=alert(1)>

[here](javascript:alert(1)) <javascript:alert(1)> [there](data:text/html,x) ![pixel](https://example.com/p.png)

```html
</code></pre><script>alert(1)</script>
```

`</code><b onclick=alert(1)>` &lt;script&gt;alert(1)&lt;/script&gt; $style \\u003c <!-- ]]> \x1b[31m &#x1b;

- [x] done
"""


class Reader(HTMLParser):
    """The tags with their attributes and the text of scripts and styles, as a browser would find them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.raw: dict[str, str] = {}
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> ends nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside in {"script", "style"}:
            kind = self.tags[-1][1].get("type") or inside
            self.raw[kind] = self.raw.get(kind, "") + data
        else:
            self.text.append(data)


def previews(turn: list[tuple[float, Event]], presentation: Presentation | None = None) -> list[ChannelPreview]:
    return [preview_on(turn, name, ProjectorSettings(presentation=presentation)) for name in CHANNELS]


def turn_of(*events: Event) -> list[tuple[float, Event]]:
    return [(nth * 0.3, event) for nth, event in enumerate(events)]


def films(written: str) -> list[dict[str, Any]]:
    """The frames of each channel with the messages as the script puts them together."""
    found = []
    for film in json.loads(Reader(written).raw["application/json"]):
        versions: list[str] = []
        for base, kept, rest in film["versions"]:
            before = versions[base].encode("utf-16-le") if base >= 0 else b""
            versions.append(before[: 2 * kept].decode("utf-16-le") + rest)
        frames = [(at, [versions[nth] for nth in picture]) for at, picture in film["frames"]]
        found.append({"versions": versions, "frames": frames})
    return found


def chats(written: str) -> list[str]:
    """The chats in the document, as they are shown without scripts."""
    found = re.findall(r'<div class="chat"[^>]*>\n(.*?)\n</div>\n<details', written, re.DOTALL)
    assert len(found) == written.count('<section class="channel')
    return found


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    reader = Reader(page("demo", previews(sample_turn())))
    assert reader.open == []
    assert not any({"src", "srcset", "style"} & set(attributes) for _, attributes in reader.tags)
    assert {tag for tag, _ in reader.tags}.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "video"})
    assert "url(" not in reader.raw["style"]
    assert "@import" not in reader.raw["style"]
    outside = {attributes["href"] for tag, attributes in reader.tags if tag == "a"}
    assert outside == {"https://example.com/ops/pull/4711", "https://example.com/backup/manual#index"}
    [policy] = [attributes["content"] for tag, attributes in reader.tags if "http-equiv" in attributes]
    style, script = (
        base64.b64encode(hashlib.sha256(reader.raw[kind].encode()).digest()).decode() for kind in ("style", "script")
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_every_channel_is_a_column_with_its_chat_and_calls() -> None:
    done = previews(sample_turn())
    written = page("demo", done)
    for preview, chat in zip(done, chats(written), strict=True):
        assert f'<section class="channel {preview.channel}">' in written
        assert chat.count("<article") == len(preview.chat)
        assert escaped(preview.summary) in written
    rows = re.findall(r'<tr class="(stays|passes)" data-at="([\d.]+)"><td>[\d.]+ s</td><td>([^<]+)</td>', written)
    telegram = rows[: len(done[0].calls)]
    assert [kind == "stays" for kind, _, _ in telegram] == [call.is_durable for call in done[0].calls]
    assert [what for _, _, what in telegram[:3]] == ["typing", "post", "edit"]


def test_document_without_scripts_shows_the_last_frame() -> None:
    written = page("demo", previews(sample_turn()))
    for film, chat in zip(films(written), chats(written), strict=True):
        assert "\n".join(film["frames"][-1][1]) == chat


def test_frames_show_how_a_message_grows() -> None:
    [telegram] = films(page("t", [preview_on(sample_turn(), "telegram", ProjectorSettings())]))
    times = [at for at, _ in telegram["frames"]]
    assert times == sorted(times)
    assert 'class="typing"' in telegram["frames"][0][1][0]
    sizes = [len(Reader("".join(picture)).text) for _, picture in telegram["frames"]]
    assert sizes[-1] > sizes[2] > sizes[0]
    assert any("🔧 read_file" in "".join(picture) for _, picture in telegram["frames"])
    assert "🔧" not in "".join(telegram["frames"][-1][1])


def test_turn_without_messages_ends_with_an_empty_chat() -> None:
    written = page(
        "t", [preview_on(turn_of(TextDelta(text="NO_REPLY"), TurnCompleted()), "slack", ProjectorSettings())]
    )
    assert all(not picture for _, picture in films(written)[0]["frames"])
    assert "Nothing is posted." in chats(written)[0]


@pytest.mark.parametrize(
    ("presentation", "mark"),
    [("native", "message draft"), ("processing", "message processing"), ("tokens", "streaming")],
)
def test_drafts_streams_and_processing_messages_are_marked(presentation: Presentation, mark: str) -> None:
    written = page("demo", previews(sample_turn(), presentation))
    assert any(
        f'class="{mark}' in version or f" {mark}" in version for film in films(written) for version in film["versions"]
    )


def test_markup_of_an_agent_is_only_text_on_the_page() -> None:
    turn = turn_of(
        ToolStarted(id="1", name=HOSTILE, arguments={"command": HOSTILE}),
        *(TextDelta(text=piece) for piece in re.findall(r".{1,7}", HOSTILE, re.DOTALL)),
        Media(url="javascript:alert(1)//<script>", mime="<b>", caption=HOSTILE),
        TurnCompleted(),
    )
    for presentation in (None, "native", "processing"):
        written = page(HOSTILE, previews(turn, presentation))
        [*documents] = [written, *("".join(film["versions"]) for film in films(written))]
        for document in documents:
            reader = Reader(document)
            assert sum(tag == "script" for tag, _ in reader.tags) == (2 if document is written else 0)
            assert {tag for tag, _ in reader.tags}.isdisjoint({"img", "svg", "b"})
            assert document is written or "input" not in {tag for tag, _ in reader.tags}
            assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", document) is None
            attributes = {(tag, name) for tag, given in reader.tags for name in given}
            assert not any(name.startswith("on") for _, name in attributes)
            links = {given["href"] or "" for tag, given in reader.tags if tag == "a"}
            assert {link.partition(":")[0] for link in links} <= {"https"}
        assert "<script>alert(1)</script>" in "".join(Reader(written).text)


BOLD = Entity(type="bold", offset=0, length=4)
BAD_ENTITIES = (
    Entity(type="sparkle", offset=0, length=1),
    Entity(type="text_link", offset=0, length=1, url="javascript:alert(1)"),
    Entity(type="bold", offset=1, length=99),
)


@pytest.mark.parametrize(
    ("body", "html"),
    [
        pytest.param(
            render("🐢🐢 a **bold** 👩‍👩‍👧 `code`", "telegram"),
            "🐢🐢 a <strong>bold</strong> 👩‍👩‍👧 <code>code</code>",
            id="offsets are UTF-16",
        ),
        pytest.param(
            Body(text="abcdef", entities=(BOLD, Entity(type="italic", offset=2, length=4))),
            "<strong>ab<em>cd</em></strong><em>ef</em>",
            id="overlapping entities are nested",
        ),
        pytest.param(
            render("a\n\n```py\nb\n```\n\nc", "telegram"),
            'a\n\n<pre data-language="py">b</pre>\nc',
            id="a block ends its line",
        ),
        pytest.param(Body(text="ab", entities=BAD_ENTITIES), "a<strong>b</strong>", id="bad entities are ignored"),
    ],
)
def test_entities_of_telegram_as_html(body: Body, html: str) -> None:
    assert to_html(body, "telegram") == html


def test_addresses_are_links_but_not_in_code() -> None:
    link = '<a href="https://example.com/a">https://example.com/a</a>'
    assert to_html(render("see https://example.com/a.", "telegram"), "telegram") == f"see {link}."
    assert to_html(render("see https://example.com/a.", "matrix"), "matrix") == f"<p>see {link}.</p>"
    assert "<a" not in to_html(render("`https://example.com/a`", "telegram"), "telegram")


@pytest.mark.parametrize("dialect", ["telegram", "slack", "discord", "matrix", "html"])
def test_styles_of_every_dialect_are_shown(dialect: str) -> None:
    html = to_html(render("**b** _i_ ~~s~~ `c < d`\n\n```\n1 < 2 && 3 > 2\n```\n", dialect), dialect)
    assert "<strong>b</strong> <em>i</em> <del>s</del> <code>c &lt; d</code>" in html
    assert "1 &lt; 2 &amp;&amp; 3 &gt; 2" in html
    assert "".join(unescape(re.sub("<[^>]+>", "", html)).split()) == "bisc<d1<2&&3>2"


def test_terminal_text_is_shown_as_it_is() -> None:
    assert to_html(render("**b** <i>", "markdown"), "markdown") == "**b** &lt;i&gt;"
