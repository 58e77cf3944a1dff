"""Long outages, restarts, locks and stops: failures reported elsewhere, checked on a whole gateway."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

import apsw
import pytest
from delivery_setup import in_virtual_time
from msgspec.structs import replace

from async_test import async_test
from gateway.gateway_setup import LIMITS, GatewaySetup
from pseudo_terminal import TAILRACE
from tailrace.capabilities import EditRules
from tailrace.deliveries import Query, State
from tailrace.errors import NotSent
from tailrace.events import ToolFinished, ToolOutput, ToolStarted
from tailrace.inbound import InboundMessage
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Target
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.faults import NoAnswer, Refuse, Rule, TooMany, Unreachable
from tailrace.testing.platforms.telegram import TelegramSimulator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.ports import Inbox
    from tailrace.testing.virtual_time import Simulation

FINAL = replace(LIMITS, presentation="final")
HOUR_S = 3600.0
BEGUN = "I begin with this answer now."


# Scar 26: 110 messages, 15 hours old, were sent after a restart; entries of months ago flooded a chat


@in_virtual_time
async def test_scar_26_110_messages_of_a_long_outage_become_one_line(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, max_queue_size=200, max_age_s=10 * HOUR_S)
    async with setup.running():
        for number in range(111):
            setup.say("slow" if number == 0 else f"question {number}")
        await setup.until(lambda: setup.texts() == [BEGUN])
        await asyncio.sleep(5)
        await setup.crash()
    await asyncio.sleep(15 * HOUR_S)
    async with setup.running():
        await setup.until(lambda: len(setup.texts()) == 2)
        setup.say("hello")
        await setup.until(lambda: setup.texts()[-1] == "ok: hello")
    (_, line, _) = setup.texts()
    assert line.startswith("⚠️ 110 messages of yours were not answered")
    assert [prompt.text for prompt in setup.agent.prompts] == ["slow", "hello"]


@in_virtual_time
async def test_scar_26_answers_of_months_ago_are_not_sent_any_more(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, FINAL)
    async with setup.running():
        setup.platform.script.add(Rule(fault=Unreachable(), kind="post", times=None))
        for number in range(20):
            setup.say(f"question {number}")
        await setup.until(lambda: len(setup.agent.prompts) == 1)
        await asyncio.sleep(5)
        await setup.crash()
    await asyncio.sleep(60 * 24 * HOUR_S)
    setup.platform.script.clear()
    async with setup.running():
        setup.say("hello")
        await setup.until(lambda: "ok: hello" in setup.texts())
        await asyncio.sleep(600)
    assert not [text for text in setup.texts() if "question" in text]
    assert len(setup.texts()) <= 3, "no flood of lines about them"


# Scar 27: a queue was emptied only at a restart; a refused row was repeated for ever; one long wait blocked all others


@in_virtual_time
async def test_scar_27_answers_are_sent_when_the_platform_is_back_without_a_restart(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, FINAL)
    async with setup.running():
        setup.platform.script.add(Rule(fault=Unreachable(), kind="post", times=None))
        setup.say("one")
        await asyncio.sleep(HOUR_S / 3)
        assert setup.texts() == []
        setup.platform.script.clear()
        await setup.until(lambda: setup.texts() == ["ok: one"], within_s=300)


@in_virtual_time
async def test_scar_27_a_refused_answer_is_not_repeated_for_ever(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, FINAL)
    async with setup.running():
        setup.platform.script.add(Rule(fault=Refuse(status=400, reason="no"), kind="post", chat="7"))
        setup.say("one")
        await setup.until(lambda: len(setup.texts()) == 1)
        calls = setup.platform.counts["post"]
        await asyncio.sleep(24 * HOUR_S)
        assert setup.platform.counts["post"] == calls
    assert setup.texts() == ["⚠️ Part 1 of this answer is missing."]
    (refused,) = [row for row in await setup.ledger.find(Query()) if row.state is State.FAILED]
    assert refused.attempt == 1


@in_virtual_time
async def test_scar_27_a_chat_that_must_wait_does_not_block_another_one(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, FINAL)
    async with setup.running():
        setup.platform.script.add(Rule(fault=TooMany(retry_after=300.0), kind="post", chat="7"))
        setup.say("one")
        await asyncio.sleep(1)
        setup.say("two", chat="8")
        await setup.until(lambda: setup.texts("8") == ["ok: two"], within_s=2)
        assert setup.texts() == []
        await setup.until(lambda: setup.texts() == ["ok: one"], within_s=400)


@in_virtual_time
async def test_scar_27_no_attempt_is_used_up_before_the_channel_is_connected(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, FINAL)
    async with setup.running():
        setup.platform.script.add(Rule(fault=Unreachable(), kind="post", times=None))
        setup.say("one")
        await asyncio.sleep(1)
        await setup.crash()
    (before,) = await setup.ledger.find(Query())
    setup.platform.script.clear()
    channel, connects_at = setup.new_channel(), simulation.clock.monotonic() + 30.0
    start = channel.start

    async def start_later(inbox: Inbox) -> None:
        if simulation.clock.monotonic() < connects_at:
            raise NotSent("there is no network")
        await start(inbox)

    channel.start = start_later  # type: ignore[method-assign]  # a network that is not up yet
    setup.new_channels = lambda: [channel]
    async with setup.running():
        await asyncio.sleep(25)
        assert (await setup.ledger.find(Query()))[0].attempt == before.attempt
        await setup.until(lambda: setup.texts() == ["ok: one"], within_s=120)


# Scar 28: a lock of 30 s ended under a long turn; a message was left between the end of a turn and its unlock


@in_virtual_time
async def test_scar_28_a_turn_of_an_hour_keeps_its_conversation(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        setup.say("two")
        await asyncio.sleep(HOUR_S)
        assert len(setup.agent.prompts) == 1
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN} ok: slow", "ok: two")


@pytest.mark.parametrize("milliseconds", range(0, 320, 16))
def test_scar_28_a_message_at_the_end_of_a_turn_is_answered(milliseconds: int) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = GatewaySetup(simulation)
        async with setup.running():
            await asyncio.sleep(1)
            setup.say("one")
            await asyncio.sleep(milliseconds / 1000)
            setup.say("two")
            await setup.read("ok: one", "ok: two")

    scene()


# Scar 29: contention for SQLite blocked the event loop for 33 to 105 s


@async_test
async def test_scar_29_a_locked_ledger_does_not_block_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await SqliteLedger.open(path)
    stranger = apsw.Connection(str(path))
    try:
        stranger.execute("BEGIN IMMEDIATE")
        target = Target(channel="simulated", chat="7")
        accepting = asyncio.create_task(
            ledger.accept(InboundMessage(channel="simulated", event_id="1", target=target, text="hello"))
        )
        for _ in range(20):
            await asyncio.sleep(0.005)  # the loop turns while the ledger is locked
        assert not accepting.done()
        stranger.execute("ROLLBACK")
        assert (await accepting).is_new
    finally:
        stranger.close()
        await ledger.close()


# Scar 33: the output of tools leaked into groups; a retry went to the wrong thread


@pytest.mark.parametrize("group", [True, False])
def test_scar_33_no_output_of_a_tool_is_shown(group: bool) -> None:
    async def careless(_: object) -> AsyncGenerator[Event | str, None]:
        yield ToolStarted(id="t", name="read_secrets", arguments={})
        yield ToolOutput(id="t", data="PASSWORD=hunter2")
        await asyncio.sleep(5)
        yield ToolFinished(id="t", result="PASSWORD=hunter2")
        yield "Done."

    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = GatewaySetup(simulation, groups="all")
        setup.runtime = FunctionRuntime(careless, name="careless")
        async with setup.running():
            setup.say("hello", target=Target(channel="simulated", chat="7", group=group))
            await setup.until(lambda: any("Done." in text for text in setup.texts()))
        shown = [
            version.message.text
            for each in setup.platform.history("7")
            for version in setup.platform.versions(each.message_id)
        ]
        assert not [text for text in shown if "hunter2" in text]

    scene()


@in_virtual_time
async def test_scar_33_answers_stay_in_their_topic_after_a_restart(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, replace(FINAL, threads=True))
    topics = [Target(channel="simulated", chat="7", thread=thread) for thread in ("4", "9")]
    async with setup.running():
        setup.platform.script.add(Rule(fault=Unreachable(), kind="post", times=None))
        for topic in topics:
            setup.say(f"in {topic.thread}", target=topic)
        await asyncio.sleep(3)
        await setup.crash()
    setup.platform.script.clear()
    async with setup.running():
        await setup.until(lambda: len(setup.texts()) == 2)
    shown = {(each.thread, each.text) for each in setup.platform.history("7")}
    assert shown == {("4", "ok: in 4"), ("9", "ok: in 9")}


# Scar 35: /stop took 30 s; an old preview was sent after it


@in_virtual_time
async def test_scar_35_stop_is_answered_while_an_edit_hangs_and_nothing_new_follows(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, replace(LIMITS, edits=EditRules(every_s=0.5), deadline_s=10.0))

    async def endless(_: object) -> AsyncGenerator[str, None]:
        for number in range(10_000):
            yield f"sentence {number} of the answer. "
            await asyncio.sleep(0.2)

    setup.runtime = FunctionRuntime(endless, name="endless")
    async with setup.running():
        setup.say("go")
        await setup.until(lambda: setup.texts() != [])
        setup.platform.script.add(Rule(fault=NoAnswer(applied=False), kind="edit"))
        await asyncio.sleep(2)
        setup.say("/stop")
        await setup.until(lambda: "Stopped." in setup.texts(), within_s=15)
        shown = setup.texts()
        await asyncio.sleep(HOUR_S)
        assert setup.texts() == shown


# Scar 36: a dry run really sent


@async_test
async def test_scar_36_checks_and_previews_send_nothing(tmp_path: Path) -> None:
    (tmp_path / "turn.ndjson").write_text('{"type": "text_delta", "text": "hello"}\n{"type": "turn_completed"}\n')
    commands = (["check"], ["check", "--explain"], ["preview", "turn.ndjson"], ["shadow", "--help"], ["deliveries"])
    async with TelegramSimulator() as telegram:
        env = {**os.environ, **telegram.environment, "XDG_DATA_HOME": str(tmp_path)}
        (tmp_path / "tailrace.toml").write_text('[agents.main]\nuse = "demo"\n[channels.telegram]\n')
        for command in commands:
            done = await asyncio.to_thread(
                subprocess.run,
                [TAILRACE, *command],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert done.returncode in {0, 1}, done.stderr
        assert telegram.texts() == []
        assert all(call.method.startswith("get") for call in telegram.calls)
        assert telegram.calls, "the checks have asked"
