"""People who are let in and out of the real gateway by `tailrace access`, while it runs and after a restart."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from command_runs import run_here
from pseudo_terminal import TAILRACE
from tailrace.testing.platforms.telegram import GROUP, PRIVATE, TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from command_runs import Done

AGENT = "async def answer(prompt):\n    yield f'You said: {prompt.text}'\n"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path, because a socket lies in it."""
    folder = tmp_path_factory.mktemp("g")
    (folder / "my_agent.py").write_text(AGENT)
    return folder


class Commands:
    """Commands on the ledger of one gateway."""

    def __init__(self, folder: Path, telegram: TelegramSimulator) -> None:
        self.folder = folder
        self.telegram = telegram

    async def start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *(TAILRACE, "run", "my_agent:answer", "--channel", "telegram", "--ledger", "ledger.db"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=pipe,
            cwd=self.folder,
            env={**os.environ, **self.telegram.environment},
        )

    async def access(self, *arguments: str) -> Done:
        """Run `tailrace access` in this process, which takes a tenth of the time of a process of its own."""
        return await asyncio.to_thread(run_here, "access", *arguments, "--ledger", str(self.folder / "ledger.db"))

    async def start_gateway(self) -> asyncio.subprocess.Process:
        process = await self.start()
        assert process.stderr is not None
        assert (await process.stderr.readline()).startswith(b"ready: telegram")
        return process

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[None]:
        process = await self.start_gateway()
        try:
            yield
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def answer_to(self, text: str) -> str:
        """The last text of the bot, after a new one has come."""
        before = len(self.telegram.texts())
        await self.telegram.act(WriteMessage(text=text))
        await self.telegram.wait_until(lambda: len(self.telegram.texts()) > before)
        return self.telegram.texts()[-1]


def test_a_person_is_let_in_and_out_while_the_gateway_runs_and_after_a_restart(folder: Path) -> None:
    async def check() -> None:
        async with TelegramSimulator() as telegram:
            commands = Commands(folder, telegram)
            async with commands.gateway():
                found = re.search(r"tailrace access approve (\w+)", await commands.answer_to("hello"))
                assert found is not None
                assert (await commands.access()).out.startswith(f"telegram:{PRIVATE} (")
                approved = await commands.access("approve", found[1])
                assert (approved.exit_code, approved.out.partition(" (")[0]) == (0, f"telegram:{PRIVATE}")
                await telegram.wait_until(lambda: telegram.texts()[-1].startswith("You may talk to me now."))
                assert await commands.answer_to("again") == "You said: again"
            assert not (folder / "ledger.db.sock").exists()
            assert (await commands.access("approve", found[1])).exit_code == 1
            async with commands.gateway():
                assert await commands.answer_to("once more") == "You said: once more"
                assert (await commands.access("revoke", str(PRIVATE))).exit_code == 0
                assert "tailrace access approve" in await commands.answer_to("and now?")
            assert telegram.texts(GROUP) == []

    asyncio.run(check())


def test_a_second_gateway_on_the_same_ledger_is_refused_until_the_first_is_killed(folder: Path) -> None:
    async def check() -> None:
        socket = folder / "ledger.db.sock"
        async with TelegramSimulator() as telegram:
            commands = Commands(folder, telegram)
            first = await commands.start_gateway()
            second = await commands.start()
            _, err = await second.communicate()
            assert second.returncode == 1
            assert f"is in use by process {first.pid}".encode() in err
            assert err.count(b"\n") == 1
            assert socket.stat().st_mode & 0o777 == 0o600
            first.kill()
            await first.communicate()
            assert socket.exists()
            async with commands.gateway():
                refused = await commands.access("approve", "WRONG")
                assert (refused.exit_code, refused.err.count("not valid")) == (1, 1)

    asyncio.run(check())
