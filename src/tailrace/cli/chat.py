"""`tailrace chat`: talk to an agent in the terminal, or have it answer each line of a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from contextlib import nullcontext, redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import typer

from tailrace import __version__
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, stray_warnings_in_one_line
from tailrace.cli.ndjson import JsonLines
from tailrace.cli.prompts import Keyboard, piped_lines, silent_keyboard
from tailrace.cli.recorder import Recorder
from tailrace.cli.turns import Turns
from tailrace.errors import UsageError
from tailrace.events import Status, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.plugins import find_agent, load
from tailrace.ports import Prompt
from tailrace.runtimes.terminal_approvals import TerminalApprovals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.cli.turns import Terminal
    from tailrace.events import Event
    from tailrace.plugins import Found


class _Permissions(StrEnum):
    """What becomes of what an agent must ask for."""

    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


def chat(  # noqa: PLR0913 -- one for each option of the command
    agent: Annotated[
        str, typer.Argument(help="The agent: demo, claude, codex, acp:COMMAND …, or module:object.")
    ] = "demo",
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Let the demo agent make no pauses.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write events as lines of JSON.")] = False,
    reasoning: Annotated[
        bool | None,
        typer.Option(
            "--reasoning/--no-reasoning",
            help="Show what the agent thinks aloud. Without either: on a terminal, not in a pipe.",
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Keep each turn as a file in this folder.")
    ] = None,
    permissions: Annotated[
        _Permissions | None,
        typer.Option(
            "--permissions",
            help="What becomes of what the agent must ask for. Without it: ask at a terminal, deny in a pipe.",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Talk to an agent in the terminal.

    Ctrl-C stops an answer, Ctrl-D leaves. Where standard input is no terminal, each line of it is answered.
    """
    with errors_in_one_line(debug=debug):
        face = _json_face() if json else _text_face(reasoning=reasoning)
        # What an agent prints on its own must not come between lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            approver = TerminalApprovals(make_room=face.make_room)
            found = _find(agent, fast=fast, permissions=permissions, approver=approver)
            face = _held(face, approver)
            if record is not None:
                face = _recorded(face, Recorder(record))
            turns = Turns(found.runtime, face.show, complain=face.complain, debug=debug)
            exit_code = FAILED
            try:
                # At a terminal they have a line of their own; in a pipe they are nothing to the answer.
                with stray_warnings_in_one_line(face.complain if sys.stdout.isatty() else None, debug=debug):
                    exit_code = _converse(turns, face, greeting=f"{agent} · {found.words}" if found.words else agent)
            finally:
                turns.close(exit_code)
    raise typer.Exit(exit_code)


class ChatFrontend(NamedTuple):
    """What is seen at the other end: the events, and around them remarks and the prompt."""

    show: Callable[[Event], Awaitable[None]]
    note: Callable[[str], None]
    complain: Callable[[str], None]
    make_room: Callable[[], None]
    screen: TextIO


def _text_face(*, reasoning: bool | None) -> ChatFrontend:
    shown = sys.stdout.isatty() if reasoning is None else reasoning
    terminal: Any = load("channel", "terminal")(reasoning=shown)
    return ChatFrontend(terminal.show, terminal.note, terminal.complain, terminal.make_room, sys.stdout)


def _json_face() -> ChatFrontend:
    """Events to standard output and nothing else; remarks go where they are no part of the data."""
    terminal: Any = load("channel", "terminal")(sys.stderr)
    show = JsonLines(sys.stdout.buffer).show
    return ChatFrontend(show, terminal.note, terminal.complain, terminal.make_room, sys.stderr)


def _recorded(face: ChatFrontend, recorder: Recorder) -> ChatFrontend:
    """The same face, and each event kept before it is shown."""

    async def show(event: Event) -> None:
        recorder.keep(event)
        await face.show(event)

    return face._replace(show=show)


def _held(face: ChatFrontend, approver: TerminalApprovals) -> ChatFrontend:
    """The same face, which shows nothing while a question stands; the end of a turn needs no answers any more.

    How things stood meanwhile nobody needs to know: they waited for the answer.
    """

    async def show(event: Event) -> None:
        if isinstance(event, Status) and approver.is_asking:
            return
        if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled):
            approver.withdraw()
        await approver.settled()
        await face.show(event)

    return face._replace(show=show)


def _find(agent: str, *, fast: bool, permissions: _Permissions | None, approver: TerminalApprovals) -> Found:
    """The agent, told what it may do and by whom it is to be asked, if it is one that asks."""
    policy = permissions or (_Permissions.ASK if sys.stdin.isatty() else _Permissions.DENY)
    offers: dict[str, object] = {
        "permissions": policy.value,
        "approver": approver if policy is _Permissions.ASK else None,
        **({"pause": lambda _: asyncio.sleep(0)} if fast else {}),
    }
    found = find_agent(agent, offers)
    if fast and "pause" not in found.taken:
        raise UsageError("--fast is for the demo agent; every other agent has a pace of its own.")
    if permissions is not None and "permissions" not in found.taken:
        what = f", {found.words}," if found.words else ""
        raise UsageError(
            f"--permissions is for agents that ask what they may do; {agent}{what} is not asked about here."
        )
    return found


def _converse(turns: Turns, face: ChatFrontend, *, greeting: str) -> int:
    """Answer until there is nothing more to answer; returns the exit code."""
    session_id = uuid.uuid4().hex

    def ask(text: str) -> Terminal:
        prompt = Prompt(text=text, session_id=session_id, conversation="terminal")
        return turns.run(prompt, turn_id=uuid.uuid4().hex)

    if not sys.stdin.isatty():
        return _answer_lines(ask)
    face.note(f"tailrace {__version__} · {greeting} · Ctrl-C stops an answer, Ctrl-D leaves")
    return _answer_person(ask, face.screen)


def _answer_person(ask: Callable[[str], Terminal], screen: TextIO) -> int:
    """Prompt and answer until Ctrl-D; what happened in between is no failure of the session."""
    # A program started in the background may have Ctrl-C ignored; at a terminal it is the person's.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    keyboard = Keyboard(prompt_to=screen)
    while True:
        screen.write("\n")
        try:
            line = keyboard.read()
            if line.strip():
                with silent_keyboard():
                    ask(line)
        except KeyboardInterrupt:
            continue
        except EOFError:
            screen.write("\n")
            return DONE


def _answer_lines(ask: Callable[[str], Terminal]) -> int:
    """Answer each line that is not blank; done if every turn was completed."""
    exit_code = DONE
    try:
        for line in piped_lines():
            if not line.strip():
                continue
            terminal = ask(line)
            if not isinstance(terminal, TurnCompleted):
                exit_code = FAILED
            if isinstance(terminal, TurnCancelled):
                break
    except KeyboardInterrupt:
        return FAILED
    return exit_code
