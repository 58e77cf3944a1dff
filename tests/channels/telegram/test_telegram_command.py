"""`tailrace deliver --channel telegram`: the settings come from the environment."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from telegram_setup import PERSON, TOKEN, simulator

from pseudo_terminal import TAILRACE

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = b'{"type": "text_delta", "text": "Hello **world**."}\n{"type": "turn_completed"}\n'


async def deliver(folder: Path, chat: str, **environment: str) -> tuple[int | None, str, list[str]]:
    """Run the command. Returns its exit code, what it printed, and what people see."""
    async with simulator() as telegram:
        given = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_BASE": telegram.url, **environment}
        process = await asyncio.create_subprocess_exec(
            *(TAILRACE, "deliver", "--channel", "telegram", "--to", chat, "--ledger", str(folder / "ledger.db")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **given},
        )
        async with asyncio.timeout(60):
            printed, _ = await process.communicate(EVENTS)
        return process.returncode, printed.decode(), telegram.texts(PERSON.id)


def test_an_answer_is_delivered(tmp_path: Path) -> None:
    code, printed, texts = asyncio.run(deliver(tmp_path, str(PERSON.id)))
    assert (code, texts) == (0, ["Hello world."])
    assert TOKEN not in printed


def test_wrong_settings_are_one_line_and_exit_code_1_or_2(tmp_path: Path) -> None:
    wrong = asyncio.run(deliver(tmp_path, str(PERSON.id), TELEGRAM_BOT_TOKEN="7000001:not-the-token"))
    assert wrong[0] == 1
    assert "Telegram does not accept the token" in wrong[1]
    offline = asyncio.run(deliver(tmp_path, str(PERSON.id), TELEGRAM_API_BASE="http://127.0.0.1:9"))
    assert offline[0] == 1
    assert "no connection to Telegram" in offline[1]
    missing = asyncio.run(deliver(tmp_path, str(PERSON.id), TELEGRAM_BOT_TOKEN=""))
    assert missing[0] == 2
    assert "in the environment variable TELEGRAM_BOT_TOKEN" in missing[1]
    assert {printed.count("\n") for _, printed, _ in (wrong, offline, missing)} == {1}
    assert "not-the-token" not in wrong[1]


def test_a_wrong_chat_is_named(tmp_path: Path) -> None:
    code, printed, _ = asyncio.run(deliver(tmp_path, "424242"))
    assert code == 1
    assert "there is no such chat, or the bot was never in it (chat 424242)" in printed
