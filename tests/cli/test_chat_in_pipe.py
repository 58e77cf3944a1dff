"""`tailrace chat` in a script: lines in, lines out, an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from command_runs import Done
from pseudo_terminal import TAILRACE, default_sigint
from tailrace.events import decode_event

AGENTS = Path(__file__).parent.parent / "agents"


def chat(*arguments: str, given: bytes = b"hello\n") -> Done:
    command = [TAILRACE, "chat", *arguments]
    return result(subprocess.run(command, input=given, cwd=AGENTS, capture_output=True, check=False, timeout=60))


def in_shell(script: str) -> Done:
    """Run a line of shell in which `chat` is `tailrace chat`."""
    prepared = f'set -o pipefail; chat() {{ "{TAILRACE}" chat "$@"; }}; {script}'
    return result(subprocess.run(["bash", "-c", prepared], cwd=AGENTS, capture_output=True, check=False, timeout=60))


def result(done: subprocess.CompletedProcess[bytes]) -> Done:
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_demo_answers_a_line() -> None:
    done = chat("--fast")
    assert done.exit_code == 0
    assert done.out.startswith("Hello! You wrote “hello”.\n")
    assert done.out.endswith("What shall we carry next?\n")
    assert done.err == "error: tides.example does not answer, I ask once more (unreachable)\n"
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("agent", "given", "out"),
    [
        pytest.param(
            "echo",
            b"one\n\n  \r\n/help\nquit",
            "you said 'one'\nyou said '/help'\nyou said 'quit'\n",
            id="each line that is not blank is a prompt",
        ),
        pytest.param("echo", b"", "", id="no input is no turn"),
        pytest.param("echo", b"a\xff\xfe\x00b\n", "you said 'a\ufffd\ufffd\\x00b'\n", id="no UTF-8 is replaced"),
        pytest.param("silent", b"hello\n", "", id="an agent may say nothing"),
        pytest.param("empties", b"hello\n", "the end\n", id="very many empty deltas"),
        pytest.param("huge", b"hello\n", "x" * 10_000_000 + "\nthe end\n", id="ten megabytes in one delta"),
    ],
)
def test_answers_of_an_agent(agent: str, given: bytes, out: str) -> None:
    done = chat(f"agents:{agent}", given=given)
    assert (done.exit_code, done.err) == (0, "")
    assert done.out == out


def test_all_lines_are_of_one_session() -> None:
    first, second = chat("agents:sessions", given=b"1\n2\n").out.splitlines()
    assert first == second
    assert len(first) == len("session ") + 32


@pytest.mark.parametrize(
    ("agent", "err"),
    [
        pytest.param("warns", "one␛[2J\ntwo\n", id="log records of its libraries"),
        pytest.param("loses_a_task", "the agent failed in the background: ValueError: lost\n", id="a lost task"),
    ],
)
def test_warnings_of_the_agent_go_to_standard_error(agent: str, err: str) -> None:
    done = chat(f"agents:{agent}")
    assert (done.exit_code, done.err) == (0, err)
    assert "[2J" not in done.out


@pytest.mark.parametrize(
    ("agent", "out", "err"),
    [
        ("exits", "about to leave\n\n", "failed: RuntimeFault: the agent called sys.exit(3) (runtime_raised)\n"),
        ("raises_past_handlers", "about to break\n\n", "the agent raised PastHandlers: nobody catches this"),
        ("cancels_itself", "about to stop\n\n", "something the agent waited for was cancelled"),
        ("not_json", "", "(not_json)\n"),
    ],
)
def test_a_failing_turn_fails_the_command(agent: str, out: str, err: str) -> None:
    done = chat(f"agents:{agent}")
    assert (done.exit_code, done.out) == (1, out)
    assert err in done.err
    assert "Traceback" not in done.err


def test_an_error_shows_its_line_and_the_next_prompt_is_answered() -> None:
    done = chat("agents:raises", given=b"bad\nfine\n")
    assert (done.exit_code, done.out) == (1, "so far so good\n\nso far so good\n")
    source = (AGENTS / "agents.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "no luck" in text)
    assert done.err == (
        f"failed: ValueError: no luck␛[31m (runtime_raised)\nraised at agents.py:{line}; --debug shows the traceback\n"
    )


def test_debug_shows_tracebacks() -> None:
    done = chat("agents:raises", "--debug")
    assert "Traceback" in done.err
    assert "agents.py" in done.err
    assert "\x1b" not in done.err
    assert "--debug" not in done.err
    assert "Traceback" in chat("agents:nothing", "--debug").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere_at_all:agent"], "there is no module 'nowhere_at_all'."),
        (["nobody"], "there is no agent 'nobody'. For what an agent can be: tailrace chat --help"),
        (["agents:echo", "--fast"], "--fast works only with the demo agent"),
        (["--no-such-option"], "no such option: --no-such-option. For help: tailrace chat --help"),
        (["demo", "more"], "got unexpected extra argument(s) (more). For help: tailrace chat --help"),
        (["demo", "--permissions", "maybe"], "invalid value for '--permissions': 'maybe' is not one of 'ask', 'allow'"),
        (
            ["agents:echo", "--permissions", "ask"],
            "--permissions has no effect here: agents:echo, an async generator function, never asks for permission.",
        ),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    done = chat(*arguments)
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"tailrace: {message}")


def test_escape_sequences_are_made_visible() -> None:
    done = chat("agents:escapes", "--reasoning")
    for character in done.out + done.err:
        assert character in "\n\t" or (character >= " " and not "\x7f" <= character <= "\x9f")
    assert "␛]0;owned␇␛[2J\\x9b31m␍␈␀\\u202eevil\\u2066" in done.out
    assert "\ufffdthe end" in done.out


@pytest.mark.parametrize("options", ["agents:endless", "agents:endless --json"])
def test_a_reader_that_closes_the_pipe_ends_the_command_quietly(options: str) -> None:
    done = in_shell(f"echo go | chat {options} | head -c 10")
    assert (len(done.out), done.err) == (10, "")
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("script", "out", "err", "exit_code"),
    [
        ("chat agents:echo <&-", "", "", 0),
        ("echo go | chat agents:echo >&-", "", "", 0),
        ("echo go | chat agents:raises 2>&-", "so far so good\n\n", "", 1),
        ("echo go | chat agents:echo > /dev/full", "", "tailrace: [Errno 28] No space left on device\n", 1),
    ],
)
def test_closed_and_full_standard_streams(script: str, out: str, err: str, exit_code: int) -> None:
    done = in_shell(script)
    assert (done.out, done.err, done.exit_code) == (out, err, exit_code)


def test_json_is_events_and_nothing_else() -> None:
    done = chat("agents:raises", "--json", given=b"bad\nfine\n")
    assert [decode_event(line) for line in done.out.splitlines()]
    types = [event["type"] for event in done.objects]
    turn = ["turn_started", "text_delta"]
    assert types == [*turn, "turn_failed", *turn, "turn_completed"]
    starts = [event for event in done.objects if event["type"] == "turn_started"]
    assert len({event["turn_id"] for event in starts}) == 2
    assert len({event["session_id"] for event in starts}) == 1
    assert done.exit_code == 1


def test_json_keeps_what_the_agent_prints_out_of_the_output() -> None:
    done = chat("agents:prints", "--json")
    assert [event["type"] for event in done.objects] == ["turn_started", "text_delta", "turn_completed"]
    assert done.err == "a line of its own\n"


def test_json_replaces_surrogates_and_keys_that_are_not_text() -> None:
    text, tool = chat("agents:surrogates", "--json").objects[1:3]
    assert text["text"] == "half \ufffd here"
    assert tool["arguments"] == {"\ufffd": ["\ufffd"]}
    assert chat("agents:odd_keys", "--json").objects[1]["arguments"] == {"(1, 2)": {"3": 4}}


def test_json_keeps_events_that_come_after_the_end() -> None:
    types = [event["type"] for event in chat("agents:late", "--json").objects]
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
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert rest.split() == [b"closed", b"by", b"cancellation", b"cancelled"]


def test_ctrl_c_while_the_command_loads_shows_no_traceback() -> None:
    pipe, env = subprocess.PIPE, {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    with default_sigint():
        process = subprocess.Popen([TAILRACE, "chat"], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    with process:
        assert process.stderr is not None
        assert any(line.endswith(b" typer\n") for line in process.stderr), "typer is loaded before the commands"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in err
