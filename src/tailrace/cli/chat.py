"""`tailrace chat`: talk to an agent in the terminal, or let it answer each line of a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from contextlib import nullcontext, redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import msgspec
import typer

from tailrace import __version__
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, stray_warnings_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.prompts import Keyboard, piped_lines, silent_keyboard
from tailrace.cli.recorder import Recorder
from tailrace.cli.turns import Turns
from tailrace.errors import ContractViolation, UsageError
from tailrace.events import Status, TurnCancelled, TurnCompleted, TurnFailed, encode_event
from tailrace.plugins import find_agent, load
from tailrace.ports import Prompt
from tailrace.runtimes.terminal_approvals import TerminalApprovals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.cli.turns import Terminal
    from tailrace.events import Event
    from tailrace.plugins import FoundAgent

# Each of these words, typed alone, ends the chat. It is not sent to the agent.
_QUIT = frozenset(("/quit", "/exit", "quit", "exit"))
_HELP = """\
Type what you want to say and press Enter. A pasted text is one prompt, with its line breaks.
  Ctrl-C   stops the answer; at the prompt it clears the line
  Ctrl-D   leaves, as do /quit, quit and exit
  ↑ and ↓  bring back earlier prompts
  /help    shows this
Everything else is sent to the agent, also other words with a slash."""
AGENTS = """\
AGENT is one of these:

\b
  demo              a script that shows what agents write
  claude, codex, gemini, opencode
                    an agent that is installed as a command
  claude-sdk        Claude through its Python SDK
  module:object     an agent in Python: a function that takes a prompt and
                    yields strings or events, a runtime, an agent of the
                    OpenAI Agents SDK or Pydantic AI, a LangGraph graph,
                    or options of the Claude Agent SDK
  acp:COMMAND       the ACP agent that COMMAND starts
  agui+URL          the AG-UI endpoint at URL
  vercel+URL        the chat route of the Vercel AI SDK at URL
"""
"""The end of the help."""


class _Permissions(StrEnum):
    """The values of `--permissions`: what happens when an agent asks for permission."""

    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


def chat(  # noqa: PLR0913 -- one for each option of the command
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent to talk to.")] = "demo",
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Run the demo agent without pauses.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write each event as a line of JSON.")] = False,
    reasoning: Annotated[
        bool | None,
        typer.Option(
            "--reasoning/--no-reasoning",
            help="Show or hide the agent's reasoning.",
            show_default="show at a terminal, hide in a pipe",
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Save each turn as a file of events in DIR.")
    ] = None,
    permissions: Annotated[
        _Permissions | None,
        typer.Option(
            "--permissions",
            help="When the agent asks for permission: ask you, allow it or deny it.",
            show_default="ask at a terminal, deny in a pipe",
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Talk to an agent in the terminal.

    Type a prompt and press Enter. Ctrl-C stops an answer, Ctrl-D leaves, /help shows more. In a pipe, each line of
    standard input is a prompt.

    For example: tailrace chat claude
    """
    with errors_in_one_line(debug=debug):
        frontend = _json_frontend() if json else _text_frontend(reasoning=reasoning)
        # Text that an agent itself prints must not appear between the lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            approver = TerminalApprovals(make_room=frontend.make_room)
            found = _find(agent, fast=fast, permissions=permissions, approver=approver)
            frontend = _waiting_for_approvals(frontend, approver)
            if record is not None:
                frontend = _recorded(frontend, Recorder(record))
            turns = Turns(found.runtime, frontend.show, complain=frontend.complain, debug=debug)
            exit_code = FAILED
            try:
                # At a terminal a warning gets its own line in the output; in a pipe it must not appear in the answer.
                with stray_warnings_in_one_line(frontend.complain if sys.stdout.isatty() else None, debug=debug):
                    title = f"{agent} · {found.description}" if found.description else agent
                    exit_code = _converse(turns, frontend, title=title)
            finally:
                turns.close(exit_code)
    raise typer.Exit(exit_code)


class ChatFrontend(NamedTuple):
    """The functions that show events, notes and errors to the person. The prompt is written to `screen`."""

    show: Callable[[Event], Awaitable[None]]
    note: Callable[[str], None]
    complain: Callable[[str], None]
    make_room: Callable[[], None]
    screen: TextIO


def _text_frontend(*, reasoning: bool | None) -> ChatFrontend:
    is_shown = sys.stdout.isatty() if reasoning is None else reasoning
    terminal: Any = load("channel", "terminal")(reasoning=is_shown)
    return ChatFrontend(terminal.show, terminal.note, terminal.complain, terminal.make_room, sys.stdout)


def _json_frontend() -> ChatFrontend:
    """Create a frontend that writes only the JSON of events to standard output, and all else to standard error."""
    terminal: Any = load("channel", "terminal")(sys.stderr)
    out = sys.stdout.buffer

    async def show(event: Event) -> None:
        try:
            line = encode_event(event)
        except ContractViolation:
            line = msgspec.json.encode(_with_text_keys(msgspec.to_builtins(event)))
        out.write(line + b"\n")
        out.flush()

    return ChatFrontend(show, terminal.note, terminal.complain, terminal.make_room, sys.stderr)


def _with_text_keys(value: Any) -> Any:
    """The value with all keys of mappings as text.

    Agents in Python may use other keys, but JSON does not allow them.
    """
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def _recorded(frontend: ChatFrontend, recorder: Recorder) -> ChatFrontend:
    """Make a frontend that records each event and then shows it as the given frontend does."""

    async def show(event: Event) -> None:
        recorder.record(event)
        await frontend.show(event)

    return frontend._replace(show=show)


def _waiting_for_approvals(frontend: ChatFrontend, approver: TerminalApprovals) -> ChatFrontend:
    """Make a frontend that shows nothing else while a question for permission is on the screen.

    A status that comes during the question is dropped, because it only says that the agent waits for the answer. When
    the turn ends, the question is cancelled.
    """

    async def show(event: Event) -> None:
        if isinstance(event, Status) and approver.is_asking:
            return
        if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled):
            approver.withdraw()
        await approver.wait_until_idle()
        await frontend.show(event)

    return frontend._replace(show=show)


def _find(agent: str, *, fast: bool, permissions: _Permissions | None, approver: TerminalApprovals) -> FoundAgent:
    """Find the agent. Those options of the command that its runtime accepts are passed to the runtime.

    Raises `UsageError` if an option was given that has no effect on this agent.
    """
    policy = permissions or (_Permissions.ASK if sys.stdin.isatty() else _Permissions.DENY)
    options: dict[str, object] = {
        "permissions": policy.value,
        "approver": approver if policy is _Permissions.ASK else None,
        **({"pause": lambda _: asyncio.sleep(0)} if fast else {}),
    }
    found = find_agent(agent, options)
    if fast and "pause" not in found.taken:
        raise UsageError("--fast works only with the demo agent. Leave it out.")
    if permissions is not None and "permissions" not in found.taken:
        what = f", {found.description}," if found.description else ""
        raise UsageError(f"--permissions has no effect here: {agent}{what} never asks for permission. Leave it out.")
    return found


def _converse(turns: Turns, frontend: ChatFrontend, *, title: str) -> int:
    """Answer prompts until there are no more, from a person or from a pipe. Returns the exit code."""
    session_id = uuid.uuid4().hex

    def ask(text: str) -> Terminal:
        prompt = Prompt(text=text, session_id=session_id, conversation="terminal")
        return turns.run(prompt, turn_id=uuid.uuid4().hex)

    if not sys.stdin.isatty():
        return _answer_lines(ask)
    frontend.note(f"tailrace {__version__} · {title} · Ctrl-C stops an answer, /quit leaves, /help for help")
    _answer_person(ask, frontend)
    return DONE


def _answer_person(ask: Callable[[str], Terminal], frontend: ChatFrontend) -> None:
    """Answer the prompts of a person at a terminal until the person leaves.

    Failed turns do not change the exit code.
    """
    # A program that was started in the background may ignore SIGINT. At a terminal, Ctrl-C must work.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    keyboard = Keyboard(prompt_to=frontend.screen)
    is_leaving = False
    while not is_leaving:
        try:
            is_leaving = not _answer_prompt(keyboard, ask, frontend)
        except KeyboardInterrupt:
            # The line editor may report a Ctrl-C only at the next key. If that key is Ctrl-D, the error comes here.
            continue


def _answer_prompt(keyboard: Keyboard, ask: Callable[[str], Terminal], frontend: ChatFrontend) -> bool:
    """Read a prompt and run its turn. Returns False if the person wants to leave."""
    frontend.screen.write("\n")
    try:
        text = keyboard.read()
    except EOFError:
        frontend.screen.write("\n")
        return False
    match text.strip().lower():
        case "/help":
            frontend.note(_HELP)
        case word if word in _QUIT:
            return False
        case word if word:
            with silent_keyboard():
                ask(text)
    return True


def _answer_lines(ask: Callable[[str], Terminal]) -> int:
    """Answer each line of a pipe that is not blank. Returns `DONE` if every turn was completed, else `FAILED`."""
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
