"""`tailrace preview`: what a person and a program see of a turn that nobody was sent."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pseudo_terminal import TAILRACE, Person
from tailrace import events
from tailrace.capabilities import CHANNELS
from tailrace.cli.presentation_options import settings_of
from tailrace.cli.preview.command import ChannelName
from tailrace.cli.preview.performing import Extent, perform
from tailrace.cli.preview.recording import turn_of
from tailrace.cli.preview.sample import sample_turn
from tailrace.errors import UsageError
from tailrace.events import TextDelta, TurnCompleted, TurnFailed, TurnStarted, encode_event
from tailrace.operations import Interim, Operation
from tailrace.projector import Presentation, ProjectorSettings

HELLO = b'{"type": "text_delta", "text": "Hello, this is long enough to begin with."}\n{"type": "turn_completed"}\n'
OPERATIONS: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)
HEADS = re.compile(r"^─+ (\w+) · (\w+) ─+$", re.MULTILINE)


def preview(*words: str, given: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([TAILRACE, "preview", *words], input=given, capture_output=True, check=False, env=env)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def calls(*words: str, given: bytes = b"") -> list[dict[str, Any]]:
    done = preview(*words, "--json", given=given)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(recording: bytes) -> str:
    with pytest.raises(UsageError) as refused:
        turn_of(recording, name="turn.ndjson", rate=50)
    return str(refused.value)


def test_every_channel_and_every_presentation_can_be_named() -> None:
    assert [name.value for name in ChannelName] == list(CHANNELS)
    presented = subprocess.run([TAILRACE, "preview", "demo", "--presentation", "x"], capture_output=True, check=False)
    assert all(name.encode() in presented.stderr for name in get_args(Presentation))


def test_in_a_pipe_the_demo_is_shown_on_every_channel_without_control_codes() -> None:
    done = preview("demo", env={"COLUMNS": "100"})
    assert (done.returncode, done.stderr) == (0, "")
    assert HEADS.findall(done.stdout) == [
        *(("telegram", "live"), ("telegram_rich", "live"), ("slack", "live"), ("discord", "live"), ("matrix", "live")),
        *(("web", "tokens"), ("terminal", "tokens")),
    ]
    assert "\x1b" not in done.stdout
    assert done.stdout.count("Why the backup was slow") == 7
    assert done.stdout.count("https://example.com/charts/backup-week.png") == 7
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_demo_has_everything_and_is_a_turn_like_any() -> None:
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
    again = turn_of(lines, name="demo", rate=50)
    assert [event for _, event in again[1:]] == [event for _, event in turn[1:]]
    assert [at for at, _ in again] == pytest.approx([at for at, _ in turn])


def test_the_answer_of_the_demo_is_too_long_for_one_message_of_discord_and_for_no_other() -> None:
    messages = {name: len(perform(sample_turn(), name, ProjectorSettings()).chat) for name in CHANNELS}
    assert messages == dict.fromkeys(CHANNELS, 3) | {"discord": 4}


def test_each_call_is_a_line_of_json_with_what_it_is_and_what_stands_after_it() -> None:
    told = calls("demo")
    assert [name for name, _ in groupby(call["channel"] for call in told)] == list(CHANNELS)
    for name, of_channel in groupby(told, key=lambda call: call["channel"]):
        in_order = list(of_channel)
        assert all(before["at"] <= after["at"] for before, after in pairwise(in_order))
        assert all(size <= CHANNELS[name].limit for call in in_order for size in call["sizes"])
        for call in in_order:
            assert set(call) == {"channel", "at", "stays", "sizes", "operation"}
            operation = OPERATIONS.decode(json.dumps(call["operation"]))
            assert operation.target.channel == name
            assert call["stays"] or isinstance(operation, get_args(Interim))
        assert sum(call["stays"] for call in in_order) < len(in_order)


def test_only_the_channels_that_are_named_are_shown_in_their_order_and_once() -> None:
    done = preview("-", *("--channel", "discord", "--channel", "telegram", "--channel", "discord"), given=HELLO)
    assert HEADS.findall(done.stdout) == [("discord", "live"), ("telegram", "live")]


def test_the_end_has_the_messages_with_their_sizes_and_a_table_of_the_calls() -> None:
    done = preview("-", "--channel", "telegram", given=HELLO, env={"COLUMNS": "80"})
    assert done.stdout.splitlines() == [
        "",
        "─────────────────────────────── telegram · live ────────────────────────────────",
        "1 message · 2 calls, 1 to stay · 0.1 s",
        "",
        "╭─ #1 · 41 of 4,096 characters ────────────────────────────────────────────────╮",
        "│ Hello, this is long enough to begin with.                                    │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
        "",
        "    AT   CALL     MESSAGE   HOLDS   STAYS",
        "0.00 s   typing                          ",
        "0.10 s   post     #1           41   stays",
    ]


def test_step_by_step_each_call_is_followed_by_the_message_it_is_about() -> None:
    done = preview("demo", "--channel", "discord", "--steps")
    steps = re.findall(r"^(\d+\.\d\d s  .*)\n((?:[╭│╰].*\n)*)", done.stdout, re.MULTILINE)
    told = calls("demo", "--channel", "discord")
    assert [step.split()[0] for step, _ in steps] == [f"{call['at']:.2f}" for call in told]
    for (step, bubble), call in zip(steps, told, strict=True):
        assert bool(bubble) == (call["operation"]["do"] != "typing")
        assert ("stays" in step) == call["stays"]
    assert "◌" not in done.stdout
    assert "🔧 read_file: /var/log/backup/nightly.log" in done.stdout


def test_the_presentation_and_the_group_decide_how_it_looks() -> None:
    alone = preview("-", "--presentation", "native", given=HELLO)
    assert dict(HEADS.findall(alone.stdout)) == {
        "telegram": "drafts",
        "telegram_rich": "drafts",
        "slack": "streams",
        "discord": "live",
        "matrix": "live",
        "web": "streams",
        "terminal": "streams",
    }
    in_group = preview("-", "--presentation", "native", "--group", "--channel", "telegram", given=HELLO)
    assert HEADS.findall(in_group.stdout) == [("telegram", "live")]


def test_drafts_and_the_processing_message_are_marked_as_what_they_are() -> None:
    drafts = preview("demo", "--channel", "telegram", "--presentation", "native", "--steps").stdout
    assert "╭─ draft · " in drafts
    beside = preview("demo", "--channel", "telegram", "--presentation", "processing").stdout
    assert "╭─ #1 · processing · " in beside


def test_a_setting_changes_what_is_called_when() -> None:
    slow = calls("demo", "--channel", "telegram", "--set", "edit_every_s=6", "--set", "tools=false")
    usual = calls("demo", "--channel", "telegram")
    assert len(slow) < len(usual)
    assert not any("🔧" in json.dumps(call, ensure_ascii=False) for call in slow)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("edit_every_s", "--set edit_every_s: write name=value, such as --set edit_every_s=3"),
        ("first_charcters=3", "there is no setting 'first_charcters'. Did you mean 'first_characters'? "),
        ("presentation=slow", "--set presentation: Invalid enum value 'slow'"),
        ("first_s=soon", "--set first_s: Expected `float`, got `str`"),
        ("first_s=-1", "first_s is -1.0; it must be a number of seconds, 0 or more"),
        ("silent=[1]", "--set silent[0]: Expected `str`, got `int`"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_what_could(wish: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings_of([wish])
    assert str(refused.value).startswith(said)


def test_values_of_settings_are_json_or_text() -> None:
    settings = settings_of(['silent=["PSST", "HUSH"]', "reasoning=true", "human_delay_s=2"], presentation="blocks")
    assert (settings.silent, settings.reasoning) == (("PSST", "HUSH"), True)
    assert (settings.human_delay_s, settings.presentation) == (2.0, "blocks")


def test_events_without_times_come_so_many_in_a_second() -> None:
    turn = turn_of(HELLO, name="turn", rate=4)
    assert [(at, type(event)) for at, event in turn] == [(0.0, TurnStarted), (0.0, TextDelta), (0.25, TurnCompleted)]
    [*_, last] = calls("-", "--channel", "web", "--rate", "0.5", given=HELLO)
    assert last["at"] >= 2


def test_times_count_from_the_first_and_what_has_none_follows_the_line_above() -> None:
    recording = b"""
        {"at": 1700000000.5, "event": {"type": "text_delta", "text": "a"}}

        {"type": "text_delta", "text": "b"}
        {"at": 1700000003, "event": {"type": "turn_completed"}}"""
    at = [at for at, _ in turn_of(recording, name="turn", rate=10)]
    assert at == pytest.approx([0.0, 0.0, 0.1, 2.5])


def test_a_recording_that_breaks_off_is_a_turn_that_failed() -> None:
    *_, (_, last) = turn_of(encode_event(TextDelta(text="a")), name="turn", rate=50)
    assert isinstance(last, TurnFailed)
    assert last.code == "missing_terminal"


@pytest.mark.parametrize(
    ("recording", "said"),
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
def test_a_bad_line_is_named_by_its_number_with_what_to_do(recording: bytes, said: str) -> None:
    assert refusal(recording).startswith(said)


def test_a_second_turn_is_told_apart_from_a_broken_one() -> None:
    assert refusal(HELLO + HELLO).endswith("A preview is of one turn: leave out what belongs to another.")


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_wrong_use_is_told_in_one_line(words: list[str], said: str) -> None:
    done = preview(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"tailrace: {said}")


def test_what_the_demo_agent_says_can_be_looked_at() -> None:
    spoken = subprocess.run(
        [TAILRACE, "chat", "--fast", "--json"], input=b"hello\n", stdout=subprocess.PIPE, check=True
    ).stdout
    done = preview("-", "--channel", "telegram", given=spoken)
    assert done.returncode == 0
    assert "tailrace chat my_agent:answer" in done.stdout


def test_the_page_is_written_and_nothing_else_is_shown(tmp_path: Path) -> None:
    recording, written = tmp_path / "turn.ndjson", tmp_path / "turn.html"
    recording.write_bytes(HELLO)
    done = preview(str(recording), "--html", str(written))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"wrote {written}: open it in a browser\n"
    assert written.read_text(encoding="utf-8").startswith("<!doctype html>")
    both = preview(str(recording), "--html", str(written), "--json", "--channel", "web")
    assert len(both.stdout.splitlines()) == len(calls(str(recording), "--channel", "web"))


def test_what_is_not_said_is_shown_as_nothing() -> None:
    done = preview("-", "--channel", "slack", given=b'{"type": "turn_completed", "text": "NO_REPLY"}')
    assert "Nothing is said." in done.stdout


def test_control_characters_are_shown_and_not_obeyed() -> None:
    said: list[events.Event] = [
        TextDelta(text="\x1b[31mred\x07 and `\u202ecode`"),
        events.Media(url="https://example.com/\x1b]0;x", caption="\x1b[2J"),
        events.ToolStarted(id="1", name="\x1b[2Jtool"),
        TurnCompleted(),
    ]
    given = b"\n".join(map(encode_event, said))
    for way in ((), ("--steps",)):
        done = preview("-", *way, given=given)
        assert done.returncode == 0
        assert re.search("[\x00-\x09\x0b-\x1f\u202e]", done.stdout) is None
        assert "[31mred" in done.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_at_a_terminal_it_has_styles_and_fits(columns: int) -> None:
    with Person(TAILRACE, "preview", "demo", columns=columns) as person:
        assert person.leaves() == 0
        lines = person.all_text().splitlines()
    borders = [line for line in lines if line.startswith("╭")]
    assert {len(line.rstrip()) for line in borders} == {min(columns, 100)}
    assert len(borders) == sum(line.startswith("╰") for line in lines) == 22
    assert b"\x1b[1m" in person.raw  # bold
    assert re.search(rb"\x1b\[[\d;]*36m", person.raw)  # code has a colour


def test_without_colours_there_are_none() -> None:
    with Person(TAILRACE, "preview", "demo", "--channel", "telegram", env={"NO_COLOR": "1"}) as person:
        assert person.leaves() == 0
    assert b"\x1b[1m" in person.raw
    assert re.search(rb"\x1b\[[\d;]*3[0-7]m", person.raw) is None


def test_an_extent_tells_what_is_too_much() -> None:
    fits = Extent(size=2000, limit=2000, unit="characters", lines=3, most_lines=60)
    assert (str(fits), fits.is_too_much) == ("2,000 of 2,000 characters, 3 of 60 lines", False)
    assert msgspec.structs.replace(fits, size=2001).is_too_much
    assert str(Extent(size=17, limit=None, unit="bytes", lines=1, most_lines=None)) == "17 bytes"
