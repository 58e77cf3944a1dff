"""What each event looks like in a terminal: the answer as it comes, everything around it in dim lines.

`show` takes events; the `on_stream_*` methods of `StreamingChannelProvider` are said in the same terms. `post` is for
whole messages, as any `Channel` takes them. Text is shown as the Markdown it is. Passages of different kinds
(reasoning, answer, activity) are set apart by a blank line, whichever line ends the agent sends or forgets. What a
subagent says and does stands under its call, set in, with a bar before what it says.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias, assert_never

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.channels.terminal.headings import Headings
from tailrace.channels.terminal.lines import DIM, RED, Line, Lines
from tailrace.channels.terminal.posting import Posts
from tailrace.channels.terminal.tools import ToolLines
from tailrace.channels.terminal.visible import visible
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    Media,
    ModelChanged,
    Notice,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)
from tailrace.operations import Body, PostMedia, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.ports import Inbox

_Kind: TypeAlias = Literal["answer", "reasoning", "activity"]
_Remark: TypeAlias = Status | Notice | ModelChanged | ConfigReloaded | PlanUpdated | Media


class TerminalChannel:
    """The person at this terminal, or whoever reads the pipe; errors go to `err`, all else to `out`."""

    name = "terminal"
    # A terminal takes any length; a message is as long as one can be read, and shown before all of it is said. A write
    # waits for whoever reads, who may be a person with a pager.
    capabilities = Capabilities(idempotency=Unkeyed(), limit=4096, dialect="markdown", deadline_s=3600.0)

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        reasoning: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        out = out or sys.stdout
        self._lines = Lines(out)
        self._posts = Posts(out)
        self._errors = Lines(err or sys.stderr)
        self._tools = ToolLines(self._lines, begin=partial(self._begin, "activity"), clock=clock)
        self._reasoning = reasoning
        self._headings = Headings()
        self._passage: tuple[_Kind, str | None] | None = None
        self._subagent: str | None = None
        self._gap = 0
        self._blocks: dict[str | None, list[str]] = {}
        self._has_spoken = False

    async def show(self, event: Event) -> None:
        """Show one event of a turn; events come in the order of the contract."""
        match event:
            case TextDelta():
                self._say(event.text, event.parent_tool_id)
            case BlockFinal():
                self._finish_block(event.text, event.parent_tool_id)
            case TextRetracted():
                self._retract(event)
            case ReasoningDelta() | ReasoningEnd():
                self._think(event)
            case ToolStarted() | ToolInput() | ToolProgress() | ToolOutput() | ToolFinished():
                self._tools.show(event)
            case Status() | Notice() | ModelChanged() | ConfigReloaded() | PlanUpdated() | Media():
                self._remark(event)
            case Error() | TurnFailed():
                self._fail(event)
            case TurnStarted():
                self._start()
            case TurnCompleted() | TurnCancelled():
                self._end(event)
            case Usage():
                pass
            case _:
                assert_never(event)

    async def start(self, inbox: Inbox) -> None:
        """There is nothing to connect, and nobody who writes here."""

    async def stop(self) -> None:
        """There is nothing to disconnect."""

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:  # noqa: ARG002 -- one person, no keys
        """Print a whole message, set apart by a blank line."""
        return Receipt(message_id=await self._print(body.text))

    async def post_media(self, target: Target, media: PostMedia, *, key: str) -> Receipt:  # noqa: ARG002 -- as above
        """Print what there is to say of it: its caption, and the address it is at."""
        said = " ".join(filter(None, (media.caption, media.url or "(a file)", media.mime)))
        return Receipt(message_id=await self._print(f"▸ {said}"), degraded="not shown, only named")

    async def _print(self, text: str) -> str:
        message_id = await self._posts.write(self._lines.gap(2) + visible(text).rstrip("\n") + "\n")
        self._lines.forget()
        return message_id

    def note(self, text: str) -> None:
        """A dim remark of the program itself, outside any turn."""
        self._lines.space(1)
        self._lines.write(f"{self._lines.wrapped(visible(text))}\n", style=DIM)

    def complain(self, text: str) -> None:
        """Something the person should know went wrong: a red line among the errors."""
        self._lines.space(1)
        self._errors.write(f"{self._errors.wrapped(visible(text), '  ')}\n", style=RED)
        self._lines.forget()

    def make_room(self) -> None:
        """Somebody else is about to write to the same terminal: a status gives way to it, all else stays."""
        self._finish_thought()
        self._lines.withdraw("status")
        self._lines.space(2)
        self._lines.forget()
        if self._passage is not None and self._passage[0] != "activity":
            self._gap = 2

    async def on_stream_start(self, user_id: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """A turn begins."""
        self._start()

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show a further piece of the answer."""
        self._say(chunk)

    async def on_stream_status(self, user_id: str, status: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show what the agent is at, in place of the status before."""
        self._remark(Status(text=status))

    async def on_stream_end(self, user_id: str, full_text: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show what of the full text was not shown yet, and end the turn."""
        self._finish_block(full_text)
        self._end(TurnCompleted())

    def _start(self) -> None:
        self._passage = None
        self._subagent = None
        self._gap = 0
        self._blocks.clear()
        self._has_spoken = False

    def _begin(self, kind: _Kind, parent: str | None = None) -> None:
        """Set a passage of another kind, or of somebody else, apart from the one before."""
        passage = (kind, parent)
        if passage == self._passage:
            return
        self._finish_thought()
        before, self._passage = self._passage, passage
        if before is not None:
            self._gap = 2 if _is_own_text(passage) or _is_own_text(before) else 1
        if kind != "answer":
            self._blocks.pop(parent, None)
        if parent is not None:
            self._name_subagent(parent, is_apart=before is not None and _is_own_text(before))
        if kind == "activity":
            self._lines.space(self._gap)
            self._gap = 0

    def _name_subagent(self, parent: str, *, is_apart: bool) -> None:
        """Say which subagent speaks now, where another one did before, or the agent itself."""
        before, self._subagent = self._subagent, parent
        label = self._tools.label(parent)
        if not label or self._lines.ends_with(parent) or (before in {None, parent} and not is_apart):
            return
        self._lines.space(max(self._gap, 1))
        self._gap = 1
        self._lines.write(f"↳ {label}\n", style=DIM)

    def _flow(self, text: str, parent: str | None, *, style: str = "") -> None:
        """Text that goes on where it left off; a gap that is due is filled up around line ends of its own."""
        text = visible(text)
        if self._gap:
            body = text.lstrip("\n")
            if parent is None:
                self._lines.write(text[: len(text) - len(body)])
            if not body:
                return
            self._lines.space(self._gap)
            self._gap = 0
            text = body
        if parent is not None:
            self._lines.flow(text, f"{self._tools.indent(parent)}│ ", style=style)
        else:
            self._lines.write(text, style=style)

    def _say(self, text: str, parent: str | None = None) -> None:
        if not text:
            return
        self._begin("answer", parent)
        self._blocks.setdefault(parent, []).append(text)
        self._has_spoken = self._has_spoken or parent is None
        self._flow(text, parent)

    def _finish_block(self, text: str | None, parent: str | None = None) -> None:
        """Close the open text; where it is given whole, show what is missing, or all if it differs."""
        if text is not None:
            said = "".join(self._blocks.get(parent, ()))
            if text.startswith(said):
                self._say(text[len(said) :], parent)
            elif not text.strip():
                self._activity("↩", "the last text is withdrawn", parent)
            else:
                self._activity("↻", "said differently after all:", parent)
                self._say(text, parent)
        if self._blocks.pop(parent, None) and self._passage == ("answer", parent):
            self._gap = 2 if parent is None else 1

    def _retract(self, event: TextRetracted) -> None:
        what = "everything said above" if event.scope == "turn" else "the last text"
        reason = f": {event.reason}" if event.reason else ""
        if self._has_spoken or event.parent_tool_id is not None:
            self._activity("↩", f"{what} is withdrawn{reason}", event.parent_tool_id)
        if event.parent_tool_id is None:
            self._has_spoken = self._has_spoken and event.scope == "block"

    def _think(self, event: ReasoningDelta | ReasoningEnd) -> None:
        if not self._reasoning:
            return
        parent = event.parent_tool_id
        is_thinking = self._passage == ("reasoning", parent)
        if isinstance(event, ReasoningEnd):
            self._finish_thought()
            self._gap = (2 if parent is None else 1) if is_thinking else self._gap
        elif event.text:
            if not is_thinking or self._gap:
                self._begin("reasoning", parent)
                self._blocks.pop(parent, None)
                if not self._lines.styled:
                    self._flow("[reasoning] ", parent)
            self._flow(self._headings.feed(event.text), parent, style=DIM)

    def _finish_thought(self) -> None:
        """Show what of a thought was waited with; whatever comes next stands behind it."""
        if self._passage is not None and self._passage[0] == "reasoning":
            self._flow(self._headings.close(), self._passage[1], style=DIM)

    def _remark(self, event: _Remark) -> None:
        match event:
            case Status():
                self._keep("status", Line(f"· {_one_line(event.text)}"), event.parent_tool_id)
            case PlanUpdated():
                done = sum(item.status == "completed" for item in event.items)
                now = next((item.title for item in event.items if item.status == "in_progress"), "")
                progress = f"· plan: {done} of {len(event.items)} done"
                self._keep("plan", Line(progress, "", f" · {_one_line(now)}" if now else ""), event.parent_tool_id)
            case Notice():
                self._tools.hear(event.text)
                self._activity("·", event.text, event.parent_tool_id)
            case ModelChanged():
                self._activity("·", f"Switched to {event.model_id}" + (f" ({event.key_id})" if event.key_id else ""))
            case ConfigReloaded():
                self._activity("·", "Configuration reloaded")
            case Media():
                said = " ".join(filter(None, (event.caption, event.url or event.path, event.mime)))
                self._activity("▸", said, event.parent_tool_id)

    def _keep(self, key: str, line: Line, parent: str | None) -> None:
        """A dim line that says how things stand, in place of what it said before."""
        line = line._replace(head=f"{self._tools.indent(parent)}{line.head}")
        if not self._lines.renew(f"{key} {parent}" if parent else key, line, style=DIM):
            self._begin("activity", parent)
            self._lines.add(f"{key} {parent}" if parent else key, line, style=DIM)

    def _activity(self, mark: str, text: str, parent: str | None = None) -> None:
        """A dim remark that stays whole, however long it is."""
        self._begin("activity", parent)
        self._lines.space(1)
        indent = self._tools.indent(parent)
        self._lines.write(f"{self._lines.wrapped(f'{indent}{mark} {visible(text)}', f'{indent}  ')}\n", style=DIM)

    def _fail(self, event: Error | TurnFailed) -> None:
        about = [str(part) for part in (event.status_code, event.code) if part is not None]
        text = f"{event.message} ({', '.join(about)})" if about else event.message
        self._begin("activity")
        if isinstance(event, TurnFailed):
            self._tools.close()
        self.complain(f"{'failed' if isinstance(event, TurnFailed) else 'error'}: {text}")

    def _end(self, event: TurnCompleted | TurnCancelled) -> None:
        self._finish_thought()
        self._tools.close()
        if isinstance(event, TurnCompleted) and not self._has_spoken:
            self._say(event.text or "")
        if isinstance(event, TurnCancelled):
            self._begin("activity")
            self._lines.space(1)
            self._lines.write(f"cancelled{f': {visible(event.reason)}' if event.reason else ''}\n", style=DIM)
        self._lines.space(1)


def _is_own_text(passage: tuple[_Kind, str | None]) -> bool:
    """Whether it is what the agent itself says or thinks."""
    kind, parent = passage
    return kind != "activity" and parent is None


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
