"""`tailrace deliver`: send the events of a turn from standard input to a chat, complete, in order and once.

The command reads events while earlier messages are still being sent. A signal stops reading and sending.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import uuid
from contextlib import aclosing, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TextIO, TypeAlias

import typer
from msgspec.structs import replace

from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, ledger_argument, ledger_path
from tailrace.cli.progress import Progress
from tailrace.cli.sending import EXIT_AFTER_S, Connections, load_channel, open_courier
from tailrace.cli.settings import ConfigOption, SetOption, configured_channel, open_settings
from tailrace.cli.standard_input import EventLines
from tailrace.cli.turn_summary import summarize
from tailrace.contract import checked
from tailrace.deliveries import TurnState, fingerprint_of
from tailrace.delivery import CourierSettings
from tailrace.delivery.presenting import EventsCut, present
from tailrace.errors import LedgerInUse, UsageError
from tailrace.events import TextRetracted, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.operations import Target
from tailrace.projector import Idle, Presentation, Projector, ProjectorSettings, restored_messages
from tailrace.signals import stops_on_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.config import Settings
    from tailrace.deliveries import Delivery
    from tailrace.delivery import OpenTurn
    from tailrace.events import Event

_FINISH_S = 10.0
_OnUnknownOption: TypeAlias = Annotated[
    Literal["hold", "resend"] | None,
    typer.Option(
        "--on-unknown",
        help="If it is unknown whether a message arrived: hold it and report that in the chat, or resend it. "
        "Default: the setting of the channel, or else hold.",
    ),
]


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
            help="The id of the turn; without it the one in the input, or a new one. Use it again to send only what is "
            "missing.",
        ),
    ] = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    on_unknown: _OnUnknownOption = None,
    on_dead: Annotated[
        Literal["skip", "halt"],
        typer.Option("--on-dead", help="If a message is refused or too old: skip it, or halt and leave out the rest."),
    ] = "skip",
    json: Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Send an agent's answer to a chat. Reads its events from standard input, one JSON object per line.

    Messages are sent while the input is still being read. To resume a turn, run the command again
    with the same input and --turn ID: only the missing messages are sent. If the input ends before
    its turn, the turn stays open: give the complete input with the same --turn ID.
    """
    with errors_in_one_line(debug=debug):
        for option, value in (("--to", to), ("--thread", thread), ("--turn", turn)):
            _check_readable(option, value)
        settings = open_settings(config, assignments)
        shared = configured_channel(settings, channel).settings
        options = DeliverOptions(
            target=Target(channel=channel, chat=to, thread=thread),
            turn_id=turn,
            presentation=presentation,
            ledger=ledger,
            settings=settings,
            policy=CourierSettings(
                on_unknown=on_unknown or shared.on_unknown, on_dead=on_dead, max_age_s=shared.max_age_s
            ),
            json=sys.stdout if json else None,
        )
        # Text that a channel prints must not appear between the lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            exit_code = asyncio.run(_deliver(options, debug=debug))
    raise typer.Exit(exit_code)


class DeliverOptions(NamedTuple):
    """The options of the command. `turn_id` is None without `--turn`."""

    target: Target
    turn_id: str | None
    presentation: Presentation
    ledger: Path | None
    settings: Settings
    policy: CourierSettings
    json: TextIO | None

    def command(self, turn_id: str) -> str:
        """The command line that a person must run to resume the turn with this id."""
        arguments = ["--channel", self.target.channel, "--to", self.target.chat]
        if self.target.thread is not None:
            arguments += ["--thread", self.target.thread]
        if self.presentation != "parts":
            arguments += ["--presentation", self.presentation]
        return f"tailrace deliver {shlex.join([*arguments, '--turn', turn_id])}{ledger_argument(self.ledger)}"


def _check_readable(option: str, value: str | None) -> None:
    if value is not None and not (value.strip() and value.isprintable()):
        raise UsageError(f"{option} is {value!r}: use at least one visible character, and no control characters")


async def _deliver(options: DeliverOptions, *, debug: bool) -> int:
    channel = load_channel(options.target.channel, options.settings)
    is_same_terminal = channel.name == "terminal" and sys.stdout.isatty() and sys.stderr.isatty()
    progress = Progress(json=options.json, quiet=is_same_terminal)
    last_words = "ended at once; to resume, run again with the same input and turn id"
    with (
        warnings_in_one_line(progress.status.write, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        path = ledger_path(options.ledger, options.settings)
        try:
            async with open_courier(path, options.policy, progress.update) as connections:
                await connections.connect(channel)
                return await DeliverCommand(options, connections, progress, stop).run()
        except LedgerInUse as error:
            who = "another process" if error.pid is None else f"process {error.pid}"
            raise LedgerInUse(
                f"{path} is in use by {who}, such as a gateway. Nothing was sent: name another ledger for this turn "
                "with --ledger PATH, or end that process."
            ) from error


class DeliverCommand:
    """Sends one turn from standard input to its chat."""

    def __init__(
        self, options: DeliverOptions, connections: Connections, progress: Progress, stop: asyncio.Event
    ) -> None:
        self._options = options
        self._connections = connections
        self._courier = connections.courier
        self._capabilities = connections.courier.capabilities(options.target)
        self._settings = ProjectorSettings(presentation=options.presentation)
        self._progress = progress
        self._lines = EventLines()
        self._stop = stop
        self._is_stopped = False
        self._is_cut = False
        self._turn_id = ""
        self._turn_state = TurnState.RUNNING

    async def run(self) -> int:
        """Deliver the turn. Ends when all of it is sent, or when `stop` is set. Returns the exit code."""
        await self._mention_other_conversations()
        if sys.stdin.isatty():
            self._progress.status.write("reading events from the keyboard, one JSON object per line; Ctrl-D ends them")
        presenting = asyncio.create_task(self._present())
        ticking = asyncio.create_task(self._progress.tick())
        try:
            self._is_stopped = await self._connections.finish_or_drain(presenting, self._stop, self._progress.status)
            if self._is_stopped:
                presenting.cancel()  # the task may still wait for input
            with suppress(asyncio.CancelledError):
                await presenting
            return self._summarize()
        finally:
            presenting.cancel()
            ticking.cancel()
            await asyncio.gather(presenting, ticking, return_exceptions=True)

    async def _present(self) -> None:
        """Read the events and send the messages that the projector makes of them."""
        new_id = uuid.uuid4().hex[:16]
        events = checked(self._lines.events(), turn_id=new_id, on_diagnostic=self._lines.refuse)
        async with aclosing(events):
            # If the first line is wrong, report it before a message is sent.
            first = [await anext(events), await anext(events)]
            if self._lines.problem:
                raise UsageError(f"{self._lines.problem} Nothing was sent.")
            if isinstance(first[-1], TurnFailed) and not self._lines.count:
                raise UsageError("nothing came on standard input: give it events, one JSON object per line")
            assert isinstance(first[0], TurnStarted), "the contract says so"
            turn = await self._begin(first[0].turn_id, new_id)
            answer = self._until_end(first, events)
            if turn.is_finished and self._options.presentation == "parts":
                await self._compare(answer, turn)
            try:
                await present(answer, turn, self._capabilities, self._settings, clock=self._courier.clock)
            except EventsCut:
                self._is_cut = True
                return
            await self._finish_conversation(turn)
            if self._turn_state is not TurnState.INTERRUPTED:
                async for _ in events:  # events after the end of the turn are only checked
                    pass

    async def _until_end(self, first: list[Event], rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events up to the terminal event. Raises `EventsCut` if the input ends without a terminal event."""
        async for event in _chain(first, rest):
            if isinstance(event, TurnFailed) and event.code == "missing_terminal" and self._lines.end is None:
                raise EventsCut
            yield event
            if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled):
                return

    async def _begin(self, turn_id: str, new_id: str) -> OpenTurn:
        """Begin or resume the turn. Its id is that of `--turn`, else the `turn_id` of the input, else `new_id`."""
        if self._options.turn_id is None:
            _check_readable("the turn_id of the input", turn_id)
            if turn_id == new_id:
                self._progress.status.write(f"turn {turn_id} (--turn {turn_id} resumes it)")
        self._turn_id = self._progress.turn_id = self._options.turn_id or turn_id
        turn = await self._courier.begin(self._turn_id, self._options.target)
        self._turn_state = turn.turn.state
        if self._turn_state is not TurnState.INTERRUPTED:
            self._progress.add_earlier(await self._courier.deliveries_of(self._turn_id))
        return turn

    async def _compare(self, events: AsyncIterator[Event], turn: OpenTurn) -> None:
        """Check that the input has the text that was delivered before under this turn id.

        Raises `UsageError` if the texts differ.
        """
        if self._turn_state is TurnState.INTERRUPTED:
            return
        recorded = await turn.earlier_deliveries()
        # With `deletes`, the projector deletes a message if the new text is shorter, so the difference is found. With
        # `edits`, it would always edit the last message, because it does not know the text of that message.
        capabilities = replace(self._capabilities, deletes=True, edits=None)
        projector = Projector(turn.turn.target, capabilities, self._settings, earlier=restored_messages(recorded))
        is_comparable = all(fingerprint_of(delivery.operation) == delivery.fingerprint for delivery in recorded)
        with suppress(EventsCut):
            async for event in events:
                projector.feed(event, 0.0)
                # If text was retracted or the turn stopped, the chat may show more text than the projector would send.
                is_comparable = is_comparable and not isinstance(event, TextRetracted | TurnCancelled)
            projector.close(0.0)
            if is_comparable and not isinstance(projector.next(0.0), Idle):
                raise UsageError(
                    f"turn {self._turn_id} was delivered with another text, or in another presentation. "
                    "Choose another turn id for this one."
                )

    async def _finish_conversation(self, turn: OpenTurn) -> None:
        """Wait some seconds for other deliveries of this chat that are not finished.

        They are deliveries of earlier turns, or the line that tells people that a part may be missing.
        """
        waited_for: list[Delivery] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_S):
                while (unfinished := self._progress.unfinished) != waited_for:
                    waited_for = unfinished
                    await self._courier.wait_until_final(turn.turn, unfinished)

    async def _mention_other_conversations(self) -> None:
        own = self._options.target.conversation
        others = [other for other in await self._courier.ledger.open_conversations() if other.name != own]
        if others:
            which = "another conversation has" if len(others) == 1 else f"{len(others)} other conversations have"
            command = f"tailrace deliveries resume{ledger_argument(self._options.ledger)}"
            self._progress.status.write(f"{which} deliveries that are not finished; `{command}` finishes them")

    def _summarize(self) -> int:
        """Tell the person how the turn ended, and what to do next. Returns the exit code."""
        options, progress = self._options, self._progress
        write = progress.status.write
        is_cancelled = self._turn_state is TurnState.CANCELLED and not isinstance(self._lines.end, TurnCancelled)
        if is_cancelled or self._turn_state is TurnState.INTERRUPTED:
            why = "was stopped" if is_cancelled else "was interrupted, and a line in the chat says so"
            write(f"tailrace: turn {self._turn_id} {why}: nothing more of it is sent. Choose another turn id.")
            return FAILED
        progress.write_json_of_parts()
        conversation, ledger = options.target.conversation, ledger_argument(options.ledger)
        is_ended = not self._is_stopped and not self._is_cut
        summary = summarize(progress.parts, conversation, ledger=ledger, is_ended=is_ended)
        is_done = summary.is_complete and is_ended
        write(summary.text if is_done else f"tailrace: {summary.text}")
        if self._is_cut:
            write(
                "the input ended before the turn was over, so the turn stays open. Give the complete input to: "
                f"{options.command(self._turn_id)}; or close it: tailrace deliveries resume{ledger}"
            )
        elif self._turn_id and (self._is_stopped or summary.is_open):
            write(f"to resume, give the same input to: {options.command(self._turn_id)}")
        if self._lines.problem:
            raise UsageError(self._lines.problem)
        return DONE if is_done and not progress.status.is_reader_gone else FAILED


async def _chain(first: list[Event], rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    for event in first:
        yield event
    async for event in rest:
        yield event
