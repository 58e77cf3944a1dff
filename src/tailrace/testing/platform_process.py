"""A simulated platform as a process of its own, whose faults are real on the socket, and what starts and asks it.

    python -m tailrace.testing.platform_process --kind keyed:300

It listens on two ports of 127.0.0.1, which it tells in its first line of output (`{"port": N, "control": M}`): one for
callers, one for the test. Both take one JSON object per line and answer each with one: callers send a `Request` and
get an `Answer`, tests send a `Control` and get a `PlatformReport`. It ends when its standard input closes or on
SIGTERM, so it never outlives the process that started it. `PlatformProcess` does all that for a test or a bench.

The platform's clock counts the seconds since the process began. Behaviour is left to `tailrace.testing.platform`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

import msgspec

from tailrace.capabilities import Capabilities
from tailrace.testing.faults import Fault, Rule, Unreachable
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import LONGEST_LINE, SimulatorAddress
from tailrace.testing.wire import (
    AddFaults,
    Clear,
    ClearFaults,
    Control,
    PlatformMessage,
    PlatformReport,
    Request,
    SetPort,
    Show,
    capabilities_of,
)

if TYPE_CHECKING:
    from types import TracebackType

_HOST = "127.0.0.1"
_PATIENCE_S = 30.0


class _Ports(msgspec.Struct, frozen=True):
    port: int
    control: int


_ENCODER = msgspec.json.Encoder()
_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_CONTROLS: msgspec.json.Decoder[Control] = msgspec.json.Decoder(Control)
_ACCOUNTS: msgspec.json.Decoder[PlatformReport] = msgspec.json.Decoder(PlatformReport)


class _Server:
    """The two doors of one platform."""

    def __init__(self, platform: SimulatedPlatform) -> None:
        self._platform = platform
        self._began = time.monotonic()
        self._changed = asyncio.Condition()
        self._callers: asyncio.Server | None = None
        # Holds the port while it refuses callers: nobody else on this machine can get it meanwhile.
        self._held = _bound_socket(0)
        self.port: int = self._held.getsockname()[1]

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until `ended`; the ports are the first line of output."""
        control = await asyncio.start_server(self._control, _HOST, 0, limit=LONGEST_LINE)
        await self._set_port(is_open=True)
        ports = _Ports(self.port, control.sockets[0].getsockname()[1])
        sys.stdout.write(_ENCODER.encode(ports).decode() + "\n")
        sys.stdout.flush()
        await ended.wait()

    async def _set_port(self, *, is_open: bool) -> None:
        if is_open and self._callers is None:
            listening = _bound_socket(self.port)
            self._callers = await asyncio.start_server(self._call, sock=listening, limit=LONGEST_LINE, backlog=1024)
        elif not is_open and self._callers is not None:
            self._callers.close()
            self._callers = None

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One caller's connection."""
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                if not await self._answer(_REQUESTS.decode(line), reader, writer):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # the caller is gone, or this process ends; what was asked for is done all the same
        finally:
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        reply = self._platform.handle(request, self._now())
        await self._tell_changed()
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        line = _ENCODER.encode(reply.answer) + b"\n"
        match reply.ending:
            case "whole":
                writer.write(line)
                await writer.drain()
                return True
            case "cut":
                writer.write(line[: len(line) // 2])
            case "reset":
                linger = struct.pack("ii", 1, 0)  # closing with a lingering time of zero sends RST
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case "never" | "unreachable":
                await reader.read()  # until the caller gives up
        return False

    async def _tell_changed(self) -> None:
        due = self._platform.advance(self._now())
        async with self._changed:
            self._changed.notify_all()
        if due is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(due - self._now(), lambda: _keep(loop.create_task(self._tell_changed())))

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One test's connection."""
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                writer.write(_ENCODER.encode(await self._obey(_CONTROLS.decode(line))) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the test is over
        finally:
            writer.close()

    async def _obey(self, control: Control) -> PlatformReport:
        platform = self._platform
        match control:
            case AddFaults(rules=rules):
                if any(isinstance(rule.fault, Unreachable) for rule in rules):
                    return PlatformReport(problem="a call that arrived cannot be refused a connection: close the port")
                platform.script.add(*rules)
            case ClearFaults():
                platform.script.clear()
            case Clear():
                platform.clear()
            case SetPort(open=is_open):
                await self._set_port(is_open=is_open)
            case Show():
                async with self._changed:
                    await self._changed.wait_for(lambda: self._has_come(control))
                return _account(platform, control)
        return PlatformReport()

    def _has_come(self, show: Show) -> bool:
        counts = self._platform.counts
        calls = counts.total() if show.kind is None else counts[show.kind]
        return calls >= show.calls and len(self._platform.history(show.chat)) >= show.messages


def _account(platform: SimulatedPlatform, show: Show) -> PlatformReport:
    return PlatformReport(
        messages=platform.history(show.chat),
        counts=dict(platform.counts),
        calls=platform.calls,
        complaints=platform.complaints,
        unspent=platform.script.unspent,
    )


_TASKS: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """A loop holds its tasks weakly."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((_HOST, port))
    return bound


class PlatformProcess:
    """A platform process of a test: started by `with`, ended with it, asked by its methods, which block.

    `kind` as for `capabilities_of`, or the capabilities themselves. `seed`, `refuses_pace` and `slack_s` as for
    `SimulatedPlatform`.
    """

    def __init__(
        self, kind: str | Capabilities, *, seed: int = 0, refuses_pace: bool = False, slack_s: float = 0.0
    ) -> None:
        self.capabilities = capabilities_of(kind) if isinstance(kind, str) else kind
        capabilities = _ENCODER.encode(self.capabilities).decode()
        self._options = ["--capabilities", capabilities, "--seed", str(seed), "--slack", str(slack_s)]
        self._options += ["--refuse-pace"] * refuses_pace

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tailrace.testing.platform_process", *self._options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  our own
        assert self._process.stdout is not None, "the process was started with a pipe"
        ports = msgspec.json.decode(self._process.stdout.readline(), type=_Ports)
        self._socket = socket.create_connection((_HOST, ports.control), timeout=_PATIENCE_S)
        self._lines = self._socket.makefile("rb")
        self.pid = self._process.pid
        self.address = SimulatorAddress(port=ports.port, capabilities=self.capabilities)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "the process was started with pipes"
            pipe.close()
        self._process.wait(_PATIENCE_S)

    @property
    def environment(self) -> dict[str, str]:
        """What a child's environment needs for `simulated_channel()` to find this platform."""
        return {"TAILRACE_SIMULATOR": _ENCODER.encode(self.address).decode()}

    def add_faults(self, *rules: Rule | Fault) -> None:
        """Put rules behind those that stand; a bare fault befalls the next call."""
        self._ask(AddFaults(tuple(rule if isinstance(rule, Rule) else Rule(fault=rule) for rule in rules)))

    def clear_faults(self) -> None:
        """No call fails from now on."""
        self._ask(ClearFaults())

    def clear(self) -> None:
        """Forget what people saw and what callers did; ids are not used again."""
        self._ask(Clear())

    def close_port(self) -> None:
        """Refuse every new connection, as where nobody listens."""
        self._ask(SetPort(open=False))

    def open_port(self) -> None:
        """Let callers in again, at the same port."""
        self._ask(SetPort(open=True))

    def history(self, chat: str | None = None) -> list[PlatformMessage]:
        """All messages that became visible, in their order."""
        return self._ask(Show(chat=chat)).messages

    def texts(self, chat: str) -> list[str]:
        """What a person reads who opens the chat now."""
        return [message.text for message in self.history(chat) if not message.deleted]

    def account(self) -> PlatformReport:
        """All the platform knows."""
        return self._ask(Show())

    def wait(
        self, *, messages: int = 0, calls: int = 0, chat: str | None = None, kind: str | None = None
    ) -> PlatformReport:
        """All the platform knows, once so many messages are there and so many calls were made.

        Raises `TimeoutError` after 30 seconds. Blocks: in a coroutine, `asyncio.to_thread` calls it.
        """
        return self._ask(Show(messages=messages, calls=calls, chat=chat, kind=kind))

    def _ask(self, control: Control) -> PlatformReport:
        self._socket.sendall(_ENCODER.encode(control) + b"\n")
        account = _ACCOUNTS.decode(self._lines.readline())
        if account.problem:
            raise ValueError(account.problem)
        return account


async def _serve(platform: SimulatedPlatform) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)

    def watch_input() -> None:
        # By its number: a reader of `sys.stdin` would hold a lock that the interpreter needs to end.
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch_input, daemon=True).start()
    await _Server(platform).run(ended)


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.testing.platform_process")
    parser.add_argument("--kind", default="unkeyed", help="keyed[:window], readback[:settle], repeatable or unkeyed")
    parser.add_argument("--capabilities", help="all of the capabilities as JSON, in place of --kind")
    parser.add_argument("--seed", type=int, default=0, help="for faults by chance")
    parser.add_argument("--slack", type=float, default=0.0, help="seconds by which a call may come early")
    parser.add_argument("--refuse-pace", action="store_true", help="answer 429 above the declared pace")
    asked = parser.parse_args()
    capabilities = (
        msgspec.json.decode(asked.capabilities, type=Capabilities)
        if asked.capabilities
        else capabilities_of(asked.kind)
    )
    platform = SimulatedPlatform(capabilities, seed=asked.seed, refuses_pace=asked.refuse_pace, slack_s=asked.slack)
    asyncio.run(_serve(platform))


if __name__ == "__main__":
    main()
