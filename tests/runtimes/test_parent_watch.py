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


@pytest.mark.parametrize(("manner", "expected"), [("yields", b"SIGINT "), ("ignores", b"SIGINT SIGTERM ")])
def test_agent_is_signalled_and_killed_when_its_runner_is_killed(tmp_path: Path, manner: str, expected: bytes) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    runner_command = (sys.executable, "-c", RUNNER, AGENT, str(pipe), manner)
    with subprocess.Popen(runner_command, stdout=subprocess.PIPE) as runner, os.fdopen(reading, "rb") as signals:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        runner.kill()
        assert signals.read() == expected  # EOF: no process that could write is left
    assert runner.returncode == -signal.SIGKILL


def test_process_outside_the_group_is_killed_with_the_runner(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    leaves = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{AGENT}"
    agent = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {leaves!r}, *sys.argv[1:]])"
    runner_command = (sys.executable, "-c", RUNNER, f"{agent}; time.sleep(600)", str(pipe), "ignores")
    with subprocess.Popen(runner_command, stdout=subprocess.PIPE) as runner, os.fdopen(reading, "rb") as signals:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        runner.kill()
        assert signals.read() == b""  # it got no signal, and is gone


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
