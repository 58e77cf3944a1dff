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


def running() -> dict[int, int]:
    """The group of every process that runs, by its number; the dead whom nobody has buried yet do not run."""
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it has ended since it was listed
        if state not in "ZX":
            found[int(stat.parent.name)] = int(group)
    return found


@asynccontextmanager
async def nobody_left(process: AgentProcess) -> AsyncIterator[AgentProcess]:
    """Run it, and look for its group when it was left."""
    try:
        async with process:
            yield process
    finally:
        assert process.pid not in running().values()


async def said(process: AgentProcess) -> list[bytes]:
    return [line async for line in process.lines()]


def outcome(*command: str) -> tuple[list[bytes], int, str]:
    """What a command said on both its outputs, and how it exited."""

    async def run() -> tuple[list[bytes], int, str]:
        async with nobody_left(AgentProcess(command)) as process:
            lines = await said(process)
            return lines, await process.wait(), process.stderr_tail

    return asyncio.run(run())


def test_lines_come_without_their_ends_and_blank_ones_not_at_all() -> None:
    lines, code, _ = outcome(*python(r"print('{\"a\": 1}\r\n\n  \n{\"b\": 2}')"))
    assert lines == [b'{"a": 1}', b'{"b": 2}']
    assert code == 0


def test_garbage_is_handed_on_as_it_is() -> None:
    garbage = bytes(byte for byte in range(256) if byte not in b"\r\n")
    lines, _, _ = outcome(*python(f"import sys; sys.stdout.buffer.write({garbage!r} + b'\\n{{half')"))
    assert lines == [garbage, b"{half"]


def test_a_line_of_twenty_megabytes_comes_whole_also_without_its_end() -> None:
    lines, _, _ = outcome(*python("print('x' * 20_000_000); print('y' * 20_000_000, end='')"))
    assert [(line[:1], len(line)) for line in lines] == [(b"x", 20_000_000), (b"y", 20_000_000)]


def test_a_line_without_end_is_refused_in_clear_words() -> None:
    async def run() -> tuple[list[bytes], str]:
        async with AgentProcess(python(f"print('a'); print('x' * {MAX_LINE_BYTES + 1_000_000})")) as process:
            return [line async for line in process.lines()], await process.exit_error()

    lines, said = asyncio.run(run())
    assert lines == [b"a"]
    assert said.endswith("wrote a line of more than 64 MiB.")


def test_one_that_says_nothing_is_given_up_unless_it_has_a_reason() -> None:
    async def run() -> tuple[list[bytes], list[bytes], str]:
        excuses = iter((True, True, False))
        command = python("print('a', flush=True); import time; time.sleep(600)")
        async with AgentProcess(command, timeouts=ProcessTimeouts(silence_timeout_s=0.05)) as process:
            process.may_be_silent = lambda: next(excuses)
            lines = [line async for line in process.lines()]
            return lines, list(map(str.encode, map(str, excuses))), await process.exit_error()

    lines, excuses_left, said = asyncio.run(run())
    assert (lines, excuses_left) == ([b"a"], [])
    assert said.endswith("was silent for 0.05 seconds and was stopped.")


def test_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept() -> None:
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
    assert most < 2_000_000, "the flood is six megabytes, and nobody reads it"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (python("raise SystemExit(3)"), 3),
        (python("import os; os.kill(os.getpid(), 9)"), -signal.SIGKILL),
    ],
)
def test_one_that_exits_at_once_says_nothing_but_how(command: tuple[str, ...], code: int) -> None:
    assert outcome(*command) == ([], code, "")


def test_it_is_told_things_line_by_line_and_that_there_is_no_more() -> None:
    async def run() -> list[bytes]:
        async with nobody_left(AgentProcess(("cat",))) as process:
            await process.write(b"one")
            await process.write("zwölf".encode())
            process.close_input()
            process.close_input()
            return await said(process)

    assert asyncio.run(run()) == [b"one", "zwölf".encode()]


def test_telling_one_that_is_gone_is_harmless() -> None:
    async def run() -> int:
        async with nobody_left(AgentProcess(("true",))) as process:
            await process.wait()
            for _ in range(10):
                await process.write(b"x" * 100_000)
            process.close_input()
            return await process.wait()

    assert asyncio.run(run()) == 0


def test_its_environment_is_ours_and_what_is_added(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        code = python("import os; print(os.environ['PATH'] != '', os.environ['ADDED'], os.getcwd())")
        async with nobody_left(AgentProcess(code, env={"ADDED": "this"}, cwd=str(tmp_path))) as process:
            return await said(process)

    assert asyncio.run(run()) == [f"True this {tmp_path}".encode()]


def start(process: AgentProcess) -> None:
    async def run() -> None:
        async with process:
            pass

    asyncio.run(run())


def test_a_command_that_is_not_there_is_told_with_how_to_install_it() -> None:
    with pytest.raises(
        AgentNotFound, match=r"^there is no command 'no-such-agent'\. Install it with: fetch no-such-agent$"
    ):
        start(AgentProcess(("no-such-agent",), missing="Install it with: fetch no-such-agent"))


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("no program")
    with pytest.raises(AgentNotFound, match=r"plain\.txt cannot be started: Permission denied\.$"):
        start(AgentProcess((str(tmp_path / "plain.txt"),)))
    with pytest.raises(AgentNotFound, match=r"true cannot be started in .*/nowhere: there is no such directory\.$"):
        start(AgentProcess(("true",), cwd=str(tmp_path / "nowhere")))
    with pytest.raises(AgentNotFound, match=r"true cannot be started: embedded null byte\.$"):
        start(AgentProcess(("true", "\0")))


def exit_code_after(
    code: str, leave: Callable[[AgentProcess], Awaitable[None]] = AgentProcess.stop, *, grace_s: float = 30.0
) -> int:
    """How a process exits that is left once it has said its first line."""

    async def run() -> int:
        async with nobody_left(AgentProcess(python(code), timeouts=ProcessTimeouts(grace_s=grace_s))) as process:
            async for _ in process.lines():
                break
            await leave(process)
            return await process.wait()

    return asyncio.run(run())


def test_it_is_asked_as_by_the_keyboard_first_so_that_it_may_put_things_in_order() -> None:
    assert exit_code_after(TIDY) == 7


def test_one_that_does_not_listen_to_the_keyboard_is_told() -> None:
    assert exit_code_after(DEAF.replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL"), grace_s=0.05) == -15


def test_one_that_listens_to_nothing_is_killed() -> None:
    assert exit_code_after(DEAF, grace_s=0.05) == -signal.SIGKILL


def test_stopping_twice_is_stopping_once() -> None:
    async def twice(process: AgentProcess) -> None:
        await process.stop()
        await process.stop()

    assert exit_code_after(DEAF, twice, grace_s=0.05) == -signal.SIGKILL


def test_a_stop_that_is_cancelled_kills_at_once() -> None:
    async def cancelled(process: AgentProcess) -> None:
        stopping = asyncio.create_task(process.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait({stopping})
        assert stopping.cancelled()

    assert exit_code_after(DEAF, cancelled) == -signal.SIGKILL


def test_one_that_waits_for_a_reader_is_ended_without_one() -> None:
    chatty = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nwhile True: print('x' * 1000, flush=True)"
    assert exit_code_after(chatty) == -signal.SIGINT


def test_a_reader_that_is_cancelled_leaves_nobody_behind() -> None:
    async def run() -> None:
        reached = asyncio.Event()

        async def read() -> None:
            async with nobody_left(AgentProcess(python(DEAF), timeouts=ProcessTimeouts(grace_s=0.05))) as process:
                async for _ in process.lines():
                    reached.set()

        reading = asyncio.create_task(read())
        await reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(run())


def test_a_child_that_outlives_it_neither_keeps_the_reader_nor_stays() -> None:
    lines, code, _ = outcome(*python(WITH_A_CHILD.format(apart=False)))
    assert code == 0
    assert int(lines[0]) not in running()


def test_a_child_of_one_that_is_stopped_is_ended_too() -> None:
    parent = TIDY.replace("print", WITH_A_CHILD.format(apart=False) + "print")
    assert exit_code_after(parent) == 7


@pytest.mark.parametrize("environment", ["None", "{}"], ids=["its own", "none"])
def test_a_tool_outside_the_group_of_one_that_must_be_killed_is_killed_with_it(environment: str) -> None:
    tools: list[int] = []

    async def run() -> None:
        child = WITH_A_CHILD.format(apart=f"True, env={environment}")
        deaf = DEAF.replace('print("ready", flush=True)', child)
        async with nobody_left(AgentProcess(python(deaf), timeouts=ProcessTimeouts(grace_s=0.05))) as process:
            async for line in process.lines():
                tools.append(int(line))
                break
            assert tools[0] in running()

    asyncio.run(run())
    assert tools[0] not in running()


def test_one_who_left_the_group_and_holds_the_output_keeps_nobody_waiting_and_does_not_stay() -> None:
    lines, code, _ = outcome(*python(WITH_A_CHILD.format(apart=True)))
    assert code == 0
    assert int(lines[0]) not in running()


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


def its_orphan_is_ended(agent: AgentProcess) -> None:
    """The command tells the number of the one that it leaves behind; nobody of that number runs when it is over."""
    orphans: list[int] = []

    async def run() -> None:
        async with nobody_left(agent) as process:
            async for line in process.lines():
                if not line.isdigit():
                    break
                orphans.append(int(line))

    asyncio.run(run())
    assert len(orphans) == 1
    assert orphans[0] not in running()


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", TIDY, DEAF], ids=["well", "badly", "asked", "deaf"])
def test_one_who_left_the_family_is_ended_however_the_command_ends(end: str) -> None:
    its_orphan_is_ended(AgentProcess(python(ORPHAN + end), timeouts=ProcessTimeouts(grace_s=0.2)))


def test_those_of_an_agent_that_runs_us_are_of_it_as_well() -> None:
    inner = (
        "import asyncio, sys\nfrom tailrace.runtimes.process import AgentProcess, ProcessTimeouts\n"
        f"""
async def run():
    command = (sys.executable, '-I', '-S', '-c', {ORPHAN + DEAF!r})
    async with AgentProcess(command, timeouts=ProcessTimeouts(grace_s=0)) as process:
        async for line in process.lines():
            print(line.decode(), flush=True)
asyncio.run(run())
"""
    )
    its_orphan_is_ended(AgentProcess((sys.executable, "-c", inner), timeouts=ProcessTimeouts(grace_s=0)))


def test_last_words_leave_out_the_backtrace_of_the_program() -> None:
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


def test_a_tool_that_goes_on_beginning_others_is_killed_with_all_of_them() -> None:
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
        async with AgentProcess(python(inner), env={"MARK": mark}, timeouts=ProcessTimeouts(grace_s=0)) as process:
            async for _ in process.lines():
                break

    asyncio.run(begin_and_leave())
    assert left() == []


def test_one_that_never_reads_what_it_is_told_is_given_up() -> None:
    async def tell() -> tuple[list[bytes], str]:
        code = "import time; print('ready', flush=True); time.sleep(600)"
        async with nobody_left(
            AgentProcess(python(code), timeouts=ProcessTimeouts(grace_s=0.1, silence_timeout_s=0.5))
        ) as process:
            await process.write(b"x" * 1_000_000)
            return await said(process), await process.exit_error()

    lines, words = asyncio.run(tell())
    assert lines == []
    assert words.endswith("read none of its input for 0.5 seconds and was stopped.")
