"""Turns that are kept: whole, with their times, readable by what reads them, and without secrets."""

from __future__ import annotations

import json
import stat
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseudo_terminal import TAILRACE
from tailrace.cli.preview.recording import turn_of
from tailrace.cli.recorder import REDACTED, Recorder, Redaction
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
from tailrace.testing.runtime_work import Work

SECRETS = [
    "sk-abcdefghijklmnop1234",
    "xoxb-1234567890-abcdef",
    "ghp_abcdefghijklmnopqrstuvwxyz123456",
    "AKIAABCDEFGHIJKLMNOP",
    "123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi",
]


def kept(folder: Path) -> list[dict[str, object]]:
    [path] = folder.glob("*.ndjson")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_turn_is_kept_with_its_times_and_can_be_read_again(tmp_path: Path) -> None:
    times = iter([10.0, 10.0, 10.5, 11.0, 12.25])
    recorder = Recorder(tmp_path / "turns", clock=lambda: next(times))
    events: list[Event] = [TurnStarted(turn_id="t"), TextDelta(text="Hello "), TextDelta(text="you"), TurnCompleted()]
    for event in events:
        recorder.record(event)
    recorder.close()
    [path] = (tmp_path / "turns").glob("*.ndjson")
    assert [event for _, event in turn_of(path.read_bytes(), name="t", rate=50)] == events
    assert [at for at, _ in turn_of(path.read_bytes(), name="t", rate=50)] == [0.0, 0.5, 1.0, 2.25]


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


@given(secret=st.sampled_from(SECRETS), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_a_secret_is_left_out_however_it_comes_in_pieces(
    tmp_path_factory: pytest.TempPathFactory, secret: str, cuts: list[int]
) -> None:
    said = f"The key is {secret}, keep it."
    borders = [0, *sorted(cut for cut in cuts if cut < len(said)), len(said)]
    folder = tmp_path_factory.mktemp("turns")
    recorder = Recorder(folder)
    recorder.record(TurnStarted(turn_id="t"))
    for start, end in pairwise(borders):
        recorder.record(TextDelta(text=said[start:end]))
    recorder.record(TurnCompleted())
    recorder.close()
    text = "".join(line["event"].get("text") or "" for line in kept(folder))  # type: ignore[attr-defined]
    assert text == f"The key is {REDACTED}, keep it."


def test_what_the_environment_calls_a_secret_is_left_out_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "hunter2hunter2")
    recorder = Recorder(tmp_path)
    recorder.record(TurnStarted(turn_id="t"))
    recorder.record(ToolStarted(id="1", name="curl", arguments={"headers": ["X: hunter2hunter2"], "n": 3}))
    recorder.record(ToolFinished(id="1", result={"body": "hunter2hunter2"}))
    recorder.record(ReasoningDelta(text="hunter2"))
    recorder.record(ReasoningDelta(text="hunter2"))
    recorder.close()
    [path] = tmp_path.iterdir()
    written = path.read_text(encoding="utf-8")
    assert "hunter2" not in written
    assert written.count(REDACTED) == 3


def test_a_private_key_of_many_lines_is_left_out() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc def\nghi\n-----END RSA PRIVATE KEY-----"
    assert Redaction({}).text(f"Here: {key}. Done.") == f"Here: {REDACTED}. Done."


def test_short_values_and_ordinary_words_stand() -> None:
    redaction = Redaction({"API_KEY": "abc", "HOME": "/srv/somebody"})
    assert redaction.text("abc lives in /srv/somebody") == "abc lives in /srv/somebody"


def test_a_conversation_is_recorded_by_the_command_and_previewed(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    chat = [TAILRACE, "chat", "--fast", "--record", str(turns)]
    subprocess.run(chat, input=b"hello\nagain\n", capture_output=True, check=True, timeout=60)
    first, second = sorted(turns.iterdir())
    for path in (first, second):
        preview = [TAILRACE, "preview", str(path), "--channel", "discord", "--json"]
        shown = subprocess.run(preview, capture_output=True, check=True, timeout=60)
        assert json.loads(shown.stdout.splitlines()[0])["channel"] == "discord"


def test_what_is_recorded_is_read_by_every_command_that_reads_turns(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    chat = [TAILRACE, "chat", "demo", "--fast", "--record", str(turns)]
    answered = subprocess.run(chat, input=b"hello\n", capture_output=True, check=True, timeout=60)
    [path] = turns.iterdir()
    last_line = answered.stdout.decode().rstrip().splitlines()[-1]
    assert last_line.endswith("What shall we carry next?")

    preview = [TAILRACE, "preview", str(path), "--channel", "discord", "--json"]
    shown = subprocess.run(preview, capture_output=True, check=True, timeout=60)
    assert last_line in shown.stdout.decode()

    shadow = [TAILRACE, "shadow", "--replay", str(turns)]
    compared = subprocess.run(shadow, capture_output=True, check=True, timeout=60)
    assert compared.stdout.decode().startswith("1 turns, 1 of them the same")

    deliver = [TAILRACE, "deliver", "--channel", "terminal", "--to", "me", "--ledger", str(tmp_path / "ledger.db")]
    delivered = subprocess.run(deliver, input=path.read_bytes(), capture_output=True, check=True, timeout=60)
    assert delivered.stdout.decode().rstrip().splitlines()[-1] == last_line


def test_secrets_are_left_out_of_errors_and_of_what_tools_print(tmp_path: Path) -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    recorder = Recorder(tmp_path)
    recorder.record(TurnStarted(turn_id="t"))
    recorder.record(ToolInput(id="1", arguments={f"key {secret}": [{"deep": secret}]}))
    recorder.record(ToolOutput(id="1", data=f"export KEY={secret}\n", stream="stderr"))
    recorder.record(Error(message=f"401 for {secret}"))
    recorder.record(TurnFailed(message=f"Authorization: Bearer {'x' * 24}"))
    recorder.close()
    [path] = tmp_path.iterdir()
    written = path.read_text(encoding="utf-8")
    assert secret not in written
    assert "x" * 24 not in written
    assert written.count(REDACTED) == 5


def test_a_secret_that_a_tool_prints_in_pieces_is_left_out(tmp_path: Path) -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    recorder = Recorder(tmp_path)
    recorder.record(TurnStarted(turn_id="t"))
    for piece in ("the key is ", secret[:10], secret[10:], " and more\n"):
        recorder.record(ToolOutput(id="1", data=piece))
    recorder.record(TurnCompleted())
    recorder.close()
    printed = "".join(line["event"].get("data") or "" for line in kept(tmp_path))  # type: ignore[attr-defined]
    assert printed == f"the key is {REDACTED} and more\n"


def test_a_secret_with_others_words_between_its_pieces_is_left_out(tmp_path: Path) -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    recorder = Recorder(tmp_path)
    recorder.record(TurnStarted(turn_id="t"))
    between: list[Event] = [
        Usage(input_tokens=1, output_tokens=1, scope="request"),
        TextDelta(text="child ", parent_tool_id="1"),
        ToolOutput(id="1", data="tick\n"),
    ]
    for piece, other in zip((secret[:10], secret[10:20], secret[20:]), between, strict=True):
        recorder.record(TextDelta(text=piece))
        recorder.record(other)
    recorder.record(TurnCompleted())
    recorder.close()
    [path] = tmp_path.iterdir()
    assert secret[10:20] not in path.read_text(encoding="utf-8")
    said = [line["event"]["text"] for line in kept(tmp_path) if "text" in line["event"]]  # type: ignore[index, operator]
    assert said == [REDACTED, "child ", None]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    chat = [TAILRACE, "chat", "--record", str(tmp_path / "file" / "x")]
    done = subprocess.run(chat, input=b"hello\n", capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"Name a folder that can be written to" in done.stderr


@pytest.mark.parametrize("first", [TextDelta(text="half a w", parent_tool_id="c"), TextDelta(text="-----BEGIN ")])
def test_words_that_wait_cost_no_more_the_more_of_them_wait(tmp_path: Path, first: Event) -> None:
    lines = []
    for many in (500, 2000):
        recorder = Recorder(tmp_path)
        recorder.record(TurnStarted(runtime="x", turn_id="t"))
        recorder.record(first)
        with Work() as work:
            for _ in range(many):
                recorder.record(TextDelta(text=" word"))
            recorder.close()
        lines.append(work.lines)
    assert lines[1] < 5 * lines[0]


@given(st.integers(1, 12))
def test_a_private_key_in_pieces_is_left_out_and_what_follows_it_stands(size: int) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMII abc\ndef ghi\n-----END RSA PRIVATE KEY-----"
    text = f"Here: {key} and no more."
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))
        recorder.record(TurnStarted(runtime="x", turn_id="t"))
        for start in range(0, len(text), size):
            recorder.record(TextDelta(text=text[start : start + size]))
        recorder.close()
        (path,) = Path(folder).iterdir()
        events = [json.loads(line)["event"] for line in path.read_text(encoding="utf-8").splitlines()]
    kept = "".join(event.get("text", "") for event in events)
    assert kept.startswith(f"Here: {REDACTED}")
    assert kept.endswith(" and no more.")
    assert not [secret for secret in ("MII", "abc", "def", "ghi") if secret in kept]
