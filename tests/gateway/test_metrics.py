"""The numbers of a gateway: what is counted, and when."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.errors import LedgerUnavailable
from tailrace.gateway.metrics import BOUNDS_S, METRICS, Metrics
from tailrace.ledger.memory import MemoryLedger
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.faults import Rule, TooMany

if TYPE_CHECKING:
    from tailrace.deliveries import Accepted
    from tailrace.inbound import InboundMessage
    from tailrace.testing.virtual_time import Simulation

CHAT = "a-chat-that-no-label-names"


@in_virtual_time
async def test_messages_are_counted_by_what_became_of_them(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, allow=(CHAT,), max_queue_size=1)
    async with setup.running():
        setup.say("slow", chat=CHAT, event_id="same")
        setup.say("again", chat=CHAT, event_id="same")
        setup.say("two", chat=CHAT)
        setup.say("three", chat=CHAT)
        setup.say("let me in", chat="stranger")
        await setup.until(lambda: len(setup.texts(CHAT)) == 2)
        assert setup.metrics.values("tailrace_messages_waiting") == {(): 1}
        assert setup.metrics.values("tailrace_queue_longest") == {(): 1}
        assert setup.metrics.values("tailrace_turns_running") == {(): 1}
        assert setup.metrics.values("tailrace_conversations_active") == {(): 1}
        setup.agent.go_on.set()
        await setup.until(lambda: setup.metrics.values("tailrace_turns_total") == {("simulated", "done"): 2})
        await setup.until(lambda: setup.metrics.values("tailrace_conversations_active") == {(): 0})
    assert setup.metrics.values("tailrace_messages_total") == {
        ("simulated", "accepted"): 3,
        ("simulated", "repeated"): 1,
        ("simulated", "not_admitted"): 1,
    }
    assert setup.metrics.values("tailrace_queue_refusals_total") == {("simulated",): 1}


@in_virtual_time
async def test_turns_are_counted_by_their_end_and_timed(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        for text in ("one", "fail", "slow"):
            setup.say(text)
        await setup.until(lambda: len(setup.texts()) == 3)
        await asyncio.sleep(20)
        setup.say("/stop")
        await setup.until(lambda: len(setup.metrics.values("tailrace_turns_total")) == 3)
    ends = {"done", "failed", "cancelled"}
    assert setup.metrics.values("tailrace_turns_total") == {("simulated", end): 1 for end in ends}
    first, whole, queued = (
        setup.metrics.histograms(name)["simulated",]
        for name in ("tailrace_first_text_seconds", "tailrace_turn_seconds", "tailrace_queue_seconds")
    )
    assert sum(first.counts) == 2
    assert sum(whole.counts) == sum(queued.counts) == 3
    assert whole.counts[BOUNDS_S.index(30.0)] == 1
    assert first.sum < 1
    assert 20 < whole.sum < 30


@in_virtual_time
async def test_calls_are_counted_by_operation_and_outcome(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    setup.platform.script.add(Rule(fault=TooMany(retry_after=3.0), kind="post"))
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: len(setup.texts()) == 1)
        await asyncio.sleep(5)
        setup.agent.go_on.set()
        await setup.until(lambda: bool(setup.metrics.values("tailrace_turns_total")))
    calls = setup.metrics.values("tailrace_calls_total")
    assert calls["simulated", "post", "rate_limited"] == 1
    assert calls["simulated", "post", "delivered"] == 1
    assert calls["simulated", "edit", "delivered"] >= 1
    assert calls["simulated", "typing", "delivered"] >= 1
    assert setup.metrics.values("tailrace_deliveries_total") == {("simulated", "delivered"): 2}


@in_virtual_time
async def test_no_label_names_a_chat_a_person_or_a_turn(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("one", chat=CHAT)
        setup.say("fail", chat=CHAT)
        await setup.until(lambda: len(setup.texts(CHAT)) == 2)
    labels = {label for metric in METRICS if metric.kind != "histogram" for label in setup.metrics.values(metric.name)}
    labels |= {
        label for metric in METRICS if metric.kind == "histogram" for label in setup.metrics.histograms(metric.name)
    }
    words = {word for label in labels for word in label}
    assert words >= {"simulated", "done", "failed", "post", "delivered", "accepted"}
    assert words <= {"simulated", "done", "failed", "cancelled", "accepted", "post", "typing", "edit", "delivered"} | {
        *("same", "different", "given_up", "dropped")
    }


class FullLedger(MemoryLedger):
    """Its disk is full for the first messages."""

    refusals = 2

    async def accept(self, message: InboundMessage) -> Accepted:
        if self.refusals:
            self.refusals -= 1
            raise LedgerUnavailable("the disk is full")
        return await super().accept(message)


@in_virtual_time
async def test_messages_that_could_not_be_recorded_are_counted_until_they_are(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    setup.ledger = FullLedger(clock=simulation.clock)
    async with setup.running():
        setup.say("one")
        await setup.read("ok: one")
    assert setup.metrics.values("tailrace_messages_total") == {
        ("simulated", "not_recorded"): 2,
        ("simulated", "accepted"): 1,
    }


def test_the_commits_of_the_ledger_are_timed(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = await SqliteLedger.open(tmp_path / "ledger.db")
        metrics = Metrics()
        metrics.read_ledger(lambda: ledger.activity)
        before = metrics.values("tailrace_ledger_commits_total")[()]
        await ledger.store("kind", "key", b"value")
        assert metrics.values("tailrace_ledger_commits_total") == {(): before + 1}
        assert metrics.values("tailrace_ledger_commit_seconds_total")[()] > 0
        assert metrics.values("tailrace_ledger_changes_waiting") == {(): 0}
        await ledger.close()

    asyncio.run(scene())


def test_the_document_describes_these_metrics() -> None:
    document = Path(__file__).parents[2] / "docs" / "operating.md"
    rows = re.findall(r"^\| `(tailrace_\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", document.read_text(), re.MULTILINE)
    described = [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows]
    assert described == [tuple(metric) for metric in METRICS]
