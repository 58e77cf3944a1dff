"""The simulated platform with more complaints: about every call that the channel's capabilities do not allow.

It also remembers what people did to the messages, so that the judge can excuse what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cutting_laws.parts import measure
from tailrace.capabilities import DraftRules, StreamRules
from tailrace.operations import AppendStream, CloseStream, Delete, Draft, Edit, OpenStream, Post, PostMedia, Typing
from tailrace.testing.platform import SimulatedPlatform

if TYPE_CHECKING:
    from random import Random

    from tailrace.capabilities import Capabilities
    from tailrace.operations import Body, Target
    from tailrace.testing.wire import PlatformMessage, Reply, Request


class StrictPlatform(SimulatedPlatform):
    """`forbidden` lists the calls that should not have been made; `deleted`: the messages that people deleted."""

    def __init__(self, capabilities: Capabilities, *, seed: int) -> None:
        native = capabilities.native
        if isinstance(native, StreamRules):
            native = replace(native, per_call=None)
        # Sizes are checked here: the base would also measure the source of a growing stream, which is longer.
        super().__init__(replace(capabilities, native=native, limit=10**6, caption_limit=None), seed=seed)
        self._limits = capabilities

    def clear(self) -> None:
        super().clear()
        self.forbidden: list[str] = []
        self.deleted: set[str] = set()

    def handle(self, request: Request, now: float) -> Reply:
        operation, limits = request.operation, self._limits
        name = type(operation).__name__
        if not self._allows(request):
            self.forbidden.append(f"the channel cannot do this: {name}")
        match operation:
            case Post() | OpenStream() | Edit() | CloseStream() | Draft():
                self._check_body(operation.body, name)
            case AppendStream() if isinstance(limits.native, StreamRules) and limits.native.per_call:
                self._check_size(operation.text, limits.native.per_call, name)
            case PostMedia():
                self._check_size(operation.caption, limits.caption_limit or limits.limit, "caption")
        return super().handle(request, now)

    def delete_any(self, chance: Random, now: float) -> None:
        """People delete a message."""
        if messages := self._visible():
            message = chance.choice(messages)
            self.deleted.add(message.message_id)
            self._put(replace(message, deleted=True), now)

    def end_any_stream(self, chance: Random, now: float) -> None:
        """The platform ends a stream before its time."""
        if streams := [message for message in self._visible() if message.streaming]:
            stream = chance.choice(streams)
            self._end_stream(stream.chat, stream.message_id, now)

    def _visible(self) -> list[PlatformMessage]:
        return [message for message in self.history() if not message.deleted]

    def _allows(self, request: Request) -> bool:
        limits, native, target = self._limits, self._limits.native, request.operation.target
        match request.operation:
            case Edit():
                return limits.edits is not None
            case Delete():
                return limits.deletes
            case Typing():
                return limits.typing_s is not None
            case Draft():
                return isinstance(native, DraftRules) and (native.in_groups or not target.group)
            case OpenStream() | AppendStream() | CloseStream():
                return isinstance(native, StreamRules) and _may_stream(native, target)
            case _:
                return True

    def _check_body(self, body: Body, name: str) -> None:
        limits = self._limits
        if not body.text.strip():
            self.forbidden.append(f"{name} is blank")
        for text in (body.text, body.markdown or ""):
            self._check_size(text, limits.limit, name)
        lines = body.text.strip().count("\n") + 1
        if limits.lines is not None and lines > limits.lines:
            self.forbidden.append(f"{name} has {lines} lines, the limit is {limits.lines}")

    def _check_size(self, text: str, limit: int, name: str) -> None:
        size = measure(text, self._limits.unit)
        if size > limit:
            self.forbidden.append(f"{name} has {size} {self._limits.unit}, the limit is {limit}: {text!r}")


def _may_stream(rules: StreamRules, target: Target) -> bool:
    return target.thread is not None or not rules.in_threads_only
