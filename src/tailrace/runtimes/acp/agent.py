"""A running agent of the Agent Client Protocol: its process, the requests to it, and its messages in their order.

The protocol is JSON-RPC 2.0, one message per line. The protocol's Python SDK (0.12.1) is not used, for these reasons.
It drops updates of a kind that is not in its schema, but agents send kinds that are newer than the schema. It raises at
an unknown stop reason. It stops reading after a line of JSON that is not an object. It also has no process groups, does
not read stderr, and passes on little of the environment.

A separate task reads from the agent and owns its process. So the agent ends too when the event loop ends.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AgentNotFound, RuntimeFault
from tailrace.runtimes.acp.shapes import at_path, error_text_and_code
from tailrace.runtimes.process import AgentProcess, ProcessTimeouts
from tailrace.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UPDATE, PERMISSION = "session/update", "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}

_MISSING = "Install it, or name it by its path."
_REQUEST_TIMEOUT_S = 60.0
# A cancelled agent saves its session, which takes the known agents some milliseconds. A person waits for this time and
# for the time between the signals after it, so both are short.
_CANCEL_TIMEOUT_S = 0.5
_GRACE_S = 0.5
# When a session is loaded, an agent sends its history, then the response. gemini-cli also sends history after the
# response, so messages are skipped until the agent is quiet for a moment, or the timeout is over.
_HISTORY_QUIET_S, _HISTORY_TIMEOUT_S = 0.25, 10.0
# If this many messages wait for a slow reader of the events, no more are read from the agent.
_BACKLOG = 1000
_NO_SUCH_METHOD = -32601


class RpcMessage(msgspec.Struct, frozen=True):
    """A JSON-RPC message. A request has a method and an id, a notification only a method, a response only an id."""

    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None


class AgentFault(RuntimeFault):
    """The agent cannot be started, or it ended. `code` becomes the code of the turn's failure."""

    def __init__(self, message: str, *, code: str = "cut_off") -> None:
        super().__init__(message)
        self.code = code


class RequestRefused(AgentFault):
    """An agent responded to a request with an error."""


_decoder = msgspec.json.Decoder(RpcMessage)
_encoder = msgspec.json.Encoder()


class AcpAgent:
    """A process of an agent that speaks the Agent Client Protocol, with one session.

    Call `start`, and always `close`, also after an error. `name` is the name that the agent gives itself, `label` its
    name in messages to people. `login_hint` says how to log in, and `end_text` how the agent ended. `may_be_silent`
    returns whether the agent has a reason to be silent during a prompt, for example a running tool.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        silence_timeout_s: float = 600.0,
        exit_timeout_s: float = 2.0,
    ) -> None:
        self.command = tuple(command)
        self.cwd = str(Path(cwd or ".").absolute())
        self.label = Path(command[0]).name
        self.name = ""
        self.login_hint = ""
        self.session_id = ""
        self.end_text = f"{self.label} does not run"
        self._exit_timeout_s = exit_timeout_s
        timeouts = ProcessTimeouts(silence_timeout_s=silence_timeout_s)
        self._process = AgentProcess(
            command, env=env, cwd=self.cwd, missing=_MISSING, timeouts=timeouts, grace_s=_GRACE_S
        )
        self._process.may_be_silent = lambda: not self._in_turn or self.may_be_silent()
        self.may_be_silent: Callable[[], bool] = lambda: False
        self._task: asyncio.Task[None] | None = None
        self._ids = itertools.count()
        self._responses: dict[object, asyncio.Future[RpcMessage]] = {}
        self._prompt_id: int | None = None
        self._in_turn = False
        self._received = asyncio.Event()
        self._incoming: asyncio.Queue[RpcMessage | bytes] = asyncio.Queue(maxsize=_BACKLOG)

    # The process

    async def start(self) -> None:
        """Start the process. Raises `AgentNotFound` if that fails."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started))
        await started

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._task is not None and not self._task.done()

    def terminate(self) -> None:
        """Tell the process and its group to end, without waiting for that. May be called twice."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End the process and its group, and wait until they have ended. May be called twice."""
        self.terminate()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            async with self._process:
                if not started.done():
                    started.set_result(None)
                self.end_text = await self._read()
        except AgentNotFound as error:
            if not started.done():
                started.set_exception(error)

    async def _read(self) -> str:
        """Read all output of the agent. Returns how the agent ended."""
        async for line in self._process.lines():
            await self._dispatch(line)
        if self._process.failure:
            return self._process.failure
        ending = "closed its output"
        with suppress(TimeoutError):
            async with asyncio.timeout(self._exit_timeout_s):
                ending = f"exited with code {await self._process.wait()}"
        stderr = " ".join(self._process.stderr_tail.splitlines()[-3:])
        return f"{self.label} {ending}: {stderr}" if stderr else f"{self.label} {ending}"

    # Receiving

    async def receive(self) -> RpcMessage | bytes | None:
        """The next message during a prompt.

        Bytes are a line that is not a valid message; None means that the agent has ended.
        """
        if self._incoming.empty() and self._task is not None:
            receiving = asyncio.create_task(self._incoming.get())
            either: set[asyncio.Task[Any]] = {receiving, self._task}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    return receiving.result()
            finally:
                receiving.cancel()
        return None if self._incoming.empty() else self._incoming.get_nowait()

    async def _dispatch(self, line: bytes) -> None:
        self._received.set()
        try:
            message = decode_line(line, _decoder)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            if self._in_turn:
                await self._incoming.put(line)
            return
        if message.method is None:
            response = self._responses.pop(message.id, None)
            if response is not None and not response.done():
                response.set_result(message)
            elif self._in_turn and message.id == self._prompt_id:
                await self._incoming.put(message)
        elif self._in_turn and (message.method == PERMISSION or self._is_ours(message)):
            await self._incoming.put(message)
        elif message.id is not msgspec.UNSET:
            await self._send(id=message.id, error={"code": _NO_SUCH_METHOD, "message": f"no {message.method} here"})

    def _is_ours(self, message: RpcMessage) -> bool:
        """Whether the message belongs to the session of this agent. Messages of other sessions come from subagents.

        They are ignored, because the tool calls that run the subagents already show their work.
        """
        session_id = at_path(message.params, "sessionId")
        return message.method == UPDATE and (session_id is None or session_id == self.session_id)

    # Sending

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request and return its result. Raises `RequestRefused`, or an `AgentFault` if no response comes."""
        assert self._task is not None, "an agent is started before it gets a request"
        request_id = next(self._ids)
        response = self._responses[request_id] = asyncio.get_running_loop().create_future()
        await self._send(id=request_id, method=method, params=params)
        await asyncio.wait({response, self._task}, timeout=_REQUEST_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not response.done():
            message = f"{self.label} did not answer {method} within {_REQUEST_TIMEOUT_S:.0f} seconds"
            raise AgentFault(message if self.is_running else self.end_text)
        if response.result().error is not None:
            message, code = error_text_and_code(response.result().error)
            raise RequestRefused(f"{self.label} refused: {message}", code=code)
        return response.result().result

    async def skip_history(self) -> None:
        """Discard the old messages that the agent sends after loading a session, until it sends none for a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HISTORY_TIMEOUT_S):
                while True:
                    self._received.clear()
                    async with asyncio.timeout(_HISTORY_QUIET_S):
                        await self._received.wait()

    async def prompt(self, text: str) -> None:
        """Send the prompt. From now on `receive` returns the agent's messages, until `end_turn`."""
        while not self._incoming.empty():
            stale = self._incoming.get_nowait()
            if isinstance(stale, RpcMessage) and stale.method == PERMISSION:
                await self.respond(stale, CANCELLED)
        self._prompt_id = next(self._ids)
        self._in_turn = True
        content = [{"type": "text", "text": text}]
        await self._send(
            id=self._prompt_id, method="session/prompt", params={"sessionId": self.session_id, "prompt": content}
        )

    def end_turn(self) -> None:
        """End the turn: all messages of the agent are discarded until the next prompt."""
        self._in_turn = False

    async def respond(self, request: RpcMessage, result: Any) -> None:
        """Send the result of a request that the agent has made."""
        await self._send(id=request.id, result=result)

    async def cancel_requests(self, requests: Sequence[RpcMessage]) -> None:
        """Respond to these requests of the agent that they are cancelled. Gives up soon if the agent does not read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                for request in requests:
                    await self.respond(request, CANCELLED)

    async def cancel(self) -> None:
        """Ask the agent to stop its turn, and wait a short time for that. Messages that it still sends are dropped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                await self._send(method="session/cancel", params={"sessionId": self.session_id})
                while (message := await self.receive()) is not None:
                    if isinstance(message, bytes):
                        continue
                    if message.method is None:
                        return
                    if message.method == PERMISSION:
                        await self.respond(message, CANCELLED)

    async def _send(self, **message: Any) -> None:
        await self._process.write(_encoder.encode({"jsonrpc": "2.0", **message}))
