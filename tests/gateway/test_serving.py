"""`tailrace serve` as a process: its log, its files, its health pages, SIGHUP, and a second gateway on its ledger."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from async_test import async_test
from gateway.health_pages import fetch, free_port
from pseudo_terminal import TAILRACE
from tailrace.channels.telegram import BotSettings
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.testing.platforms.telegram import DEFAULT_TOKEN, TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AGENT = """
import logging

async def answer(prompt):
    logging.getLogger("tailrace.agent").debug("asked for %s", prompt.text)
    logging.getLogger("my_agent").warning("this takes long; password=hunter2hunter2")
    if prompt.text == "fail SECRET-WORDS":
        raise ValueError(prompt.text)
    yield f"You said: {prompt.text}"
"""
SETTINGS = """
[gateway]
data_dir = "state"
health = "127.0.0.1:{port}"

[agents.main]
use = "my_agent:answer"

[channels.telegram]
allow = {allow}
polling_timeout = {timeout}
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path, because a socket lies in it."""
    folder = tmp_path_factory.mktemp("s")
    (folder / "my_agent.py").write_text(AGENT)
    return folder


class Serving:
    """A process `tailrace serve`, and the Telegram that it talks to."""

    def __init__(self, folder: Path, telegram: TelegramSimulator) -> None:
        self.folder = folder
        self.telegram = telegram
        self.port = free_port()
        self.lines: list[dict[str, Any]] = []

    def write_settings(self, *, allow: str = '["*"]', timeout: int = 30) -> None:
        text = SETTINGS.format(port=self.port, allow=allow, timeout=timeout)
        (self.folder / "tailrace.toml").write_text(text)

    async def start(self, *options: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(TAILRACE, "serve", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, **self.telegram.environment},
            umask=0,
        )

    async def log(self, process: asyncio.subprocess.Process, text: str) -> dict[str, Any]:
        """Read the log up to the line with this text."""
        assert process.stderr is not None
        while line := await process.stderr.readline():
            if line.startswith((b"ready: ", b"stopping: ")):
                continue
            self.lines.append(json.loads(line))
            if text in self.lines[-1]["event"]:
                return self.lines[-1]
        raise AssertionError(f"{text!r} was not logged: {self.lines}")

    async def say(self, text: str) -> None:
        await self.telegram.act(WriteMessage(text=text))

    async def read(self, *texts: str) -> None:
        """Wait until people read exactly these messages of the bot."""
        await self.telegram.wait_until(lambda: self.telegram.texts() == list(texts))


@asynccontextmanager
async def serving(
    folder: Path, *options: str, **settings: Any
) -> AsyncIterator[tuple[Serving, asyncio.subprocess.Process]]:
    async with asyncio.timeout(60), TelegramSimulator() as telegram:
        served = Serving(folder, telegram)
        served.write_settings(**settings)
        process = await served.start(*options)
        try:
            assert process.stderr is not None
            assert (await process.stderr.readline()).startswith(b"ready: telegram")
            yield served, process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@async_test
async def test_the_log_is_json_with_turn_and_conversation_and_without_texts_and_secrets(folder: Path) -> None:
    async with serving(folder) as (served, process):
        await served.say("hello SECRET-WORDS")
        ended = await served.log(process, "the turn has ended: done")
        assert ended["level"] == "info"
        assert ended["conversation"].startswith("telegram:")
        warned = next(line for line in served.lines if line["logger"] == "my_agent")
        assert (warned["turn"], warned["conversation"]) == (ended["turn"], ended["conversation"])
        assert warned["event"] == "this takes long; password=[redacted]"
        await served.say("fail SECRET-WORDS")
        assert (await served.log(process, "the turn has ended: failed"))["turn"] != ended["turn"]
        process.terminate()
        with pytest.raises(AssertionError, match="was not logged"):
            await served.log(process, "there is no such line")
        assert await process.wait() == 0
        assert "SECRET-WORDS" not in json.dumps(served.lines)


@async_test
async def test_debug_logs_everything(folder: Path) -> None:
    async with serving(folder, "--debug") as (served, process):
        await served.say("hello")
        line = await served.log(process, "asked for hello")
        assert (line["level"], line["logger"]) == ("debug", "tailrace.agent")


@async_test
async def test_only_the_owner_may_read_the_files(folder: Path) -> None:
    async with serving(folder) as (served, process):
        await served.say("hello")
        await served.log(process, "the turn has ended")
        state = folder / "state"
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}
        assert modes.keys() >= {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock", "control.sock"}
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        assert {name for name, mode in modes.items() if mode & 0o077} == set()


@async_test
async def test_the_health_pages_see_that_another_program_receives_the_messages(folder: Path) -> None:
    async with serving(folder) as (served, process):
        await served.say("hello")
        await served.log(process, "the turn has ended")
        assert await asyncio.to_thread(fetch, served.port, "/readyz") == (200, "telegram: ready\n")
        metrics = await asyncio.to_thread(fetch, served.port, "/metrics")
        assert 'tailrace_channel_up{channel="telegram"} 1.0' in metrics.text
        assert re.search(r"^tailrace_ledger_commits_total [1-9]", metrics.text, re.MULTILINE)
        rival = TelegramClient(BotSettings(token=DEFAULT_TOKEN, api_base=served.telegram.url))
        while (page := await asyncio.to_thread(fetch, served.port, "/readyz")).status == 200:
            await rival.call(MethodCall("getUpdates", {"timeout": 0}), list[Any])
        await rival.close()
        assert page.text.startswith("telegram: ")
        assert "another program" in page.text
        assert await asyncio.to_thread(fetch, served.port, "/healthz") == (200, "ok\n")


@async_test
async def test_a_taken_health_address_ends_the_start(folder: Path) -> None:
    async with serving(folder) as (served, _):
        served.folder = folder / "other"
        served.folder.mkdir()
        served.write_settings()
        (served.folder / "my_agent.py").write_text(AGENT)
        second = await served.start()
        _, err = await second.communicate()
        assert second.returncode == 2
        assert err.decode() == (
            f"tailrace: health: nothing can listen at 127.0.0.1:{served.port} (Address already in use). "
            'Set gateway.health to another address, or to "" for none.\n'
        )


@async_test
async def test_sighup_reads_the_settings_again(folder: Path) -> None:
    async with serving(folder, allow="[]") as (served, process):
        await served.say("hello")
        await served.telegram.wait_until(lambda: "tailrace access approve" in "".join(served.telegram.texts()))
        served.write_settings()
        process.send_signal(signal.SIGHUP)
        assert (await served.log(process, "settings"))["event"] == "the settings were read again"
        await served.say("and now?")
        await served.telegram.wait_until(lambda: served.telegram.texts()[-1] == "You said: and now?")

        (folder / "tailrace.toml").write_text("[gateway]\nhealt = 7\n")
        process.send_signal(signal.SIGHUP)
        line = await served.log(process, "settings")
        assert line["level"] == "error"
        assert line["event"].startswith("the settings are wrong, so the old ones still count: ")
        assert "did you mean" in line["event"].lower()
        await served.say("still?")
        await served.telegram.wait_until(lambda: served.telegram.texts()[-1] == "You said: still?")

        served.write_settings(allow="[]", timeout=20)
        with (folder / "tailrace.toml").open("a") as file:
            file.write('[channels.other]\ntype = "telegram"\ntoken = "env:TELEGRAM_BOT_TOKEN"\n')
        process.send_signal(signal.SIGHUP)
        assert (await served.log(process, "settings"))["event"] == (
            "the settings were read again; these count only after a restart: "
            "channels.other, channels.telegram.polling_timeout"
        )
        await served.say("and now?")
        refused = 'tailrace_messages_total{channel="telegram",result="not_admitted"} 2.0'
        while refused not in (await asyncio.to_thread(fetch, served.port, "/metrics")).text:
            pass
