"""`tailrace chat` as a script meets it: lines in, lines out, an exit code."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pseudo_terminal import TAILRACE, default_sigint
from tailrace.events import decode_event

AGENTS = Path(__file__).parent.parent / "agents"


class Done:
    """What a command left behind."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.exit_code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def chat(*arguments: str, said: bytes = b"hello\n", **env: str) -> Done:
    command = [TAILRACE, "chat", *arguments]
    environment = {**os.environ, **env}
    return Done(
        subprocess.run(command, input=said, cwd=AGENTS, env=environment, capture_output=True, check=False, timeout=60)
    )


def in_shell(script: str) -> Done:
    """A line of shell in which `chat` is `tailrace chat`."""
    prepared = f'set -o pipefail; chat() {{ "{TAILRACE}" chat "$@"; }}; {script}'
    return Done(subprocess.run(["bash", "-c", prepared], cwd=AGENTS, capture_output=True, check=False, timeout=60))


def test_the_demo_answers_a_line_and_is_done() -> None:
    done = chat("--fast")
    assert done.exit_code == 0
    assert done.out.startswith("Hello! You wrote “hello”.\n")
    assert done.out.endswith("What shall we carry next?\n")
    assert done.err == "error: tides.example does not answer, I ask once more (unreachable)\n"
    assert "\x1b" not in done.out + done.err


def test_what_an_agents_library_logs_is_a_line_among_the_errors() -> None:
    done = chat("agents:warns")
    assert (done.exit_code, done.out) == (0, "said and said\n")
    assert done.err == "one␛[2J\ntwo\n"


def test_each_line_that_is_not_blank_is_answered() -> None:
    done = chat("agents:echo", said=b"one\n\n  \r\ntwo\r\nlast without an end")
    assert done.out == "you said 'one'\nyou said 'two'\nyou said 'last without an end'\n"
    assert (done.exit_code, done.err) == (0, "")


def test_no_input_is_no_turn() -> None:
    assert (chat("agents:echo", said=b"").out, chat("agents:echo", said=b"").exit_code) == ("", 0)


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert chat("agents:echo", said=b"a\xff\xfe\x00b\n").out == "you said 'a\ufffd\ufffd\\x00b'\n"


def test_the_session_is_the_same_for_all_lines() -> None:
    first, second = chat("agents:sessions", said=b"1\n2\n").out.splitlines()
    assert first == second
    assert len(first) == len("session ") + 32


@pytest.mark.parametrize(
    ("agent", "out", "err"),
    [
        ("raises", "so far so good\n\n", "failed: ValueError: no luck␛[31m (runtime_raised)\n"),
        (
            "exits",
            "about to leave\n\n",
            "failed: RuntimeFault: the agent called sys.exit(3) (runtime_raised)\n",
        ),
        ("raises_past_handlers", "about to break\n\n", "the agent raised PastHandlers: nobody catches this"),
        ("cancels_itself", "about to stop\n\n", "something the agent waited for was cancelled"),
        ("garbage", "so far so good\n\n", "(not_an_event)\n"),
        ("not_json", "", "(not_json)\n"),
    ],
)
def test_a_failing_turn_fails_the_command_in_the_end(agent: str, out: str, err: str) -> None:
    done = chat(f"agents:{agent}")
    assert (done.exit_code, done.out) == (1, out)
    assert err in done.err
    assert "Traceback" not in done.err


def test_a_failing_turn_is_not_the_end_of_the_others() -> None:
    done = chat("agents:raises", said=b"bad\nfine\n")
    assert done.out == "so far so good\n\nso far so good\n"
    assert done.exit_code == 1


def test_debug_shows_the_traceback_of_the_agent() -> None:
    done = chat("agents:raises", "--debug")
    assert "Traceback" in done.err
    assert "agents.py" in done.err
    assert "\x1b" not in done.err
    assert "Traceback" in chat("agents:nothing", "--debug").err


def test_an_agent_that_says_nothing_is_done() -> None:
    assert (chat("agents:silent").out, chat("agents:silent").exit_code) == ("", 0)


def test_a_failure_in_the_background_is_told() -> None:
    done = chat("agents:loses_a_task")
    assert done.err == "the agent failed in the background: ValueError: lost\n"
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere_at_all:agent"], "tailrace: there is no module 'nowhere_at_all'."),
        (["agents:nothing"], "tailrace: agents has no 'nothing'."),
        (["agents:plain"], "tailrace: agents:plain is a plain function."),
        (["nobody"], "tailrace: there is no runtime 'nobody'."),
        (["agents:echo", "--fast"], "tailrace: --fast is for the demo agent"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_ends_with_2(arguments: list[str], said: str) -> None:
    done = chat(*arguments)
    assert (done.exit_code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_escape_sequences_are_made_visible_in_a_pipe_too() -> None:
    done = chat("agents:escapes", "--reasoning")
    for character in done.out + done.err:
        assert character in "\n\t" or (character >= " " and not "\x7f" <= character <= "\x9f")
    assert "␛]0;owned␇␛[2J\\x9b31m␍␈␀\\u202eevil\\u2066" in done.out
    assert "\\ud800the end" in done.out


def test_ten_megabytes_in_one_delta() -> None:
    done = chat("agents:huge")
    assert done.out == "x" * 10_000_000 + "\nthe end\n"


def test_a_million_empty_deltas() -> None:
    assert chat("agents:empties").out == "the end\n"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii:strict"])
def test_an_output_that_is_not_utf8(encoding: str) -> None:
    done = chat("agents:wide", PYTHONIOENCODING=encoding)
    assert done.out.startswith("\\u65e5\\u672c")
    assert "\n+ grep: " in done.out
    assert (done.exit_code, done.err) == (0, "")


@pytest.mark.parametrize("options", ["agents:endless", "agents:endless --json"])
def test_a_reader_that_leaves_ends_the_command_quietly(options: str) -> None:
    done = in_shell(f"echo go | chat {options} | head -c 10")
    assert (len(done.out), done.err) == (10, "")
    assert done.exit_code == 1


def test_closed_standard_streams_are_no_reason_to_fail() -> None:
    assert in_shell("chat agents:echo <&-").exit_code == 0
    assert in_shell("echo go | chat agents:echo >&-").exit_code == 0
    done = in_shell("echo go | chat agents:raises 2>&-")
    assert (done.out, done.exit_code) == ("so far so good\n\n", 1)


def test_an_output_that_takes_nothing_is_told_in_a_line() -> None:
    done = in_shell("echo go | chat agents:echo > /dev/full")
    assert done.err == "tailrace: [Errno 28] No space left on device\n"
    assert done.exit_code == 1


def test_json_is_canonical_events_and_nothing_else() -> None:
    done = chat("--fast", "--json", said=b"one\ntwo\n")
    events = [decode_event(line) for line in done.out.splitlines()]
    assert len(events) == len(done.events)
    types = [event["type"] for event in done.events]
    end = types.index("turn_completed") + 1
    assert types[:end] == types[end:]
    assert types[0] == "turn_started"
    starts = [event for event in done.events if event["type"] == "turn_started"]
    assert len({event["turn_id"] for event in starts}) == 2
    assert len({event["session_id"] for event in starts}) == 1
    assert done.exit_code == 0


def test_json_has_what_the_agent_prints_beside_it() -> None:
    done = chat("agents:prints", "--json")
    assert [event["type"] for event in done.events] == ["turn_started", "text_delta", "turn_completed"]
    assert done.err == "a line of its own\n"


def test_json_replaces_what_it_cannot_carry() -> None:
    text, tool = chat("agents:surrogates", "--json").events[1:3]
    assert text["text"] == "half \ufffd here"
    assert tool["arguments"] == {"\ufffd": ["\ufffd"]}
    assert chat("agents:odd_keys", "--json").events[1]["arguments"] == {"(1, 2)": {"3": 4}}


@pytest.mark.parametrize(
    ("agent", "code"), [("raises", "runtime_raised"), ("garbage", "not_an_event"), ("not_json", "not_json")]
)
def test_json_tells_of_a_failed_turn(agent: str, code: str) -> None:
    done = chat(f"agents:{agent}", "--json")
    assert done.events[-1]["type"] == "turn_failed"
    assert done.events[-1]["code"] == code
    assert done.exit_code == 1


def test_json_keeps_what_comes_late() -> None:
    types = [event["type"] for event in chat("agents:late", "--json").events]
    assert types == ["turn_started", "tool_started", "turn_completed", "tool_finished"]


def test_ctrl_c_in_a_pipe_stops_the_turn_and_the_rest() -> None:
    with default_sigint():
        process = subprocess.Popen(
            [TAILRACE, "chat", "agents:waits"], cwd=AGENTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"go\necho\n")
    process.stdin.close()
    assert process.stdout.readline() == b"begun\n"
    assert process.stdout.readline() == b"waiting\n"
    process.send_signal(2)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert rest.split() == [b"closed", b"by", b"cancellation", b"cancelled"]
