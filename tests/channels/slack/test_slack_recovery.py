"""A revoked token, and a channel that the app has left: nothing is lost, and it is sent as soon as that works again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from slack_setup import CHAT
from slack_streaming import slack_streaming

from long_answer import long_answer
from tailrace.operations import Target
from tailrace.testing.platforms.slack import DIRECT, ChangeBotMembership
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.testing.virtual_time import Simulation


def test_an_answer_waits_for_a_valid_token() -> None:
    answer = long_answer(150)

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation) as play:
            sending = asyncio.create_task(play.send(answer))
            await asyncio.sleep(4)
            await play.slack.revoke_token()
            await asyncio.sleep(600)
            assert not sending.done()
            await play.slack.revoke_token(valid=True)
            play.check_exactly_once(answer, await sending)
            play.check_whole(answer)

    run(scene, sockets=True)


def test_a_channel_that_the_app_has_left_pauses_alone() -> None:
    answer = long_answer(150)

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation) as play:
            sending = asyncio.create_task(play.send(answer))
            await asyncio.sleep(4)
            await play.slack.act(ChangeBotMembership(chat=CHAT, is_member=False))
            here, play.target = play.target, Target(channel="slack", chat=DIRECT)
            await play.send(answer, "parts", turn_id="other")
            assert play.slack.texts(DIRECT) != []
            assert not sending.done()
            play.target = here
            await play.slack.act(ChangeBotMembership(chat=CHAT, is_member=True))
            play.check_exactly_once(answer, await sending)
            play.check_whole(answer)

    run(scene, sockets=True)
