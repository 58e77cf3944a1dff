"""Translate the messages of an agent that uses the Agent Client Protocol.

The translator takes `session/update`, permission requests and the response to a prompt as decoded JSON. `agent`
receives them, `turn` acts on them. The protocol leaves much open:

- **A block of text** ends where the message id changes, or at anything that is not text. Not every agent gives ids.
  System events in the middle of a block are held back until the block is complete.
- **The content of a tool** replaces its earlier content. Before the tool runs, it describes the call, then it is the
  output of the tool; codex-acp sends output in `_meta`. The result is the first of these that is text: the raw output,
  the content, the printed output.
- **codex-acp reports `end_turn` for a turn that failed.** The status of its thread shows the failure, and the reason
  follows as text without an id. Its warnings have no id either, unless the client supports notices.
- **gemini-cli reports `end_turn` even if the answer broke off in every try.** Then its usage counts no answer.
- **The reason of a refused prompt** is also sent as text by some agents, before the refusal; that text is retracted.
- **`usage_update`** is the size of the context, not the number of tokens that were used.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import msgspec

from tailrace.events import Event, PlanItem, PlanUpdated, Status, Usage
from tailrace.runtimes.acp import shapes
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED, RestartDetector
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

# These updates are useful for an editor only, or later updates repeat their content.
_IGNORED = {
    "available_commands_update",
    "compaction_update",
    "config_option_update",
    "usage_update",
    "user_message_chunk",
}
_STOP_NOTICES = {
    "max_tokens": "The answer ends here: it has reached the model's limit.",
    "max_turn_requests": "The agent stopped: it has reached its limit of model calls.",
    "refusal": "The agent refused to continue.",
}
# How notices of codex-acp begin. A notice is a paragraph without an id, but other texts have no id either.
_CODEX_NOTICES = ("Warning: ", "Config warning: ", "*Context compacted")
# gemini-cli sends reasoning as paragraphs with a heading. Only the heading shows where the next paragraph begins.
_HEADING = re.compile(r"\*\*[^*\n]+\*\*\n")
# The result shown if claude-agent-acp starts a subagent in the background: its own result is meant for the model only.
_IN_BACKGROUND = "Started in the background."
# OpenCode counts its last request; the other known agents count the whole turn.
_REQUEST_USAGE = {"OpenCode"}
_MAX_LINE, _MAX_HELD = 1000, 100


class _Call:
    """What is known of a tool call: its subagent (`parent`), its input, whether it runs, and what it printed."""

    __slots__ = ("arguments", "is_background_launch", "is_running", "parent", "printed")

    def __init__(self, tool: shapes.ToolUpdate) -> None:
        self.parent = tool.parent
        self.arguments: Any = tool.raw_input or None
        self.is_running = self.is_background_launch = False
        self.printed: list[str] = []


_Handler: TypeAlias = "Callable[[AcpTranslator, Any], list[Event]]"


class AcpTranslator:
    """Translates the messages of one turn. `agent` is the name that the agent gives itself.

    Call `update` and `permission_request` for each message. End the turn with `prompt_result`, `prompt_error`,
    `agent_lost` or `close`.
    """

    def __init__(self, runtime: str = "acp", *, agent: str = "") -> None:
        self._agent = agent
        self.turn = TurnTranslation(runtime)
        self._calls: dict[str, _Call] = {}
        self._block: tuple[str | None, str | None] | None = None
        self._last: tuple[str | None, str | None] | None = None
        self._block_pieces: list[str] = []
        self._held: list[Callable[[], list[Event]]] = []
        self._reasoning_key: tuple[str | None, str | None] | None = None
        self._thread_failed = False
        self._failure_pieces: list[str] = []
        self._received_at: float | None = None
        self._restarts = RestartDetector()
        self._was_restarted = False

    def update(self, params: Any, at_s: float | None = None) -> list[Event]:
        """Translate a `session/update` message, which was received at the time `at_s`."""
        self._received_at = at_s
        update = shapes.at_path(params, "update")
        kind = str(shapes.at_path(update, "sessionUpdate"))
        if kind in _IGNORED or (self.turn.is_finished and kind != "tool_call_update"):
            return []
        try:
            if kind in self._TABLE:
                shape, handle = self._TABLE[kind]
                return handle(self, msgspec.convert(update, shape))
        except msgspec.ValidationError:
            pass
        return self._unknown(params, kind)

    def invalid_line(self, line: bytes) -> list[Event]:
        """Report a line that is not a message of the protocol."""
        return self._unknown(line[:_MAX_LINE].decode(errors="replace"))

    def notice(self, text: str) -> list[Event]:
        """Add a notice; if a block of text is open, after that block."""
        return self._after_block(partial(self.turn.notice, text))

    def permission_request(self, params: Any) -> tuple[list[Event], Question | None]:
        """Translate a request for permission. Returns the question to decide; None if the request cannot be read."""
        try:
            request = msgspec.convert(params, shapes.PermissionRequest)
        except msgspec.ValidationError:
            return self._unknown(params), None
        tool = request.tool_call
        events = self._tool_update(tool)
        known = self._calls.get(tool.tool_call_id)
        arguments = tool.raw_input if known is None else known.arguments
        choices = tuple(Choice(id=option.option_id, name=option.name, kind=option.kind) for option in request.options)
        return events, Question(title=tool.title or tool.label, arguments=arguments, choices=choices)

    # The end

    def prompt_result(self, result: Any) -> list[Event]:
        """End the turn as the agent's response to the prompt says: complete, cancelled or failed.

        A second result is ignored.
        """
        if self.turn.is_finished:
            return []
        try:
            result = msgspec.convert(result, shapes.PromptResult)
        except msgspec.ValidationError:
            self.turn.fail("the agent ended the turn in a way that cannot be read", code="malformed")
            return self.close()
        events = [*self._close_block(), *self._usage(result)]
        if result.stop_reason == "cancelled":
            return [*events, *self.close(cancelled=True)]
        if self._was_restarted and shapes.at_path(result.meta, "quota", "model_usage") == []:
            self.turn.fail("the model's answer broke off", code="cut_off")
        elif self._thread_failed:
            self.turn.fail("".join(self._failure_pieces).strip(), code="system_error")
        elif result.stop_reason in _STOP_NOTICES:
            events += self.turn.notice(_STOP_NOTICES[result.stop_reason])
        self.turn.complete(stop_reason=result.stop_reason)
        return [*events, *self.close()]

    def prompt_error(self, error: Any, *, login_hint: str = "") -> list[Event]:
        """End the turn because the agent responded to the prompt with an error.

        If the user is not logged in, `login_hint` is added to the error.
        """
        message, code = shapes.error_text_and_code(error)
        text = "".join(self._block_pieces).strip()
        was_emitted = self._block is not None and text != "" and (message == text or message.endswith(f": {text}"))
        retraction = self.turn.block_final(self._block, "") if was_emitted else []
        message = text if was_emitted else message
        if login_hint and code == "auth_required":
            message = f"{message.rstrip('. ')}. {login_hint}"
        self.turn.fail(message, code=code)
        return [*retraction, *self.close()]

    def agent_lost(self, reason: str, *, code: str = "cut_off") -> list[Event]:
        """End the turn, because the agent has ended without a response."""
        self.turn.fail(reason, code=code)
        return self.close()

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the stream. Returns the terminal event if there was none."""
        return [*self._close_block(), *self.turn.end(cancelled=cancelled)]

    def _usage(self, result: shapes.PromptResult) -> list[Event]:
        tokens = result.usage
        if tokens is None and (count := shapes.at_path(result.meta, "quota", "token_count")) is not None:
            tokens = {
                "inputTokens": shapes.at_path(count, "input_tokens"),
                "outputTokens": shapes.at_path(count, "output_tokens"),
            }
        try:
            tokens = msgspec.convert(tokens, shapes.AcpUsage)
        except msgspec.ValidationError:
            return []
        scope: Literal["request", "turn"] = "request" if self._agent in _REQUEST_USAGE else "turn"
        return [Usage(input_tokens=tokens.all_input_tokens, output_tokens=tokens.all_output_tokens, scope=scope)]

    # Text

    def _message(self, chunk: shapes.ContentChunk) -> list[Event]:
        piece = shapes.content_text(chunk.content)
        if piece is None:
            return self._media(chunk)
        if chunk.message_id is None and self._thread_failed:
            self._failure_pieces.append(piece)
            return []
        if chunk.message_id is None and "codex" in self._agent and piece.startswith(_CODEX_NOTICES):
            return self.notice(piece.strip())
        if not piece:
            return []
        key = (chunk.parent, chunk.message_id)
        events = [] if key == self._block else self._open_block(key)
        self._block_pieces.append(piece)
        detected = self._restarts.feed(piece, self._received_at)
        if detected.is_restart:
            self._was_restarted = True
            events += self.turn.retract_try("the agent started its answer again", parent=chunk.parent)
        elif detected.may_be_restart:
            events += self.turn.block_final(key, parent=chunk.parent)
            events += self.turn.notice(MAY_BE_RESTARTED, parent=chunk.parent)
        return [*events, *self.turn.text_delta(key, detected.text, parent=chunk.parent)]

    def _open_block(self, key: tuple[str | None, str | None]) -> list[Event]:
        """Begin another block of text.

        No later retry can retract the message before it. If that message came from another speaker (the agent or a
        subagent), it is closed.
        """
        events = self._close_block()
        if self._last is not None and self._last[0] != key[0]:
            events += self.turn.block_final(self._last, parent=self._last[0])
        self.turn.model_call_completed(parent=key[0])
        self._block = self._last = key
        self._block_pieces = []
        return events

    def _media(self, chunk: shapes.ContentChunk) -> list[Event]:
        media = shapes.content_media(chunk.content, chunk.parent)
        if media is None:
            return self._after_block(partial(self.turn.unknown_event, chunk.content))
        return [*self._close_block(), media]

    def _reasoning(self, chunk: shapes.ContentChunk) -> list[Event]:
        piece = shapes.content_text(chunk.content)
        if piece is None:
            return self._after_block(partial(self.turn.unknown_event, chunk.content))
        key = (chunk.parent, chunk.message_id)
        is_another = key != self._reasoning_key or _HEADING.match(piece)
        if is_another:
            piece = piece.lstrip("\n")  # codex-acp begins each of its paragraphs with line ends
        if not piece:
            return []
        events = self._close_block() if is_another else []
        self._reasoning_key = key
        return [*events, *self.turn.reasoning_delta(piece, parent=chunk.parent)]

    def _close_block(self) -> list[Event]:
        """Close the open reasoning or text, because something else starts.

        Then emit the events that waited for its end.
        """
        rest, self._restarts = self._restarts.close(), RestartDetector()
        events = [] if self._block is None else self.turn.text_delta(self._block, rest, parent=self._block[0])
        result = [] if self._reasoning_key is None else self.turn.reasoning_end(parent=self._reasoning_key[0])
        held, self._held = self._held, []
        self._reasoning_key = self._block = None
        return [*events, *result, *(event for handle in held for event in handle())]

    def _unknown(self, value: Any, kind: str | None = None) -> list[Event]:
        """Report a message of an unknown kind; if a block of text is open, after that block.

        At most `_MAX_HELD` reports wait for the end of a block. Further ones are dropped, so that an agent that prints
        a log while it writes text does not fill the memory.
        """
        if len(self._held) >= _MAX_HELD:
            return []
        return self._after_block(partial(self.turn.unknown_event, value, kind=kind))

    def _after_block(self, handle: Callable[[], list[Event]]) -> list[Event]:
        if self._block is None:
            return [] if self.turn.is_finished else handle()
        self._held.append(handle)
        return []

    # Tools

    def _tool_call(self, tool: shapes.ToolUpdate) -> list[Event]:
        if not self.turn.is_open_call(tool.tool_call_id):
            self._calls.pop(tool.tool_call_id, None)  # ids are reused
        if not tool.is_finished:
            tool.content = None  # before the call runs, the content only describes the call
        return self._tool_update(tool)

    def _tool_update(self, tool: shapes.ToolUpdate) -> list[Event]:
        call_id = tool.tool_call_id
        call = self._calls.get(call_id)
        events: list[Event] = []
        if call is None:
            if self.turn.is_finished:
                return []
            call = self._calls[call_id] = _Call(tool)
            events += [
                *self._close_block(),
                *self.turn.tool_call(call_id, tool.label, call.arguments, parent=call.parent),
            ]
        elif tool.raw_input and tool.raw_input != call.arguments and not self.turn.is_finished:
            call.arguments = tool.raw_input
            events += self.turn.tool_call(call_id, tool.label, call.arguments, parent=call.parent)
        call.is_background_launch = (
            call.is_background_launch or shapes.at_path(tool.meta, "claudeCode", "toolResponse", "isAsync") is True
        )
        events += self._tool_output(call, tool)
        return [*events, *self._tool_finished(call, tool)] if tool.is_finished else events

    def _tool_output(self, call: _Call, tool: shapes.ToolUpdate) -> list[Event]:
        call.is_running = call.is_running or tool.status == "in_progress"
        piece = shapes.at_path(tool.meta, "terminal_output_delta", "data")
        if isinstance(piece, str):
            call.printed.append(piece)
            return self.turn.tool_output(tool.tool_call_id, piece)
        if tool.is_finished or not call.is_running or not (whole := shapes.tool_content_text(tool.content)):
            return []
        call.printed = [whole]
        return self.turn.tool_output_snapshot(tool.tool_call_id, whole)

    def _tool_finished(self, call: _Call, tool: shapes.ToolUpdate) -> list[Event]:
        result = _IN_BACKGROUND if call.is_background_launch else tool.raw_output
        if not isinstance(result, str):
            result = shapes.tool_content_text(tool.content) or "".join(call.printed) or result
        return self.turn.tool_result(
            tool.tool_call_id, "" if result is None else result, is_error=tool.status == "failed", parent=call.parent
        )

    # Other updates

    def _plan(self, plan: shapes.AcpPlan) -> list[Event]:
        items = tuple(PlanItem(title=entry.content, status=entry.status) for entry in plan.entries)
        return [PlanUpdated(items=items, parent_tool_id=plan.parent)]

    def _plan_update(self, update: shapes.PlanUpdate) -> list[Event]:
        """Show a plan: its steps if it has a list of steps, else the first line of its text."""
        match update.plan:
            case {"entries": list()}:
                return self._plan(msgspec.convert(update.plan, shapes.AcpPlan))
            case {"content": str(text)} | {"uri": str(text)} if text.strip():
                return [Status(text=f"Plan: {text.strip().splitlines()[0]}")]
        return []

    def _plan_removed(self, update: shapes.SessionUpdate) -> list[Event]:
        return [PlanUpdated(items=(), parent_tool_id=update.parent)]

    def _mode(self, mode: shapes.ModeUpdate) -> list[Event]:
        return [Status(text=f"Mode: {mode.current_mode_id}")]

    def _notice(self, chunk: shapes.NoticeUpdate) -> list[Event]:
        return self.notice(f"{chunk.title}: {chunk.description}" if chunk.description else chunk.title)

    def _session_info(self, session: shapes.SessionUpdate) -> list[Event]:
        """Handle what codex-acp reports about its thread.

        Only the newest status of the thread counts. If a model call failed and is tried again, its text is retracted.
        """
        status = shapes.at_path(session.meta, "codex", "threadStatus", "type")
        if status is not None:
            self._thread_failed, self._failure_pieces = status == "systemError", []
        match shapes.at_path(session.meta, "codex", "error"):
            case {"willRetry": True, "message": str(message)}:
                retraction = self.turn.retract_try(message)
                return [*retraction, *self._close_block(), Status(text=message)]
        return []

    _TABLE: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "agent_message_chunk": (shapes.ContentChunk, _message),
        "agent_thought_chunk": (shapes.ContentChunk, _reasoning),
        "tool_call": (shapes.ToolUpdate, _tool_call),
        "tool_call_update": (shapes.ToolUpdate, _tool_update),
        "plan": (shapes.AcpPlan, _plan),
        "plan_update": (shapes.PlanUpdate, _plan_update),
        "plan_removed": (shapes.SessionUpdate, _plan_removed),
        "current_mode_update": (shapes.ModeUpdate, _mode),
        "session_info_update": (shapes.SessionUpdate, _session_info),
        "notice": (shapes.NoticeUpdate, _notice),
    }
