"""The control socket: commands on the same machine send requests to the running gateway.

It is a Unix socket that only its owner can use. A connection carries one request: one line of JSON, then lines of
progress, then one line with the result. This module knows the requests and their form on the wire. What a request does
is in the handlers, which the gateway passes in.

A lock file beside the socket shows whether a process uses it. The kernel frees the lock when the process ends, also
after a kill. So a socket that is not locked is left over, and is replaced.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from tailrace.delivery.operator import Purge, Resend, Resume
from tailrace.errors import CommandRefused, GatewayNotRunning, LedgerInUse, TailraceError, UsageError
from tailrace.ledger.files import OwnerLock, data_directory, make_folder
from tailrace.redaction import redact

MAX_PATH_BYTES = 100
MAX_REQUEST_BYTES = 1 << 20
MAX_CLIENTS = 16
_MAX_ANSWER_BYTES = 16 << 20
_CONNECT_S = 2.0

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Step = TypeVar("Step")


class Approve(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="approve", forbid_unknown_fields=True):
    """Admit the person who got this pairing code. The result is an `Approved`."""

    code: str


class Revoke(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="revoke", forbid_unknown_fields=True):
    """Remove this approved person, named `ID` or `CHANNEL:ID`. The result is an `Approved`."""

    person: str


Request: TypeAlias = Approve | Revoke | Resend | Resume | Purge
Report: TypeAlias = Callable[[Any], None]
Handler: TypeAlias = Callable[[Any, Report], Awaitable[Any]]
"""Takes the request and a function that reports progress. It is cancelled if the client ends before the result."""


class _Progress(msgspec.Struct, frozen=True, tag_field="answer", tag="progress"):
    value: msgspec.Raw


class _Done(msgspec.Struct, frozen=True, tag_field="answer", tag="done"):
    value: msgspec.Raw


class _Refused(msgspec.Struct, frozen=True, tag_field="answer", tag="refused"):
    """`is_usage`: the request itself is wrong."""

    message: str
    is_usage: bool = False


_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_answers: msgspec.json.Decoder[_Progress | _Done | _Refused] = msgspec.json.Decoder(_Progress | _Done | _Refused)
_encode = msgspec.json.Encoder().encode


def control_path(*, ledger: Path | None, data_dir: Path | None, control: Path | None) -> Path:
    """The path of the control socket. `ledger` is the one that `--ledger` names; the others are settings."""
    if ledger is not None:
        ledger = ledger.resolve()
        return ledger.with_name(f"{ledger.name}.sock")
    return (control or (data_dir or data_directory()) / "control.sock").absolute()


class ControlServer:
    """Listens at `path` and passes each request to the handler of its class.

    `deadline_s` is how long a client may take to send its request, and to read the result.
    """

    def __init__(self, path: Path, handlers: Mapping[type[Request], Handler], *, deadline_s: float = 10.0) -> None:
        self._path = path
        self._deadline_s = deadline_s
        self._handlers = handlers
        self._lock: OwnerLock | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to listen. Raises `UsageError` if the path cannot be used, `CommandRefused` if it is in use."""
        if (length := len(os.fsencode(self._path))) > MAX_PATH_BYTES:
            raise UsageError(
                f"the control socket {self._path} has a path of {length} bytes, and a socket allows {MAX_PATH_BYTES}: "
                "choose a shorter data_dir or --ledger, or set gateway.control to a shorter path"
            )
        make_folder(self._path)
        try:
            self._lock = OwnerLock(self._path)
        except LedgerInUse as error:
            raise CommandRefused(
                f"a gateway is already running: process {error.pid} listens at {self._path}. End it, or give this one "
                "another data_dir or --ledger"
            ) from error
        try:
            self._server = await asyncio.start_unix_server(
                self._accept, sock=self._bound_socket(), limit=MAX_REQUEST_BYTES
            )
        except BaseException:
            self._lock.release()
            raise

    def _bound_socket(self) -> socket.socket:
        """A socket that does not listen yet, so that no one can connect before its mode is set."""
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                if not stat.S_ISSOCK(self._path.lstat().st_mode):
                    raise FileExistsError(errno.EEXIST, "another file is there")
                self._path.unlink()
            bound.bind(os.fspath(self._path))
            self._path.chmod(0o600)
        except OSError as error:
            bound.close()
            raise UsageError(
                f"the control socket {self._path} cannot be made: {error.strerror or error}. Remove what is there, or "
                "set gateway.control to another path"
            ) from error
        return bound

    async def stop(self) -> None:
        """End all requests and remove the socket. May be called twice."""
        if self._server is None or self._lock is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)
        self._lock.release()
        self._server = self._lock = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            await self._answer(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client has ended, or does not read
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def report(value: Any) -> None:
            if writer.transport.get_write_buffer_size() > _MAX_ANSWER_BYTES:
                writer.transport.abort()  # the client does not read
            elif not writer.is_closing():
                writer.write(_encode(_Progress(msgspec.Raw(_encode(value)))) + b"\n")

        if len(self._connections) > MAX_CLIENTS:
            answer: _Done | _Refused | None = _Refused("too many commands at the same time: try again")
        else:
            try:
                answer = await self._perform(await _read_request(reader, self._deadline_s), report, reader)
            except UsageError as error:
                answer = _Refused(redact(str(error)), is_usage=True)
        if answer is not None:
            writer.write(_encode(answer) + b"\n")
            async with asyncio.timeout(self._deadline_s):
                await writer.drain()

    async def _perform(self, request: Request, report: Report, reader: asyncio.StreamReader) -> _Done | _Refused | None:
        """Run the handler. If the client ends first, cancel the handler and return None."""
        if (handler := self._handlers.get(type(request))) is None:
            raise UsageError(f"this gateway does not answer {request.__struct_config__.tag!r}")
        working = asyncio.ensure_future(handler(request, report))
        reading = asyncio.ensure_future(_read_to_end(reader))
        try:
            await asyncio.wait({working, reading}, return_when=asyncio.FIRST_COMPLETED)
            return _Done(msgspec.Raw(_encode(working.result()))) if working.done() else None
        except UsageError:
            raise
        except TailraceError as error:
            return _Refused(redact(str(error)))
        except Exception:  # noqa: BLE001 -- a bug must not end the connection without an answer
            _log.exception("the request %r failed", request.__struct_config__.tag)
            return _Refused("the gateway could not do this: its log says why")
        finally:
            for task in (working, reading):
                task.cancel()
            await asyncio.gather(working, reading, return_exceptions=True)


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    """Read until the client closes the connection. What it sends after its request is ignored."""
    with suppress(OSError):
        while await reader.read(1 << 16):
            pass


async def _read_request(reader: asyncio.StreamReader, deadline_s: float) -> Request:
    try:
        async with asyncio.timeout(deadline_s):
            line = await reader.readuntil(b"\n")
    except TimeoutError as error:
        raise UsageError(f"no complete request came within {deadline_s:.0f} seconds") from error
    except asyncio.LimitOverrunError as error:
        raise UsageError(f"the request is longer than {MAX_REQUEST_BYTES} bytes") from error
    except asyncio.IncompleteReadError as error:
        raise UsageError("the request is not a complete line") from error
    try:
        return _requests.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is not a request: {error}") from error


class ControlClient:
    """Sends requests to the gateway that listens at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ask(
        self,
        request: Request,
        result: type[Result],
        *,
        progress: type[Step] | None = None,
        report: Callable[[Step], None] = lambda _: None,
        within_s: float | None = 30.0,
    ) -> Result:
        """Send the request and return its result. `report` gets the values of progress.

        Raises `GatewayNotRunning` if there is no gateway, and `UsageError` or `CommandRefused` if it refuses.
        `within_s` is how long the next line of the answer may take; None means for ever.
        """
        line = _encode(request) + b"\n"
        if len(line) > MAX_REQUEST_BYTES:
            raise UsageError("this is too much for one request to the gateway: choose fewer")
        step: Any = progress or Any
        reader, writer = await self._connect()
        try:
            writer.write(line)
            while True:
                answer = await self._next_answer(reader, within_s)
                match answer:
                    case _Progress(value):
                        report(msgspec.json.decode(value, type=step))
                    case _Done(value):
                        return msgspec.json.decode(value, type=result)
                    case _Refused(message, is_usage):
                        raise UsageError(message) if is_usage else CommandRefused(message)
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        absent = GatewayNotRunning(f"no gateway answers at {self._path}")
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            raise absent  # a gateway with such a path does not start
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await asyncio.open_unix_connection(self._path, limit=_MAX_ANSWER_BYTES)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            raise absent from error
        except OSError as error:  # also a timeout
            raise CommandRefused(
                f"the gateway at {self._path} cannot be reached: {error.strerror or 'it does not answer'}"
            ) from error

    async def _next_answer(self, reader: asyncio.StreamReader, within_s: float | None) -> _Progress | _Done | _Refused:
        try:
            async with asyncio.timeout(within_s):
                return _answers.decode(await reader.readuntil(b"\n"))
        except TimeoutError as error:
            raise CommandRefused(f"the gateway at {self._path} did not answer within {within_s:.0f} seconds") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise CommandRefused(
                f"the gateway at {self._path} ended before it had answered. Run the command again"
            ) from error
        except (asyncio.LimitOverrunError, msgspec.DecodeError) as error:
            raise CommandRefused(
                f"the answer of the gateway at {self._path} cannot be read. Is it another version of tailrace?"
            ) from error
