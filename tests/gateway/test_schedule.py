"""Schedules: when they run, that they run once, and that they disturb no turn of a person."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import PERSON, GatewaySetup
from gateway.test_extensions import Streaming, Whole, extension
from tailrace.config import ScheduleSettings
from tailrace.gateway.router import Agent
from tailrace.gateway.schedule import LastRun, SchedulePlan
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.ports import Prompt
    from tailrace.testing.virtual_time import Simulation

HOUR = 3600.0
DAY = 24 * HOUR
BEGUN = "I begin with this answer now. "


def setup_with(
    simulation: Simulation, *, agent_id: str = "main", channel: dict[str, Any] | None = None, **table: Any
) -> GatewaySetup:
    setup = GatewaySetup(simulation, **(channel or {}))
    table = {"prompt": "news", "channel": "simulated", "to": PERSON, **table}
    if "cron" not in table:
        table = {"every": "1h", **table}
    setup.schedules = [SchedulePlan(name="morning", settings=ScheduleSettings(**table), agent_id=agent_id)]
    return setup


def prompts(setup: GatewaySetup) -> list[str]:
    return [prompt.text for prompt in setup.agent.prompts]


async def last_run(setup: GatewaySetup) -> LastRun:
    return msgspec.json.decode((await setup.ledger.stored("schedule"))["morning"], type=LastRun)


@in_virtual_time
async def test_a_prompt_runs_at_each_interval_and_its_answer_is_sent_whole(simulation: Simulation) -> None:
    setup = setup_with(simulation, prompt="slow news")
    async with setup.running():
        await asyncio.sleep(HOUR - 1)
        assert prompts(setup) == []
        await asyncio.sleep(60)
        assert prompts(setup) == ["slow news"]
        assert not setup.platform.calls  # no live message and no typing sign
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN}ok: slow news")
        await asyncio.sleep(2 * HOUR)
    assert prompts(setup) == ["slow news"] * 3
    assert len(setup.platform.calls) == 3
    prompt = setup.agent.prompts[0]
    assert (prompt.conversation, prompt.user_id) == ("simulated:7", PERSON)


@in_virtual_time
async def test_runs_do_not_drift(simulation: Simulation) -> None:
    setup = setup_with(simulation)
    began = setup.clock.wall()
    async with setup.running():
        await asyncio.sleep(10 * HOUR + 60)
        assert (await last_run(setup)).at == pytest.approx(began + 10 * HOUR, abs=1)
    assert len(prompts(setup)) == 10


@in_virtual_time
async def test_a_schedule_may_be_silent(simulation: Simulation) -> None:
    setup = setup_with(simulation)

    async def silent(prompt: Prompt) -> AsyncIterator[str]:
        setup.agent.prompts.append(prompt)
        yield "NO_"
        yield "REPLY"

    setup.runtime = FunctionRuntime(silent, name="silent")  # type: ignore[arg-type]  # an async generator is one
    async with setup.running():
        await asyncio.sleep(2 * HOUR + 60)
    assert len(prompts(setup)) == 2
    assert not setup.platform.calls


@pytest.mark.parametrize("busy", ["queue", "interrupt", "merge"])
def test_a_schedule_waits_behind_the_turn_of_a_person(busy: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = setup_with(simulation, channel={"busy": busy, "max_queue_size": 1})
        async with setup.running():
            await asyncio.sleep(HOUR - 30)
            setup.say("slow")
            if busy != "interrupt":
                await asyncio.sleep(1)
                setup.say("second")  # the queue is full
            await asyncio.sleep(60)
            assert setup.texts() == [BEGUN.strip()]
            setup.agent.go_on.set()
            await setup.until(lambda: setup.texts()[-1] == "ok: news")
        middle = [] if busy == "interrupt" else ["second"]
        assert prompts(setup) == ["slow", *middle, "news"]
        assert setup.texts() == [f"{BEGUN}ok: slow", *(f"ok: {text}" for text in middle), "ok: news"]

    scene()


@in_virtual_time
async def test_runs_do_not_pile_up(simulation: Simulation) -> None:
    setup = setup_with(simulation, prompt="slow news")
    async with setup.running():
        await asyncio.sleep(6 * HOUR)
        assert prompts(setup) == ["slow news"]
        setup.agent.go_on.set()
        await asyncio.sleep(60)
        assert prompts(setup) == ["slow news"] * 2  # one run for all times that have passed
        await asyncio.sleep(HOUR)
    assert prompts(setup) == ["slow news"] * 3


@pytest.mark.parametrize("table", [{"every": "1h"}, {"cron": "0 * * * *"}])
def test_after_a_pause_it_runs_once(table: dict[str, Any]) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = setup_with(simulation, **table)
        async with setup.running():
            await asyncio.sleep(60)
        await asyncio.sleep(3 * DAY)
        async with setup.running():
            await setup.read("ok: news")
            await asyncio.sleep(60)
            assert prompts(setup) == ["news"]
            await asyncio.sleep(HOUR)
        assert prompts(setup) == ["news"] * 2

    scene()


@in_virtual_time
async def test_a_restart_does_not_postpone_the_next_run(simulation: Simulation) -> None:
    setup = setup_with(simulation)
    for _ in range(4):
        async with setup.running():
            await asyncio.sleep(HOUR / 4)
    async with setup.running():
        await setup.read("ok: news")


@in_virtual_time
async def test_a_crash_neither_loses_nor_repeats_a_run(simulation: Simulation) -> None:
    setup = setup_with(simulation)
    async with setup.running():
        await asyncio.sleep(60)
        before = await last_run(setup)
        await asyncio.sleep(HOUR - 70)
        setup.say("slow")
        await asyncio.sleep(20)
        assert (await last_run(setup)).turn_id  # it is accepted, and waits
        await setup.crash()
    # As if the process had been killed before it could store that the run was accepted.
    await setup.ledger.store("schedule", "morning", msgspec.json.encode(before))
    async with setup.running():
        await setup.until(lambda: setup.texts()[-1] == "ok: news")
        await asyncio.sleep(60)
        await setup.crash()
    await setup.ledger.store("schedule", "morning", msgspec.json.encode(before))
    async with setup.running():
        await asyncio.sleep(60)
    assert prompts(setup) == ["slow", "news"]
    assert setup.texts().count("ok: news") == 1


@in_virtual_time
async def test_a_run_that_a_crash_has_cut_is_not_repeated(simulation: Simulation) -> None:
    setup = setup_with(simulation, prompt="slow news")
    async with setup.running():
        await asyncio.sleep(HOUR + 60)
        assert prompts(setup) == ["slow news"]
        await setup.crash()
    async with setup.running():
        await setup.until(lambda: "interrupted" in "".join(setup.texts()))
        await asyncio.sleep(60)
    assert prompts(setup) == ["slow news"]


@pytest.mark.parametrize("table", [{"every": "1h"}, {"cron": "0 * * * *"}])
def test_setting_the_clock_gives_no_flood_and_no_silence(table: dict[str, Any]) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = setup_with(simulation, **table)
        async with setup.running():
            await asyncio.sleep(60)
            setup.clock.jump(10 * DAY)
            await asyncio.sleep(120)
            assert len(prompts(setup)) <= 1
            for _ in range(20):
                setup.clock.jump(-10 * DAY)
                await asyncio.sleep(61)
                setup.clock.jump(10 * DAY)
                await asyncio.sleep(61)
            assert len(prompts(setup)) <= 3
            setup.clock.jump(-400 * DAY)
            before = len(prompts(setup))
            await asyncio.sleep(3 * HOUR)
            assert 2 <= len(prompts(setup)) - before <= 4

    scene()


@in_virtual_time
async def test_a_run_that_is_late_because_the_machine_slept_comes_once(simulation: Simulation) -> None:
    setup = setup_with(simulation)
    async with setup.running():
        await asyncio.sleep(60)
        setup.clock.suspend(5 * HOUR)
        await asyncio.sleep(120)
    assert prompts(setup) == ["news"]


@in_virtual_time
async def test_the_prompt_goes_to_the_agent_of_the_schedule_even_if_it_is_a_word(simulation: Simulation) -> None:
    setup = setup_with(simulation, prompt="/status", agent_id="other")
    seen: list[str] = []

    async def other(prompt: Prompt) -> AsyncIterator[str]:
        seen.append(prompt.text)
        yield "all is well"

    setup.other_agents["other"] = Agent(runtime=FunctionRuntime(other, name="other"))  # type: ignore[arg-type]
    async with setup.running():
        setup.say("hello")
        await setup.read("ok: hello")
        await setup.until(lambda: setup.texts()[-1] == "all is well", within_s=2 * HOUR)
        setup.say("/retry")
        await setup.read("ok: hello", "all is well", "ok: hello")
    assert seen == ["/status"]


@pytest.mark.parametrize("kind", [Whole, Streaming])
def test_a_channel_of_an_extension_gets_the_whole_answer(kind: type[Whole]) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        found = kind()
        setup = setup_with(simulation, channel=None, to="9")
        settings = msgspec.structs.replace(setup.schedules[0].settings, channel="own")
        setup.schedules = [msgspec.structs.replace(setup.schedules[0], settings=settings)]
        setup.extensions = [extension(found)]
        async with setup.running():
            await setup.until(lambda: len(found.calls) > 2, within_s=2 * HOUR)
            await asyncio.sleep(1)
        shown = [call for call in found.calls if call[0] not in ("initialize", "start", "stop")]
        whole = [("send_to_user", "9", "ok: news")]
        assert shown == (whole if kind is Whole else [("on_stream_start", "9"), ("on_stream_end", "9", "ok: news")])

    scene()


@in_virtual_time
async def test_a_damaged_record_counts_from_now(simulation: Simulation) -> None:
    setup = setup_with(simulation)
    await setup.ledger.store("schedule", "morning", b"\xff{")
    async with setup.running():
        await asyncio.sleep(HOUR + 60)
    assert prompts(setup) == ["news"]


@in_virtual_time
async def test_an_answer_goes_to_a_thread_if_the_schedule_names_one(simulation: Simulation) -> None:
    setup = setup_with(simulation, to="7--12")
    async with setup.running():
        await setup.until(lambda: bool(setup.platform.calls), within_s=2 * HOUR)
        await asyncio.sleep(1)
    assert setup.agent.prompts[0].conversation == "simulated:7#12"
