"""When the process that runs an agent is killed, the agent is ended too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.runtimes.parent_watch import ParentWatch
from tailrace.runtimes.process_tree import ProcessTree

# Writes the name of each signal into the pipe, which it holds open as long as it lives.
AGENT = """\
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
RUNNER = """\
import asyncio, sys
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts

async def run():
    command = (sys.executable, "-I", "-S", "-c", sys.argv[1], *sys.argv[2:])
    async with AgentProcess(command, grace_s=0.05) as process:
        async for line in process.lines():
            print(line.decode(), flush=True)

asyncio.run(run())
"""


def signals_after_the_kill(folder: Path, agent: str, manner: str) -> bytes:
    """The signals that an agent gets when its runner is killed. Returns when no process of the agent is left."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    command = (sys.executable, "-c", RUNNER, agent, str(pipe), manner)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as runner, os.fdopen(reading, "rb") as signals:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        runner.kill()
        received = signals.read()  # up to the moment when no process can write any more
    assert runner.returncode == -signal.SIGKILL
    return received


@pytest.mark.parametrize(("manner", "expected"), [("yields", b"SIGINT "), ("ignores", b"SIGINT SIGTERM ")])
def test_agent_is_killed_when_its_runner_is_killed(tmp_path: Path, manner: str, expected: bytes) -> None:
    assert signals_after_the_kill(tmp_path, AGENT, manner) == expected


def test_process_outside_the_group_is_killed_with_the_runner(tmp_path: Path) -> None:
    leaves = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{AGENT}"
    agent = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {leaves!r}, *sys.argv[1:]])"
    assert signals_after_the_kill(tmp_path, f"{agent}; time.sleep(600)", "ignores") == b"", "it gets no signal"


def test_closed_watch_signals_nobody_and_is_gone() -> None:
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
