"""The gateway as a process: opens the ledger, keeps the channels running, answers, and stops in good order."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.delivery import Courier, Recovery, Spool
from tailrace.errors import ChannelFault, LedgerClosed, LedgerLost, UsageError
from tailrace.gateway.access import AccessList
from tailrace.gateway.context import GatewayContext, ServedChannel
from tailrace.gateway.control import ControlServer
from tailrace.gateway.extension_channel import ExtensionChannel
from tailrace.gateway.extension_runner import ExtensionRunner, create_runners
from tailrace.gateway.handlers import DeliveryRequests, access_handlers
from tailrace.gateway.inbox import ActiveConversations, GatewayInbox
from tailrace.gateway.live_shadow import LiveShadows
from tailrace.gateway.metrics import Metrics
from tailrace.gateway.plan import plan_of_program
from tailrace.gateway.reload import reloads_on_hangup
from tailrace.gateway.router import MessageRouter
from tailrace.gateway.schedule import Schedule
from tailrace.gateway.sessions import Session, Sessions
from tailrace.gateway.supervisor import ChannelSupervisor
from tailrace.gateway.watchdog import Watchdog
from tailrace.gateway.words import STOP_BUTTON
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.ports import AsksByButtons
from tailrace.projector import ProjectorSettings
from tailrace.signals import stops_on_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tailrace.deliveries import Delivery
    from tailrace.gateway.plan import ChannelPlan, GatewayPlan
    from tailrace.ledger_port import Ledger
    from tailrace.ports import Clock

_log = logging.getLogger(__name__)

_SESSIONS = "session"
_EXIT_AFTER_S = 10.0
_LAST_CALLS_S = 5.0
_RECOVER_AGAIN_S = 30.0
_LAST_WORDS = "ended at once; the next start continues"


class Gateway:
    """A gateway in a program: an agent (or the name of one) on channels (or their names).

    `allow` has the ids of the people who may use it, `"*"` admits everybody. `data_dir` is where the ledger is.
    """

    def __init__(
        self, agent: Any, *channels: Any, allow: Sequence[str] = (), data_dir: Path | str | None = None
    ) -> None:
        folder = None if data_dir is None else Path(data_dir)
        self._plan = plan_of_program(agent, channels, allow=allow, data_dir=folder)

    async def run(self) -> None:
        """Serve until the process gets SIGINT or SIGTERM."""
        await GatewayProcess(self._plan).run()


class GatewayProcess:
    """Runs a plan. `write` gets the lines for the person who started it, such as `ready: telegram`."""

    def __init__(
        self, plan: GatewayPlan, *, write: Callable[[str], None] | None = None, clock: Clock | None = None
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self._supervisors: list[ChannelSupervisor] = []
        self._extensions: list[ExtensionRunner] = []
        self.metrics = Metrics()
        self._on_change: list[Callable[[Delivery], None]] = [self.metrics.on_change]

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM. Raises an error if the gateway cannot go on."""
        exit_after_s = self._plan.settings.drain_s + _EXIT_AFTER_S
        path = self._plan.ledger
        with stops_on_signals(exit_after_s=exit_after_s, last_words=_LAST_WORDS) as stop, Watchdog():
            ledger = await SqliteLedger.open(path)
            self.metrics.read_ledger(lambda: ledger.activity)
            try:
                await self.serve(ledger, stop, Spool(path.with_name(f"{path.name}.spool")))
            finally:
                await ledger.close()

    async def serve(self, ledger: Ledger, stop: asyncio.Event, spool: Spool | None = None) -> None:
        """Serve with a ledger that is open, until `stop` is set."""
        courier = Courier(ledger, spool=spool, clock=self._clock, on_change=self._report)
        courier.observe_calls(self.metrics.on_call)
        context = await self._context(courier)
        requests = DeliveryRequests(courier)
        self._on_change.append(requests.on_change)
        control = None
        if self._plan.control is not None:
            handlers = {**access_handlers(context.access, context.clock, context.welcome), **requests.handlers()}
            control = ControlServer(self._plan.control, handlers)
        try:
            if control is not None:
                await control.start()
            reloads = reloads_on_hangup(self._plan.source, self._plan.read_again, context)
            async with self._health_pages(context):
                with reloads:
                    await self._serve(context, stop)
        finally:
            if control is not None:
                await control.stop()
            await context.close()
            context.shadows.close()

    @asynccontextmanager
    async def _health_pages(self, context: GatewayContext) -> AsyncIterator[None]:
        """Serve the health pages while the block runs, if the settings have an address for them."""
        if (address := self._plan.health) is None:
            yield
            return
        from tailrace.gateway.health import Health, HealthServer  # noqa: PLC0415 -- its library takes 14 MB

        loop = asyncio.get_running_loop()
        health = Health(self.metrics, self._supervisors, loop, is_draining=lambda: context.is_draining)
        try:
            server = HealthServer(health, address)
        except OSError as error:
            where = f"health: nothing can listen at {address[0]}:{address[1]} ({error.strerror or error})"
            if self._plan.needs_health:
                raise UsageError(f'{where}. Set gateway.health to another address, or to "" for none.') from error
            _log.warning("%s, so there are no health pages", where)
            yield
            return
        try:
            yield
        finally:
            await asyncio.to_thread(server.close)

    def _report(self, delivery: Delivery) -> None:
        for on_change in self._on_change:
            on_change(delivery)

    async def _context(self, courier: Courier) -> GatewayContext:
        plan, ledger = self._plan, courier.ledger
        router = MessageRouter(ledger=ledger)
        router.agents.update(plan.agents)
        access = await AccessList.load(ledger)
        limit = plan.settings.max_queue_size
        context = GatewayContext(courier, router, access, plan.questions, metrics=self.metrics, max_queue_size=limit)
        context.shadows = LiveShadows(plan.shadow, context)
        self._on_change.append(context.shadows.on_change)
        await plan.questions.open(context)
        router.sessions = await _stored_sessions(context, plan.settings.session_timeout_s)
        context.schedule_agents = {schedule.name: schedule.agent_id for schedule in plan.schedules}
        for channel in plan.channels:
            context.served[channel.channel.name] = self._served(channel)
        return context

    async def _serve(self, context: GatewayContext, stop: asyncio.Event) -> None:
        conversations = ActiveConversations(context)
        for served in context.served.values():
            await self._supervise(served, context, conversations)

        async def add_channel(plan: ChannelPlan) -> ChannelSupervisor:
            served = context.served[plan.channel.name] = self._served(plan)
            return await self._supervise(served, context, conversations)

        endless = [supervisor.run() for supervisor in self._supervisors]
        self._extensions = create_runners(self._plan.extensions, context, add_channel=add_channel, write=self._write)
        endless += [extension.run() for extension in self._extensions]
        endless += [Schedule(plan, context, conversations).run() for plan in self._plan.schedules]
        endless += [_recover(context.courier), self._watch_first_starts(), context.wait_for_failure()]
        work = [asyncio.create_task(each) for each in endless]
        stopping = asyncio.create_task(_until(stop))
        try:
            await asyncio.wait({stopping, *work}, return_when=asyncio.FIRST_COMPLETED)
            await self._drain(context, conversations)
            for task in work:
                if task.done():
                    task.result()
        finally:
            for task in (stopping, *work):
                task.cancel()
            await asyncio.gather(stopping, *work, return_exceptions=True)

    async def _supervise(
        self, served: ServedChannel, context: GatewayContext, conversations: ActiveConversations
    ) -> ChannelSupervisor:
        # Before the channel starts to receive, so that a new message is not queued twice.
        await conversations.resume(served.name)
        inbox = GatewayInbox(context, served, conversations)
        supervisor = ChannelSupervisor(served, inbox, context.courier, self._say_ready)
        self._supervisors.append(supervisor)
        return supervisor

    def _served(self, plan: ChannelPlan) -> ServedChannel:
        settings = plan.settings
        projector = ProjectorSettings(
            presentation=plan.presentation,
            edit_every_s=settings.stream_edit_interval_ms / 1000,
            edit_characters=settings.stream_min_chunk_chars,
            buttons=(STOP_BUTTON,) if isinstance(plan.channel, AsksByButtons) else (),
            processing_every_s=self._plan.settings.processing_update_interval_ms / 1000,
        )
        channel = plan.channel
        provider = channel.provider if isinstance(channel, ExtensionChannel) else None
        return ServedChannel(channel, settings, agent_id=plan.agent_id, projector=projector, provider=provider)

    def _say_ready(self, served: ServedChannel) -> None:
        account = getattr(served.channel, "account_name", "")
        self._write(f"ready: {served.name} ({account})" if account else f"ready: {served.name}")

    async def _watch_first_starts(self) -> None:
        """Raise an error if no channel can work before a person has changed something."""
        for extension in self._extensions:
            await extension.wait_started()
        for supervisor in self._supervisors:
            await supervisor.wait_started()
        refused = [supervisor for supervisor in self._supervisors if supervisor.refused is not None]
        if self._supervisors and len(refused) == len(self._supervisors):
            raise ChannelFault("; ".join(f"{one.served.name}: {one.refused}" for one in refused))
        await asyncio.get_running_loop().create_future()

    async def _drain(self, context: GatewayContext, conversations: ActiveConversations) -> None:
        """Take nothing new, and let the turns that run finish. What is left is continued by the next process."""
        context.is_draining = True
        running, limit_s = conversations.active(), self._plan.settings.drain_s
        if running:
            self._write(f"stopping: answers that are being written have {limit_s:g} s to end; Ctrl-C ends at once")
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*(conversation.wait_until_idle() for conversation in running))
        for conversation in running:
            conversation.cancel()
        await context.courier.drain(min(limit_s, _LAST_CALLS_S))


async def _stored_sessions(context: GatewayContext, timeout_s: float) -> Sessions:
    """The sessions of the ledger. Those that have timed out are forgotten."""
    ledger, earlier, now = context.ledger, dict[str, Session](), context.clock.wall()
    for conversation, value in (await ledger.stored(_SESSIONS)).items():
        try:
            session = msgspec.json.decode(value, type=Session)
        except msgspec.MsgspecError:
            session = None
        if session is not None and now - session.used_at <= timeout_s:
            earlier[conversation] = session
        else:
            await ledger.store(_SESSIONS, conversation, None)

    def save(conversation: str, session: Session | None) -> None:
        value = None if session is None else msgspec.json.encode(session)
        context.in_background(ledger.store(_SESSIONS, conversation, value), "saving a session")

    return Sessions(timeout_s, context.clock.wall, earlier=earlier, changed=save)


async def _recover(courier: Courier) -> None:
    """Finish what earlier processes left open, again and again."""
    while True:
        try:
            await Recovery(courier).run()
        except (LedgerLost, LedgerClosed):
            raise
        except Exception as error:  # noqa: BLE001 -- a bug of ours must not end the gateway
            _log.critical("recovery failed and begins again", exc_info=error)
            await asyncio.sleep(_RECOVER_AGAIN_S)


async def _until(event: asyncio.Event) -> None:
    await event.wait()
