"""A simulated platform in its own process, so that faults happen on a real socket; and the class that controls it.

    python -m tailrace.testing.platform_process --kind keyed:300

The process listens on two ports of 127.0.0.1, one for channels and one for the test. It prints them in its first line:
`{"port": N, "control": M}`. Each line that it receives is a JSON object, and the answer is one too. A channel sends a
`Request` and gets an `Answer`; a `Poll` is answered when there is an event. A test sends a `Control` and gets a
`PlatformReport`. The process ends on SIGTERM and when its standard input closes, so it never lives longer than the
process that started it. `PlatformProcess` does all this for a test or a benchmark.

The platform's clock counts the seconds since the process started. `tailrace.testing.platform` has the behaviour.
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
    AddInbound,
    Clear,
    ClearFaults,
    Control,
    PlatformMessage,
    PlatformReport,
    Poll,
    Request,
    SetPort,
    Show,
    capabilities_of,
)

if TYPE_CHECKING:
    from types import TracebackType

    from tailrace.inbound import Inbound
    from tailrace.testing.wire import Arrived, Denied

_HOST = "127.0.0.1"
_TIMEOUT_S = 30.0


_ENCODER = msgspec.json.Encoder()
_REQUESTS: msgspec.json.Decoder[Request | Poll] = msgspec.json.Decoder(Request | Poll)
_CONTROLS: msgspec.json.Decoder[Control] = msgspec.json.Decoder(Control)
_REPORTS: msgspec.json.Decoder[PlatformReport] = msgspec.json.Decoder(PlatformReport)


class _Server:
    """Serves the two ports of one platform."""

    def __init__(self, platform: SimulatedPlatform) -> None:
        self._platform = platform
        self._started = time.monotonic()
        self._changed = asyncio.Condition()
        self._callers: asyncio.Server | None = None
        # This socket reserves the port, so that no other process gets it while the platform refuses connections.
        self._reserved = _bound_socket(0)
        self.port: int = self._reserved.getsockname()[1]

    def _now(self) -> float:
        return time.monotonic() - self._started

    async def run(self, ended: asyncio.Event) -> None:
        """Print the ports and serve until `ended`."""
        control = await asyncio.start_server(self._serve_test, _HOST, 0, limit=LONGEST_LINE)
        await self._set_port(is_open=True)
        ports = {"port": self.port, "control": control.sockets[0].getsockname()[1]}
        sys.stdout.write(_ENCODER.encode(ports).decode() + "\n")
        sys.stdout.flush()
        await ended.wait()

    async def _set_port(self, *, is_open: bool) -> None:
        if is_open and self._callers is None:
            listening = _bound_socket(self.port)
            self._callers = await asyncio.start_server(
                self._serve_channel, sock=listening, limit=LONGEST_LINE, backlog=1024
            )
        elif not is_open and self._callers is not None:
            self._callers.close()
            self._callers = None

    async def _serve_channel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a channel."""
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                request = _REQUESTS.decode(line)
                if isinstance(request, Poll):
                    writer.write(_ENCODER.encode(await self._wait_for_event(request)) + b"\n")
                    await writer.drain()
                elif not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # the caller has left, or this process ends; the call was performed
        finally:
            writer.close()

    async def _wait_for_event(self, poll: Poll) -> Arrived | Denied | None:
        # If the channel leaves during the wait, its next poll gets the same event.
        async with self._changed:
            return await self._changed.wait_for(lambda: self._platform.poll(poll.taken, self._now()))

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        reply = self._platform.handle(request, self._now())
        await self._notify()
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
                linger = struct.pack("ii", 1, 0)  # with a linger time of zero, closing sends RST
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case "never" | "unreachable":
                await reader.read()  # waits until the caller closes the connection
        return False

    async def _notify(self) -> None:
        due = self._platform.advance(self._now())
        async with self._changed:
            self._changed.notify_all()
        if due is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(due - self._now(), lambda: _keep(loop.create_task(self._notify())))

    async def _serve_test(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a test."""
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                writer.write(_ENCODER.encode(await self._execute(_CONTROLS.decode(line))) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the test is over
        finally:
            writer.close()

    async def _execute(self, control: Control) -> PlatformReport:
        platform = self._platform
        match control:
            case AddFaults(rules=rules):
                if any(isinstance(rule.fault, Unreachable) for rule in rules):
                    return PlatformReport(problem="here a call that arrives has a connection: use close_port instead")
                platform.script.add(*rules)
                await self._notify()  # so that new rules also apply to polls that wait
            case ClearFaults():
                platform.script.clear()
            case AddInbound(events=events):
                platform.add_inbound(*events)
                await self._notify()
            case Clear():
                platform.clear()
            case SetPort(open=is_open):
                await self._set_port(is_open=is_open)
            case Show():
                async with self._changed:
                    await self._changed.wait_for(lambda: self._is_reached(control))
                return PlatformReport(
                    messages=platform.history(control.chat),
                    counts=dict(platform.counts),
                    calls=platform.calls,
                    complaints=platform.complaints,
                    acknowledged=platform.acknowledged,
                    unspent=platform.script.unspent,
                )
        return PlatformReport()

    def _is_reached(self, show: Show) -> bool:
        counts = self._platform.counts
        calls = counts.total() if show.kind is None else counts[show.kind]
        return calls >= show.calls and len(self._platform.history(show.chat)) >= show.messages


_TASKS: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """Keep a reference to the task until it is done, because an event loop has only weak references."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((_HOST, port))
    return bound


class PlatformProcess:
    """A simulated platform in its own process, which runs while the `with` block runs. All methods block.

    `kind` is one of the kinds of `capabilities_of`, or the capabilities themselves. `seed`, `enforces_rates` and
    `slack_s` have the same meaning as for `SimulatedPlatform`.
    """

    def __init__(
        self, kind: str | Capabilities, *, seed: int = 0, enforces_rates: bool = False, slack_s: float = 0.0
    ) -> None:
        self.capabilities = capabilities_of(kind) if isinstance(kind, str) else kind
        capabilities = _ENCODER.encode(self.capabilities).decode()
        self._options = ["--capabilities", capabilities, "--seed", str(seed), "--slack", str(slack_s)]
        self._options += ["--enforce-rates"] * enforces_rates

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tailrace.testing.platform_process", *self._options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  our own
        assert self._process.stdout is not None, "the process was started with a pipe"
        ports = msgspec.json.decode(self._process.stdout.readline(), type=dict[str, int])
        self._socket = socket.create_connection((_HOST, ports["control"]), timeout=_TIMEOUT_S)
        self._lines = self._socket.makefile("rb")
        self.pid = self._process.pid
        self.address = SimulatorAddress(port=ports["port"], capabilities=self.capabilities)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "the process was started with pipes"
            pipe.close()
        self._process.wait(_TIMEOUT_S)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which `simulated_channel()` finds this platform."""
        return {"TAILRACE_SIMULATOR": _ENCODER.encode(self.address).decode()}

    def add_faults(self, *rules: Rule | Fault) -> None:
        """Add rules after the existing ones. A fault without a rule applies to the next call."""
        self._ask(AddFaults(tuple(rule if isinstance(rule, Rule) else Rule(fault=rule) for rule in rules)))

    def clear_faults(self) -> None:
        """Remove all rules."""
        self._ask(ClearFaults())

    def add_inbound(self, *events: Inbound) -> None:
        """Let people do these things. The platform gives the events to the channel."""
        self._ask(AddInbound(events))

    def clear(self) -> None:
        """Forget all messages, events and calls. Ids of the past are not used again."""
        self._ask(Clear())

    def close_port(self) -> None:
        """Refuse every new connection, as a port without a listener does."""
        self._ask(SetPort(open=False))

    def open_port(self) -> None:
        """Accept connections again, on the same port."""
        self._ask(SetPort(open=True))

    def history(self, chat: str | None = None) -> list[PlatformMessage]:
        """All messages, in the order in which they became visible."""
        return self._ask(Show(chat=chat)).messages

    def texts(self, chat: str) -> list[str]:
        """The texts that a person sees in the chat now."""
        return [message.text for message in self.history(chat) if not message.deleted]

    def account(self) -> PlatformReport:
        """A report of all messages and of all calls."""
        return self._ask(Show())

    def wait(
        self, *, messages: int = 0, calls: int = 0, chat: str | None = None, kind: str | None = None
    ) -> PlatformReport:
        """Wait until there are at least that many messages and calls. Returns a report of all messages and calls.

        Raises `TimeoutError` after 30 seconds. In a coroutine, call this method through `asyncio.to_thread`.
        """
        return self._ask(Show(messages=messages, calls=calls, chat=chat, kind=kind))

    def _ask(self, control: Control) -> PlatformReport:
        self._socket.sendall(_ENCODER.encode(control) + b"\n")
        report = _REPORTS.decode(self._lines.readline())
        if report.problem:
            raise ValueError(report.problem)
        return report


async def _serve(platform: SimulatedPlatform) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)

    def watch_input() -> None:
        # Not through `sys.stdin`: its reader would hold a lock that the interpreter needs in order to exit.
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch_input, daemon=True).start()
    await _Server(platform).run(ended)


def main() -> None:
    """Run a platform until it is stopped: the program `python -m tailrace.testing.platform_process`."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.testing.platform_process")
    parser.add_argument("--kind", default="unkeyed", help="keyed[:seconds], readback[:seconds], repeatable or unkeyed")
    parser.add_argument("--capabilities", help="all capabilities as JSON, instead of --kind")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults by chance")
    parser.add_argument("--slack", type=float, default=0.0, help="seconds that a call may come too early")
    parser.add_argument("--enforce-rates", action="store_true", help="answer 429 above the declared rates")
    options = parser.parse_args()
    capabilities = (
        msgspec.json.decode(options.capabilities, type=Capabilities)
        if options.capabilities
        else capabilities_of(options.kind)
    )
    platform = SimulatedPlatform(
        capabilities, seed=options.seed, enforces_rates=options.enforce_rates, slack_s=options.slack
    )
    asyncio.run(_serve(platform))


if __name__ == "__main__":
    main()
