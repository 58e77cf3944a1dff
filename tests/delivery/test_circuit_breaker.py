"""The circuit breaker: open after several failures in a row, then one probe, then closed."""

from __future__ import annotations

import asyncio

from delivery_setup import in_virtual_time
from hypothesis import given
from hypothesis import strategies as st

from tailrace.delivery.circuit_breaker import CircuitBreaker
from tailrace.delivery.pace import PacedChannel
from tailrace.operations import Ambiguous, Delivered, NotNow, Receipt, Refused
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation
from tailrace.testing.wire import capabilities_of

PROBE_S = 31.0


def broken(failures: int = 5, now: float = 0.0) -> CircuitBreaker:
    circuit = CircuitBreaker()
    for _ in range(failures):
        circuit.record_failure(now, jitter=1.0)
    return circuit


def test_several_failures_in_a_row_open_the_breaker() -> None:
    circuit = broken(4)
    assert circuit.is_closed
    circuit.record_answer()
    for _ in range(4):
        circuit.record_failure(0.0, jitter=1.0)
    assert circuit.is_closed
    circuit.record_failure(0.0, jitter=1.0)
    assert not circuit.is_closed


def test_a_half_open_breaker_lets_one_call_through() -> None:
    circuit = broken()
    assert circuit.wait(0.0, probe_s=PROBE_S) == 1.0
    assert circuit.wait(1.0, probe_s=PROBE_S) == 0.0
    assert [circuit.wait(1.0, probe_s=PROBE_S) for _ in range(3)] == [PROBE_S] * 3
    circuit.record_answer()
    assert [circuit.wait(1.0, probe_s=PROBE_S) for _ in range(3)] == [0.0] * 3


def test_a_probe_without_an_end_blocks_only_for_its_time() -> None:
    circuit = broken()
    assert circuit.wait(1.0, probe_s=PROBE_S) == 0.0
    assert circuit.wait(1.0 + PROBE_S, probe_s=PROBE_S) == 0.0
    assert circuit.wait(1.0 + PROBE_S, probe_s=PROBE_S) == PROBE_S


def test_due_in_takes_no_probe() -> None:
    circuit = broken()
    assert {circuit.due_in(1.0) for _ in range(3)} == {0.0}
    assert circuit.wait(1.0, probe_s=PROBE_S) == 0.0
    assert circuit.due_in(1.0) == PROBE_S


@given(failures=st.integers(5, 5000), jitter=st.floats(0, 1), now=st.floats(0, 1e9))
def test_pauses_grow_up_to_a_minute(failures: int, jitter: float, now: float) -> None:
    circuit, waits = CircuitBreaker(), []
    for _ in range(min(failures, 40)):
        circuit.record_failure(now, jitter=jitter)
        waits.append(circuit.due_in(now))
    assert waits == sorted(waits)
    assert 0 < waits[-1] <= 60.0 + 1e-6


@in_virtual_time
async def test_any_answer_of_the_platform_closes_the_breaker(simulation: Simulation) -> None:
    platform = in_process_channel(SimulatedPlatform(capabilities_of("unkeyed")), simulation.clock)
    for answer in (Delivered(Receipt(message_id="m")), Refused("blocked"), NotNow("busy", retry_after=0.0)):
        channel = PacedChannel(platform, simulation.clock, lambda: 1.0)
        for _ in range(5):
            channel.learn("a", Ambiguous("no answer"))
        assert not channel.is_answering
        channel.learn("a", answer)
        assert channel.is_answering


@in_virtual_time
async def test_waiting_calls_do_not_all_go_when_the_breaker_closes(simulation: Simulation) -> None:
    platform = in_process_channel(SimulatedPlatform(capabilities_of("unkeyed")), simulation.clock)
    channel = PacedChannel(platform, simulation.clock, simulation.source.random)
    for _ in range(5):
        channel.learn("a", NotNow("unreachable"))
    times: list[float] = []

    async def call(chat: str) -> None:
        await channel.wait_to_call(chat)
        times.append(simulation.clock.monotonic())
        await asyncio.sleep(1.0)
        channel.learn(chat, Delivered(Receipt(message_id="m")))

    await asyncio.gather(*(call(f"chat {number}") for number in range(20)))
    first, second = sorted(times)[:2]
    assert second >= first + 1.0
