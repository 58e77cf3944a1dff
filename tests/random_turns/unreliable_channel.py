"""A channel that sometimes raises any exception or returns a wrong value, and checks when it is called.

It wraps the channel of one process. Calls wait while the process is paused, and a call that was decided before leaves
as soon as the process continues. It notes the calls that leave although another process owns the conversation by then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tailrace.delivery.result import is_plausible
from tailrace.errors import MaybeSent, NotSent, SendRefused
from tailrace.operations import Receipt, Typing
from tailrace.testing.call_rates import CallRates

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from tailrace.operations import Operation, Target
    from tailrace.ports import Channel, Clock

SECRET = "hunter2"
_TEXT = f"no way to https://bot:{SECRET}@a.b/ with password={SECRET} \udc80"
_CALLS = ("post", "post_media", "edit", "delete", "open_stream", "append_stream", "close_stream", "draft", "typing")
_ROUNDING_S = 1e-6


class _Unprintable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError(_TEXT)


# At any moment, before or after the platform was called.
_ANYTHING: tuple[Callable[[], BaseException], ...] = (
    lambda: ValueError(_TEXT),
    lambda: KeyError(SECRET),
    lambda: OSError(5, _TEXT),
    lambda: TimeoutError(_TEXT),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, _TEXT),
    lambda: ExceptionGroup(_TEXT, [ValueError(_TEXT)]),
    lambda: StopAsyncIteration(_TEXT),
    lambda: MemoryError(_TEXT),
    lambda: AssertionError(_TEXT),
    lambda: asyncio.CancelledError(_TEXT),
    lambda: MaybeSent(_TEXT),
    _Unprintable,
)
# Only if the platform was not called.
_NOT_CALLED: tuple[Callable[[], BaseException], ...] = (
    lambda: NotSent(_TEXT),
    lambda: NotSent(_TEXT, retry_after=2.0),
    lambda: NotSent(_TEXT, retry_after="soon"),  # type: ignore[arg-type]  # a wrong value
    lambda: SendRefused(f"blocked: {_TEXT}"),
)
_WRONG_RESULTS: tuple[Any, ...] = (
    *(None, 4711, "m1", True, {"message_id": "m1"}),
    Receipt(message_id=4711),  # type: ignore[arg-type]  # a wrong value
    Receipt(message_id="m1", degraded=None),  # type: ignore[arg-type]  # a wrong value
)


class UnreliableChannel:
    """The channel of one process. `errors` is the chance that a call raises or returns nonsense.

    `is_owner` says whether this process owns a conversation. `late_calls` are the calls that left without that, each
    with its key and operation. `breaches` are calls that came too early. `checks_pace`: the time of a call is the time
    of its decision.
    """

    def __init__(
        self,
        channel: Channel,
        source: random.Random,
        clock: Clock,
        running: asyncio.Event,
        is_owner: Callable[[str], bool],
        *,
        errors: float,
        checks_pace: bool,
    ) -> None:
        self.name, self.capabilities = channel.name, channel.capabilities
        self.errors = errors
        self.checks_pace = checks_pace
        self.late_calls: list[tuple[str, Operation]] = []
        self.breaches: list[str] = []
        self._source = source
        self._clock = clock
        self._running = running
        self._is_owner = is_owner
        self._rates = CallRates(self.capabilities, slack_s=0.0)
        self._decided: set[str] = set()  # conversations with a call that leaves when a paused process continues
        self._paused_until: dict[str, float] = {}
        for name in _CALLS:
            setattr(self, name, self._unreliable(getattr(channel, name)))
        if (find := getattr(channel, "find", None)) is not None:
            self.find = self._unreliable_find(find)

    def _unreliable(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def unreliable(operation: Operation, **options: str) -> Any:
            if not isinstance(operation, Typing):
                self._check_pace(operation.target)
            fails = self._source.random() < self.errors
            if fails and self._source.random() < 0.3:
                raised = self._source.choice(_ANYTHING + _NOT_CALLED)()
                raise raised
            try:
                receipt = await self._call_platform(call, operation, options)
            except NotSent as error:
                self._learn_pause(operation.target.chat, error)
                raise
            if fails and self._source.random() < 0.5:
                raised = self._source.choice(_ANYTHING)()
                raise raised
            return self._source.choice(_WRONG_RESULTS) if fails else receipt

        return unreliable

    def _unreliable_find(self, find: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def unreliable(target: Target, key: str, since: float) -> Any:
            await self._running.wait()
            found = await find(target, key, since)
            if self._source.random() >= self.errors:
                return found
            if self._source.random() < 0.5:
                raised = self._source.choice(_ANYTHING)()
                raise raised
            return self._source.choice(_WRONG_RESULTS[1:])

        return unreliable

    async def _call_platform(
        self, call: Callable[..., Awaitable[Any]], operation: Operation, options: dict[str, str]
    ) -> Any:
        conversation = operation.target.conversation
        if self._running.is_set():
            self._decided.clear()
        elif conversation not in self._decided:
            # The process was stopped just before the bytes left: they leave when it continues, awaited or not.
            self._decided.add(conversation)
            leaving = asyncio.create_task(self._leave(call, operation, options))
            leaving.add_done_callback(lambda task: task.cancelled() or task.exception())
            return await asyncio.shield(leaving)
        return await self._leave(call, operation, options)

    async def _leave(self, call: Callable[..., Awaitable[Any]], operation: Operation, options: dict[str, str]) -> Any:
        await self._running.wait()
        if not self._is_owner(operation.target.conversation):
            self.late_calls.append((options.get("key", ""), operation))
        receipt = await call(operation, **options)
        await self._running.wait()
        return receipt

    def _check_pace(self, target: Target) -> None:
        now = self._clock.monotonic()
        early = [f"{wait:.3f} s" for wait, _everywhere in self._rates.too_early(target, now)]
        self._rates.count(target, now)
        until = max(self._paused_until.get(where, 0.0) for where in (target.chat, ""))
        if now < until - _ROUNDING_S:
            early.append(f"{until - now:.3f} s, as the platform asked")
        if early and self.checks_pace:
            self.breaches.append(f"at {now:.2f} a call to {target.conversation} came too early: {', '.join(early)}")

    def _learn_pause(self, chat: str, error: NotSent) -> None:
        if error.retry_after is not None and is_plausible(error.retry_after):
            where = "" if error.everywhere else chat
            until = self._clock.monotonic() + error.retry_after
            self._paused_until[where] = max(until, self._paused_until.get(where, 0.0))
