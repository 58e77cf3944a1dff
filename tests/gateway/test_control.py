"""The control socket: who can connect, what is refused, and what happens when a client or a gateway ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tailrace.delivery.operator import Purge, Resend, Resume
from tailrace.errors import CommandRefused, GatewayNotRunning, UsageError
from tailrace.gateway.control import (
    MAX_CLIENTS,
    MAX_REQUEST_BYTES,
    Approve,
    ControlClient,
    ControlServer,
    Revoke,
    control_path,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from tailrace.gateway.control import Handler, Report, Request

PROCESS = Path(__file__).with_name("control_process.py")


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: that of a test can be too long for a socket."""
    return tmp_path_factory.mktemp("c") / "control.sock"


@contextmanager
def listening(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that listens at the path."""
    with subprocess.Popen([sys.executable, PROCESS, path], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield process
        finally:
            process.kill()


async def approve(request: Approve, report: Report) -> str:
    for step in range(2):
        report(step)
    return request.code


async def fail(request: Revoke, _: Report) -> None:
    if request.person == "bug":
        raise ZeroDivisionError("secret details")
    if request.person == "disk":
        raise OSError("the disk is gone")
    raise CommandRefused(f"{request.person} is unknown, see https://me:hunter2@example.org")


HANDLERS: Mapping[type[Request], Handler] = {Approve: approve, Revoke: fail}


@asynccontextmanager
async def server(
    path: Path, handlers: Mapping[type[Request], Handler] = HANDLERS, *, deadline_s: float = 10.0
) -> AsyncIterator[ControlServer]:
    started = ControlServer(path, handlers, deadline_s=deadline_s)
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


async def answer_to(path: Path, request: bytes) -> dict[str, Any]:
    """The last line that the gateway answers to these bytes."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    line = await reader.readline()
    assert await reader.read() == b""
    writer.close()
    answer: dict[str, Any] = msgspec.json.decode(line)
    return answer


def test_a_request_gets_its_progress_and_its_result(path: Path) -> None:
    async def check() -> None:
        steps: list[int] = []
        async with server(path):
            client = ControlClient(path)
            result = await client.ask(Approve(code="ABC\n\u2028 é"), str, progress=int, report=steps.append)
            assert (result, steps) == ("ABC\n\u2028 é", [0, 1])
            assert await client.ask(Approve(code="again"), str) == "again"

    asyncio.run(check())


def test_a_request_can_be_refused(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with server(path):
            client = ControlClient(path)
            with pytest.raises(CommandRefused, match="telegram:1 is unknown") as refusal:
                await client.ask(Revoke(person="telegram:1"), type(None))
            assert "hunter2" not in str(refusal.value)
            for person in ("bug", "disk"):
                with pytest.raises(CommandRefused, match="its log says why"):
                    await client.ask(Revoke(person=person), type(None))
            with pytest.raises(UsageError, match="does not answer 'resume'"):
                await client.ask(Resume(), type(None))
            with pytest.raises(UsageError, match="choose fewer"):
                await client.ask(Resend(ids=("x" * MAX_REQUEST_BYTES,)), type(None))

    asyncio.run(check())
    assert len([record for record in caplog.records if record.exc_info]) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\0\n",
        b"null\n",
        b"[]\n",
        b'{"verb":"approve"}\n',
        b'{"verb":"approve","code":7}\n',
        b'{"verb":"approve","code":"A","more":1}\n',
        b'{"verb":"reboot"}\n',
        b'{"verb":"purge","query":{"states":["gone"]}}\n',
        b'{"verb":"resend","ids":["a"],"more":1}\n',
        b"[" * 100_000 + b"\n",
        b"x" * (MAX_REQUEST_BYTES + 1),
    ],
)
def test_garbage_gets_an_error_and_does_not_disturb_others(path: Path, garbage: bytes) -> None:
    async def check() -> None:
        async with server(path, {Approve: approve, Purge: approve, Resend: approve}):
            answer = await answer_to(path, garbage)
            assert (answer["answer"], answer["is_usage"]) == ("refused", True)
            assert len(answer["message"]) < 300
            assert await ControlClient(path).ask(Approve(code="A"), str) == "A"

    asyncio.run(check())


def test_a_client_that_sends_half_a_request_and_ends_is_forgotten(path: Path) -> None:
    async def check() -> None:
        async with server(path):
            for sent in (b"", b'{"verb":'):
                _reader, writer = await asyncio.open_unix_connection(path)
                writer.write(sent)
                writer.close()
            assert await ControlClient(path).ask(Approve(code="A"), str) == "A"

    asyncio.run(check())


def test_a_client_that_sends_nothing_gets_an_answer_after_the_deadline(path: Path) -> None:
    async def check() -> None:
        async with server(path, deadline_s=0.01):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b'{"verb"')
            assert b"no complete request" in await reader.read()
            writer.close()

    asyncio.run(check())


def test_a_handler_is_cancelled_if_its_client_ends(path: Path) -> None:
    async def check() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def wait(_request: Approve, _: Report) -> None:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cancelled.set()

        async with server(path, {Approve: wait}):
            asking = asyncio.ensure_future(ControlClient(path).ask(Approve(code="A"), str))
            await begun.wait()
            asking.cancel()
            await cancelled.wait()

    asyncio.run(check())


def test_too_many_clients_are_refused(path: Path) -> None:
    async def check() -> None:
        release = asyncio.Event()
        waiting = 0

        async def wait(_request: Approve, report: Report) -> None:
            report("taken")
            await release.wait()

        async with server(path, {Approve: wait}):
            taken: asyncio.Queue[str] = asyncio.Queue()
            ask = ControlClient(path).ask
            asking = [
                asyncio.ensure_future(ask(Approve(code="A"), type(None), progress=str, report=taken.put_nowait))
                for _ in range(MAX_CLIENTS)
            ]
            while waiting < MAX_CLIENTS:
                await taken.get()
                waiting += 1
            with pytest.raises(CommandRefused, match="too many"):
                await ask(Approve(code="A"), type(None))
            release.set()
            await asyncio.gather(*asking)

    asyncio.run(check())


def test_a_gateway_that_ends_or_does_not_answer_is_an_error(path: Path) -> None:
    async def check() -> None:
        begun = asyncio.Event()

        async def wait(_request: Approve, _: Report) -> None:
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with server(path, {Approve: wait}) as started:
            asking = asyncio.ensure_future(ControlClient(path).ask(Approve(code="A"), str))
            await begun.wait()
            with pytest.raises(CommandRefused, match="did not answer"):
                await ControlClient(path).ask(Approve(code="A"), str, within_s=0.0)
            await started.stop()
            with pytest.raises(CommandRefused, match="ended before it had answered"):
                await asking
        with pytest.raises(GatewayNotRunning):
            await ControlClient(path).ask(Approve(code="A"), str)

    asyncio.run(check())


def test_only_the_owner_can_connect_whatever_the_umask(path: Path) -> None:
    async def check() -> None:
        within = path.parent / "made" / "control.sock"
        async with server(within):
            assert within.stat().st_mode & 0o777 == 0o600
            assert within.parent.stat().st_mode & 0o777 == 0o700
        assert not within.exists()

    umask = os.umask(0)
    try:
        asyncio.run(check())
    finally:
        os.umask(umask)


async def ask(path: Path, code: str = "A") -> str:
    return await ControlClient(path).ask(Approve(code=code), str)


async def start_and_ask(path: Path) -> str:
    async with server(path):
        return await ask(path)


def test_a_second_gateway_is_refused_until_the_first_is_killed(path: Path) -> None:
    with listening(path) as first:
        with pytest.raises(CommandRefused, match=f"already running: process {first.pid} listens"):
            asyncio.run(start_and_ask(path))
        assert asyncio.run(ask(path, "first")) == "first"
        first.kill()
        first.wait()
        assert path.is_socket()
        with pytest.raises(GatewayNotRunning):
            asyncio.run(ask(path))
        assert asyncio.run(start_and_ask(path)) == "A"
        assert not path.exists()


def test_a_path_that_cannot_be_a_socket_is_refused_and_nothing_is_removed(path: Path) -> None:
    path.write_text("notes")
    with pytest.raises(UsageError, match="cannot be made: another file is there"):
        asyncio.run(start_and_ask(path))
    with pytest.raises(GatewayNotRunning):
        asyncio.run(ask(path))
    assert path.read_text() == "notes"
    path.unlink()
    assert asyncio.run(start_and_ask(path)) == "A"  # the lock is free again
    long = path.parent / ("x" * 100) / "control.sock"
    with pytest.raises(UsageError, match=r"bytes, and a socket allows 100: choose a shorter data_dir"):
        asyncio.run(start_and_ask(long))
    with pytest.raises(GatewayNotRunning):
        asyncio.run(ask(long))


def test_the_socket_is_beside_the_ledger_or_in_the_data_directory(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    assert control_path(ledger=tmp_path / "my.db", data_dir=folder, control=folder) == tmp_path / "my.db.sock"
    assert control_path(ledger=None, data_dir=folder, control=None) == folder / "control.sock"
    assert control_path(ledger=None, data_dir=folder, control=tmp_path / "c") == tmp_path / "c"
    assert control_path(ledger=None, data_dir=None, control=None).name == "control.sock"
