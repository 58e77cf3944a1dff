"""The programs of `examples/` put their agents on a channel: they answer on the simulator of Telegram.

Commands and servers of agents have stand-ins, which play recordings. `tests_runtimes` runs the examples of SDKs with
the real SDKs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from async_test import async_test
from pseudo_terminal import TAILRACE
from tailrace.testing.platforms.telegram import PRIVATE, PressButton, TelegramSimulator, WriteMessage
from test_runtime_docs import ANSWER, PAGES, place, recorded_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = {page: page.replace("-", "_") for page in PAGES} | {"functions": "function"}
SDKS = {"openai-agents", "pydantic-ai", "langgraph"}

ASKING = {"claude": "asks", "gemini": "old"}
"""What these stand-ins do if the runtime can ask a person: one asks, and the other one is too old to ask."""

__all__ = ["place"]


@pytest.fixture
def commands(place: Path) -> Path:
    """A folder with all examples and the stand-ins of commands."""
    for name, action in ASKING.items():
        command = place / "bin" / name
        command.write_text(command.read_text(encoding="utf-8").replace(f"{name}_cli_tool", action), encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, place)
    return place


def test_every_page_has_an_example_and_says_how_to_run_it() -> None:
    assert {f"{name}_bot.py" for name in NAMES.values()} == {path.name for path in EXAMPLES.glob("*.py")}
    for page, name in NAMES.items():
        assert f"](../../examples/{name}_bot.py)" in PAGES[page]
        _, _, section = PAGES[page].partition("## On a channel\n\n```sh\ntailrace run ")
        assert section.partition("\n")[0].endswith(" --channel telegram")


@asynccontextmanager
async def running(folder: Path, telegram: TelegramSimulator, *command: str) -> AsyncIterator[None]:
    """A gateway of this command, in this folder."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **telegram.environment, "PATH": path, "XDG_DATA_HOME": str(folder / "home")}
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def check_answer(folder: Path, answer: list[str], *command: str) -> None:
    """A person writes, and reads this answer."""
    async with TelegramSimulator() as telegram, running(folder, telegram, *command):
        await telegram.act(WriteMessage(text="hello"))
        if "claude" in command[-5:] or "claude_bot.py" in command:
            await telegram.wait_until(lambda: bool(telegram.seen().messages[-1].buttons))
            await telegram.act(PressButton(button="Allow"))
        try:
            await telegram.wait_until(lambda: all(line in "\n".join(telegram.texts()) for line in answer))
        except TimeoutError:
            pytest.fail(f"{telegram.texts()} {(folder / 'log').read_text()}")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        *((name, ANSWER) for name in ("claude", "codex", "gemini", "opencode")),
        ("acp", ["Hello, wörld"]),
        ("agui", ["You said: hello"]),
        ("function", ["You wrote 5 characters."]),
    ],
)
def test_example_answers_on_telegram(commands: Path, name: str, answer: list[str]) -> None:
    asyncio.run(check_answer(commands, answer, sys.executable, f"{name}_bot.py", str(PRIVATE)))


@pytest.mark.parametrize(
    ("agent", "answer"),
    [
        ("claude", ANSWER),
        ("agui_bot:agent", ["You said: hello"]),
        ("function_bot:answer", ["You wrote 5 characters."]),
    ],
)
def test_agent_answers_on_telegram_without_a_program(commands: Path, agent: str, answer: list[str]) -> None:
    command = (TAILRACE, "run", agent, "--channel", "telegram", "--allow", str(PRIVATE))
    asyncio.run(check_answer(commands, answer, *command))


@async_test
async def test_example_of_vercel_answers_on_telegram(tmp_path: Path) -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + recorded_stream("vercel7_ui_tool")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        program = (EXAMPLES / "vercel_bot.py").read_text(encoding="utf-8")
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        (tmp_path / "bot.py").write_text(program.replace("http://127.0.0.1:3000/api/chat", address), encoding="utf-8")
        await check_answer(tmp_path, ["Let me check.", "It is sunny."], sys.executable, "bot.py", str(PRIVATE))
