"""Shows each event in a terminal: the answer as it comes, everything else in dim lines.

`show` takes the events of a turn. Extensions that know only text use the `on_stream_*` methods instead. `post` prints a
whole message, as in any `Channel`. Markdown is not rendered. A passage is text of one kind: reasoning, answer or
activity. One blank line separates passages; line ends that the agent wrote count for it. The text and the calls of a
subagent are indented under the call that started it, and its text has a bar before each row.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias, assert_never

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.channels.terminal.headings import HeadingFilter
from tailrace.channels.terminal.lines import DIM, RED, TerminalLine, TerminalWriter
from tailrace.channels.terminal.posting import MessageWriter
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
from tailrace.operations import Post, PostMedia, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.ports import Inbox

_Kind: TypeAlias = Literal["answer", "reasoning", "activity"]
_Remark: TypeAlias = Status | Notice | ModelChanged | ConfigReloaded | PlanUpdated | Media


class TerminalChannel:
    """Shows turns and messages at this terminal, or writes them to a pipe. Errors go to `err`, all else to `out`."""

    name = "terminal"
    # A terminal takes messages of any length. The limit keeps them readable, and lets the first one appear before the
    # turn ends. The deadline is long because a write waits for the reader, who may be a person with a pager.
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
        self._writer = TerminalWriter(out)
        self._messages = MessageWriter(out)
        self._errors = TerminalWriter(err or sys.stderr)
        self._tools = ToolLines(self._writer, begin=partial(self._begin_passage, "activity"), clock=clock)
        self._reasoning = reasoning
        self._headings = HeadingFilter()
        self._passage: tuple[_Kind, str | None] | None = None
        self._subagent: str | None = None
        self._newlines_due = 0
        self._open_blocks: dict[str | None, list[str]] = {}
        self._has_answer = False
        self._stopped = asyncio.Event()

    async def show(self, event: Event) -> None:
        """Show one event of a turn; events come in the order of the contract."""
        match event:
            case TextDelta():
                self._show_answer(event.text, event.parent_tool_id)
            case BlockFinal():
                self._finish_block(event.text, event.parent_tool_id)
            case TextRetracted():
                self._retract(event)
            case ReasoningDelta() | ReasoningEnd():
                self._show_reasoning(event)
            case ToolStarted() | ToolInput() | ToolProgress() | ToolOutput() | ToolFinished():
                self._tools.show(event)
            case Status() | Notice() | ModelChanged() | ConfigReloaded() | PlanUpdated() | Media():
                self._show_remark(event)
            case Error() | TurnFailed():
                self._show_error(event)
            case TurnStarted():
                self._start_turn()
            case TurnCompleted() | TurnCancelled():
                self._end_turn(event)
            case Usage():
                pass
            case _:
                assert_never(event)

    async def start(self, inbox: Inbox) -> None:  # noqa: ARG002 -- the channel receives nothing
        """Do nothing: there is no connection, and `tailrace chat` reads the keyboard itself."""
        self._stopped.clear()

    async def stop(self) -> None:
        """Let `wait_closed` return. There is no connection to close."""
        self._stopped.set()

    async def wait_closed(self) -> None:
        """Wait for `stop`.

        If the output was closed by its reader, this does not return; the next `post` raises an error.
        """
        await self._stopped.wait()

    async def post(self, post: Post, *, key: str) -> Receipt:  # noqa: ARG002 -- a terminal knows no keys
        """Print a whole message, after a blank line."""
        return Receipt(message_id=await self._print(post.body.text))

    async def post_media(self, media: PostMedia, *, key: str) -> Receipt:  # noqa: ARG002 -- a terminal knows no keys
        """Print the caption and the address of the file."""
        text = " ".join(filter(None, (media.caption, media.url or "(a file)", media.mime)))
        return Receipt(message_id=await self._print(f"▸ {text}"), degraded="not shown, only named")

    async def _print(self, text: str) -> str:
        message_id = await self._messages.write(self._writer.gap(2) + visible(text).rstrip("\n") + "\n")
        self._writer.forget()
        return message_id

    def note(self, text: str) -> None:
        """Show a dim line from the program itself, outside any turn."""
        self._writer.space(1)
        self._writer.write(f"{self._writer.wrapped(visible(text))}\n", style=DIM)

    def complain(self, text: str) -> None:
        """Show an error message in red."""
        self._writer.space(1)
        self._errors.write(f"{self._errors.wrapped(visible(text), '  ')}\n", style=RED)
        self._writer.forget()

    def make_room(self) -> None:
        """Call this before something else writes to the same terminal: removes a status line and ends an open line."""
        self._finish_reasoning()
        self._writer.withdraw("status")
        self._writer.space(2)
        self._writer.forget()
        if self._passage is not None and self._passage[0] != "activity":
            self._newlines_due = 2

    async def on_stream_start(self, user_id: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Begin a turn."""
        self._start_turn()

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show a further piece of the answer."""
        self._show_answer(chunk)

    async def on_stream_status(self, user_id: str, status: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show what the agent does, in place of the earlier status."""
        self._show_remark(Status(text=status))

    async def on_stream_end(self, user_id: str, full_text: str) -> None:  # noqa: ARG002 -- a terminal has one user
        """Show the rest of the full text, and end the turn."""
        self._finish_block(full_text)
        self._end_turn(TurnCompleted())

    def _start_turn(self) -> None:
        self._passage = None
        self._subagent = None
        self._newlines_due = 0
        self._open_blocks.clear()
        self._has_answer = False

    def _begin_passage(self, kind: _Kind, parent: str | None = None) -> None:
        """Write a blank line if the next text is of another kind, or from another speaker, than the text before it."""
        passage = (kind, parent)
        if passage == self._passage:
            return
        self._finish_reasoning()
        before, self._passage = self._passage, passage
        if before is not None:
            self._newlines_due = 2 if _is_own_text(passage) or _is_own_text(before) else 1
        if kind != "answer":
            self._open_blocks.pop(parent, None)
        if parent is not None:
            self._name_subagent(parent, is_apart=before is not None and _is_own_text(before))
        if kind == "activity":
            self._writer.space(self._newlines_due)
            self._newlines_due = 0

    def _name_subagent(self, parent: str, *, is_apart: bool) -> None:
        """Write the name of the subagent, if the text before came from the main agent or from another subagent."""
        before, self._subagent = self._subagent, parent
        label = self._tools.label(parent)
        if not label or self._writer.ends_with(parent) or (before in {None, parent} and not is_apart):
            return
        self._writer.space(max(self._newlines_due, 1))
        self._newlines_due = 1
        self._writer.write(f"↳ {label}\n", style=DIM)

    def _write_text(self, text: str, parent: str | None, *, style: str = "") -> None:
        """Write text of the current passage.

        If a blank line is due before the text, line ends at the beginning of the text count for it.
        """
        text = visible(text)
        if self._newlines_due:
            body = text.lstrip("\n")
            if parent is None:
                self._writer.write(text[: len(text) - len(body)])
            if not body:
                return
            self._writer.space(self._newlines_due)
            self._newlines_due = 0
            text = body
        if parent is not None:
            self._writer.write_barred(text, f"{self._tools.indent(parent)}│ ", style=style)
        else:
            self._writer.write(text, style=style)

    def _show_answer(self, text: str, parent: str | None = None) -> None:
        if not text:
            return
        self._begin_passage("answer", parent)
        self._open_blocks.setdefault(parent, []).append(text)
        self._has_answer = self._has_answer or parent is None
        self._write_text(text, parent)

    def _finish_block(self, text: str | None, parent: str | None = None) -> None:
        """Close the open block. `text` is the whole text of the block, or None.

        If `text` begins with what was shown already, only the rest is shown; otherwise all of it.
        """
        if text is not None:
            shown = "".join(self._open_blocks.get(parent, ()))
            if text.startswith(shown):
                self._show_answer(text[len(shown) :], parent)
            elif not text.strip():
                self._write_remark("↩", "the last text is withdrawn", parent)
            else:
                self._write_remark("↻", "the last text is replaced by:", parent)
                self._show_answer(text, parent)
        if self._open_blocks.pop(parent, None) and self._passage == ("answer", parent):
            self._newlines_due = 2 if parent is None else 1

    def _retract(self, event: TextRetracted) -> None:
        what = "everything above" if event.scope == "turn" else "the last text"
        reason = f": {event.reason}" if event.reason else ""
        if self._has_answer or event.parent_tool_id is not None:
            self._write_remark("↩", f"{what} is withdrawn{reason}", event.parent_tool_id)
        if event.parent_tool_id is None:
            self._has_answer = self._has_answer and event.scope == "block"

    def _show_reasoning(self, event: ReasoningDelta | ReasoningEnd) -> None:
        if not self._reasoning:
            return
        parent = event.parent_tool_id
        is_thinking = self._passage == ("reasoning", parent)
        if isinstance(event, ReasoningEnd):
            self._finish_reasoning()
            self._newlines_due = (2 if parent is None else 1) if is_thinking else self._newlines_due
        elif event.text:
            if not is_thinking or self._newlines_due:
                self._begin_passage("reasoning", parent)
                if not self._writer.styled:
                    self._write_text("[reasoning] ", parent)
            self._write_text(self._headings.feed(event.text), parent, style=DIM)

    def _finish_reasoning(self) -> None:
        """Show the end of the reasoning, which the heading filter has kept back until now."""
        if self._passage is not None and self._passage[0] == "reasoning":
            self._write_text(self._headings.close(), self._passage[1], style=DIM)

    def _show_remark(self, event: _Remark) -> None:
        match event:
            case Status():
                self._show_state("status", TerminalLine(f"· {_one_line(event.text)}"), event.parent_tool_id)
            case PlanUpdated():
                done = sum(item.status == "completed" for item in event.items)
                now = next((item.title for item in event.items if item.status == "in_progress"), "")
                detail = f" · {_one_line(now)}" if now else ""
                line = TerminalLine(f"· plan: {done} of {len(event.items)} done", "", detail)
                self._show_state("plan", line, event.parent_tool_id)
            case Notice():
                self._tools.note_remark(event.text)
                self._write_remark("·", event.text, event.parent_tool_id)
            case ModelChanged():
                key = f" ({event.key_id})" if event.key_id else ""
                self._write_remark("·", f"Switched to {event.model_id}{key}")
            case ConfigReloaded():
                self._write_remark("·", "Configuration reloaded")
            case Media():
                text = " ".join(filter(None, (event.caption, event.url or event.path, event.mime)))
                self._write_remark("▸", text, event.parent_tool_id)

    def _show_state(self, key: str, line: TerminalLine, parent: str | None) -> None:
        """Show a dim line with the current state, in place of the earlier state."""
        line = line._replace(head=f"{self._tools.indent(parent)}{line.head}")
        if not self._writer.update(f"{key} {parent}" if parent else key, line, style=DIM):
            self._begin_passage("activity", parent)
            self._writer.add(f"{key} {parent}" if parent else key, line, style=DIM)

    def _write_remark(self, mark: str, text: str, parent: str | None = None) -> None:
        """Show a dim line that begins with `mark`. Unlike other dim lines, it is never shortened."""
        self._begin_passage("activity", parent)
        self._writer.space(1)
        indent = self._tools.indent(parent)
        self._writer.write(f"{self._writer.wrapped(f'{indent}{mark} {visible(text)}', f'{indent}  ')}\n", style=DIM)

    def _show_error(self, event: Error | TurnFailed) -> None:
        about = [str(part) for part in (event.status_code, event.code) if part is not None]
        text = f"{event.message} ({', '.join(about)})" if about else event.message
        self._begin_passage("activity")
        if isinstance(event, TurnFailed):
            self._tools.close()
        self.complain(f"{'failed' if isinstance(event, TurnFailed) else 'error'}: {text}")

    def _end_turn(self, event: TurnCompleted | TurnCancelled) -> None:
        self._finish_reasoning()
        self._tools.close()
        if isinstance(event, TurnCompleted) and not self._has_answer:
            self._show_answer(event.text or "")
        if isinstance(event, TurnCancelled):
            self._begin_passage("activity")
            self._writer.space(1)
            self._writer.write(f"cancelled{f': {visible(event.reason)}' if event.reason else ''}\n", style=DIM)
        self._writer.space(1)


def _is_own_text(passage: tuple[_Kind, str | None]) -> bool:
    """Whether the passage is answer or reasoning of the agent itself, not of a subagent."""
    kind, parent = passage
    return kind != "activity" and parent is None


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
