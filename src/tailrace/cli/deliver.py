"""`tailrace deliver`: send the events of a turn from standard input to a chat: complete, in order and once.

Events are read while earlier messages are still being sent. A signal stops both.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import uuid
from contextlib import aclosing, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TextIO

import typer
from msgspec.structs import replace

from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, all_deliveries, ledger_argument, ledger_path
from tailrace.cli.progress import Progress
from tailrace.cli.sending import EXIT_AFTER_S, finish_or_drain, load_channel, open_courier
from tailrace.cli.standard_input import EventLines
from tailrace.cli.turn_summary import summarize
from tailrace.contract import checked
from tailrace.deliveries import NOTICE_ORDINAL, UNDELIVERED, Query, fingerprint_of
from tailrace.delivery import CourierSettings
from tailrace.delivery.presenting import present
from tailrace.delivery.stopping import stops_on_signals
from tailrace.errors import UsageError
from tailrace.events import TextRetracted, TurnFailed
from tailrace.operations import Target
from tailrace.projector import Idle, Presentation, Projector, ProjectorSettings, restored_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from tailrace.delivery import Courier, OpenTurn
    from tailrace.events import Event
    from tailrace.ports import Channel


def deliver(  # noqa: PLR0913 -- one for each option of the command
    *,
    channel: Annotated[str, typer.Option("--channel", help="The channel: terminal, or another installed one.")],
    to: Annotated[
        str, typer.Option("--to", metavar="CHAT", help="The id of the chat on that channel; any name for terminal.")
    ],
    thread: Annotated[str | None, typer.Option("--thread", help="The thread in the chat.")] = None,
    presentation: Annotated[
        Presentation,
        typer.Option(
            "--presentation",
            help="How the answer appears: parts sends each message once, live edits one while it grows.",
        ),
    ] = "parts",
    turn: Annotated[
        str | None,
        typer.Option(
            "--turn",
            metavar="ID",
            help="The id of the turn; without it a new one is generated. Use it again to send only what is missing.",
        ),
    ] = None,
    ledger: LedgerOption = None,
    on_unknown: Annotated[
        Literal["hold", "resend"],
        typer.Option(
            "--on-unknown",
            help="If it is unknown whether a message arrived: hold it and report that in the chat, or resend it.",
        ),
    ] = "hold",
    on_dead: Annotated[
        Literal["skip", "halt"],
        typer.Option("--on-dead", help="If a message is refused or too old: skip it, or halt and leave out the rest."),
    ] = "skip",
    json: Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Send an agent's answer to a chat. Reads its events from standard input, one JSON object per line.

    Messages are sent while the input is still being read. To resume a turn, run again with the same
    input and --turn ID.
    """
    with errors_in_one_line(debug=debug):
        target = Target(channel=channel, chat=_readable("--to", to), thread=thread and _readable("--thread", thread))
        options = DeliverOptions(
            target=target,
            turn_id=_readable("--turn", turn) if turn is not None else uuid.uuid4().hex[:16],
            is_new=turn is None,
            presentation=presentation,
            ledger=ledger,
            settings=CourierSettings(on_unknown=on_unknown, on_dead=on_dead),
            json=sys.stdout if json else None,
        )
        # Text that a channel prints must not get between the lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            exit_code = asyncio.run(_deliver(options, debug=debug))
    raise typer.Exit(exit_code)


class DeliverOptions(NamedTuple):
    """The options of the command."""

    target: Target
    turn_id: str
    is_new: bool
    presentation: Presentation
    ledger: Path | None
    settings: CourierSettings
    json: TextIO | None

    @property
    def resume_command(self) -> str:
        """The command that resumes the turn."""
        arguments = ["--channel", self.target.channel, "--to", self.target.chat]
        if self.target.thread is not None:
            arguments += ["--thread", self.target.thread]
        if self.presentation != "parts":
            arguments += ["--presentation", self.presentation]
        return f"tailrace deliver {shlex.join([*arguments, '--turn', self.turn_id])}{ledger_argument(self.ledger)}"


def _readable(option: str, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise UsageError(f"{option} is {value!r}: use at least one visible character, and no control characters")
    return value


async def _deliver(options: DeliverOptions, *, debug: bool) -> int:
    channel = load_channel(options.target.channel)
    is_same_terminal = channel.name == "terminal" and sys.stdout.isatty() and sys.stderr.isatty()
    progress = Progress(options.turn_id, json=options.json, quiet=is_same_terminal)
    last_words = f"ended at once; to resume, give the same input to: {options.resume_command}"
    with (
        warnings_in_one_line(progress.status.write, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        async with open_courier(ledger_path(options.ledger), options.settings, progress.update) as connections:
            await connections.connect(channel)
            return await DeliverCommand(options, channel, connections.courier, progress, stop).run()


class DeliverCommand:
    """Sends one turn from standard input to its chat."""

    def __init__(
        self, options: DeliverOptions, channel: Channel, courier: Courier, progress: Progress, stop: asyncio.Event
    ) -> None:
        self._options = options
        self._capabilities = channel.capabilities
        self._settings = ProjectorSettings(presentation=options.presentation)
        self._courier = courier
        self._progress = progress
        self._lines = EventLines()
        self._stop = stop
        self._is_stopped = False

    async def run(self) -> int:
        """Deliver the turn, until all of it is sent or `stop` is set. Returns the exit code."""
        await self._mention_other_conversations()
        if sys.stdin.isatty():
            self._progress.status.write("reading events from the keyboard, one JSON object per line; Ctrl-D ends them")
        presenting = asyncio.create_task(self._present())
        ticking = asyncio.create_task(self._progress.tick())
        try:
            self._is_stopped = await finish_or_drain(presenting, self._courier, self._stop, self._progress.status)
            if self._is_stopped:
                presenting.cancel()  # it may still wait for input
            with suppress(asyncio.CancelledError):
                await presenting
            return self._summarize()
        finally:
            presenting.cancel()
            ticking.cancel()
            await asyncio.gather(presenting, ticking, return_exceptions=True)

    async def _present(self) -> None:
        """Read the events and send what the projector makes of them."""
        lines = self._lines
        events = checked(self._read_events(), turn_id=self._options.turn_id, on_diagnostic=lines.refuse)
        async with aclosing(events):
            # If the first line is already wrong, report it before anything is sent.
            first = [await anext(events), await anext(events)]
            if lines.problem:
                raise UsageError(f"{lines.problem} Nothing was sent.")
            if isinstance(first[-1], TurnFailed) and not lines.count:
                raise UsageError("nothing came on standard input: give it events, one JSON object per line")
            turn = await self._begin()
            if turn.is_finished and self._options.presentation == "parts":
                await self._compare(_chain(first, events), turn)
            else:
                clock = self._courier.clock
                await present(_chain(first, events), turn, self._capabilities, self._settings, clock=clock)
        if any(part.state in UNDELIVERED for part in self._progress.parts):
            await self._wait_for_notice()

    async def _read_events(self) -> AsyncGenerator[Event, None]:
        async with aclosing(self._lines.events()) as events:
            async for event in events:
                yield event
        # Ctrl-C also ends the program that writes the input. That end of input is not the end of the turn.
        if self._stop.is_set() and not self._lines.has_ended:
            await asyncio.get_running_loop().create_future()

    async def _begin(self) -> OpenTurn:
        options = self._options
        if options.is_new:
            self._progress.status.write(f"turn {options.turn_id} (--turn {options.turn_id} resumes it)")
        turn = await self._courier.begin(options.turn_id, options.target)
        if turn.turn.target != options.target:
            raise UsageError(
                f"turn {options.turn_id} goes to {turn.turn.target.conversation}: name that chat, or choose another "
                "turn id"
            )
        recorded = [found async for found in all_deliveries(self._courier.ledger, Query(turn_id=options.turn_id))]
        for delivery in reversed(recorded):
            if delivery.ordinal != NOTICE_ORDINAL:
                self._progress.update(delivery)
        return turn

    async def _compare(self, events: AsyncIterator[Event], turn: OpenTurn) -> None:
        """Read the input of a turn that was delivered before. Raises `UsageError` if it has another text."""
        recorded = await turn.earlier_deliveries()
        # With `deletes` the projector asks for a deletion where the new text is shorter, so the difference shows.
        capabilities = replace(self._capabilities, deletes=True)
        earlier = restored_messages(recorded)
        projector = Projector(self._options.target, capabilities, self._settings, earlier=earlier)
        is_comparable = all(fingerprint_of(delivery.operation) == delivery.fingerprint for delivery in recorded)
        async for event in events:
            projector.feed(event, 0.0)
            # Retracted text may have been sent, so the chat may differ from what the projector expects.
            is_comparable = is_comparable and not isinstance(event, TextRetracted)
        projector.close(0.0)
        if is_comparable and not isinstance(projector.next(0.0), Idle):
            raise UsageError(
                f"turn {self._options.turn_id} was delivered with another text, or in another presentation. "
                "Choose another turn id for this one."
            )

    async def _wait_for_notice(self) -> None:
        """Wait until the notice about a missing part has been sent. It is sent after that part."""
        conversation = self._options.target.conversation
        while (sending := self._courier.resume(conversation)) is None and not self._stop.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # another sender has the conversation, and its end cannot be awaited
        if sending is not None:
            await sending

    async def _mention_other_conversations(self) -> None:
        own = self._options.target.conversation
        others = [other for other in await self._courier.ledger.open_conversations() if other.name != own]
        if others:
            which = "another conversation has" if len(others) == 1 else f"{len(others)} other conversations have"
            command = f"tailrace deliveries resend --state open{ledger_argument(self._options.ledger)}"
            self._progress.status.write(f"{which} deliveries that are not finished; `{command}` sends them")

    def _summarize(self) -> int:
        """Write how the turn ended. Returns the exit code."""
        lines, progress = self._lines, self._progress
        progress.write_json_of_parts()
        conversation = self._options.target.conversation
        summary = summarize(progress.parts, conversation, ledger=ledger_argument(self._options.ledger))
        is_cut = not (self._is_stopped or lines.has_ended or lines.problem)
        is_done = summary.is_complete and not self._is_stopped and not is_cut
        progress.status.write(summary.text if is_done else f"tailrace: {summary.text}")
        if self._is_stopped or summary.is_open:
            progress.status.write(f"to resume, give the same input to: {self._options.resume_command}")
        if is_cut:
            progress.status.write("the input ended before the turn was over: the turn has failed")
        if lines.problem:
            raise UsageError(lines.problem)
        return DONE if is_done and not progress.is_reader_gone else FAILED


async def _chain(first: list[Event], rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    for event in first:
        yield event
    async for event in rest:
        yield event
