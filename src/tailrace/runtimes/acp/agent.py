"""An agent that runs: requests to it, and what it says, in the order it is said.

The protocol is JSON-RPC 2.0, a message per line. It is written out here instead of taken from the protocol's Python SDK
for reasons that were measured on it (0.12.1): an update of a kind that its schema does not know is dropped, and agents
are ahead of the schema; an unknown stop reason raises; one line that is JSON but no object ends its reading for good.
The process would be ours in any case, since the SDK knows no process groups, reads no stderr and hands on little of the
environment. What would be left to take are the numbers of requests.

A task of its own reads the agent and owns its process, so that whoever ends the event loop ends the agent, too.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AgentNotFound, RuntimeFault
from tailrace.runtimes.acp.shapes import refusal_of, within
from tailrace.runtimes.process import SILENCE_TIMEOUT_S, AgentProcess
from tailrace.runtimes.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UPDATE, PERMISSION = "session/update", "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}

_SILENCE_TIMEOUT_S = 60.0
# A cancelled agent puts its session in order, which takes the known ones some milliseconds. This and the signals
# that follow are over in less time than a person waits for an agent that was told to stop.
_CANCEL_S = 0.5
_GRACE_S = 0.5
# An agent that has closed its output is about to exit.
_EXIT_S = 2.0
# A loaded session is told as it was, and then that it is loaded. gemini-cli goes on telling after that: it is heard out
# until it has said nothing for a moment. So is whoever does not stop, though not for ever.
_QUIET_S, _HEARD_OUT_S = 0.25, 10.0
# Messages that wait for a slow reader before the agent is made to wait.
_BACKLOG = 1000
_NO_SUCH_METHOD = -32601


class Message(msgspec.Struct, frozen=True):
    """A request, a notification or an answer; which of them is told by what it has."""

    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None


class AgentFault(RuntimeFault):
    """Why there is no turn with an agent; `code` is for the event that tells of it."""

    def __init__(self, message: str, *, code: str = "cut_off") -> None:
        super().__init__(message)
        self.code = code


class RequestRefused(AgentFault):
    """An agent answered a request with an error."""


_decoder = msgspec.json.Decoder(Message)
_encoder = msgspec.json.Encoder()


class AcpAgent:
    """A command that speaks the protocol, with one session; `start` it, and `close` it in any case.

    `name` is what it calls itself, `label` what people call it, `login` how somebody logs in to it, and `end` how it
    ended. `is_excused` says that it has a reason to be silent at a prompt.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
    ) -> None:
        self.command = tuple(command)
        self.cwd = str(Path(cwd or ".").absolute())
        self.label = Path(command[0]).name
        self.name = ""
        self.login = ""
        self.session_id = ""
        self.end = f"{self.label} does not run"
        self._process = AgentProcess(
            command,
            env=env,
            cwd=self.cwd,
            missing="Install it, or name it by its path.",
            grace_s=_GRACE_S,
            silence_timeout_s=silence_timeout_s,
        )
        self._process.is_excused = lambda: not self._listens or self.is_excused()
        self.is_excused: Callable[[], bool] = lambda: False
        self._life: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._calls: dict[object, asyncio.Future[Message]] = {}
        self._prompt: int | None = None
        self._listens = False
        self._speaks = asyncio.Event()
        self._said: asyncio.Queue[Message | bytes] = asyncio.Queue(maxsize=_BACKLOG)

    # Its life

    async def start(self) -> None:
        """Start the process. Raises `AgentNotFound` where that cannot be."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(started))
        await started

    @property
    def runs(self) -> bool:
        """Whether there is somebody to talk to."""
        return self._life is not None and not self._life.done()

    def dismiss(self) -> None:
        """Begin to end the process with all of its group. Twice is harmless."""
        if self._life is not None:
            self._life.cancel()

    async def close(self) -> None:
        """End the process with all of its group, and see it gone. Twice is harmless."""
        self.dismiss()
        if self._life is not None:
            await asyncio.wait({self._life})

    async def _live(self, started: asyncio.Future[None]) -> None:
        try:
            async with self._process:
                if not started.done():
                    started.set_result(None)
                self.end = await self._read()
        except AgentNotFound as error:
            if not started.done():
                started.set_exception(error)

    async def _read(self) -> str:
        """Hear all it says; how it ended."""
        async for line in self._process.lines():
            await self._hear(line)
        if self._process.fault:
            return self._process.fault
        how = "closed its output"
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                how = f"exited with code {await self._process.wait()}"
        last_words = " ".join(self._process.stderr_tail.splitlines()[-3:])
        return f"{self.label} {how}: {last_words}" if last_words else f"{self.label} {how}"

    # What it says

    async def next(self) -> Message | bytes | None:
        """What it says next to the prompt; bytes where it is no message, None when there is nobody any more."""
        if self._said.empty() and self._life is not None:
            hearing = asyncio.create_task(self._said.get())
            either: set[asyncio.Task[Any]] = {hearing, self._life}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if hearing.done():
                    return hearing.result()
            finally:
                hearing.cancel()
        return None if self._said.empty() else self._said.get_nowait()

    async def _hear(self, line: bytes) -> None:
        self._speaks.set()
        try:
            message = decode_line(line, _decoder)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            if self._listens:
                await self._said.put(line)
            return
        if message.method is None:
            call = self._calls.pop(message.id, None)
            if call is not None and not call.done():
                call.set_result(message)
            elif self._listens and message.id == self._prompt:
                await self._said.put(message)
        elif self._listens and (message.method == PERMISSION or self._is_ours(message)):
            await self._said.put(message)
        elif message.id is not msgspec.UNSET:
            await self._send(id=message.id, error={"code": _NO_SUCH_METHOD, "message": f"no {message.method} here"})

    def _is_ours(self, message: Message) -> bool:
        """Whether it tells of our session; another one is a subagent's, whose work is told by the call it is under."""
        session_id = within(message.params, "sessionId")
        return message.method == UPDATE and (session_id is None or session_id == self.session_id)

    # What it is told

    async def call(self, method: str, **params: Any) -> Any:
        """Ask and wait for the answer. Raises `RequestRefused`, or an `AgentFault` where none comes."""
        assert self._life is not None, "an agent is started before it is asked"
        number = next(self._numbers)
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        await self._send(id=number, method=method, params=params)
        await asyncio.wait({answer, self._life}, timeout=_SILENCE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            silence = f"{self.label} did not answer {method} within {_SILENCE_TIMEOUT_S:.0f} seconds"
            raise AgentFault(silence if self.runs else self.end)
        if answer.result().error is not None:
            message, code = refusal_of(answer.result().error)
            raise RequestRefused(f"{self.label} refused: {message}", code=code)
        return answer.result().result

    async def hear_out(self) -> None:
        """Let it tell what has been, until it is quiet."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARD_OUT_S):
                while True:
                    self._speaks.clear()
                    async with asyncio.timeout(_QUIET_S):
                        await self._speaks.wait()

    async def prompt(self, text: str) -> None:
        """Put the prompt; from now on `next` gives what it says, until `rest`."""
        while not self._said.empty():
            stale = self._said.get_nowait()
            if isinstance(stale, Message) and stale.method == PERMISSION:
                await self.answer(stale, CANCELLED)
        self._prompt = next(self._numbers)
        self._listens = True
        said = [{"type": "text", "text": text}]
        await self._send(
            id=self._prompt, method="session/prompt", params={"sessionId": self.session_id, "prompt": said}
        )

    def rest(self) -> None:
        """The turn is over: what it says until the next prompt is not heard."""
        self._listens = False

    async def answer(self, request: Message, result: Any) -> None:
        """Answer what it asked."""
        await self._send(id=request.id, result=result)

    async def withdraw(self, requests: Sequence[Message]) -> None:
        """Answer that nobody decides any more; one that does not read it is not waited for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                for request in requests:
                    await self.answer(request, CANCELLED)

    async def cancel(self) -> None:
        """Tell it to stop, and wait a moment until it has: nothing it says is heard any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                await self._send(method="session/cancel", params={"sessionId": self.session_id})
                while (message := await self.next()) is not None:
                    if isinstance(message, bytes):
                        continue
                    if message.method is None:
                        return
                    if message.method == PERMISSION:
                        await self.answer(message, CANCELLED)

    async def _send(self, **message: Any) -> None:
        await self._process.write(_encoder.encode({"jsonrpc": "2.0", **message}))
