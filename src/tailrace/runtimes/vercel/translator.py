"""The chunks of one UI message stream of the AI SDK, as plain values, into events of ours.

Ids of blocks are used again in each step by version 5, so a block is known by its step, too. An error leaves open what
was open, and is followed by a `finish` like any other answer. `[DONE]` says that the stream is whole, also where an
application leaves out `finish`. `TurnTranslation` owns the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Media, Status, ToolProgress, Usage
from tailrace.runtimes.endpoint import SurrogateJoiner
from tailrace.runtimes.sdk import as_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation
from tailrace.runtimes.vercel import shapes

if TYPE_CHECKING:
    from collections.abc import Callable

DONE = "[DONE]"
_LONGEST_REMARK = 200

_Handler: TypeAlias = "Callable[[VercelTranslator, Any], list[Event]]"


class VercelTranslator:
    """One answer: `feed` its chunks until it `is_done`, say if the stream `broke`, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("the chat route")
        self._seams = SurrogateJoiner()
        self._step = 0
        self._seals: dict[str, Any] = {}  # the provider's own of each thought
        self._names: dict[str, str] = {}  # of tools, by call
        self._waiting: dict[str, str] = {}  # tools that wait for somebody's leave
        self._asked_for: dict[str, str] = {}  # calls, by what was asked
        self._reasons: dict[str, str] = {}  # why calls were allowed, or not
        self._ending: shapes.Message | None = None
        self._is_aborted = False
        self._has_failed = False
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        """Whether the answer has come to its own end, and not to a failure or a cancellation."""
        return self._ending is not None and not self._has_failed and not self._is_aborted

    def feed(self, native: Any) -> list[Event]:
        """One chunk of the stream."""
        if native == DONE:
            self.is_done = True
            self._ending = self._ending or shapes.Message()
            return []
        kind = native.get("type") if isinstance(native, dict) else None
        if not isinstance(kind, str):
            return self._turn.unknown_event(native)
        if kind in self._TABLE:
            shape, tell = self._TABLE[kind]
            given = {name: value for name, value in native.items() if value is not None}
            try:
                return tell(self, msgspec.convert(given, shape))
            except msgspec.ValidationError:
                pass
        elif kind.startswith("data-") and "data" in native:
            return [Status(text=status_text(native["data"])[:_LONGEST_REMARK])]
        elif kind in self._SILENT:
            return []
        return self._turn.unknown_event(native)

    def broke(self, message: str, *, code: str, status_code: int | None = None) -> None:
        """The stream has ended with a failure of its own; once the answer is complete that means nothing."""
        if self._ending is None:
            self._fail(message, code=code, status_code=status_code)

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        events: list[Event] = []
        if self._ending is not None:
            reason = as_text(self._ending.finish_reason)
            if self._waiting and self.is_complete:
                words = f"Waiting for approval: {', '.join(self._waiting.values())}"
                events += self._turn.block_final(("approval",), words)
                reason = "approval"
            self._turn.complete(stop_reason=reason)
        return [*events, *self._turn.end(cancelled=cancelled or self._is_aborted)]

    def _fail(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        self._has_failed = True
        self._turn.fail(message, code=code, status_code=status_code)

    # Blocks

    def _text(self, block: shapes.Block) -> list[Event]:
        return self._turn.text_delta(self._key(block), self._seams.join(self._key(block), block.delta))

    def _text_ended(self, block: shapes.Block) -> list[Event]:
        return self._turn.block_final(self._key(block))

    def _thought(self, block: shapes.Block) -> list[Event]:
        self._seal(block)
        delta = self._seams.join(("thought", block.id), block.delta)
        return self._turn.reasoning_delta(delta) if delta else []

    def _thought_ended(self, block: shapes.Block) -> list[Event]:
        self._seal(block)
        return self._turn.reasoning_end(self._seals.pop(block.id, None))

    def _seal(self, block: shapes.Block) -> None:
        if block.provider_metadata is not None:
            self._seals[block.id] = block.provider_metadata

    def _key(self, block: shapes.Block) -> tuple[int, str]:
        return (self._step, block.id)

    # Steps

    def _step_begun(self, _: Any) -> list[Event]:
        self._step += 1
        self._turn.model_call_completed()
        return []

    def _step_reset(self, _: Any) -> list[Event]:
        """What this step has said is said again, or something else is."""
        self._step += 1
        return self._turn.retract_try("the model was asked again")

    # Tools

    def _called(self, call: shapes.Call) -> list[Event]:
        self._names[call.tool_call_id] = call.tool_name
        return self._turn.tool_call(call.tool_call_id, call.tool_name, call.input)

    def _input_refused(self, call: shapes.Call) -> list[Event]:
        return [*self._called(call), *self._failed_call(call)]

    def _output(self, call: shapes.Call) -> list[Event]:
        if call.preliminary:
            return [ToolProgress(id=call.tool_call_id, text=as_text(call.output))]
        return self._turn.tool_result(call.tool_call_id, call.output)

    def _failed_call(self, call: shapes.Call) -> list[Event]:
        return self._turn.tool_result(call.tool_call_id, call.error_text, is_error=True)

    def _denied(self, call: shapes.Call) -> list[Event]:
        reason = self._reasons.get(call.tool_call_id) or "denied"
        return self._turn.tool_result(call.tool_call_id, reason, is_error=True)

    def _asked(self, request: shapes.Request) -> list[Event]:
        self._asked_for[request.approval_id] = request.tool_call_id
        if not request.is_automatic:
            self._waiting[request.approval_id] = self._names.get(request.tool_call_id, "a tool")
        return []

    def _answered(self, response: shapes.Response) -> list[Event]:
        self._waiting.pop(response.approval_id, None)
        if response.approval_id in self._asked_for:
            self._reasons[self._asked_for[response.approval_id]] = response.reason
        return []

    # The rest

    def _file(self, file: shapes.File) -> list[Event]:
        return [Media(url=file.url, mime=file.media_type)]

    def _source(self, source: shapes.Source) -> list[Event]:
        return [Status(text=f"Source: {source.title or source.url}"[:_LONGEST_REMARK])]

    def _known(self, message: shapes.Message) -> list[Event]:
        spent = message.tokens
        if spent is None:
            return []
        return [Usage(input_tokens=spent.input_tokens, output_tokens=spent.output_tokens, scope="turn")]

    def _finished(self, message: shapes.Message) -> list[Event]:
        self._ending = message
        if message.finish_reason == "error" and not self._has_failed:
            self._fail("the model has failed")
        return self._known(message)

    def _errored(self, trouble: shapes.Trouble) -> list[Event]:
        self._fail(as_text(trouble.error_text))
        return []

    def _aborted(self, _: Any) -> list[Event]:
        self._is_aborted = True
        return []

    _TABLE: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "start": (shapes.Message, _known),
        "message-metadata": (shapes.Message, _known),
        "finish": (shapes.Message, _finished),
        "error": (shapes.Trouble, _errored),
        "abort": (dict, _aborted),
        "start-step": (dict, _step_begun),
        "reset-step": (dict, _step_reset),
        "text-delta": (shapes.Block, _text),
        "text-end": (shapes.Block, _text_ended),
        "reasoning-start": (shapes.Block, _thought),
        "reasoning-delta": (shapes.Block, _thought),
        "reasoning-end": (shapes.Block, _thought_ended),
        "tool-input-start": (shapes.Call, _called),
        "tool-input-available": (shapes.Call, _called),
        "tool-input-error": (shapes.Call, _input_refused),
        "tool-output-available": (shapes.Call, _output),
        "tool-output-error": (shapes.Call, _failed_call),
        "tool-output-denied": (shapes.Call, _denied),
        "tool-approval-request": (shapes.Request, _asked),
        "tool-approval-response": (shapes.Response, _answered),
        "file": (shapes.File, _file),
        "source-url": (shapes.Source, _source),
        "source-document": (shapes.Source, _source),
    }
    # Beginnings and ends that say nothing, inputs that are told when they are complete, and what is between the
    # application and the model.
    _SILENT: ClassVar[set[str]] = {
        *("text-start", "tool-input-delta", "finish-step", "reasoning-file", "custom", "steering-message"),
    }
