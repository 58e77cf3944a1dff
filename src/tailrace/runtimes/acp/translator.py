"""What an agent says over the Agent Client Protocol, told as events.

The translator gets `session/update`, permission requests and the answer to a prompt as plain JSON. How they come is
`agent`'s to say, and what is done about them `runtime`'s. The protocol leaves much open:

- **A block of text** ends where the message's id changes, or with anything that is not text. Not every agent gives ids.
  What the system says in the middle of a block waits until it is over.
- **A tool's content** replaces what it was. Before the tool runs it describes the call, then it is what the tool
  prints; codex-acp appends to that by `_meta`. Of a call that is finished the plainest of all these is the result.
- **codex-acp says `end_turn` of a turn that failed.** The status of its thread tells, and the reason follows as text
  without an id. So do its warnings, to a client that takes no notices.
- **gemini-cli says `end_turn` of an answer that broke off**, each time it tried; what tells is that no answer counts.
- **The reason of a refused prompt** is told as text before, by some; that text is taken back.
- **`usage_update`** is how full the context is, not what was spent.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import msgspec

from tailrace.events import Event, PlanItem, PlanUpdated, Status, Usage
from tailrace.runtimes.acp.shapes import (
    Ended,
    Mode,
    PermissionRequest,
    Piece,
    Plan,
    PlanUpdate,
    Remark,
    Tokens,
    Tool,
    Update,
    as_media,
    as_text,
    refusal_of,
    said_by,
    within,
)
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.restart_detector import MAY_HAVE_BEGUN_AGAIN, RestartDetector
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

# Of use to an editor, or told by what follows; nobody else is told.
_SILENT = {
    "available_commands_update",
    "compaction_update",
    "config_option_update",
    "usage_update",
    "user_message_chunk",
}
_CUT_SHORT = {
    "max_tokens": "The answer ends here because it has reached the model's limit.",
    "max_turn_requests": "The agent stopped because it has asked its model as often as it may.",
    "refusal": "The agent refused to go on.",
}
# Each is a paragraph of its own, without an id; but not all that codex-acp says without one is a remark.
_CODEX_REMARKS = ("Warning: ", "Config warning: ", "*Context compacted")
# A thought of gemini-cli is a paragraph with a heading, with nothing between one and the next.
_HEADING = re.compile(r"\*\*[^*\n]+\*\*\n")
# A subagent that claude-agent-acp lets work on: what it returns is for the model alone, and says so.
_IN_BACKGROUND = "Started, and works on in the background."
# OpenCode counts its last request; the others whose counts are known, the whole turn.
_COUNTS_REQUESTS = {"OpenCode"}
_LONGEST_NOISE, _MOST_HELD = 1000, 100


class _Call:
    """What is known of a call: who made it, its input, whether it runs, and what it printed."""

    __slots__ = ("input", "is_launch", "parent", "printed", "runs")

    def __init__(self, tool: Tool) -> None:
        self.parent = tool.parent
        self.input: Any = tool.raw_input or None
        self.runs = self.is_launch = False
        self.printed: list[str] = []


_Handler: TypeAlias = "Callable[[AcpTranslator, Any], list[Event]]"


class AcpTranslator:
    """One prompt and all that is said to it: `update` and `asked`, then `answered`, `refused` or `lost`, and `close`.

    `agent` is the name the agent gives itself.
    """

    def __init__(self, runtime: str = "acp", *, agent: str = "") -> None:
        self._agent = agent
        self._turn = TurnTranslation(runtime)
        self._calls: dict[str, _Call] = {}
        self._unfinished: set[str] = set()
        self._block: tuple[str | None, str | None] | None = None
        self._last: tuple[str | None, str | None] | None = None
        self._spoken: list[str] = []
        self._held: list[Callable[[], list[Event]]] = []
        self._thought: tuple[str | None, str | None] | None = None
        self._has_failed = False
        self._reason: list[str] = []
        self._now: float | None = None
        self._attempts = RestartDetector()
        self._began_again = False

    @property
    def awaits_tools(self) -> bool:
        """Whether calls have begun that are not finished; they may be after the end of the turn, too."""
        return bool(self._unfinished)

    def update(self, params: Any, at_s: float | None = None) -> list[Event]:
        """What the agent says of its session, and when."""
        self._now = at_s
        update = within(params, "update")
        kind = str(within(update, "sessionUpdate"))
        if kind in _SILENT or (self._turn.is_finished and kind != "tool_call_update"):
            return []
        try:
            if kind in self._TOLD:
                shape, tell = self._TOLD[kind]
                return tell(self, msgspec.convert(update, shape))
        except msgspec.ValidationError:
            pass
        return self._wonder(params, kind)

    def noise(self, line: bytes) -> list[Event]:
        """A line that is no message of the protocol."""
        return self._wonder(line[:_LONGEST_NOISE].decode(errors="replace"))

    def remark(self, text: str) -> list[Event]:
        """A remark of the system."""
        return self._aside(partial(self._turn.notice, text))

    def asked(self, params: Any) -> tuple[list[Event], Question | None]:
        """The agent asks for permission: what for, where that can be understood."""
        try:
            request = msgspec.convert(params, PermissionRequest)
        except msgspec.ValidationError:
            return self._wonder(params), None
        tool = request.tool_call
        events = self._tool(tool)
        known = self._calls.get(tool.tool_call_id)
        arguments = tool.raw_input if known is None else known.input
        choices = tuple(Choice(id=option.option_id, name=option.name, kind=option.kind) for option in request.options)
        return events, Question(title=tool.title or tool.label, arguments=arguments, choices=choices)

    # The end

    def answered(self, result: Any) -> list[Event]:
        """The prompt is answered: the turn is over, in whatever way that is meant. Another answer says nothing."""
        if self._turn.is_finished:
            return []
        try:
            ended = msgspec.convert(result, Ended)
        except msgspec.ValidationError:
            self._turn.fail("the agent ended the turn without saying how", code="malformed")
            return self.close()
        events = [*self._settle(), *self._spent(ended)]
        if ended.stop_reason == "cancelled":
            return [*events, *self.close(cancelled=True)]
        if self._began_again and within(ended.meta, "quota", "model_usage") == []:
            self._turn.fail("the model's answer broke off", code="cut_off")
        elif self._has_failed:
            self._turn.fail("".join(self._reason).strip(), code="system_error")
        elif ended.stop_reason in _CUT_SHORT:
            events += self._turn.notice(_CUT_SHORT[ended.stop_reason])
        self._turn.complete(stop_reason=ended.stop_reason)
        return [*events, *self.close()]

    def refused(self, error: Any, *, login: str = "") -> list[Event]:
        """The prompt is answered with an error; `login` is what helps where that is that nobody is logged in."""
        message, code = refusal_of(error)
        said = "".join(self._spoken).strip()
        is_told = self._block is not None and said != "" and (message == said or message.endswith(f": {said}"))
        taken_back = self._turn.block_final(self._block, "") if is_told else []
        why = said if is_told else message
        if login and code == "auth_required":
            why = f"{why.rstrip('. ')}. {login}"
        self._turn.fail(why, code=code)
        return [*taken_back, *self.close()]

    def lost(self, reason: str, *, code: str = "cut_off") -> list[Event]:
        """There is nobody who could answer."""
        self._turn.fail(reason, code=code)
        return self.close()

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        return [*self._settle(), *self._turn.end(cancelled=cancelled)]

    def _spent(self, ended: Ended) -> list[Event]:
        counted = ended.usage
        if counted is None and (count := within(ended.meta, "quota", "token_count")) is not None:
            counted = {"inputTokens": within(count, "input_tokens"), "outputTokens": within(count, "output_tokens")}
        try:
            tokens = msgspec.convert(counted, Tokens)
        except msgspec.ValidationError:
            return []
        scope: Literal["request", "turn"] = "request" if self._agent in _COUNTS_REQUESTS else "turn"
        return [Usage(input_tokens=tokens.taken_in, output_tokens=tokens.given_out, scope=scope)]

    # Words

    def _message(self, said: Piece) -> list[Event]:
        piece = as_text(said.content)
        if piece is None:
            return self._medium(said)
        if said.message_id is None and self._has_failed:
            self._reason.append(piece)
            return []
        if said.message_id is None and "codex" in self._agent and piece.startswith(_CODEX_REMARKS):
            return self.remark(piece.strip())
        if not piece:
            return []
        key = (said.parent, said.message_id)
        events = [] if key == self._block else self._turn_to(key)
        self._spoken.append(piece)
        heard = self._attempts.feed(piece, self._now)
        if heard.begins_again:
            self._began_again = True
            events += self._turn.retract_try("the agent began its answer again", parent=said.parent)
        elif heard.may_begin_again:
            events += self._turn.block_final(key, parent=said.parent)
            events += self._turn.notice(MAY_HAVE_BEGUN_AGAIN, parent=said.parent)
        return [*events, *self._turn.text_delta(key, heard.text, parent=said.parent)]

    def _turn_to(self, key: tuple[str | None, str | None]) -> list[Event]:
        """Another block begins: what a message before it said stands, and what somebody else said is apart."""
        events = self._settle()
        if self._last is not None and self._last[0] != key[0]:
            events += self._turn.block_final(self._last, parent=self._last[0])
        self._turn.model_call_completed(parent=key[0])
        self._block = self._last = key
        self._spoken = []
        return events

    def _medium(self, said: Piece) -> list[Event]:
        media = as_media(said.content, said.parent)
        if media is None:
            return self._aside(partial(self._turn.unknown_event, said.content))
        return [*self._settle(), media]

    def _reflection(self, said: Piece) -> list[Event]:
        piece = as_text(said.content)
        if piece is None:
            return self._aside(partial(self._turn.unknown_event, said.content))
        thought = (said.parent, said.message_id)
        is_another = thought != self._thought or _HEADING.match(piece)
        if is_another:
            piece = piece.lstrip("\n")  # codex-acp begins each of them with a break
        if not piece:
            return []
        events = self._settle() if is_another else []
        self._thought = thought
        return [*events, *self._turn.reasoning_delta(piece, parent=said.parent)]

    def _settle(self) -> list[Event]:
        """Something else begins: the thought and the block are over, and what waited for that is told."""
        rest, self._attempts = self._attempts.close(), RestartDetector()
        told = [] if self._block is None else self._turn.text_delta(self._block, rest, parent=self._block[0])
        ended = [] if self._thought is None else self._turn.reasoning_end(parent=self._thought[0])
        held, self._held = self._held, []
        self._thought = self._block = None
        return [*told, *ended, *(event for tell in held for event in tell())]

    def _wonder(self, said: Any, kind: str | None = None) -> list[Event]:
        """Something unknown. An agent may print a log without end while it speaks, which is not to be held."""
        if len(self._held) >= _MOST_HELD:
            return []
        return self._aside(partial(self._turn.unknown_event, said, kind=kind))

    def _aside(self, tell: Callable[[], list[Event]]) -> list[Event]:
        if self._block is None:
            return [] if self._turn.is_finished else tell()
        self._held.append(tell)
        return []

    # Tools

    def _begun(self, tool: Tool) -> list[Event]:
        if tool.tool_call_id not in self._unfinished:
            self._calls.pop(tool.tool_call_id, None)  # ids are used again
        if not tool.ends:
            tool.content = None  # it describes the call
        return self._tool(tool)

    def _tool(self, tool: Tool) -> list[Event]:
        name = tool.tool_call_id
        call = self._calls.get(name)
        events: list[Event] = []
        if call is None:
            if self._turn.is_finished:
                return []
            call = self._calls[name] = _Call(tool)
            self._unfinished.add(name)
            events += [*self._settle(), *self._turn.tool_call(name, tool.label, call.input, parent=call.parent)]
        elif tool.raw_input and tool.raw_input != call.input and not self._turn.is_finished:
            call.input = tool.raw_input
            events += self._turn.tool_call(name, tool.label, call.input, parent=call.parent)
        call.is_launch = call.is_launch or within(tool.meta, "claudeCode", "toolResponse", "isAsync") is True
        events += self._printed(call, tool)
        return [*events, *self._finished(call, tool)] if tool.ends else events

    def _printed(self, call: _Call, tool: Tool) -> list[Event]:
        call.runs = call.runs or tool.status == "in_progress"
        piece = within(tool.meta, "terminal_output_delta", "data")
        if isinstance(piece, str):
            call.printed.append(piece)
            return self._turn.tool_output(tool.tool_call_id, piece)
        if tool.ends or not call.runs or not (whole := said_by(tool.content)):
            return []
        call.printed = [whole]
        return self._turn.tool_output_snapshot(tool.tool_call_id, whole)

    def _finished(self, call: _Call, tool: Tool) -> list[Event]:
        self._unfinished.discard(tool.tool_call_id)
        result = _IN_BACKGROUND if call.is_launch else tool.raw_output
        if not isinstance(result, str):
            result = said_by(tool.content) or "".join(call.printed) or result
        return self._turn.tool_result(
            tool.tool_call_id, "" if result is None else result, is_error=tool.status == "failed", parent=call.parent
        )

    # All else

    def _plan(self, plan: Plan) -> list[Event]:
        items = tuple(PlanItem(title=entry.content, status=entry.status) for entry in plan.entries)
        return [PlanUpdated(items=items, parent_tool_id=plan.parent)]

    def _plan_update(self, update: PlanUpdate) -> list[Event]:
        """Of a plan that is no list of steps there is only a line to show."""
        match update.plan:
            case {"entries": list()}:
                return self._plan(msgspec.convert(update.plan, Plan))
            case {"content": str(text)} | {"uri": str(text)} if text.strip():
                return [Status(text=f"Plan: {text.strip().splitlines()[0]}")]
        return []

    def _plan_removed(self, update: Update) -> list[Event]:
        return [PlanUpdated(items=(), parent_tool_id=update.parent)]

    def _mode(self, mode: Mode) -> list[Event]:
        return [Status(text=f"Mode: {mode.current_mode_id}")]

    def _notice(self, said: Remark) -> list[Event]:
        return self.remark(f"{said.title}: {said.description}" if said.description else said.title)

    def _session(self, session: Update) -> list[Event]:
        """What codex-acp says of its thread: the last status counts, and text of a failed try is said again."""
        status = within(session.meta, "codex", "threadStatus", "type")
        if status is not None:
            self._has_failed, self._reason = status == "systemError", []
        match within(session.meta, "codex", "error"):
            case {"willRetry": True, "message": str(message)}:
                again = self._turn.retract_try(message)
                return [*again, *self._settle(), Status(text=message)]
        return []

    _TOLD: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "agent_message_chunk": (Piece, _message),
        "agent_thought_chunk": (Piece, _reflection),
        "tool_call": (Tool, _begun),
        "tool_call_update": (Tool, _tool),
        "plan": (Plan, _plan),
        "plan_update": (PlanUpdate, _plan_update),
        "plan_removed": (Update, _plan_removed),
        "current_mode_update": (Mode, _mode),
        "session_info_update": (Update, _session),
        "notice": (Remark, _notice),
    }
