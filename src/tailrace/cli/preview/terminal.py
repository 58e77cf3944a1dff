"""A preview in the terminal: the messages and calls of each channel, at the end or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tailrace.channels.terminal.visible import visible
from tailrace.cli.preview.body_html import to_html
from tailrace.cli.preview.channel_preview import NO_MESSAGES, TASK_MARKS
from tailrace.cli.preview.html_to_rich import html_to_rich

if TYPE_CHECKING:
    from tailrace.cli.preview.channel_preview import CallGroup, ChannelPreview
    from tailrace.delivery.dry_run import VisibleMessage
    from tailrace.operations import Task

_ROW_S = 5.0  # in the table, all appends within this time form one row
_STEP_S = 1.0  # with `--steps`, all appends within this time form one step
_MAX_COLUMNS = 100


def print_end(previews: list[ChannelPreview]) -> None:
    """Show for each channel the messages at the end of the turn, and a table of the calls."""
    console = _console()
    for preview in previews:
        _print_head(console, preview)
        for message in preview.chat:
            console.print(_bubble(preview, message))
        if not preview.chat:
            console.print(Text(NO_MESSAGES, style="dim"))
        console.print()
        console.print(_table(preview))


def print_steps(previews: list[ChannelPreview]) -> None:
    """Show each call of each channel, and below it the message that it changed."""
    console = _console()
    for preview in previews:
        _print_head(console, preview)
        for group in preview.groups(within_s=_STEP_S):
            console.print(Text("  ").join(Text(cell, style="bold") for cell in _cells(preview, group) if cell))
            if group.shown is not None:
                console.print(_bubble(preview, group.shown))


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _MAX_COLUMNS)
    return console


def _print_head(console: Console, preview: ChannelPreview) -> None:
    console.print()
    console.rule(Text(f"{preview.channel} · {preview.presentation}", style="bold"), style="dim")
    console.print(Text(preview.summary, style="dim"))
    console.print()


def _bubble(preview: ChannelPreview, message: VisibleMessage) -> Panel:
    facts = " · ".join(filter(None, preview.facts(message)))
    return Panel(
        Group(*map(_task, message.tasks), _content(preview, message)),
        title=Text(facts, style="bold red" if preview.size_of(message).is_over_limit else "dim"),
        title_align="left",
        box=box.ROUNDED,
        style="dim" if message.is_processing or not message.message_id else "none",
        border_style="dim",
    )


def _content(preview: ChannelPreview, message: VisibleMessage) -> RenderableType:
    if message.media:
        return Text(visible("\n".join(filter(None, (f"▸ {message.media}", message.body.text)))))
    return html_to_rich(to_html(message.body, preview.capabilities.dialect))


def _task(task: Task) -> Text:
    return Text(f"{TASK_MARKS[task.status]} {visible(task.title)}", style="red" if task.status == "error" else "dim")


def _table(preview: ChannelPreview) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for head in ("AT", "CALL", "MESSAGE", "SIZE", "STAYS"):
        table.add_column(head, justify="right" if head in {"AT", "SIZE"} else "left")
    for group in preview.groups(within_s=_ROW_S):
        table.add_row(*_cells(preview, group), style="" if group.last.is_durable else "dim")
    return table


def _cells(preview: ChannelPreview, group: CallGroup) -> tuple[str, ...]:
    return (*preview.row(group), "stays" if group.last.is_durable else "")
