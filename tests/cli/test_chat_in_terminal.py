"""`tailrace chat` as a person uses it: typed and read in a real pseudo-terminal."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pseudo_terminal import CTRL_C, CTRL_D, TAILRACE, Person

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTS = Path(__file__).parent.parent / "agents"
UP = "\x1b[A"


@pytest.fixture
def chat(tmp_path: Path) -> Callable[..., Person]:
    """Start a chat with one of the agents of tests/agents, and a home of its own."""

    def start(agent: str, *options: str, env: dict[str, str] | None = None, **window: int) -> Person:
        environment = {"XDG_DATA_HOME": str(tmp_path / "data"), **(env or {})}
        name = agent if agent == "demo" else f"agents:{agent}"
        return Person(TAILRACE, "chat", name, *options, cwd=AGENTS, env=environment, **window)

    return start


def test_conversation_with_the_demo(chat: Callable[..., Person]) -> None:
    with chat("demo", "--fast", rows=70) as person:
        person.says("hello there")
        person.sees("What shall we carry next?")
        person.is_prompted()
        lines = person.lines()
        assert lines[0] == "tailrace 0.1.0 · demo · Ctrl-C stops an answer, /quit leaves, /help for help"
        assert "They wrote “hello there”." in lines
        assert "Hello! You wrote “hello there”." in lines
        tools = [line.split(" (")[0] for line in lines if line.startswith(("◌", "✓", "✗"))]
        assert tools == [
            "✓ read_file: docs/tides.md",
            "✗ fetch: https://tides.example/today",
            "✓ fetch: https://tides.example/today",
        ]
        assert "error: tides.example does not answer, I ask once more (unreachable)" in lines
        assert "    await asyncio.sleep(0.5)" in lines
        assert person.quits() == 0


@pytest.mark.parametrize("columns", [20, 132])
def test_the_demo_fits_any_width(chat: Callable[..., Person], columns: int) -> None:
    with chat("demo", "--fast", "--no-reasoning", columns=columns, rows=30) as person:
        person.says("日本語")
        person.until(lambda: "carry next?" in person.all_text().replace("\n", ""), "the end")
        person.is_prompted()
        text = person.all_text()
        assert "“日本語”" in text.replace("\n", "")
        assert (text.count("◌"), text.count("✓"), text.count("They wrote")) == (0, 2, 0)


def test_a_window_can_be_resized_between_turns(chat: Callable[..., Person]) -> None:
    with chat("wide", columns=20) as person:
        person.says("読んで")
        person.sees("終わり")
        person.is_prompted()
        assert [line[0] for line in person.lines() if line.startswith(("◌", "✓"))] == ["✓", "✓"]
        person.resize(100, 30)
        person.says("go")
        person.sees("終わり", times=2)
        assert "✓ 読む: 非常に長いファイル名の文書.txt (0.0s)" in person.lines()


@pytest.mark.parametrize("agent", ["waits", "talks_on", "endless"])
def test_ctrl_c_stops_an_answer_and_the_session_goes_on(chat: Callable[..., Person], agent: str) -> None:
    with chat(agent) as person:
        for turn in (1, 2):
            person.is_prompted()
            shown = person.all_text().count(begins := "word" if agent == "endless" else "begun")
            person.says("go")
            person.sees(begins, times=shown + 1)
            person.type(CTRL_C)
            person.sees("cancelled", times=turn)
        person.is_prompted()
        assert "Traceback" not in person.all_text()
        assert ("closed by cancellation" in person.all_text()) is (agent == "waits")
        assert person.quits() == 0


def test_ctrl_c_at_the_prompt_clears_the_line(chat: Callable[..., Person]) -> None:
    with chat("echo") as person:
        person.is_prompted()
        person.type("never m")
        person.sees("never m")
        person.clears_line()
        person.says("this")
        person.sees("you said 'this'")
        assert person.quits() == 0


@pytest.mark.parametrize("typed", [CTRL_D, "/quit\r", "quit\r", " Exit \r"])
def test_what_leaves_the_chat(chat: Callable[..., Person], typed: str) -> None:
    with chat("echo") as person:
        person.is_prompted()
        person.type(typed)
        assert person.leaves() == 0
        assert "you said" not in person.all_text()


def test_help_is_shown_by_the_chat_and_other_words_go_to_the_agent(chat: Callable[..., Person]) -> None:
    with chat("echo") as person:
        person.says("/help")
        person.sees("Ctrl-D   leaves, as do /quit, quit and exit")
        for words in ("/compact", "help, I want to exit"):
            person.says(words)
            person.sees(f"you said '{words}'")
        assert person.all_text().count("you said") == 2


def test_pasted_lines_are_one_prompt(chat: Callable[..., Person]) -> None:
    with chat("echo") as person:
        person.is_prompted()
        assert b"\x1b[?2004h" in person.raw, "the terminal is asked to mark what is pasted"
        person.type("see: \x1b[200~one\r\ttwo\rthree\r\x1b[201~")
        person.sees("three")
        person.type("\r")
        person.sees("you said 'see: one\\n\\ttwo\\nthree'")
        person.is_prompted()


def test_a_failed_turn_does_not_end_the_session(chat: Callable[..., Person]) -> None:
    with chat("raises") as person:
        person.says("go")
        person.sees("failed: ValueError: no luck␛[31m (runtime_raised)\nraised at agents.py:")
        person.sees("; --debug shows the traceback")
        person.says("fine")
        person.sees("so far so good", times=2)
        assert person.quits() == 0
        assert "Traceback" not in person.all_text()
        assert b"\x1b[31mfailed: ValueError" in person.raw


def test_keys_typed_during_an_answer_are_at_the_next_prompt(chat: Callable[..., Person]) -> None:
    with chat("steps") as person:
        person.says("go")
        person.sees("first step")
        person.type("typed ahead\r")
        person.sees("you said 'typed ahead'")
        text = person.all_text()
        assert text.index("second step") < text.index("> typed ahead")
        assert text.count("typed ahead") == 2


def test_history_is_kept_in_a_private_file(chat: Callable[..., Person], tmp_path: Path) -> None:
    with chat("echo") as person:
        person.says("remember the tide")
        person.sees("you said")
        person.quits()
    folder = tmp_path / "data" / "tailrace"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "chat_history").stat().st_mode) == 0o600
    with chat("echo") as person:
        person.says(UP)
        person.sees("you said 'remember the tide'")


def test_without_a_history_file_the_session_has_a_history(chat: Callable[..., Person], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with chat("echo") as person:
        person.says("hello")
        person.sees("you said 'hello'")
        person.says(UP)
        person.sees("you said 'hello'", times=2)


def test_typed_bytes_that_are_not_utf8_are_replaced(chat: Callable[..., Person]) -> None:
    with chat("echo") as person:
        person.is_prompted()
        person.type_bytes(b"a\xff\xfeb\r")
        person.sees("you said")
        person.is_prompted()
        assert "Traceback" not in person.all_text()


def test_a_dumb_terminal_gets_no_control_codes(chat: Callable[..., Person]) -> None:
    with chat("demo", "--fast", env={"TERM": "dumb"}) as person:
        person.says("hello")
        person.sees("carry next?")
        assert b"\x1b" not in person.raw.partition(b"hello")[2]


def test_json_at_a_terminal_keeps_the_prompt_out_of_the_data(tmp_path: Path) -> None:
    out = tmp_path / "events"
    command = f"exec {TAILRACE} chat agents:waits --json > {out}"
    with Person("sh", "-c", command, cwd=AGENTS, env={"XDG_DATA_HOME": str(tmp_path)}) as person:
        person.says("echo")
        person.until(lambda: person.lines()[-3:] == ["> echo", "", ">"], "the next prompt")
        person.says("go")
        person.sees("waiting")
        person.type(CTRL_C)
        person.sees("closed by cancellation")
        assert person.quits() == 0
    types = [json.loads(line)["type"] for line in out.read_bytes().splitlines()]
    assert types == ["turn_started", "text_delta", "turn_completed", "turn_started", "text_delta", "turn_cancelled"]
