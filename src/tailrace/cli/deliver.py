"""`tailrace deliver`: what an agent says, from standard input to a chat, whole, in order and once.

Three things go on side by side: events are read and become operations, operations are recorded and sent, and somebody
may ask it all to stop. Input is read while earlier parts are still on their way.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import uuid
from contextlib import aclosing, nullcontext, redirect_stdout, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO, TypeAlias

import typer

from tailrace.cli.failures import DONE, FAILED, errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, ledger_path, naming
from tailrace.cli.presentation_options import Presented
from tailrace.cli.progress import Progress
from tailrace.cli.sending import DRAIN_S, EXIT_AFTER_S, dispatch, made_channel
from tailrace.cli.shadowing import ShadowSetOption, hearing, shadow_beside, shadow_settings, watched_by
from tailrace.cli.speech import Speech
from tailrace.cli.standard_input import EventLines
from tailrace.cli.turn_summary import reckoned
from tailrace.contract import checked
from tailrace.deliveries import UNDELIVERED, TurnState
from tailrace.delivery import CourierSettings
from tailrace.delivery.presenting import present
from tailrace.delivery.stopping import stops_on_signals
from tailrace.errors import TurnMismatch, UsageError
from tailrace.events import TurnCancelled, TurnCompleted, TurnFailed
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from tailrace.deliveries import Delivery
    from tailrace.delivery import Courier, OpenTurn
    from tailrace.events import Event
    from tailrace.operations import Durable
    from tailrace.ports import Channel
    from tailrace.shadow.shadow_turn import ShadowTurn


class OnUnknown(StrEnum):
    """What to do where nobody can tell whether a part arrived."""

    HOLD = "hold"
    RESEND = "resend"


class OnDead(StrEnum):
    """What to do when a part cannot be delivered."""

    SKIP = "skip"
    HALT = "halt"


def deliver(  # noqa: PLR0913 -- one for each option of the command
    *,
    channel: Annotated[str, typer.Option("--channel", help="The channel: terminal, or another installed one.")],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help="The chat, as the channel names it.")],
    thread: Annotated[str | None, typer.Option("--thread", help="The thread in the chat.")] = None,
    presentation: Annotated[
        Presented | None,
        typer.Option(
            "--presentation", help="Show how the answer comes to be; without it, its parts once they are whole."
        ),
    ] = None,
    turn: Annotated[
        str | None, typer.Option("--turn", metavar="ID", help="Go on with this turn: what was sent is not sent again.")
    ] = None,
    ledger: LedgerOption = None,
    on_unknown: Annotated[
        OnUnknown, typer.Option("--on-unknown", help="A part that may have arrived: hold it and say so, or resend it.")
    ] = OnUnknown.HOLD,
    on_dead: Annotated[
        OnDead, typer.Option("--on-dead", help="A part that cannot arrive: skip it, or halt the turn there.")
    ] = OnDead.SKIP,
    shadow_presentation: Annotated[
        Presented | None,
        typer.Option("--shadow-presentation", help="Say at the end what would have differed, had it looked like this."),
    ] = None,
    shadow_wishes: ShadowSetOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Deliver what an agent says: events on standard input, one JSON object per line.

    The parts are sent while the input still comes. A turn that was interrupted is gone on with by the same input and
    its --turn.
    """
    with errors_in_one_line(debug=debug):
        target = Target(channel=channel, chat=_named("--to", to), thread=thread and _named("--thread", thread))
        errand = DeliverOptions(
            target=target,
            turn_id=_named("--turn", turn) if turn is not None else uuid.uuid4().hex[:16],
            is_new=turn is None,
            presentation=presentation,
            ledger=ledger,
            settings=CourierSettings(on_unknown=on_unknown.value, on_dead=on_dead.value),
            shadow=shadow_settings(shadow_wishes, shadow_presentation),
            json=sys.stdout if json else None,
        )
        # A channel that prints must not come between lines of JSON.
        with redirect_stdout(sys.stderr) if json else nullcontext():
            exit_code = asyncio.run(_deliver(errand, debug=debug))
    raise typer.Exit(exit_code)


class DeliverOptions(NamedTuple):
    """What the command was asked to do."""

    target: Target
    turn_id: str
    is_new: bool
    presentation: Presented | None
    ledger: Path | None
    settings: CourierSettings
    shadow: ProjectorSettings | None
    json: TextIO | None

    @property
    def resumption(self) -> str:
        """What to run to go on."""
        named = ["--channel", self.target.channel, "--to", self.target.chat]
        if self.target.thread is not None:
            named += ["--thread", self.target.thread]
        if self.presentation is not None:
            named += ["--presentation", self.presentation.value]
        return f"tailrace deliver {shlex.join([*named, '--turn', self.turn_id])}{naming(self.ledger)}"


def _named(option: str, value: str) -> str:
    """A name that a person gave, if it can be kept and said again."""
    if not value.strip() or not value.isprintable():
        raise UsageError(f"{option} is {value!r}: give a name that can be read")
    return value


async def _deliver(errand: DeliverOptions, *, debug: bool) -> int:
    channel = made_channel(errand.target.channel)
    is_seen_here = channel.name == "terminal" and sys.stdout.isatty() and sys.stderr.isatty()
    progress = Progress(errand.turn_id, json=errand.json, quiet=is_seen_here)
    last_words = f"ended at once; go on with the same input and: {errand.resumption}"
    with (
        warnings_in_one_line(progress.say, debug=debug),
        stops_on_signals(exit_after_s=EXIT_AFTER_S, last_words=last_words) as stop,
    ):
        async with (
            shadow_beside(errand.shadow, channel.capabilities, progress) as shadow,
            dispatch(ledger_path(errand.ledger), errand.settings, hearing(progress.tell, shadow)) as at_work,
        ):
            await at_work.connect(channel)
            with watched_by(shadow, errand.turn_id, errand.target) as watched:
                return await DeliverCommand(errand, channel, at_work.courier, progress, watched).run(stop)


_Batch: TypeAlias = tuple[list["Durable"], TurnState | None]


class DeliverCommand:
    """One turn on its way from standard input to its chat."""

    def __init__(
        self, errand: DeliverOptions, channel: Channel, courier: Courier, progress: Progress, watched: ShadowTurn
    ) -> None:
        self._errand = errand
        self._watched = watched
        self._courier = courier
        self._progress = progress
        self._lines = EventLines()
        self._limits = channel.capabilities
        self._speech = Speech(errand.target, channel.capabilities)
        self._batches: asyncio.Queue[_Batch | None] = asyncio.Queue()
        self._parts: list[Delivery] = []
        self._is_closed = False
        self._is_stopped = False
        self._stop_asked = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> int:
        """Carry the turn until all of it is delivered, or until the stop that is asked for; the exit code."""
        self._stop_asked = stop
        await self._mention_others()
        if sys.stdin.isatty():
            self._progress.say("reading events from the keyboard, one JSON object per line; Ctrl-D ends them")
        ticking = asyncio.create_task(self._progress.tick())
        if self._errand.presentation is None:
            reading, sending = asyncio.create_task(self._read()), asyncio.create_task(self._send())
        else:
            settings = ProjectorSettings(presentation=self._errand.presentation.value)
            reading = sending = asyncio.create_task(self._present(settings))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not (sending.done() and sending.exception()):
                await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._stop(sending)
            with suppress(asyncio.CancelledError):
                await sending
            if reading.done() and not reading.cancelled():
                reading.result()
            return self._reckon(is_whole=not self._is_stopped)
        finally:
            await _ended(ticking, reading, sending, stopping)

    async def _stop(self, sending: asyncio.Task[None]) -> None:
        self._is_stopped = not sending.done()
        self._progress.say("stopping: what is being sent may take some seconds to be answered")
        self._batches.put_nowait(None)
        await self._courier.drain(DRAIN_S)
        if self._errand.presentation is not None:
            sending.cancel()  # it would go on listening

    async def _events(self) -> AsyncGenerator[Event, None]:
        """What comes in. Ctrl-C ends whoever writes to us as well: that the input ends then is no end of the turn."""
        async with aclosing(self._lines.events()) as events:
            async for event in events:
                yield event
        if self._stop_asked.is_set() and not self._lines.has_ended:
            await asyncio.get_running_loop().create_future()  # until we are stopped

    async def _read(self) -> None:
        """Turn events into batches of operations; the last one ends the turn."""
        lines = self._lines
        try:
            events = checked(self._events(), turn_id=self._errand.turn_id, on_diagnostic=lines.refuse)
            async with aclosing(events) as turn:
                async for event in self._watched.hears(turn):
                    if lines.problem and not self._speech.has_begun:
                        raise UsageError(f"{lines.problem} Nothing was sent.")
                    if isinstance(event, TurnFailed) and not lines.count:
                        raise UsageError("nothing came on standard input: give it events, one JSON object per line")
                    self._take(event)
        finally:
            self._batches.put_nowait(None)

    async def _present(self, settings: ProjectorSettings) -> None:
        """Carry the turn as a projector decides."""
        lines = self._lines
        listening = checked(self._events(), turn_id=self._errand.turn_id, on_diagnostic=lines.refuse)
        async with aclosing(listening) as heard:
            # What is wrong from the start is said before anything is sent.
            beginning = [await anext(heard), await anext(heard)]
            if lines.problem:
                raise UsageError(f"{lines.problem} Nothing was sent.")
            if isinstance(beginning[-1], TurnFailed) and not lines.count:
                raise UsageError("nothing came on standard input: give it events, one JSON object per line")
            turn = await self._begin()
            events = self._watched.hears(_behind(beginning, heard))
            self._parts += await present(events, turn, self._limits, settings, clock=self._courier.clock)
        if any(part.state in UNDELIVERED for part in self._parts):
            await self._say_what_is_missing()

    def _take(self, event: Any) -> None:
        operations = self._speech.feed(event)
        ends = _ENDS.get(type(event))
        if operations or ends is not None:
            self._batches.put_nowait((operations, ends))

    async def _send(self) -> None:
        """Record and send the batches as they come, all that there are at a time."""
        turn: OpenTurn | None = None
        ends: TurnState | None = None
        while ends is None and (batch := await self._next_batch()) is not None:
            operations, ends = batch
            turn = turn or await self._begin()
            if ends is None or turn.turn.last_ordinal:
                self._parts += await turn.send(*operations)
                operations = []
            if ends is not None:
                if turn.turn.last_ordinal > len(self._parts) + len(operations):
                    raise TurnMismatch(f"{turn.turn.turn_id}.{len(self._parts) + 1}")
                self._parts += await turn.end(*operations, state=ends)
        if any(part.state in UNDELIVERED for part in self._parts):
            await self._say_what_is_missing()

    async def _next_batch(self) -> _Batch | None:
        """All that is to be said by now; None where nothing more comes, or nothing more may be begun."""
        if self._is_closed or (batch := await self._batches.get()) is None:
            return None
        operations, ends = batch
        while ends is None and not self._batches.empty():
            if (more := self._batches.get_nowait()) is None:
                self._is_closed = True
                break
            operations, ends = operations + more[0], more[1]
        return None if self._is_stopped else (operations, ends)

    async def _begin(self) -> OpenTurn:
        if self._errand.is_new:
            self._progress.say(f"turn {self._errand.turn_id} (--turn {self._errand.turn_id} resumes it)")
        turn = await self._courier.begin(self._errand.turn_id, self._errand.target)
        if turn.turn.attempt > 1:
            self._watched.give_up("what a former process said of the turn has no times")
        if turn.turn.target != self._errand.target:
            raise UsageError(
                f"turn {self._errand.turn_id} goes to {turn.turn.target.conversation}: name that place, or choose "
                "another turn id"
            )
        return turn

    async def _say_what_is_missing(self) -> None:
        """The line that people are told of a missing part stands behind it: let it be sent before we leave."""
        conversation = self._errand.target.conversation
        while (going_on := self._courier.resume(conversation)) is None and not self._is_stopped:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the lane is at it; it has no other end to wait for
        if going_on is not None:
            await going_on

    async def _mention_others(self) -> None:
        own = self._errand.target.conversation
        others = [other for other in await self._courier.ledger.open_conversations() if other.name != own]
        if others:
            which = "another conversation has" if len(others) == 1 else f"{len(others)} other conversations have"
            command = f"tailrace deliveries resend --state open{naming(self._errand.ledger)}"
            self._progress.say(f"{which} deliveries that were not finished; `{command}` goes on with them")

    def _reckon(self, *, is_whole: bool) -> int:
        """Say what came of it; the exit code."""
        parts = [self._progress.latest.get(part.id, part) for part in self._parts]
        reckoning = reckoned(parts, errand_place=self._errand.target.conversation, ledger=naming(self._errand.ledger))
        is_cut = is_whole and not self._lines.has_ended and not self._lines.problem
        if reckoning.is_complete and is_whole and not is_cut:
            self._progress.conclude(reckoning.summary, parts)
            exit_code = FAILED if self._progress.is_unread else DONE
        else:
            self._progress.report(parts)
            self._progress.say(f"tailrace: {reckoning.summary}")
            if not is_whole or reckoning.is_open:
                self._progress.say(f"go on with the same input and: {self._errand.resumption}")
            if is_cut:
                self._progress.say("the input ended before the turn was over: the turn has failed")
            exit_code = FAILED
        if self._lines.problem:
            raise UsageError(self._lines.problem)
        return exit_code


_ENDS: dict[type, TurnState] = {
    TurnCompleted: TurnState.DONE,
    TurnFailed: TurnState.FAILED,
    TurnCancelled: TurnState.CANCELLED,
}


async def _behind(beginning: list[Event], rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    for event in beginning:
        yield event
    async for event in rest:
        yield event


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
