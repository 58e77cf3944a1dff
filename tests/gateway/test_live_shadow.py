"""The live shadow of a gateway: it compares a share of the turns, and changes nothing of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.config import LiveShadowSettings

if TYPE_CHECKING:
    import pytest

    from tailrace.testing.virtual_time import Simulation

WORDS = ["one", "two", "three", "four", "five", "six"]


def results(setup: GatewaySetup) -> dict[str, float]:
    return {labels[0]: value for labels, value in setup.metrics.values("tailrace_shadow_turns_total").items()}


async def answer_all(setup: GatewaySetup) -> list[Any]:
    """Let people ask. Returns everything that the platform was asked to do, at what time."""
    async with setup.running():
        for word in WORDS:
            setup.say(word, event_id=word)
        await setup.read(*(f"ok: {word}" for word in WORDS))
    return list(setup.platform.calls)


@in_virtual_time
async def test_each_turn_is_compared_and_reported_without_its_text(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    setup = GatewaySetup(simulation)
    setup.shadow = LiveShadowSettings(presentation="final", share=1.0)
    caplog.set_level(logging.INFO, logger="tailrace.shadow")
    await answer_all(setup)
    assert results(setup) == {"same": 6, "different": 0, "given_up": 0, "dropped": 0}
    reports = [record.getMessage() for record in caplog.records if record.name.startswith("tailrace.shadow")]
    assert len(reports) == 6
    assert all("1 identical" in report for report in reports)
    assert not any("ok: " in report for report in reports)


@in_virtual_time
async def test_a_difference_is_counted(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    setup.shadow = LiveShadowSettings(presentation="processing", share=1.0)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: len(setup.texts()) == 1)
        setup.agent.go_on.set()
        await setup.until(lambda: bool(setup.metrics.values("tailrace_turns_total")))
    assert sum(results(setup).values()) == 1


@in_virtual_time
async def test_the_share_is_chosen_by_the_turns(simulation: Simulation) -> None:
    chosen = []
    for _ in range(2):
        setup = GatewaySetup(simulation)
        setup.shadow = LiveShadowSettings(presentation="final", share=0.5)
        await answer_all(setup)
        chosen.append(results(setup))
    assert chosen[0] == chosen[1]
    assert 0 < chosen[0]["same"] < 6


@in_virtual_time
async def test_the_shadow_makes_no_call_and_delays_none(simulation: Simulation) -> None:
    calls = []
    for shadow in (None, LiveShadowSettings(presentation="tokens", share=1.0)):
        setup = GatewaySetup(simulation)
        setup.shadow, began = shadow, simulation.clock.monotonic()
        found = await answer_all(setup)
        calls.append([(call.kind, call.chat, round(call.at - began, 6)) for call in found])
    assert calls[0] == calls[1]
    assert len(calls[0]) >= len(WORDS)
