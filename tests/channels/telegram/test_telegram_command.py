"""The commands `deliver`, `deliveries` and `check` with Telegram; the settings come from the environment."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from telegram_setup import FREE, PERSON, TOKEN, running, simulator

from pseudo_terminal import TAILRACE
from tailrace.channels.telegram import BotSettings, TelegramChannel
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.testing.platforms.telegram import FORUM, TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ports import Finding

WRONG_TOKEN = (
    "Telegram does not accept the token: it was revoked or is wrong. Get the valid one from @BotFather and set it"
)
PRIVACY_MODE = (
    "privacy mode is on: in groups the bot sees only commands, replies to it and mentions. "
    'For groups = "all" switch it off with /setprivacy of @BotFather, then add the bot to the group again'
)
EVENTS = b'{"type": "text_delta", "text": "Hello **world**."}\n{"type": "turn_completed"}\n'


async def run_with(telegram: TelegramSimulator, *arguments: str, **environment: str) -> tuple[int | None, str]:
    """Run the command. Returns its exit code and what it printed."""
    given = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_BASE": telegram.url, **environment}
    process = await asyncio.create_subprocess_exec(
        *(TAILRACE, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **given},
    )
    async with asyncio.timeout(60):
        printed, _ = await process.communicate(EVENTS)
    return process.returncode, printed.decode()


async def deliver(folder: Path, chat: str, **environment: str) -> tuple[int | None, str, list[str]]:
    """Deliver a message. Returns the exit code, what the command printed, and what people see."""
    async with simulator() as telegram:
        ledger = str(folder / "ledger.db")
        arguments = ("deliver", "--channel", "telegram", "--to", chat, "--ledger", ledger)
        code, printed = await run_with(telegram, *arguments, **environment)
        return code, printed, telegram.texts(PERSON.id)


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


def test_check_proves_the_account() -> None:
    async def run() -> list[tuple[int | None, str]]:
        async with simulator(replace(FREE, privacy_mode=True)) as telegram:
            await telegram.act(WriteMessage(text="is anybody there?"))
            found = [await run_with(telegram, "check")]
            webhook = {"url": "http://127.0.0.1:9/hook?secret=1"}
            client = TelegramClient(BotSettings(token=TOKEN, api_base=telegram.url))
            await client.call(MethodCall("setWebhook", webhook), bool)
            await client.close()
            found.append(await run_with(telegram, "check"))
            found.append(await run_with(telegram, "check", TELEGRAM_BOT_TOKEN="7000001:not-the-token"))
            found.append(await run_with(telegram, "check", TELEGRAM_API_BASE="http://127.0.0.1:9"))
            return found

    good, with_webhook, wrong, offline = asyncio.run(run())
    assert good[0] == 0
    assert [line.partition(": ")[2] for line in good[1].splitlines()] == [
        "the token is valid: it is that of @tail_bot",
        PRIVACY_MODE,
        "no webhook is set: the messages can be polled, and 1 wait",
    ]
    assert with_webhook[0] == 1
    assert "✗ telegram: a webhook to 127.0.0.1 is set, so nothing can be polled: set mode" in with_webhook[1]
    assert wrong == (1, f"✗ telegram: {WRONG_TOKEN}\n")
    assert offline == (1, "✗ telegram: no connection to Telegram: check the network and api_base\n")


def test_check_says_why_a_webhook_is_not_reached() -> None:
    async def run() -> list[list[Finding]]:
        async with simulator() as telegram:
            other, own = "http://127.0.0.1:9/other", "http://127.0.0.1:9/own"
            webhook: dict[str, Any] = {"mode": "webhook", "listen": "127.0.0.1:0", "public_url": other}
            async with running(telegram, **webhook):
                pass
            await telegram.act(WriteMessage(text="hello"))
            client = TelegramClient(BotSettings(token=TOKEN, api_base=telegram.url))
            info: dict[str, Any] = {}
            while "last_error_message" not in info:
                info = await client.call(MethodCall("getWebhookInfo", {}), dict[str, Any])
            await client.close()
            channels = [
                TelegramChannel(token=TOKEN, api_base=telegram.url, **webhook | {"public_url": url})
                for url in (own, other)
            ]
            return [list(await channel.check()) for channel in channels]

    replaced, unreachable = (findings[-1] for findings in asyncio.run(run()))
    assert (replaced.ok, replaced.text) == (True, "the webhook to 127.0.0.1 is replaced at the start")
    assert not unreachable.ok
    assert unreachable.text.startswith("Telegram cannot reach the webhook at 127.0.0.1 (Connection failed: ")
    assert unreachable.text.endswith("), and 1 messages wait")


def test_deliveries_lists_what_was_sent_to_a_topic_and_what_was_refused(tmp_path: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "ledger.db"))

    async def run() -> tuple[list[dict[str, Any]], list[str], str]:
        async with simulator() as telegram:
            for chat, thread, expected in ((FORUM, "4", 0), (FORUM, "99", 1)):
                target = ("--channel", "telegram", "--to", str(chat), "--thread", thread)
                assert (await run_with(telegram, "deliver", *target, *ledger))[0] == expected
            _, listed = await run_with(telegram, "deliveries", "--json", *ledger)
            topics = [message.topic for message in telegram.seen(FORUM).messages]
            return [json.loads(line) for line in listed.splitlines()], topics, listed

    rows, topics, listed = asyncio.run(run())
    assert topics == ["Releases"]
    assert {row["state"]: row["error"] for row in rows} == {
        "delivered": "",
        "failed": f"there is no such topic in the chat (chat {FORUM})",
    }
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert TOKEN.encode() not in stored + listed.encode()
