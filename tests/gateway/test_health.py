"""The health pages over real HTTP, and when a channel is ready."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from async_test import async_test
from gateway.gateway_setup import LIMITS, ScriptedAgent
from gateway.health_pages import Page, fetch, free_port
from tailrace.config import ChannelSettings
from tailrace.delivery.sender_context import SystemClock
from tailrace.errors import MaybeSent, UsageError
from tailrace.gateway.gateway import GatewayProcess
from tailrace.gateway.health import Health, HealthServer
from tailrace.gateway.metrics import METRICS, Metrics
from tailrace.gateway.plan import ChannelPlan, GatewayPlan
from tailrace.gateway.router import Agent
from tailrace.inbound import InboundMessage, Sender
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import InProcessChannel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class LivingChannel(InProcessChannel):
    """A channel whose proof of life the test decides, and whose connection the test ends."""

    proof_every_s = 30.0

    def __init__(self) -> None:
        super().__init__(SimulatedPlatform(LIMITS), SystemClock())
        self.alive_at = float("-inf")
        self.broken = asyncio.Event()

    def prove(self, *, ago_s: float = 0.0) -> None:
        self.alive_at = asyncio.get_running_loop().time() - ago_s

    async def wait_closed(self) -> None:
        await self.broken.wait()
        raise MaybeSent("the line was cut, token=abcdefgh12345678")


class Served:
    """A gateway that runs in this loop, and its health pages."""

    def __init__(self) -> None:
        self.channel = LivingChannel()
        self.port = free_port()
        self.agent = ScriptedAgent()
        self.lines: list[str] = []
        self.ready = asyncio.Event()
        self.stop = asyncio.Event()

    def write(self, line: str) -> None:
        self.lines.append(line)
        self.ready.set()

    def plan(self, **more: Any) -> GatewayPlan:
        runtime = FunctionRuntime(self.agent.answer, name="scripted")  # type: ignore[arg-type]  # a generator
        settings = ChannelSettings(allow=("*",))
        return GatewayPlan(
            agents={"main": Agent(runtime=runtime)},
            channels=[ChannelPlan(channel=self.channel, settings=settings, agent_id="main")],
            ledger=Path("unused"),
            **{"health": ("127.0.0.1", self.port), **more},
        )

    async def serve(self, **more: Any) -> None:
        process = GatewayProcess(self.plan(**more), write=self.write)
        await process.serve(MemoryLedger(clock=SystemClock()), self.stop)

    async def page(self, path: str) -> Page:
        return await asyncio.to_thread(fetch, self.port, path)

    async def until(self, path: str, status: int) -> Page:
        async with asyncio.timeout(30):
            while (page := await self.page(path)).status != status:
                pass
        return page


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[Served]:
    served = Served()
    serving = asyncio.create_task(served.serve(**more))
    try:
        await asyncio.wait({serving, asyncio.ensure_future(served.ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        yield served
    finally:
        served.stop.set()
        await serving


@async_test
async def test_a_channel_is_ready_as_long_as_it_proves_that_it_works() -> None:
    async with running() as served:
        assert served.lines == ["ready: simulated"]
        page = await served.page("/readyz")  # it is connected, but that alone does not count
        assert page == (503, "simulated: no proof of life yet; one is due every 30 s\n")
        served.channel.prove()
        assert await served.page("/readyz") == (200, "simulated: ready\n")
        served.channel.prove(ago_s=34)
        assert (await served.page("/readyz")).status == 200
        served.channel.prove(ago_s=36)
        assert await served.page("/readyz") == (
            503,
            "simulated: no proof of life for 36 s; one is due every 30 s\n",
        )
        assert await served.page("/healthz") == (200, "ok\n")


@async_test
async def test_a_channel_that_has_failed_is_named_with_its_reason() -> None:
    async with running() as served:
        served.channel.prove()
        served.channel.broken.set()
        page = await served.until("/readyz", 503)
        assert page.text == "simulated: the line was cut, token=[redacted]\n"
        metrics = (await served.page("/metrics")).text
        assert 'tailrace_channel_up{channel="simulated"} 0.0' in metrics
        assert 'tailrace_channel_restarts_total{channel="simulated"} 1.0' in metrics


@async_test
async def test_a_gateway_that_stops_is_not_ready() -> None:
    async with running() as served:
        served.channel.prove()
        served.channel.platform.add_inbound(
            InboundMessage(
                channel="simulated",
                event_id="1",
                target=Target(channel="simulated", chat="7"),
                text="slow",
                sender=Sender(id="7"),
            )
        )
        while "tailrace_turns_running 1.0" not in (await served.page("/metrics")).text:
            pass
        served.stop.set()
        assert await served.until("/readyz", 503) == (503, "the gateway is stopping\n")
        served.agent.go_on.set()


@async_test
async def test_the_metrics_are_those_that_are_described() -> None:
    async with running() as served:
        served.channel.prove()
        text = (await served.page("/metrics")).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        described = {metric.name.removesuffix("_total") for metric in METRICS}
        assert described <= families.keys()
        assert all(name.startswith("tailrace_") for name in families)
        assert {name for name in families if not name.startswith("tailrace_process_")} == described
        assert 0 <= families["tailrace_loop_delay_seconds"].samples[0].value < 3
        assert families["tailrace_channel_up"].samples[0].value == 1
        assert families["tailrace_process_resident_memory_bytes"].samples[0].value > 1e6


def test_a_blocked_loop_is_seen_from_outside() -> None:
    pages: list[Page] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        health = Health(Metrics(), [], loop, is_draining=lambda: False, answer_s=0.2)
        server = HealthServer(health, ("127.0.0.1", 0))

        def ask() -> None:
            pages.extend(fetch(server.port, path) for path in ("/healthz", "/readyz"))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()  # blocks the loop until the pages are answered
        pages.append(await asyncio.to_thread(fetch, server.port, "/healthz"))
        await asyncio.to_thread(server.close)

    asyncio.run(scene())
    blocked = (503, "the event loop has not answered for 0.2 s\n")
    assert pages == [blocked, blocked, (200, "ok\n")]


@async_test
async def test_other_pages_and_methods_are_refused() -> None:
    async with running() as served:
        served.channel.prove()
        assert await served.page("/") == (404, "there is no such page, only /healthz, /readyz, /metrics\n")
        assert (await asyncio.to_thread(fetch, served.port, "/healthz", "POST")) == (405, "use GET\n")
        assert (await asyncio.to_thread(fetch, served.port, "/readyz", "HEAD")) == (200, "")


@async_test
async def test_a_client_that_says_nothing_delays_no_other() -> None:
    async with running() as served:
        with socket.create_connection(("127.0.0.1", served.port)):
            assert (await served.page("/healthz")).status == 200


@async_test
async def test_a_taken_address_is_an_error_if_the_pages_are_needed() -> None:
    served = Served()
    with socket.create_server(("127.0.0.1", served.port)), pytest.raises(UsageError) as raised:
        await served.serve(needs_health=True)
    assert str(raised.value) == (
        f"health: nothing can listen at 127.0.0.1:{served.port} (Address already in use). "
        'Set gateway.health to another address, or to "" for none.'
    )


@async_test
async def test_a_taken_address_is_only_a_warning_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with running(health=("127.0.0.1", port)) as served:
            assert served.lines == ["ready: simulated"]
    assert caplog.messages == [
        f"health: nothing can listen at 127.0.0.1:{port} (Address already in use), so there are no health pages"
    ]
