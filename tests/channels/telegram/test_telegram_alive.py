"""The proof of life: an answer of Telegram, which comes again and again while the connection works."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from telegram_setup import TOKEN, running, simulator

from tailrace.channels.telegram import BotSettings, TelegramChannel
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.ports import ProvesLife
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.testing.virtual_time import Simulation

POLLING: dict[str, Any] = {"polling_timeout": 20}
WEBHOOK: dict[str, Any] = {"mode": "webhook", "listen": "127.0.0.1:0", "public_url": "http://127.0.0.1:9/hook"}


def age(channel: TelegramChannel) -> float:
    return asyncio.get_running_loop().time() - channel.alive_at


@pytest.mark.parametrize("settings", [POLLING, WEBHOOK], ids=["polling", "webhook"])
def test_an_idle_connection_proves_again_and_again_that_it_works(settings: dict[str, Any]) -> None:
    async def scene(simulation: Simulation) -> None:
        async with simulator(clock=simulation.clock.wall) as telegram, running(telegram, **settings) as channel:
            assert isinstance(channel, ProvesLife)
            ages = [age(channel)]
            for _ in range(200):
                await asyncio.sleep(1)
                ages.append(age(channel))
            assert ages[0] == 0
            assert 10 < max(ages) <= channel.proof_every_s

    run(scene, sockets=True)


@pytest.mark.parametrize("settings", [POLLING, WEBHOOK], ids=["polling", "webhook"])
def test_without_a_connection_there_is_no_proof(settings: dict[str, Any]) -> None:
    async def scene(simulation: Simulation) -> None:
        async with simulator(clock=simulation.clock.wall) as telegram, running(telegram, **settings) as channel:
            began = channel.alive_at
            await telegram.__aexit__(None, None, None)
            await asyncio.sleep(200)
            assert channel.alive_at == began

    run(scene, sockets=True)


def test_a_webhook_that_another_program_has_changed_is_no_proof() -> None:
    async def scene(simulation: Simulation) -> None:
        async with simulator(clock=simulation.clock.wall) as telegram, running(telegram, **WEBHOOK) as channel:
            client = TelegramClient(BotSettings(token=TOKEN, api_base=telegram.url))
            await client.call(MethodCall("setWebhook", {"url": "http://127.0.0.1:9/other"}), bool)
            await client.close()
            await asyncio.sleep(200)
            assert age(channel) > channel.proof_every_s

    run(scene, sockets=True)
