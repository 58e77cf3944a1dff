"""A gateway in virtual time: one simulated platform, one ledger in memory, and an agent that tests control."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delivery_setup import kill_everything_else

from tailrace.capabilities import Capabilities, EditRules, Keyed
from tailrace.config import ChannelSettings, GatewaySettings
from tailrace.errors import TailraceError
from tailrace.gateway.gateway import GatewayProcess
from tailrace.gateway.metrics import Metrics
from tailrace.gateway.plan import ChannelPlan, GatewayPlan
from tailrace.gateway.questions import ChatQuestions
from tailrace.gateway.router import Agent
from tailrace.inbound import InboundMessage, Sender
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tailrace.config import LiveShadowSettings
    from tailrace.events import Event
    from tailrace.gateway.extensions import BrokenExtension, Extension
    from tailrace.gateway.schedule import SchedulePlan
    from tailrace.ports import Channel, Prompt
    from tailrace.testing.simulated import InProcessChannel
    from tailrace.testing.virtual_time import Simulation

LIMITS = Capabilities(
    idempotency=Keyed(window_s=300.0), limit=4000, edits=EditRules(every_s=1.0), typing_s=5.0, presentation="live"
)
PERSON = "7"


class ScriptedAgent:
    """Answers `ok: PROMPT`. A prompt that begins with `slow` waits for `go_on`; `fail` raises an error."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.go_on = asyncio.Event()

    async def answer(self, prompt: Prompt) -> AsyncIterator[Event | str]:
        self.prompts.append(prompt)
        if prompt.text.startswith("slow"):
            yield "I begin with this answer now. "
            await self.go_on.wait()
        if prompt.text == "fail":
            raise RuntimeError("the agent is broken")
        yield f"ok: {prompt.text}"


class GatewaySetup:
    """Use `running()` to serve. `crash` ends the process; the next `running()` is a new one on the same ledger."""

    def __init__(self, simulation: Simulation, limits: Capabilities = LIMITS, **settings: Any) -> None:
        self.clock = simulation.clock
        self.platform = SimulatedPlatform(limits)
        self.agent = ScriptedAgent()
        self.runtime: Any = FunctionRuntime(self.agent.answer, name="scripted")  # type: ignore[arg-type]
        self.ledger = MemoryLedger(clock=self.clock)
        self.lines: list[str] = []
        self.agent_id = "main"
        self.other_agents: dict[str, Agent] = {}
        gateway = {name: settings.pop(name) for name in ("max_queue_size", "session_timeout_s") if name in settings}
        self.settings = ChannelSettings(**{"allow": ("*",), **settings})
        self.gateway = GatewaySettings(**gateway)
        self.extensions: list[Extension | BrokenExtension] = []
        self.schedules: list[SchedulePlan] = []
        self.questions = ChatQuestions()
        self.metrics = Metrics()
        self.shadow: LiveShadowSettings | None = None
        self.new_channels: Callable[[], Sequence[Channel]] = lambda: [self.new_channel()]
        self._events = 0

    def new_channel(self) -> InProcessChannel:
        """A channel to the platform."""
        return in_process_channel(self.platform, self.clock, request_s=0.05, answer_s=0.05)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Event]:
        """A gateway that serves. At the end it is drained."""
        self.questions = ChatQuestions()
        plan = GatewayPlan(
            agents={"main": Agent(runtime=self.runtime), **self.other_agents},
            channels=[
                ChannelPlan(channel=channel, settings=self.settings, agent_id=self.agent_id)
                for channel in self.new_channels()
            ],
            extensions=self.extensions,
            schedules=self.schedules,
            ledger=Path("unused"),
            questions=self.questions,
            shadow=self.shadow,
            settings=self.gateway,
        )
        stop = asyncio.Event()
        process = GatewayProcess(plan, write=self.lines.append, clock=self.clock)
        self.metrics = process.metrics
        serving = asyncio.create_task(process.serve(self.ledger, stop))
        try:
            yield stop
        finally:
            stop.set()
            await asyncio.gather(serving, return_exceptions=True)
        if not serving.cancelled() and (error := serving.exception()) is not None:
            assert isinstance(error, TailraceError), repr(error)
            raise error

    async def crash(self) -> None:
        """Kill the process."""
        self.ledger = self.ledger.reopen()
        await kill_everything_else()

    def say(self, text: str, *, chat: str = PERSON, event_id: str = "", **fields: Any) -> InboundMessage:
        """Let a person write a message."""
        self._events += 1
        number = event_id or str(self._events)
        message = InboundMessage(
            **{
                "channel": "simulated",
                "event_id": number,
                "target": Target(channel="simulated", chat=chat),
                "text": text,
                "sender": Sender(id=chat),
                "message_id": f"m{number}",
                "at": self.clock.wall(),
                **fields,
            }
        )
        self.platform.add_inbound(message)
        return message

    def texts(self, chat: str = PERSON) -> list[str]:
        """What people read in the chat."""
        return self.platform.texts(chat)

    async def until(self, is_reached: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait in virtual time until something is true."""
        for _ in range(int(within_s * 20)):
            if is_reached():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not reached: {self.texts()}")

    async def read(self, *expected: str, chat: str = PERSON) -> None:
        """Wait until people read exactly these messages of the bot."""
        await self.until(lambda: self.texts(chat) == list(expected))
