"""A preview in the terminal: every channel with its messages and its calls, in the end or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tailrace.channels.terminal.visible import visible
from tailrace.cli.preview.markup import shown
from tailrace.cli.preview.performing import counted
from tailrace.cli.preview.styled import styled

if TYPE_CHECKING:
    from tailrace.cli.preview.performing import Calls, Performance
    from tailrace.delivery.dry_run import VisibleMessage
    from tailrace.operations import Task

_ROW_S = 5.0  # so close together, appends are one row
_STEP_S = 1.0  # and one step
_WIDEST = 100
_MARKS = {"pending": "○", "in_progress": "◌", "complete": "✓", "error": "✗"}


def print_end(performances: list[Performance]) -> None:
    """Show each channel as it is in the end, and the calls that led there."""
    console = _console()
    for performance in performances:
        _print_head(console, performance)
        for seen in performance.chat:
            console.print(_bubble(performance, seen))
        if not performance.chat:
            console.print(Text("Nothing is said.", style="dim"))
        console.print()
        console.print(_table(performance))


def print_steps(performances: list[Performance]) -> None:
    """Show each call of each channel, and below it the message that it was about."""
    console = _console()
    for performance in performances:
        _print_head(console, performance)
        for calls in performance.calls(within_s=_STEP_S):
            console.print(Text("  ").join(Text(cell, style="bold") for cell in _cells(performance, calls) if cell))
            if calls.shown is not None:
                console.print(_bubble(performance, calls.shown))


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    return console


def _print_head(console: Console, performance: Performance) -> None:
    console.print()
    console.rule(Text(f"{performance.channel} · {performance.look}", style="bold"), style="dim")
    console.print(Text(performance.summary, style="dim"))
    console.print()


def _bubble(performance: Performance, seen: VisibleMessage) -> Panel:
    extent = performance.extent(seen)
    name = f"#{seen.message_id}" if seen.message_id else "draft"
    about = [name, *(["processing"] if seen.is_processing else []), str(extent)]
    if seen.edits:
        about.append(counted(seen.edits, "edit"))
    return Panel(
        Group(*map(_task, seen.tasks), _content(performance, seen)),
        title=Text(" · ".join(about), style="bold red" if extent.is_too_much else "dim"),
        title_align="left",
        box=box.ROUNDED,
        style="dim" if seen.is_processing or not seen.message_id else "none",
        border_style="dim",
    )


def _content(performance: Performance, seen: VisibleMessage) -> RenderableType:
    if seen.media:
        return Text(visible("\n".join(filter(None, (f"▸ {seen.media}", seen.body.text)))))
    return styled(shown(seen.body, performance.capabilities.dialect))


def _task(task: Task) -> Text:
    return Text(f"{_MARKS[task.status]} {visible(task.title)}", style="red" if task.status == "error" else "dim")


def _table(performance: Performance) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for head in ("AT", "CALL", "MESSAGE", "HOLDS", "STAYS"):
        table.add_column(head, justify="right" if head in {"AT", "HOLDS"} else "left")
    for calls in performance.calls(within_s=_ROW_S):
        table.add_row(*_cells(performance, calls), style="" if calls.last.is_durable else "dim")
    return table


def _cells(performance: Performance, calls: Calls) -> tuple[str, ...]:
    return (
        f"{calls.at:.2f} s",
        f"{calls.kind} ×{calls.count}" if calls.count > 1 else calls.kind,
        f"#{calls.message_id}" if calls.message_id else "",
        f"{performance.extent(calls.shown).size:,}" if calls.shown is not None else "",
        "stays" if calls.last.is_durable else "",
    )
