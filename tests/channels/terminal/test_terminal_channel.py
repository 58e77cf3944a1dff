"""The channel in a real pseudo-terminal and in a pipe, event by event."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import select
import struct
import termios
from typing import TYPE_CHECKING

import pyte
import pytest

from tailrace.channels.terminal import TerminalChannel
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    Media,
    ModelChanged,
    Notice,
    PlanItem,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Window:
    """A terminal with a channel at one end, and its screen."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        self._out = os.fdopen(theirs, "w", encoding="utf-8")
        self.screen = pyte.HistoryScreen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.clock = Clock()
        self._set_size()
        self.channel = TerminalChannel(self._out, self._out, clock=self.clock)

    def close(self) -> None:
        self._out.close()
        os.close(self._ours)

    def write(self, text: str) -> None:
        """Write to the same terminal, past the channel."""
        self._out.write(text)
        self._out.flush()

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._set_size()

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.lines, self.screen.columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def show(self, *events: Event, seconds: float = 1.0) -> list[str]:
        """Show events, each a while after the one before, and give the lines on the screen then."""
        for event in events:
            asyncio.run(self.channel.show(event))
            self.clock.now += seconds
            while select.select([self._ours], [], [], 0)[0]:
                data = os.read(self._ours, 65536)
                self.raw += data
                self._stream.feed(data)
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    window = Window()
    yield window
    window.close()


def in_pipe(*events: Event, reasoning: bool = True) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    channel = TerminalChannel(out, err, reasoning=reasoning, clock=Clock())
    for event in events:
        asyncio.run(channel.show(event))
    return out.getvalue(), err.getvalue()


def started(id_: str, name: str = "read", path: str = "a.txt") -> ToolStarted:
    return ToolStarted(id=id_, name=name, arguments={"path": path})


PLAN = (PlanItem(title="look", status="completed"), PlanItem(title="leap", status="in_progress"))
FAILED = ToolFinished(id="1", result="no such\nfile", is_error=True)


@pytest.mark.parametrize(
    ("before", "shown", "event", "shown_then"),
    [
        (TextDelta(text="**bo"), ["**bo"], TextDelta(text="ld**\n- a"), ["**bold**", "- a"]),
        (started("1"), ["◌ read: a.txt"], ToolFinished(id="1"), ["✓ read: a.txt (1.0s)"]),
        (started("1"), ["◌ read: a.txt"], FAILED, ["✗ read: a.txt (1.0s) · no such file"]),
        (Status(text="reading"), ["· reading"], Status(text="thinking"), ["· thinking"]),
        (PlanUpdated(items=()), ["· plan: 0 of 0 done"], PlanUpdated(items=PLAN), ["· plan: 1 of 2 done · leap"]),
    ],
)
def test_what_is_shown_at_once_and_updated_in_place(
    window: Window, before: Event, shown: list[str], event: Event, shown_then: list[str]
) -> None:
    assert window.show(before) == shown
    assert window.show(event) == shown_then


def test_reason_of_a_failed_tool_has_room_next_to_a_long_command(window: Window) -> None:
    window.resize(60, 24)
    call = ToolStarted(id="1", name="shell", arguments={"command": "seq 1 9 " * 20})
    for reason, shown in [
        ("no: /etc", "✗ shell: seq 1 9 seq 1 9 seq 1 9 seq 1 9… (1.0s) · no: /etc"),
        ("denied by somebody, somewhere", "✗ shell: seq 1 9 seq 1 9… (1.0s) · denied by somebody, som…"),
    ]:
        assert window.show(call)[-1].endswith(" s…")
        assert window.show(ToolFinished(id="1", result=reason, is_error=True))[-1] == shown


def test_parallel_tools_are_updated_each_in_its_own_line(window: Window) -> None:
    window.show(started("1"), started("2", path="b.txt"), started("3", path="c.txt"))
    lines = window.show(ToolFinished(id="2"), ToolFinished(id="1"))
    assert lines == ["✓ read: a.txt (4.0s)", "✓ read: b.txt (2.0s)", "◌ read: c.txt"]
    assert window.show(ToolFinished(id="3"), TextDelta(text="done"))[2:] == ["✓ read: c.txt (3.0s)", "", "done"]


def test_line_of_a_tool_shows_its_latest_output(window: Window) -> None:
    assert window.show(ToolStarted(id="1", name="make")) == ["◌ make"]
    assert window.show(ToolInput(id="1", arguments={"command": "make all"})) == ["◌ make: make all"]
    assert window.show(ToolProgress(id="1", text="half way")) == ["◌ make: make all · half way"]
    assert window.show(ToolOutput(id="1", data="one\ntwo\n\n")) == ["◌ make: make all · two"]
    assert window.show(ToolOutput(data="three\n")) == ["◌ make: make all · three"]
    assert window.show(ToolFinished(id="1")) == ["✓ make: make all (5.0s)"]


def test_tool_that_prints_fast_is_not_redrawn_for_each_piece(window: Window) -> None:
    window.show(started("1"))
    before = len(window.raw)
    window.show(*[ToolOutput(id="1", data=f"line {n}\n") for n in range(1000)], seconds=0.001)
    assert window.raw[before:].count(b"\x1b[2K") <= 25
    assert window.show(ToolFinished(id="1")) == ["✓ read: a.txt (2.0s)"]


def test_tool_ends_in_a_new_line_once_something_else_is_below(window: Window) -> None:
    window.show(started("1"), TextDelta(text="meanwhile"), ToolProgress(id="1", text="working"))
    lines = window.show(ToolFinished(id="1"), TextDelta(text="done"), started("2"), Error(message="hm"))
    assert lines == [
        *("◌ read: a.txt", "", "meanwhile", "", "✓ read: a.txt (3.0s)", "", "done", "", "◌ read: a.txt", "error: hm")
    ]
    assert window.show(ToolFinished(id="2"))[-1] == "✓ read: a.txt (2.0s)"


def test_line_that_left_the_screen_is_not_updated(window: Window) -> None:
    window.resize(40, 4)
    window.show(*[started(str(n), path=f"{n}.txt") for n in range(6)])
    lines = window.show(ToolFinished(id="0"), ToolFinished(id="5"))
    assert lines == ["◌ read: 4.txt", "✓ read: 5.txt (2.0s)", "✓ read: 0.txt (6.0s)"]


LONG_PATH = started("1", path="docs/a-long-name.txt")
WIDE = started("1", name="読む", path="非常に長い名前の文書")


@pytest.mark.parametrize(
    ("events", "screen"),
    [
        # A line of a tool is cut and keeps its time; wide characters count as two cells.
        ([LONG_PATH], "◌ read: docs/a-lon…"),
        ([LONG_PATH, ToolFinished(id="1")], "✓ read: doc… (1.0s)"),
        ([WIDE, started("2")], "◌ 読む: 非常に長い…\n◌ read: a.txt"),
        ([WIDE, started("2"), ToolFinished(id="1"), ToolFinished(id="2")], "✓ 読む: 非… (2.0s)\n✓ read: a.t… (2.0s)"),
        # Remarks and errors are broken between words.
        ([Notice(text="a remark that does not fit\nand another")], "· a remark that does\n  not fit\nand another"),
        ([Notice(text="https://example.com/a/long/address")], "· https://example.co\nm/a/long/address"),
        ([Notice(text="読む文書 読む文書 読む文書")], "· 読む文書 読む文書\n  読む文書"),
        ([Notice(text="said by somebody else", parent_tool_id="1")], "  · said by somebody\n    else"),
        ([Error(message="it went wrong for a reason")], "error: it went wrong\n  for a reason"),
        ([Notice(text="so long and no mor"), Notice(text="next")], "· so long and no mor\n· next"),
    ],
)
def test_lines_in_a_narrow_window(window: Window, events: list[Event], screen: str) -> None:
    window.resize(20, 24)
    assert window.show(*events) == screen.split("\n")


@pytest.mark.parametrize("name", ["👩‍👩‍👧" * 30, "🇫🇷" * 30, "❤️" * 40, "é" * 60, "日本" * 30])
def test_line_of_a_tool_never_wraps(window: Window, name: str) -> None:
    window.resize(20, 10)
    window.show(started("1", name=name), started("2"), ToolFinished(id="1"), ToolFinished(id="2"))
    assert window.screen.cursor.y == 2


def test_resized_window_updates_only_lines_of_one_row(window: Window) -> None:
    window.show(started("1", path="docs/a-long-name.txt"), started("2"))
    window.resize(20, 24)
    lines = window.show(ToolFinished(id="1"), ToolFinished(id="2"))
    assert lines == ["◌ read: docs/a-long-", "✓ read: a.t… (2.0s)", "✓ read: doc… (2.0s)"]
    window.show(started("3", path="b.txt"))
    window.resize(80, 24)
    assert window.show(ToolFinished(id="3"))[-1] == "✓ read: b.txt (1.0s)"


def test_status_that_wraps_is_repeated_below_and_updated_there(window: Window) -> None:
    window.show(Status(text="reading a very long file"))
    window.resize(20, 24)
    lines = window.show(Status(text="thinking"), Status(text="writing"))
    assert lines == ["· reading a very lon", "· writing"]


def test_activity_is_dim_errors_are_red_and_text_is_plain(window: Window) -> None:
    window.show(started("1"), ReasoningDelta(text="hm"), Error(message="oh"), TextDelta(text="text"))
    assert b"\x1b[2m\xe2\x97\x8c read: a.txt\x1b[0m" in window.raw
    assert b"\x1b[2mhm\x1b[0m" in window.raw
    assert b"\x1b[31merror: oh" in window.raw
    assert window.raw.endswith(b"text")


def child(id_: str, parent: str) -> ToolStarted:
    return ToolStarted(id=id_, name="Bash", arguments={"command": f"echo {id_}"}, parent_tool_id=parent)


def agent(id_: str, task: str, parent: str | None = None) -> ToolStarted:
    arguments = {"prompt": "a long story", "description": task}
    return ToolStarted(id=id_, name="Agent", arguments=arguments, parent_tool_id=parent)


def text(text: str, parent: str | None = None) -> TextDelta:
    return TextDelta(text=text, parent_tool_id=parent)


# What the subagent does, and the screen then.
SUBAGENTS: dict[str, tuple[list[Event], str]] = {
    "text and calls of a subagent are under its call": (
        [
            *(text("I ask."), agent("1", "look"), text("One\nline, ", "1"), text("two lines.\n", "1")),
            *(child("2", "1"), ToolFinished(id="2", parent_tool_id="1"), text("Found.", "1")),
            *(ToolFinished(id="1"), text("It was found.")),
        ],
        (
            "I ask.\n\n◌ Agent: look\n  │ One\n  │ line, two lines.\n  ✓ Bash: echo 2 (1.0s)\n  │ Found.\n"
            "✓ Agent: look (6.0s)\n\nIt was found."
        ),
    ),
    "the call of one that only uses tools is updated in place": (
        [agent("1", "look"), child("2", "1"), ToolFinished(id="2"), ToolFinished(id="1")],
        "✓ Agent: look (3.0s)\n  ✓ Bash: echo 2 (1.0s)",
    ),
    "of several the one that writes is named": (
        [
            *(agent("1", "look"), agent("2", "listen"), text("I see.", "1"), text("I hear.", "2")),
            *(text("More.", "2"), Status(text="looking", parent_tool_id="1")),
        ],
        "◌ Agent: look\n◌ Agent: listen\n  │ I see.\n↳ Agent: listen\n  │ I hear.More.\n↳ Agent: look\n  · looking",
    ),
    "one that writes after its call finished is named": (
        [agent("1", "look"), ToolFinished(id="1"), text("mine"), text("theirs", "1")],
        "✓ Agent: look (1.0s)\n\nmine\n\n↳ Agent: look\n  │ theirs",
    ),
    "a subagent of a subagent is indented deeper": (
        [agent("1", "a"), agent("2", "b", "1"), text("deep", "2")],
        "◌ Agent: a\n  ◌ Agent: b\n    │ deep",
    ),
    "the final text is not compared with that of the parent": (
        [
            *(text("mine"), BlockFinal(text="theirs", parent_tool_id="1")),
            *(BlockFinal(text="theirs, too", parent_tool_id="1"), BlockFinal(text="mine")),
        ],
        "mine\n\n  │ theirs\n  │ theirs, too",
    ),
    "the answer of a subagent is not that of the turn": (
        [text("theirs", "1"), TurnCompleted(text="mine")],
        "  │ theirs\n\nmine",
    ),
}


@pytest.mark.parametrize(("events", "screen"), SUBAGENTS.values(), ids=SUBAGENTS)
def test_subagents(window: Window, events: list[Event], screen: str) -> None:
    assert window.show(*events) == screen.split("\n")


def test_reason_of_a_failed_call_is_shown_once(window: Window) -> None:
    why = "the path is\noutside of all that may be changed"
    notice = Notice(text=f"read was not allowed: {why}")
    assert window.show(started("1"), notice, ToolFinished(id="1", result=why, is_error=True)) == [
        *("◌ read: a.txt", "· read was not allowed: the path is", "outside of all that may be changed"),
        "✗ read: a.txt (2.0s)",
    ]
    window.show(started("2"))
    last = window.show(ToolFinished(id="2", result="the path", is_error=True))[-1]
    assert last == "✗ read: a.txt (1.0s) · the path"


def test_make_room_gives_other_text_a_line_and_the_answer_continues_below(window: Window) -> None:
    window.show(TextDelta(text="so far"), Status(text="waiting"))
    window.channel.make_room()
    assert window.show(Usage(input_tokens=1, output_tokens=1, scope="turn")) == ["so far"]
    window.write("asked\n")
    assert window.show(TextDelta(text="goes on")) == ["so far", "", "asked", "", "goes on"]


@pytest.mark.parametrize(
    ("variables", "shown", "forbidden"),
    [
        ({"TERM": "xterm", "NO_COLOR": "1"}, ["✓ read: a.txt (1.0s)"], rb"\x1b\[[\d;]*m"),
        ({"TERM": "dumb"}, ["◌ read: a.txt", "✓ read: a.txt (1.0s)"], rb"\x1b"),
    ],
)
def test_variables_turn_styles_or_all_control_codes_off(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], shown: list[str], forbidden: bytes
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    window = Window()
    lines = window.show(started("1"), ToolFinished(id="1"), Error(message="oh"), ReasoningDelta(text="hm"))
    assert lines == [*shown, "error: oh", "", "[reasoning] hm"]
    assert not re.search(forbidden, window.raw)
    window.close()


def test_pipe_gets_plain_lines_and_errors_on_the_other_stream() -> None:
    out, err = in_pipe(
        *(TurnStarted(), TextDelta(text="one"), started("1"), started("2", path="b.txt"), started("3", path="c.txt")),
        *(ToolProgress(id="1", text="on it"), ToolFinished(id="2"), ToolFinished(id="1")),
        *(Error(message="oh", status_code=529, code="busy"), TextDelta(text="two")),
        TurnFailed(message="no more", code="spent"),
    )
    assert out == (
        "one\n\n◌ read: a.txt\n◌ read: b.txt\n◌ read: c.txt\n✓ read: b.txt (0.0s)\n✓ read: a.txt (0.0s)\n\n"
        "two\n\n– read: c.txt (not finished)\n"
    )
    assert err == "error: oh (529, busy)\nfailed: no more (spent)\n"


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([TextDelta(text="a"), BlockFinal(), TextDelta(text="b")], "a\n\nb"),
        ([TextDelta(text="a"), BlockFinal(text="a"), TextDelta(text="b")], "a\n\nb"),
        ([TextDelta(text="a"), BlockFinal(text="a and more")], "a and more"),
        ([TextDelta(text="a"), BlockFinal(text="b")], "a\n\n↻ the last text is replaced by:\n\nb"),
        ([TextDelta(text="a"), BlockFinal(text="")], "a\n\n↩ the last text is withdrawn\n"),
        ([TextDelta(text="a"), BlockFinal(text=""), TextDelta(text="b")], "a\n\n↩ the last text is withdrawn\n\nb"),
        ([BlockFinal(text="")], ""),
        ([BlockFinal(text="whole")], "whole"),
        ([TextDelta(text="a"), started("1"), BlockFinal(text="b")], "a\n\n◌ read: a.txt\n\nb"),
        ([TextDelta(text="a"), TextRetracted(reason="a retry")], "a\n\n↩ the last text is withdrawn: a retry\n"),
        ([TextRetracted()], ""),
        (
            [TextDelta(text="a"), TextRetracted(scope="turn"), TurnCompleted(text="b")],
            "a\n\n↩ everything above is withdrawn\n\nb\n",
        ),
        ([TextDelta(text="a"), TurnCompleted(text="b")], "a\n"),
        ([TurnCompleted(text="b")], "b\n"),
        ([TurnCompleted()], ""),
        ([TextDelta(text=""), ReasoningDelta(text=""), TurnCompleted()], ""),
        ([TextDelta(text="a"), TurnCancelled()], "a\n\ncancelled\n"),
        ([TextDelta(text="a"), TurnCancelled(reason="asked")], "a\n\ncancelled: asked\n"),
        ([started("1"), TurnCancelled()], "◌ read: a.txt\n– read: a.txt (not finished)\ncancelled\n"),
        ([started("1"), TurnCompleted(), ToolFinished(id="1")], "◌ read: a.txt\n– read: a.txt (not finished)\n"),
        ([ToolFinished(id="unknown"), ToolOutput(data="x"), TextDelta(text="a")], "a"),
        ([Notice(text="be aware " * 20)], "· " + "be aware " * 20 + "\n"),
        ([ModelChanged(model_id="m", key_id="k")], "· Switched to m (k)\n"),
        ([ConfigReloaded()], "· Configuration reloaded\n"),
        ([Media(url="https://pictures.example/a.png", caption="a cat")], "▸ a cat https://pictures.example/a.png\n"),
        ([Media()], "▸ \n"),
        ([Usage(input_tokens=1, output_tokens=1, scope="turn")], ""),
    ],
)
def test_how_each_event_looks(events: list[Event], shown: str) -> None:
    assert in_pipe(TurnStarted(), *events) == (shown, "")


@pytest.mark.parametrize("gap", ["", "\n", "\n\n"])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_one_blank_line_whatever_line_ends_the_agent_sends(gap: str, cut: int) -> None:
    text = f"{gap}after"
    pieces = [TextDelta(text=text[:cut]), TextDelta(text=text[cut:])]
    out, _ = in_pipe(TextDelta(text="before"), started("1"), *pieces)
    assert out == "before\n\n◌ read: a.txt\n\nafter" if gap != "\n\n" else "before\n\n◌ read: a.txt\n\n\nafter"


def test_reasoning_is_separated_and_can_be_hidden() -> None:
    events = (ReasoningDelta(text="hm "), ReasoningDelta(text="yes"), ReasoningEnd(), TextDelta(text="a"))
    assert in_pipe(*events)[0] == "[reasoning] hm yes\n\na"
    assert in_pipe(*events, reasoning=False)[0] == "a"


@pytest.mark.parametrize(
    ("thoughts", "shown"),
    [
        ("**Thinking**\nI should look.", "Thinking\nI should look."),
        ("**Thinking**", "Thinking"),
        ("One.\n\n**Two**\n\nThree.", "One.\n\nTwo\n\nThree."),
        ("2 ** 3 is **eight**\n", "2 ** 3 is **eight**\n"),
        ("**kwargs are\n*so*", "**kwargs are\n*so*"),
        ("**Note** that\n**a** and **b**\n", "**Note** that\n**a** and **b**\n"),
        ("**never closed", "**never closed"),
        ("*", "*"),
    ],
)
def test_heading_of_reasoning_is_shown_without_its_marks(thoughts: str, shown: str) -> None:
    for ending in (TextDelta(text="a"), started("1"), TurnCancelled(), ReasoningEnd()):
        after, _ = in_pipe(ReasoningDelta(text="."), ReasoningEnd(), ending)
        for cut in range(len(thoughts)):
            pieces = [ReasoningDelta(text=piece) for piece in (thoughts[:cut], thoughts[cut:])]
            out, _ = in_pipe(*pieces, ending)
            assert out.startswith(f"[reasoning] {shown}")
        assert out.endswith(after.removeprefix("[reasoning] .").lstrip("\n"))


@pytest.mark.parametrize("arguments", [{}, None, [], "", "text", {"a": 1}, {"\ud800": 1}, {"path": object()}, object()])
def test_any_arguments_can_be_shown(arguments: object) -> None:
    out, _ = in_pipe(ToolStarted(id="1", name="n", arguments=arguments), ToolFinished(id="1", result=arguments))
    assert out.startswith("◌ n")


def test_methods_of_a_streaming_provider_show_the_same() -> None:
    out = io.StringIO()
    channel = TerminalChannel(out, io.StringIO())

    async def turn() -> None:
        await channel.on_stream_start("me")
        await channel.on_stream_status("me", "Using: read")
        await channel.on_stream_chunk("me", "so f")
        await channel.on_stream_chunk("me", "ar")
        await channel.on_stream_end("me", "so far\n\n(Error: no more)")

    asyncio.run(turn())
    assert out.getvalue() == "· Using: read\n\nso far\n\n(Error: no more)\n"


def test_character_outside_of_the_encoding_is_shown_by_its_code() -> None:
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="ascii")
    channel = TerminalChannel(out, out)
    for event in (started("1", path="é"), ToolFinished(id="1"), TextDelta(text="日")):
        asyncio.run(channel.show(event))
    assert buffer.getvalue() == b"* read: \\xe9\n+ read: \\xe9 (0.0s)\n\n\\u65e5"


LONG_WORD = "https://tides.example/a/very/long/address"  # no row can hold it: it is the terminal's to break
CHILD_TEXT = f"It looks for every file, finds: none.  \n\n日本語 {LONG_WORD} at all"


def test_text_of_a_subagent_is_broken_between_words_behind_its_bar(window: Window) -> None:
    window.resize(24, 24)
    lines = window.show(ToolStarted(id="1", name="task"), TextDelta(text=CHILD_TEXT, parent_tool_id="1"))
    assert lines == [
        "◌ task",
        "  │ It looks for every",
        "  │ file, finds: none.",
        "  │",
        "  │ 日本語",
        f"  │ {LONG_WORD[:20]}",
        LONG_WORD[20:],
        "  │ at all",
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_subagent_text_in_pieces_is_whole_and_stays_behind_its_bar(window: Window, size: int) -> None:
    window.resize(24, 24)
    said = CHILD_TEXT.replace(LONG_WORD, "address")
    parts = [said[start : start + size] for start in range(0, len(said), size)]
    window.show(ToolStarted(id="1", name="task"))
    _, *lines = window.show(*(TextDelta(text=part, parent_tool_id="1") for part in parts))
    assert all(line == "  │" or (line.startswith("  │ ") and line[4:].strip()) for line in lines)
    assert lines.count("  │") == 1
    assert "".join("".join(line[4:] for line in lines).split()) == "".join(said.split())
