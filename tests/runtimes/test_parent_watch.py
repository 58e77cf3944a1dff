"""A process that runs an agent is killed, and the agent goes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.runtimes.parent_watch import ParentWatch
from tailrace.runtimes.process_tree import ProcessTree

# Whoever is asked writes the name of the signal into the pipe, which it holds open as long as it lives.
ASKED = """\
import os, signal, sys, time
pipe = os.open(sys.argv[1], os.O_WRONLY)
def asked(number, frame):
    os.write(pipe, signal.Signals(number).name.encode() + b" ")
    if sys.argv[2] == "yields":
        sys.exit()
signal.signal(signal.SIGINT, asked)
signal.signal(signal.SIGTERM, asked)
print("ready", flush=True)
while True:
    time.sleep(600)
"""
RUNS_IT = """\
import asyncio, sys
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts

async def run():
    command = (sys.executable, "-I", "-S", "-c", sys.argv[1], *sys.argv[2:])
    async with AgentProcess(command, timeouts=ProcessTimeouts(grace_s=0.05)) as process:
        async for line in process.lines():
            print(line.decode(), flush=True)

asyncio.run(run())
"""


@pytest.mark.parametrize(("manner", "heard"), [("yields", b"SIGINT "), ("ignores", b"SIGINT SIGTERM ")])
def test_an_agent_is_asked_told_and_killed_when_whoever_runs_it_is_killed(
    tmp_path: Path, manner: str, heard: bytes
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    runs_it = (sys.executable, "-c", RUNS_IT, ASKED, str(pipe), manner)
    with subprocess.Popen(runs_it, stdout=subprocess.PIPE) as runner, os.fdopen(reading, "rb") as told:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        runner.kill()
        assert told.read() == heard  # its end is the end of all who could write
    assert runner.returncode == -signal.SIGKILL


def test_one_who_left_the_group_of_an_agent_is_killed_too_when_whoever_runs_it_is_killed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    leaves = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{ASKED}"
    agent = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {leaves!r}, *sys.argv[1:]])"
    runs_it = (sys.executable, "-c", RUNS_IT, f"{agent}; time.sleep(600)", str(pipe), "ignores")
    with subprocess.Popen(runs_it, stdout=subprocess.PIPE) as runner, os.fdopen(reading, "rb") as told:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        runner.kill()
        assert told.read() == b""  # nobody asked it, and it is gone


def test_one_that_is_let_go_signals_nobody_and_is_gone() -> None:
    with subprocess.Popen(("sleep", "600"), start_new_session=True) as watched:
        before = children()
        watch = ParentWatch(watched.pid, ProcessTree(), grace_s=0)
        assert len(children() - before) == 1
        watch.close()
        watch.close()
        assert watched.poll() is None
        assert children() == before
        watched.kill()


def children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text().split())
