"""`tailrace preview` as a command: what it shows in the terminal and writes as JSON, and its errors."""

from __future__ import annotations

import json
import re
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from command_runs import Done, run_here
from pseudo_terminal import TAILRACE, Person
from tailrace import events
from tailrace.capabilities import CHANNELS
from tailrace.cli.presentation_options import projector_settings
from tailrace.cli.preview.channel_preview import MessageSize, preview_on
from tailrace.cli.preview.command import ChannelName
from tailrace.cli.preview.recording import parse_turn
from tailrace.cli.preview.sample import sample_turn
from tailrace.errors import UsageError
from tailrace.events import TextDelta, TurnCompleted, TurnFailed, TurnStarted, encode_event
from tailrace.operations import Interim, Operation
from tailrace.projector import Presentation, ProjectorSettings

HELLO = b'{"type": "text_delta", "text": "Hello, this is long enough to begin with."}\n{"type": "turn_completed"}\n'
OPERATIONS: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)
HEADS = re.compile(r"^─+ (\w+) · (\w+) ─+$", re.MULTILINE)


def preview(*words: str, given: bytes = b"", columns: int = 80) -> Done:
    return run_here("preview", *words, given=given, env={"COLUMNS": str(columns)})


def calls(*words: str, given: bytes = b"") -> list[dict[str, Any]]:
    done = preview(*words, "--json", given=given)
    assert (done.exit_code, done.err) == (0, "")
    return [json.loads(line) for line in done.out.splitlines()]


def test_every_channel_and_presentation_can_be_chosen() -> None:
    assert [name.value for name in ChannelName] == list(CHANNELS)
    refused = preview("demo", "--presentation", "x").err
    assert all(name in refused for name in get_args(Presentation))


def test_demo_shows_every_channel_without_control_codes_in_a_pipe() -> None:
    done = preview("demo", columns=100)
    assert (done.exit_code, done.err) == (0, "")
    assert HEADS.findall(done.out) == [
        *(("telegram", "live"), ("telegram_rich", "live"), ("slack", "live"), ("discord", "live"), ("matrix", "live")),
        *(("web", "tokens"), ("terminal", "tokens")),
    ]
    assert "\x1b" not in done.out
    assert done.out.count("Why the backup was slow") == 7
    assert done.out.count("https://example.com/charts/backup-week.png") == 7
    assert max(map(len, done.out.splitlines())) <= 100


def test_demo_turn_has_every_kind_of_event_and_can_be_recorded() -> None:
    turn = sample_turn()
    kinds = {type(event) for _, event in turn}
    assert kinds >= {
        *(events.ReasoningDelta, TextDelta, events.ToolStarted, events.ToolFinished, events.ToolProgress),
        *(events.PlanUpdated, events.Media, events.Usage, TurnCompleted),
    }
    assert any(isinstance(event, TextDelta) and event.parent_tool_id for _, event in turn)
    assert any(isinstance(event, events.ToolFinished) and event.is_error for _, event in turn)
    assert all(before <= after for (before, _), (after, _) in pairwise(turn))
    lines = b"\n".join(msgspec.json.encode({"at": at, "event": event}) for at, event in turn)
    again = parse_turn(lines, name="demo", rate=50)
    assert [event for _, event in again[1:]] == [event for _, event in turn[1:]]
    assert [at for at, _ in again] == pytest.approx([at for at, _ in turn])


def test_demo_answer_is_too_long_for_one_message_of_discord_only() -> None:
    messages = {name: len(preview_on(sample_turn(), name, ProjectorSettings()).chat) for name in CHANNELS}
    assert messages == dict.fromkeys(CHANNELS, 3) | {"discord": 4}


def test_json_has_each_call_with_the_sizes_after_it() -> None:
    lines = calls("demo")
    assert [name for name, _ in groupby(call["channel"] for call in lines)] == list(CHANNELS)
    for name, of_channel in groupby(lines, key=lambda call: call["channel"]):
        in_order = list(of_channel)
        assert all(before["at"] <= after["at"] for before, after in pairwise(in_order))
        assert all(size <= CHANNELS[name].limit for call in in_order for size in call["sizes"])
        for call in in_order:
            assert set(call) == {"channel", "at", "stays", "sizes", "operation"}
            operation = OPERATIONS.decode(json.dumps(call["operation"]))
            assert operation.target.channel == name
            assert call["stays"] or isinstance(operation, get_args(Interim))
        assert sum(call["stays"] for call in in_order) < len(in_order)


def test_channels_are_shown_once_in_the_order_they_are_named() -> None:
    done = preview("-", *("--channel", "discord", "--channel", "telegram", "--channel", "discord"), given=HELLO)
    assert HEADS.findall(done.out) == [("discord", "live"), ("telegram", "live")]


def test_end_of_a_turn_is_messages_with_sizes_and_a_table_of_calls() -> None:
    done = preview("-", "--channel", "telegram", given=HELLO)
    assert done.out.splitlines() == [
        "",
        "─────────────────────────────── telegram · live ────────────────────────────────",
        "1 message · 1 call, 1 to stay · 0.0 s",
        "",
        "╭─ #1 · 41 of 4,096 characters ────────────────────────────────────────────────╮",
        "│ Hello, this is long enough to begin with.                                    │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
        "",
        "    AT   CALL   MESSAGE   SIZE   STAYS",
        "0.00 s   post   #1          41   stays",
    ]


def test_steps_show_each_call_and_the_message_it_changed() -> None:
    done = preview("demo", "--channel", "discord", "--steps")
    steps = re.findall(r"^(\d+\.\d\d s  .*)\n((?:[╭│╰].*\n)*)", done.out, re.MULTILINE)
    lines = calls("demo", "--channel", "discord")
    assert [step.split()[0] for step, _ in steps] == [f"{call['at']:.2f}" for call in lines]
    for (step, bubble), call in zip(steps, lines, strict=True):
        assert bool(bubble) == (call["operation"]["do"] != "typing")
        assert ("stays" in step) == call["stays"]
    assert "◌" not in done.out
    assert "🔧 read_file: /var/log/backup/nightly.log" in done.out


def test_a_presentation_that_a_channel_lacks_becomes_the_nearest() -> None:
    alone = preview("-", "--set", "presentation=native", given=HELLO)
    assert dict(HEADS.findall(alone.out)) == {
        "telegram": "drafts",
        "telegram_rich": "drafts",
        "slack": "streams",
        "discord": "live",
        "matrix": "live",
        "web": "streams",
        "terminal": "streams",
    }
    in_group = preview("-", "--presentation", "native", "--group", "--channel", "telegram", given=HELLO)
    assert HEADS.findall(in_group.out) == [("telegram", "live")]


def test_drafts_and_processing_messages_are_marked() -> None:
    drafts = preview("demo", "--channel", "telegram", "--presentation", "native", "--steps").out
    assert "╭─ draft · " in drafts
    processing = preview("demo", "--channel", "telegram", "--presentation", "processing").out
    assert "╭─ #1, processing · " in processing


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("edit_every_s", "--set edit_every_s: write name=value, such as --set edit_every_s=3"),
        ("first_charcters=3", "there is no setting 'first_charcters'. Did you mean 'first_characters'? "),
        ("presentation=slow", "--set presentation: Invalid enum value 'slow'"),
        ("first_s=soon", "--set first_s: Expected `float`, got `str`"),
        ("first_s=-1", "first_s is -1.0; it must be a number of seconds, 0 or more"),
        ("silent=[1]", "--set silent[0]: Expected `str`, got `int`"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_write(assignment: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        projector_settings([assignment])
    assert str(refused.value).startswith(message)


def test_values_of_settings_are_json_or_text() -> None:
    settings = projector_settings(
        ['silent=["PSST", "HUSH"]', "reasoning=true", "human_delay_s=2"], presentation="blocks"
    )
    assert (settings.silent, settings.reasoning) == (("PSST", "HUSH"), True)
    assert (settings.human_delay_s, settings.presentation) == (2.0, "blocks")


def test_rate_gives_times_to_events_without() -> None:
    turn = parse_turn(HELLO, name="turn", rate=4)
    assert [(at, type(event)) for at, event in turn] == [(0.0, TurnStarted), (0.0, TextDelta), (0.25, TurnCompleted)]
    [*_, last] = calls("-", "--channel", "web", "--rate", "0.5", given=HELLO)
    assert last["at"] >= 2


def test_times_count_from_the_first_line_that_has_one() -> None:
    recording = b"""
        {"at": 1700000000.5, "event": {"type": "text_delta", "text": "a"}}

        {"type": "text_delta", "text": "b"}
        {"at": 1700000003, "event": {"type": "turn_completed"}}"""
    at = [at for at, _ in parse_turn(recording, name="turn", rate=10)]
    assert at == pytest.approx([0.0, 0.0, 0.1, 2.5])


def test_recording_without_an_end_is_a_failed_turn() -> None:
    *_, (_, last) = parse_turn(encode_event(TextDelta(text="a")), name="turn", rate=50)
    assert isinstance(last, TurnFailed)
    assert last.code == "missing_terminal"


@pytest.mark.parametrize(
    ("recording", "message"),
    [
        (b"", "turn.ndjson holds no events: give it one JSON object per line"),
        (b"\n \n", "turn.ndjson holds no events"),
        (b'{"type": "text_delta"}', "line 1 of turn.ndjson: `text_delta`, field `text`: Object missing"),
        (HELLO.replace(b"\n", b"\nnonsense\n", 1), "line 2 of turn.ndjson: this is not one JSON object"),
        (b"\n\xff\n", "line 2 of turn.ndjson: this is not one JSON object"),
        (b"[]", "line 1 of turn.ndjson: this is not one JSON object"),
        (b'{"at": 1}', "line 1 of turn.ndjson: Object missing required field `event`. With its time, an event is "),
        (b'{"event": {"type": "turn_completed"}}', "line 1 of turn.ndjson: Object missing required field `at`"),
        (b'{"at": "1", "event": {}}', "line 1 of turn.ndjson: Expected `float`, got `str` - at `$.at`. With its time"),
        (b'{"at": 1, "event": {"type": "tezt"}}', "line 1 of turn.ndjson: 'tezt' is no event type. Use one of: "),
        (b'{"at": 1, "on": 2, "event": {}}', "line 1 of turn.ndjson: Object contains unknown field `on`"),
        (HELLO + HELLO, "line 3 of turn.ndjson: `text_delta` is out of order: the turn has ended."),
        (
            b'{"at": 2, "event": {"type": "turn_started"}}\n{"at": 1.5, "event": {"type": "turn_completed"}}',
            "line 2 of turn.ndjson: its time is 0.5 s before that of the line above it.",
        ),
    ],
)
def test_bad_line_is_refused_with_its_number(recording: bytes, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_turn(recording, name="turn.ndjson", rate=50)
    assert str(refused.value).startswith(message)
    advice = "A preview is of one turn: remove the lines of other turns."
    assert str(refused.value).endswith(advice) is (recording == HELLO + HELLO)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.ndjson"], "there is no file 'nowhere.ndjson': name one with the events of a turn, - for standard"),
        (["."], "'.' cannot be read: Is a directory. Name a file with the events of a turn."),
        (
            ["demo", "--html", "no/such/folder.html"],
            "no/such/folder.html cannot be written: No such file or directory.",
        ),
        (["demo", "--steps", "--json"], "--steps is for people and --json for programs: choose one of them"),
        (["-"], "standard input holds no events: give it one JSON object per line, as `tailrace chat --json` writes"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], message: str) -> None:
    done = preview(*words)
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"tailrace: {message}")


def test_html_writes_the_page_and_shows_nothing_else(tmp_path: Path) -> None:
    recording, written = tmp_path / "turn.ndjson", tmp_path / "turn.html"
    recording.write_bytes(HELLO)
    done = preview(str(recording), "--html", str(written))
    assert (done.exit_code, done.out) == (0, "")
    assert done.err == f"wrote {written}: open it in a browser\n"
    assert written.read_text(encoding="utf-8").startswith("<!doctype html>")
    both = preview(str(recording), "--html", str(written), "--json", "--channel", "web")
    assert len(both.out.splitlines()) == len(calls(str(recording), "--channel", "web"))


def test_control_characters_are_made_visible() -> None:
    given_events: list[events.Event] = [
        TextDelta(text="\x1b[31mred\x07 and `\u202ecode`"),
        events.Media(url="https://example.com/\x1b]0;x", caption="\x1b[2J"),
        events.ToolStarted(id="1", name="\x1b[2Jtool"),
        TurnCompleted(),
    ]
    given = b"\n".join(map(encode_event, given_events))
    for options in ((), ("--steps",)):
        done = preview("-", *options, given=given)
        assert done.exit_code == 0
        assert re.search("[\x00-\x09\x0b-\x1f\u202e]", done.out) is None
        assert "[31mred" in done.out


@pytest.mark.parametrize("columns", [80, 120])
def test_preview_at_a_terminal_has_styles_and_fits(columns: int) -> None:
    with Person(TAILRACE, "preview", "demo", columns=columns) as person:
        assert person.leaves() == 0
        lines = person.all_text().splitlines()
    borders = [line for line in lines if line.startswith("╭")]
    assert {len(line.rstrip()) for line in borders} == {min(columns, 100)}
    assert len(borders) == sum(line.startswith("╰") for line in lines) == 22
    assert b"\x1b[1m" in person.raw  # bold
    assert re.search(rb"\x1b\[[\d;]*36m", person.raw)  # code has a colour


def test_no_color_is_respected() -> None:
    with Person(TAILRACE, "preview", "demo", "--channel", "telegram", env={"NO_COLOR": "1"}) as person:
        assert person.leaves() == 0
    assert b"\x1b[1m" in person.raw
    assert re.search(rb"\x1b\[[\d;]*3[0-7]m", person.raw) is None


def test_message_size_names_the_limit_and_what_is_over_it() -> None:
    fits = MessageSize(size=2000, limit=2000, unit="characters", lines=3, max_lines=60)
    assert (str(fits), fits.is_over_limit) == ("2,000 of 2,000 characters, 3 of 60 lines", False)
    assert msgspec.structs.replace(fits, size=2001).is_over_limit
    assert str(MessageSize(size=17, limit=None, unit="bytes", lines=1, max_lines=None)) == "17 bytes"
