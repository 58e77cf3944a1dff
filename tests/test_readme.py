"""The code and the commands of the README are run and do what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pseudo_terminal import CTRL_C, TAILRACE, Person

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(language, code) for _fence, language, code in re.findall(r"(?ms)^(`{3,})(\w+)\n(.*?)^\1$", README)]


def blocks(language: str) -> list[str]:
    return [code for found, code in BLOCKS if found == language]


def outside_of_make() -> dict[str, str]:
    """The environment of a person who types `make`, also if make runs these tests."""
    return {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}


def printed(*command: str, cwd: Path, given: str = "", is_quiet: bool = True) -> str:
    """What a command prints that succeeds; a quiet one prints nothing to standard error."""
    env = outside_of_make()
    done = subprocess.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert not (is_quiet and done.stderr)
    return done.stdout


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def started(script: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the lines of a shell block, in a checkout with `tailrace` in `.venv`. At the end they get SIGINT."""
    with (cwd / "log").open("ab") as log:
        process = subprocess.Popen(
            ["bash", "-ec", script],
            cwd=cwd,
            env={**outside_of_make(), "XDG_DATA_HOME": str(cwd), "TMPDIR": "/tmp"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def ask(address: str, path: str, action: dict[str, Any] | None = None) -> Any:
    body = None if action is None else json.dumps(action).encode()
    request = urllib.request.Request(f"{address}/simulator/{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def until(is_reached: Callable[[], bool], log: Path) -> None:
    for _ in range(600):
        with suppress(OSError):
            if is_reached():
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (".venv/bin/tailrace run demo --channel telegram --allow '*'", "Hello! You wrote “hello you”."),
        (".venv/bin/python my_bot.py", "You wrote hello you"),
    ],
)
def test_first_bot_and_the_command_answer_on_the_simulator_as_printed(tmp_path: Path, last: str, answer: str) -> None:
    bot, (setup, commands) = blocks("python")[0], blocks("sh")[:2]
    assert len([line for line in bot.splitlines() if line.strip()]) <= 15
    (tmp_path / "my_bot.py").write_text(bot, encoding="utf-8")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    make, simulate = setup.splitlines()
    *exports, run = commands.splitlines()
    assert (make, run) == ("make setup", ".venv/bin/tailrace run demo --channel telegram --allow '*'")
    assert last == run or last in README
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    log, written = tmp_path / "log", "\n".join([*exports, last]).replace("8081", str(port))

    def texts() -> str:
        (chat,) = ask(address, "history?chat=1001")
        return "\n".join(message["text"] for message in chat["messages"] if message.get("is_bot"))

    with started(simulate.replace("8081", str(port)), tmp_path):
        until(lambda: ask(address, "history") != [], log)
        with started(written, tmp_path):
            ask(address, "act", {"do": "write", "text": "hello you"})
            until(lambda: answer in texts(), log)
    assert "ready: telegram" in log.read_text()


def test_program_is_short_and_prints_what_is_shown_below_it(tmp_path: Path) -> None:
    program, shown = blocks("python")[1], blocks("text")[0]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert printed(sys.executable, "program.py", cwd=tmp_path) == shown
    assert len([line for line in program.splitlines() if line.strip()]) <= 15


def test_agent_of_the_readme_answers(tmp_path: Path) -> None:
    agent, command = blocks("python")[2], blocks("sh")[3].split()
    (tmp_path / "my_agent.py").write_text(agent, encoding="utf-8")
    assert command[0] == ".venv/bin/tailrace"
    assert printed(TAILRACE, *command[1:], cwd=tmp_path, given="hello\n") == "You said: hello\n"


def test_make_run_answers_a_line_from_a_pipe() -> None:
    assert "make run " in blocks("sh")[2]
    answer = printed("make", "run", "CHAT=--fast", cwd=ROOT, given="hello\n", is_quiet=False)
    assert answer.startswith("Hello! You wrote “hello”.\n")
    assert answer.endswith("What shall we carry next?\n")


def test_make_run_ends_with_0_although_ctrl_c_was_pressed(tmp_path: Path) -> None:
    environment = {"MAKEFLAGS": "", "MAKELEVEL": "", "XDG_DATA_HOME": str(tmp_path)}
    with Person("make", "run", cwd=ROOT, env=environment) as person:
        person.says("hello")
        person.sees("There is no model")
        person.type(CTRL_C)
        person.sees("cancelled")
        person.is_prompted()
        person.type("never m")
        person.sees("> never m")
        person.clears_line()
        assert person.quits() == 0, person.all_text()


def test_make_setup_is_quiet_when_nothing_is_to_be_done() -> None:
    subprocess.run(["make", "setup"], cwd=ROOT, env=outside_of_make(), capture_output=True, check=True, timeout=300)
    assert printed("make", "setup", cwd=ROOT) == ""
