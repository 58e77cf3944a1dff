"""The code and the commands of the README are run and do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from pseudo_terminal import CTRL_C, TAILRACE, Person

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


def test_program_is_short_and_prints_what_is_shown_below_it(tmp_path: Path) -> None:
    program, shown = blocks("python")[0], blocks("text")[0]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert printed(sys.executable, "program.py", cwd=tmp_path) == shown
    assert len([line for line in program.splitlines() if line.strip()]) <= 15


def test_agent_of_the_readme_answers(tmp_path: Path) -> None:
    agent, command = blocks("python")[1], blocks("sh")[1].split()
    (tmp_path / "my_agent.py").write_text(agent, encoding="utf-8")
    assert command[0] == ".venv/bin/tailrace"
    assert printed(TAILRACE, *command[1:], cwd=tmp_path, given="hello\n") == "You said: hello\n"


def test_make_run_answers_a_line_from_a_pipe() -> None:
    assert "make run " in blocks("sh")[0]
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
