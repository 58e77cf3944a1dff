"""Commands as processes: their lines, their ends, and that no process is left, however they end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tracemalloc
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_agents import is_running

from tailrace.errors import AgentNotFound
from tailrace.runtimes.process import MAX_LINE_BYTES, AgentProcess, ProcessTimeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DEAF = """\
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
TIDY = """\
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(600)
"""
WITH_A_CHILD = """\
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session={apart})
print(child.pid, flush=True)
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def groups() -> set[int]:
    """The process groups of all processes that run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it has ended since it was listed
        if state not in "ZX":  # dead, but not reaped
            found.add(int(group))
    return found


@asynccontextmanager
async def group_is_gone_after(process: AgentProcess) -> AsyncIterator[AgentProcess]:
    """Run it, and check that its group is empty afterwards."""
    try:
        async with process:
            yield process
    finally:
        assert process.pid not in groups()


async def lines_of(process: AgentProcess) -> list[bytes]:
    return [line async for line in process.lines()]


def outcome(*command: str, drain_timeout_s: float = 0.5) -> tuple[list[bytes], int, str]:
    """The lines of a command, its exit code, and the end of its stderr."""

    async def run() -> tuple[list[bytes], int, str]:
        async with group_is_gone_after(
            AgentProcess(command, timeouts=ProcessTimeouts(drain_timeout_s=drain_timeout_s))
        ) as process:
            lines = await lines_of(process)
            return lines, await process.wait(), process.stderr_tail

    return asyncio.run(run())


GARBAGE = bytes(byte for byte in range(256) if byte not in b"\r\n")


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (r"print('{\"a\": 1}\r\n\n  \n{\"b\": 2}')", [b'{"a": 1}', b'{"b": 2}']),
        (f"import sys; sys.stdout.buffer.write({GARBAGE!r} + b'\\n{{half')", [GARBAGE, b"{half"]),
    ],
    ids=["line ends and blank lines", "garbage and half a line"],
)
def test_lines_come_without_their_ends(code: str, lines: list[bytes]) -> None:
    assert outcome(*python(code))[:2] == (lines, 0)


def test_line_of_twenty_megabytes_comes_whole() -> None:
    lines, _, _ = outcome(*python("print('x' * 20_000_000); print('y' * 20_000_000, end='')"))
    assert [(line[:1], len(line)) for line in lines] == [(b"x", 20_000_000), (b"y", 20_000_000)]


def test_endless_line_is_refused() -> None:
    async def run() -> tuple[list[bytes], str]:
        async with AgentProcess(python(f"print('a'); print('x' * {MAX_LINE_BYTES + 1_000_000})")) as process:
            return [line async for line in process.lines()], await process.exit_error()

    lines, error = asyncio.run(run())
    assert lines == [b"a"]
    assert error.endswith("wrote a line of more than 64 MiB.")


def test_silent_process_is_given_up_unless_it_may_be_silent() -> None:
    async def run() -> tuple[list[bytes], list[bytes], str]:
        excuses = iter((True, True, False))
        command = python("print('a', flush=True); import time; time.sleep(600)")
        async with AgentProcess(command, timeouts=ProcessTimeouts(silence_timeout_s=0.05)) as process:
            process.may_be_silent = lambda: next(excuses)
            lines = [line async for line in process.lines()]
            return lines, list(map(str.encode, map(str, excuses))), await process.exit_error()

    lines, excuses_left, error = asyncio.run(run())
    assert (lines, excuses_left) == ([b"a"], [])
    assert error.endswith("was silent for 0.05 seconds and was stopped.")


def test_flood_on_stderr_blocks_nothing_and_its_end_is_kept() -> None:
    flood = "import sys; sys.stderr.write('noise ' * 1_000_000 + 'the last words\\n'); print('done')"
    tracemalloc.start()
    try:
        lines, code, tail = outcome(*python(flood))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (lines, code) == ([b"done"], 0)
    assert tail.endswith("noise the last words")
    assert len(tail) < 10_000
    assert most < 2_000_000, "the flood is six megabytes, and is not kept"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (python("raise SystemExit(3)"), 3),
        (python("import os; os.kill(os.getpid(), 9)"), -signal.SIGKILL),
    ],
)
def test_exit_code_of_a_process_that_exits_at_once(command: tuple[str, ...], code: int) -> None:
    assert outcome(*command) == ([], code, "")


def test_input_is_written_line_by_line_and_closed() -> None:
    async def run() -> list[bytes]:
        async with group_is_gone_after(AgentProcess(("cat",))) as process:
            await process.write(b"one")
            await process.write("zwölf".encode())
            process.close_input()
            process.close_input()
            return await lines_of(process)

    assert asyncio.run(run()) == [b"one", "zwölf".encode()]


def test_writing_to_a_process_that_has_exited_raises_nothing() -> None:
    async def run() -> int:
        async with group_is_gone_after(AgentProcess(("true",))) as process:
            await process.wait()
            for _ in range(10):
                await process.write(b"x" * 100_000)
            process.close_input()
            return await process.wait()

    assert asyncio.run(run()) == 0


def test_environment_and_directory(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        code = python("import os; print(os.environ['PATH'] != '', os.environ['ADDED'], os.getcwd())")
        async with group_is_gone_after(AgentProcess(code, env={"ADDED": "this"}, cwd=str(tmp_path))) as process:
            return await lines_of(process)

    assert asyncio.run(run()) == [f"True this {tmp_path}".encode()]


@pytest.mark.parametrize(
    ("command", "cwd", "message"),
    [
        (("no-such-agent",), None, r"^there is no command 'no-such-agent'\. Install it with: fetch no-such-agent$"),
        (("{folder}/plain.txt",), None, r"plain\.txt cannot be started: Permission denied\. Install"),
        (("true",), "{folder}/nowhere", r"true cannot be started in .*/nowhere: there is no such directory\.$"),
        (("true", "\0"), None, r"true cannot be started: embedded null byte\. Install"),
    ],
    ids=["missing", "no program", "no directory", "null byte"],
)
def test_command_that_cannot_be_started_says_why(
    command: tuple[str, ...], cwd: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "plain.txt").write_text("no program")
    words = [word.format(folder=tmp_path) for word in command]
    directory = cwd.format(folder=tmp_path) if cwd else None

    async def run() -> None:
        async with AgentProcess(words, cwd=directory, missing="Install it with: fetch no-such-agent"):
            pass

    with pytest.raises(AgentNotFound, match=message):
        asyncio.run(run())


def exit_code_after(code: str, leave: Callable[[AgentProcess], Awaitable[None]], *, grace_s: float) -> int:
    """The exit code of a process that is left after its first line."""

    async def run() -> int:
        async with group_is_gone_after(AgentProcess(python(code), grace_s=grace_s)) as process:
            async for _ in process.lines():
                break
            await leave(process)
            return await process.wait()

    return asyncio.run(run())


async def stop_twice(process: AgentProcess) -> None:
    await process.stop()
    await process.stop()


async def cancel_the_stop(process: AgentProcess) -> None:
    stopping = asyncio.create_task(process.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait({stopping})
    assert stopping.cancelled()


IGNORES_SIGINT = DEAF.replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL")
CHATTY = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nwhile True: print('x' * 1000, flush=True)"
WITH_CHILD = TIDY.replace("print", WITH_A_CHILD.format(apart=False) + "print")


@pytest.mark.parametrize(
    ("code", "leave", "grace_s", "exit_code"),
    [
        (TIDY, AgentProcess.stop, 30.0, 7),
        (WITH_CHILD, AgentProcess.stop, 30.0, 7),
        (IGNORES_SIGINT, AgentProcess.stop, 0.05, -signal.SIGTERM),
        (DEAF, AgentProcess.stop, 0.05, -signal.SIGKILL),
        (DEAF, stop_twice, 0.05, -signal.SIGKILL),
        (DEAF, cancel_the_stop, 30.0, -signal.SIGKILL),
        (CHATTY, AgentProcess.stop, 30.0, -signal.SIGINT),
    ],
    ids=[
        "yields to SIGINT",
        "and has a child",
        "to SIGTERM",
        "to nothing",
        "stopped twice",
        "stop cancelled",
        "unread",
    ],
)
def test_stop_sends_harsher_signals_until_the_process_exits(
    code: str, leave: Callable[[AgentProcess], Awaitable[None]], grace_s: float, exit_code: int
) -> None:
    assert exit_code_after(code, leave, grace_s=grace_s) == exit_code


def test_cancelled_reader_leaves_no_process() -> None:
    async def run() -> None:
        reached = asyncio.Event()

        async def read() -> None:
            async with group_is_gone_after(AgentProcess(python(DEAF), grace_s=0.05)) as process:
                async for _ in process.lines():
                    reached.set()

        reading = asyncio.create_task(read())
        await reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(run())


@pytest.mark.parametrize("apart", [False, True], ids=["in the group", "outside"])
def test_child_that_holds_the_output_open_is_ended(apart: bool) -> None:
    lines, code, _ = outcome(*python(WITH_A_CHILD.format(apart=apart)), drain_timeout_s=0.1)
    assert code == 0
    assert not is_running(int(lines[0]))


@pytest.mark.parametrize("environment", ["None", "{}"], ids=["its own", "none"])
def test_tool_outside_the_group_is_killed_with_the_process(environment: str) -> None:
    tools: list[int] = []

    async def run() -> None:
        child = WITH_A_CHILD.format(apart=f"True, env={environment}")
        deaf = DEAF.replace('print("ready", flush=True)', child)
        async with group_is_gone_after(AgentProcess(python(deaf), grace_s=0.05)) as process:
            async for line in process.lines():
                tools.append(int(line))
                break
            assert is_running(tools[0])

    asyncio.run(run())
    assert not is_running(tools[0])


ORPHAN = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if (child := os.fork()) == 0:
        time.sleep(600)
    print(child, flush=True)
    os._exit(0)
os.wait()
"""


def assert_orphan_is_ended(agent: AgentProcess) -> None:
    """The command prints the process id of its orphan, which does not run any more when the turn is over."""
    orphans: list[int] = []

    async def run() -> None:
        async with group_is_gone_after(agent) as process:
            async for line in process.lines():
                if not line.isdigit():
                    break
                orphans.append(int(line))

    asyncio.run(run())
    assert len(orphans) == 1
    assert not is_running(orphans[0])


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", TIDY, DEAF], ids=["well", "badly", "asked", "deaf"])
def test_orphan_is_ended_however_the_command_ends(end: str) -> None:
    assert_orphan_is_ended(AgentProcess(python(ORPHAN + end), grace_s=0.2))


def test_orphan_of_a_nested_agent_is_ended_too() -> None:
    inner = (
        "import asyncio, sys\nfrom tailrace.runtimes.process import AgentProcess, ProcessTimeouts\n"
        f"""
async def run():
    command = (sys.executable, '-I', '-S', '-c', {ORPHAN + DEAF!r})
    async with AgentProcess(command, grace_s=0) as process:
        async for line in process.lines():
            print(line.decode(), flush=True)
asyncio.run(run())
"""
    )
    assert_orphan_is_ended(AgentProcess((sys.executable, "-c", inner), grace_s=0))


def test_exit_error_leaves_out_the_backtrace() -> None:
    words = "Error: no such setting\\n\\nStack backtrace:\\n   0: <unknown>"

    async def end() -> str:
        async with AgentProcess(python(f"import sys; sys.stderr.write('{words}'); sys.exit(1)")) as process:
            return await process.exit_error()

    assert asyncio.run(end()) == f"{sys.executable} exited with code 1: Error: no such setting"


BREEDING = """\
import os, time
print("ready", flush=True)
for _ in range(500):
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(0.001)
time.sleep(600)
"""


def test_tool_that_keeps_forking_is_killed_with_all_children() -> None:
    mark = f"breed-{os.getpid()}"

    def left() -> list[str]:
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                found += [environ.parent.name] * (mark.encode() in environ.read_bytes())
            except OSError:
                continue  # it has ended, or is somebody else's
        return found

    async def begin_and_leave() -> None:
        tool = f"[sys.executable, '-I', '-S', '-c', {BREEDING!r}], start_new_session=True"
        inner = f"import subprocess, sys; subprocess.run({tool})"
        async with AgentProcess(python(inner), env={"MARK": mark}, grace_s=0) as process:
            async for _ in process.lines():
                break

    asyncio.run(begin_and_leave())
    assert left() == []


def test_process_that_never_reads_its_input_is_given_up() -> None:
    async def tell() -> tuple[list[bytes], str]:
        code = "import time; print('ready', flush=True); time.sleep(600)"
        async with group_is_gone_after(
            AgentProcess(python(code), timeouts=ProcessTimeouts(silence_timeout_s=0.2), grace_s=0.1)
        ) as process:
            await process.write(b"x" * 1_000_000)
            return await lines_of(process), await process.exit_error()

    lines, words = asyncio.run(tell())
    assert lines == []
    assert words.endswith("read none of its input for 0.2 seconds and was stopped.")
