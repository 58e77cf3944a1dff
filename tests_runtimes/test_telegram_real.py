"""The command `claude` behind `tailrace run`, on the simulator of Telegram. Needs: claude-agent-sdk==0.2.182"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from command_lines import claude_command

from pseudo_terminal import TAILRACE
from tailrace.testing.platforms.telegram import PRIVATE, PressButton, TelegramSimulator, WriteMessage
from tailrace.testing.scripted_scenarios import Shell, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from command_lines import Place


@pytest.mark.parametrize(("choice", "is_done"), [("Allow", True), ("Deny", False)])
def test_a_person_answers_the_permission_question_of_claude(place: Place, choice: str, *, is_done: bool) -> None:
    # The path of the control socket, which lies beside the ledger, must be short.
    with TemporaryDirectory() as ledger:
        asyncio.run(_talk(place, ledger, choice, is_done=is_done))


async def _talk(place: Place, ledger: str, choice: str, *, is_done: bool) -> None:
    place.model.scenarios["make"] = ((say("Let me make it."), Shell("touch made")), (say("That is that."),))
    log = place.root / "log"
    folder = Path(claude_command()).parent
    async with TelegramSimulator() as telegram:
        claude = place.claude()
        environment = claude | telegram.environment | {"PATH": f"{folder}{os.pathsep}{claude['PATH']}"}
        options = ("--channel", "telegram", "--allow", str(PRIVATE), "--ledger", f"{ledger}/ledger.db")
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(TAILRACE, "run", "claude", *options), cwd=place.work, env=environment, stdout=output, stderr=output
            )
        try:
            await telegram.act(WriteMessage(text="[[scenario:make]]"))
            await _until(telegram, lambda: _has_button(telegram, choice), log)
            await telegram.act(PressButton(button=choice))
            await _until(telegram, lambda: any("That is that." in text for text in telegram.texts()), log)
            assert (Path(place.work) / "made").exists() == is_done
        finally:
            if process.returncode is None:
                process.terminate()
            assert await process.wait() == 0, log.read_text()


async def _until(telegram: TelegramSimulator, is_reached: Callable[[], bool], log: Path) -> None:
    try:
        await telegram.wait_until(is_reached)
    except TimeoutError:
        text = log.read_text()  # noqa: ASYNC240 -- the test has failed
        raise AssertionError(f"{telegram.texts()} {text}") from None


def _has_button(telegram: TelegramSimulator, label: str) -> bool:
    """Whether a message has this button."""
    rows = [row for message in telegram.seen(PRIVATE).messages for row in message.buttons]
    return any(button.text == label for row in rows for button in row)
