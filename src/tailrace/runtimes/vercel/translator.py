"""Translates the chunks of one UI message stream of the AI SDK, as JSON values, into canonical events.

Version 5 reuses the ids of blocks in each step, so a block is identified by its step and its id. An error may leave
blocks open, and a `finish` follows the error, as after any answer. `[DONE]` means that the stream is complete, even if
the application sends no `finish`. `TurnTranslation` contains the rules that all agents share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Media, Status, ToolProgress, Usage
from tailrace.runtimes.sdk import as_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation
from tailrace.runtimes.vercel import shapes
from tailrace.surrogates import SurrogateJoiner

if TYPE_CHECKING:
    from collections.abc import Callable

DONE = "[DONE]"
_MAX_STATUS = 200

_Handler: TypeAlias = "Callable[[VercelTranslator, Any], list[Event]]"


class VercelTranslator:
    """Translates one answer: `feed` its chunks until it `is_done`, call `fail` if the stream broke, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("the chat route")
        self._joiner = SurrogateJoiner()
        self._step = 0
        self._metadata: dict[str, Any] = {}  # the provider's metadata of each reasoning block
        self._tool_names: dict[str, str] = {}  # by call id
        self._waiting_tools: dict[str, str] = {}  # by approval id
        self._approval_calls: dict[str, str] = {}  # by approval id
        self._reasons: dict[str, str] = {}  # why calls were approved or denied
        self._finish: shapes.MessageChunk | None = None
        self._is_aborted = False
        self._has_failed = False
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        """True if the answer has ended and has neither failed nor been cancelled."""
        return self._finish is not None and not self._has_failed and not self._is_aborted

    def feed(self, native: Any) -> list[Event]:
        """Translate one chunk of the stream."""
        if native == DONE:
            self.is_done = True
            self._finish = self._finish or shapes.MessageChunk()
            return []
        kind = native.get("type") if isinstance(native, dict) else None
        if not isinstance(kind, str):
            return self._turn.unknown_event(native)
        if kind in self._HANDLERS:
            shape, handler = self._HANDLERS[kind]
            given = {name: value for name, value in native.items() if value is not None}
            try:
                return handler(self, msgspec.convert(given, shape))
            except msgspec.ValidationError:
                pass
        elif kind.startswith("data-") and "data" in native:
            return [Status(text=status_text(native["data"])[:_MAX_STATUS])]
        elif kind in self._IGNORED:
            return []
        return self._turn.unknown_event(native)

    def fail(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        """Record that the stream has failed. After the end of the answer this does nothing."""
        if self._finish is None:
            self._fail(message, code=code, status_code=status_code)

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the turn. Returns the events that are still missing, with the terminal event last."""
        events: list[Event] = []
        if self._finish is not None:
            reason = as_text(self._finish.finish_reason)
            if self._waiting_tools and self.is_complete:
                text = f"Waiting for approval: {', '.join(self._waiting_tools.values())}"
                events += self._turn.block_final(("approval",), text)
                reason = "approval"
            self._turn.complete(stop_reason=reason)
        return [*events, *self._turn.end(cancelled=cancelled or self._is_aborted)]

    def _fail(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        self._has_failed = True
        self._turn.fail(message, code=code, status_code=status_code)

    # Blocks

    def _text_delta(self, block: shapes.BlockChunk) -> list[Event]:
        return self._turn.text_delta(self._key(block), self._joiner.join(self._key(block), block.delta))

    def _text_end(self, block: shapes.BlockChunk) -> list[Event]:
        return self._turn.block_final(self._key(block))

    def _reasoning_delta(self, block: shapes.BlockChunk) -> list[Event]:
        self._store_metadata(block)
        delta = self._joiner.join(("reasoning", block.id), block.delta)
        return self._turn.reasoning_delta(delta) if delta else []

    def _reasoning_end(self, block: shapes.BlockChunk) -> list[Event]:
        self._store_metadata(block)
        return self._turn.reasoning_end(self._metadata.pop(block.id, None))

    def _store_metadata(self, block: shapes.BlockChunk) -> None:
        if block.provider_metadata is not None:
            self._metadata[block.id] = block.provider_metadata

    def _key(self, block: shapes.BlockChunk) -> tuple[int, str]:
        return (self._step, block.id)

    # Steps

    def _step_start(self, _: Any) -> list[Event]:
        self._step += 1
        self._turn.model_call_completed()
        return []

    def _step_reset(self, _: Any) -> list[Event]:
        """Retract the text of this step, because the model is asked again."""
        self._step += 1
        return self._turn.retract_try("the model was asked again")

    # Tools

    def _tool_input(self, call: shapes.ToolChunk) -> list[Event]:
        self._tool_names[call.tool_call_id] = call.tool_name
        return self._turn.tool_call(call.tool_call_id, call.tool_name, call.input)

    def _tool_input_error(self, call: shapes.ToolChunk) -> list[Event]:
        return [*self._tool_input(call), *self._tool_error(call)]

    def _tool_output(self, call: shapes.ToolChunk) -> list[Event]:
        if call.preliminary:
            return [ToolProgress(id=call.tool_call_id, text=as_text(call.output))]
        return self._turn.tool_result(call.tool_call_id, call.output)

    def _tool_error(self, call: shapes.ToolChunk) -> list[Event]:
        return self._turn.tool_result(call.tool_call_id, call.error_text, is_error=True)

    def _tool_denied(self, call: shapes.ToolChunk) -> list[Event]:
        reason = self._reasons.get(call.tool_call_id) or "denied"
        return self._turn.tool_result(call.tool_call_id, reason, is_error=True)

    def _approval_request(self, request: shapes.ToolApprovalRequest) -> list[Event]:
        self._approval_calls[request.approval_id] = request.tool_call_id
        if not request.is_automatic:
            self._waiting_tools[request.approval_id] = self._tool_names.get(request.tool_call_id, "a tool")
        return []

    def _approval_response(self, response: shapes.ToolApprovalResponse) -> list[Event]:
        self._waiting_tools.pop(response.approval_id, None)
        if response.approval_id in self._approval_calls:
            self._reasons[self._approval_calls[response.approval_id]] = response.reason
        return []

    # Files, sources, usage, the end

    def _file(self, file: shapes.FileChunk) -> list[Event]:
        return [Media(url=file.url, mime=file.media_type)]

    def _source(self, source: shapes.SourceChunk) -> list[Event]:
        return [Status(text=f"Source: {source.title or source.url}"[:_MAX_STATUS])]

    def _usage(self, message: shapes.MessageChunk) -> list[Event]:
        usage = message.usage
        if usage is None:
            return []
        return [Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, scope="turn")]

    def _message_finish(self, message: shapes.MessageChunk) -> list[Event]:
        self._finish = message
        if message.finish_reason == "error" and not self._has_failed:
            self._fail("the model has failed")
        return self._usage(message)

    def _error(self, error: shapes.StreamError) -> list[Event]:
        self._fail(as_text(error.error_text))
        return []

    def _abort(self, _: Any) -> list[Event]:
        self._is_aborted = True
        return []

    _HANDLERS: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "start": (shapes.MessageChunk, _usage),
        "message-metadata": (shapes.MessageChunk, _usage),
        "finish": (shapes.MessageChunk, _message_finish),
        "error": (shapes.StreamError, _error),
        "abort": (dict, _abort),
        "start-step": (dict, _step_start),
        "reset-step": (dict, _step_reset),
        "text-delta": (shapes.BlockChunk, _text_delta),
        "text-end": (shapes.BlockChunk, _text_end),
        "reasoning-start": (shapes.BlockChunk, _reasoning_delta),
        "reasoning-delta": (shapes.BlockChunk, _reasoning_delta),
        "reasoning-end": (shapes.BlockChunk, _reasoning_end),
        "tool-input-start": (shapes.ToolChunk, _tool_input),
        "tool-input-available": (shapes.ToolChunk, _tool_input),
        "tool-input-error": (shapes.ToolChunk, _tool_input_error),
        "tool-output-available": (shapes.ToolChunk, _tool_output),
        "tool-output-error": (shapes.ToolChunk, _tool_error),
        "tool-output-denied": (shapes.ToolChunk, _tool_denied),
        "tool-approval-request": (shapes.ToolApprovalRequest, _approval_request),
        "tool-approval-response": (shapes.ToolApprovalResponse, _approval_response),
        "file": (shapes.FileChunk, _file),
        "source-url": (shapes.SourceChunk, _source),
        "source-document": (shapes.SourceChunk, _source),
    }
    # Starts and ends without content, pieces of inputs (the complete input follows), and messages between the
    # application and the model.
    _IGNORED: ClassVar[set[str]] = {
        *("text-start", "tool-input-delta", "finish-step", "reasoning-file", "custom", "steering-message"),
    }
