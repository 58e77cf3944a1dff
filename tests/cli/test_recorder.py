"""Recorded turns: whole, with their times, readable by every command that reads turns, and without secrets."""

from __future__ import annotations

import json
import stat
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_runs import run_here
from pseudo_terminal import TAILRACE
from tailrace.cli.preview.recording import parse_turn
from tailrace.cli.recorder import Recorder
from tailrace.events import (
    Error,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)
from tailrace.redaction import REDACTED, Redaction
from tailrace.testing.line_count import LineCount

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-" + "a1b2c3d4" * 4
SECRETS = [
    "sk-abcdefghijklmnop1234",
    "xoxb-1234567890-abcdef",
    "ghp_abcdefghijklmnopqrstuvwxyz123456",
    "AKIAABCDEFGHIJKLMNOP",
    "123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi",
]


def record(folder: Path, *events: Event) -> str:
    """Record these events of a turn, and give what was written."""
    recorder = Recorder(folder)
    for event in (TurnStarted(turn_id="t"), *events):
        recorder.record(event)
    recorder.close()
    [path] = folder.glob("*.ndjson")
    return path.read_text(encoding="utf-8")


def events_of(written: str) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in written.splitlines()]


def test_a_turn_is_recorded_with_its_times_and_can_be_read_again(tmp_path: Path) -> None:
    times = iter([10.0, 10.0, 10.5, 11.0, 12.25])
    recorder = Recorder(tmp_path / "turns", clock=lambda: next(times))
    events: list[Event] = [TurnStarted(turn_id="t"), TextDelta(text="Hello "), TextDelta(text="you"), TurnCompleted()]
    for event in events:
        recorder.record(event)
    recorder.close()
    [path] = (tmp_path / "turns").glob("*.ndjson")
    turn = parse_turn(path.read_bytes(), name="t", rate=50)
    assert [event for _, event in turn] == events
    assert [at for at, _ in turn] == [0.0, 0.5, 1.0, 2.25]


def test_each_turn_has_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "turns")
    for turn_id in ("a/../b", "second"):
        recorder.record(TurnStarted(turn_id=turn_id))
        recorder.record(TurnCompleted())
    recorder.close()
    paths = sorted((tmp_path / "turns").iterdir())
    assert [path.name for path in paths] == ["0001-a_.._b.ndjson", "0002-second.ndjson"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE((tmp_path / "turns").stat().st_mode) == 0o700


def test_every_command_that_reads_turns_reads_what_chat_records(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    chat = [TAILRACE, "chat", "demo", "--fast", "--record", str(turns)]
    answer = subprocess.run(chat, input="hello\nagain\n", capture_output=True, text=True, check=True, timeout=60).stdout
    first, _second = sorted(turns.iterdir())
    last_line = answer.rstrip().splitlines()[-1]
    assert last_line.endswith("What shall we carry next?")
    assert last_line in run_here("preview", str(first), "--channel", "discord", "--json").out
    assert run_here("shadow", "--replay", str(turns)).out.startswith("2 turns")
    deliver = ("deliver", "--channel", "terminal", "--to", "me", "--ledger", str(tmp_path / "ledger.db"))
    assert run_here(*deliver, given=first.read_bytes()).out.rstrip().splitlines()[-1] == last_line


def test_a_folder_that_cannot_be_made_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_here("chat", "--record", str(tmp_path / "file" / "x"), given=b"hello\n")
    assert done.exit_code == 2
    assert "Name a folder that can be written to" in done.err


@given(secret=st.sampled_from(SECRETS), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_a_secret_is_left_out_however_it_is_cut_into_pieces(
    tmp_path_factory: pytest.TempPathFactory, secret: str, cuts: list[int]
) -> None:
    text = f"The key is {secret}, keep it."
    borders = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [TextDelta(text=text[start:end]) for start, end in pairwise(borders)]
    written = record(tmp_path_factory.mktemp("turns"), *pieces, TurnCompleted())
    assert "".join(event.get("text") or "" for event in events_of(written)) == f"The key is {REDACTED}, keep it."


@given(st.integers(1, 12))
def test_a_private_key_in_pieces_is_left_out_and_later_text_stays(
    tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMII abc\ndef ghi\n-----END RSA PRIVATE KEY-----"
    text = f"Here: {key} and no more."
    pieces = [TextDelta(text=text[start : start + size]) for start in range(0, len(text), size)]
    written = record(tmp_path_factory.mktemp("turns"), *pieces)
    kept = "".join(event.get("text", "") for event in events_of(written))
    assert kept.startswith(f"Here: {REDACTED}")
    assert kept.endswith(" and no more.")
    assert not [secret for secret in ("MII", "abc", "def", "ghi") if secret in kept]


def test_secrets_of_the_environment_are_left_out_of_all_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "hunter2hunter2")
    written = record(
        tmp_path,
        ToolStarted(id="1", name="curl", arguments={"headers": ["X: hunter2hunter2"], "n": 3}),
        ToolFinished(id="1", result={"body": "hunter2hunter2"}),
        ReasoningDelta(text="hunter2"),
        ReasoningDelta(text="hunter2"),
    )
    assert "hunter2" not in written
    assert written.count(REDACTED) == 3


def test_secrets_are_left_out_of_errors_and_tool_output(tmp_path: Path) -> None:
    written = record(
        tmp_path,
        ToolInput(id="1", arguments={f"key {SECRET}": [{"deep": SECRET}]}),
        ToolOutput(id="1", data=f"export KEY={SECRET}\n", stream="stderr"),
        *(ToolOutput(id="1", data=piece) for piece in ("the key is ", SECRET[:10], SECRET[10:], " and more\n")),
        Error(message=f"401 for {SECRET}"),
        TurnFailed(message=f"Authorization: Bearer {'x' * 24}"),
    )
    assert SECRET[10:] not in written
    assert "x" * 24 not in written
    assert written.count(REDACTED) == 6
    printed = [event["data"] for event in events_of(written) if event.get("stream") == "stdout"]
    assert "".join(printed) == f"the key is {REDACTED} and more\n"


def test_a_secret_is_left_out_with_other_events_between_its_pieces(tmp_path: Path) -> None:
    written = record(
        tmp_path,
        TextDelta(text=SECRET[:10]),
        Usage(input_tokens=1, output_tokens=1, scope="request"),
        TextDelta(text=SECRET[10:20]),
        TextDelta(text="child ", parent_tool_id="1"),
        TextDelta(text=SECRET[20:]),
        ToolOutput(id="1", data="tick\n"),
        TurnCompleted(),
    )
    assert SECRET[10:20] not in written
    assert [event["text"] for event in events_of(written) if "text" in event] == [REDACTED, "child ", None]


def test_short_values_and_ordinary_words_stay() -> None:
    redaction = Redaction({"API_KEY": "abc", "HOME": "/srv/somebody"})
    assert redaction.text("abc lives in /srv/somebody") == "abc lives in /srv/somebody"


@pytest.mark.parametrize("first", [TextDelta(text="half a w", parent_tool_id="c"), TextDelta(text="-----BEGIN ")])
def test_cost_of_waiting_pieces_is_linear(tmp_path_factory: pytest.TempPathFactory, first: Event) -> None:
    lines = []
    for many in (500, 2000):
        with LineCount() as work:
            record(tmp_path_factory.mktemp("turns"), first, *[TextDelta(text=" word")] * many)
        lines.append(work.lines)
    assert lines[1] < 5 * lines[0]
