"""The token appears nowhere: not in logs, errors, tracebacks, representations or checks."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import TYPE_CHECKING

import pytest
from telegram_setup import HERE, TOKEN, running, simulator, steal_updates

from tailrace.channels.telegram import TelegramChannel
from tailrace.errors import TailraceError
from tailrace.inbound import Attachment
from tailrace.operations import Body, Post
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.faults import Cut, Fault, LoseAccess, Refuse, Reset, Rule, ServerError, TooMany
from tailrace.testing.platforms.telegram import SendFile

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

CANARY = TOKEN.partition(":")[2]
FAULTS: list[Fault] = [
    Cut(),
    LoseAccess(),
    LoseAccess(everywhere=True),
    Refuse(400, f"chat {TOKEN} not found"),
    Reset(),
    ServerError(500),
    TooMany(5),
]


async def shown(call: Coroutine[object, object, object]) -> str:
    """Everything that a program could print of a call that fails."""
    try:
        await call
    except TailraceError as error:
        return f"{error} {error!r} {''.join(traceback.format_exception(error))}"
    raise AssertionError("the call must fail")


async def play(folder: Path) -> list[str]:
    """Fail in every way, and return what could be seen."""
    seen = []
    inbox = RecordingInbox()
    post = Post(target=HERE, body=Body(text="hello"))
    async with simulator() as telegram:
        async with running(telegram, inbox) as channel:
            seen += [repr(channel), str(channel), repr(channel.Settings(token=TOKEN))]
            for fault in FAULTS:
                telegram.add_faults(fault)
                seen.append(await shown(channel.post(post, key="k")))
            await telegram.act(SendFile(name="a", content=b"content"))
            file_id = next(iter(telegram.world.files))
            for rule in (Rule(fault=Reset(), kind="download", times=2), Rule(fault=Cut(), kind="download")):
                telegram.add_faults(rule)
                seen.append(await shown(channel.fetch(Attachment(id=file_id), folder / "file", max_bytes=100)))
            telegram.add_faults(Rule(fault=Refuse(404, "gone"), kind="download"))
            await steal_updates(telegram)
            seen.append(await shown(channel.wait_closed()))
            telegram.world.token_is_valid = False
            seen += [finding.text for finding in await channel.check()]
        port = telegram.port
    gone = TelegramChannel(token=TOKEN, api_base=f"http://127.0.0.1:{port}")
    seen.append(await shown(gone.start(inbox)))
    seen += [finding.text for finding in await gone.check()]
    return seen


def test_the_token_is_seen_nowhere(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG):
        seen = asyncio.run(play(tmp_path), debug=True)
    seen.append(caplog.text)
    assert len(seen) > 15
    assert [text for text in seen if CANARY in text] == []


@pytest.mark.parametrize("setting", ["api_base", "public_url", "listen", "secret", "mode", "polling_timeout"])
def test_a_token_in_the_wrong_place_is_not_shown(setting: str) -> None:
    settings = {"token": TOKEN, "mode": "webhook", "public_url": "https://example.org/", setting: f"{TOKEN} x"}
    with pytest.raises(TailraceError) as raised:
        TelegramChannel(**settings)
    assert CANARY not in "".join(traceback.format_exception(raised.value))
