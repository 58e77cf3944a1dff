"""The programs of `examples/` with a real SDK: a person on the simulator of Telegram, and a scripted model."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pseudo_terminal import TAILRACE
from tailrace.testing.platforms.telegram import PRIVATE, TelegramSimulator, WriteMessage
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from tailrace.testing.scripted_model import ScriptedModel

EXAMPLES = Path(__file__).parent.parent / "examples"
EXCHANGES = {
    "[[scenario:hello]]": "Hello from the scripted model.",
    "[[scenario:weather]]": "That is that.",
    "[[scenario:recall]]": "Before this: hello, weather.",
}


async def talk_to_example(name: str, model: ScriptedModel, folder: Path) -> None:
    """Run `tailrace run NAME_bot:agent` in `examples/`. It answers, calls its tool, and remembers."""
    model.scenarios["weather"] = ((say("Let me look."), Call("weather", {"city": "Oslo"})), (say("That is that."),))
    model_address = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "nobody-checks-it"}
    command = (TAILRACE, "run", f"{name}_bot:agent", "--channel", "telegram", "--allow", str(PRIVATE))
    log = folder / "log"
    async with TelegramSimulator() as telegram:
        environment = {**os.environ, **telegram.environment, **model_address}
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=EXAMPLES, env=environment, stdout=output, stderr=output
            )
        try:
            for message, answer in EXCHANGES.items():
                await telegram.act(WriteMessage(text=message))
                await telegram.wait_until(lambda answer=answer: any(answer in text for text in telegram.texts()))  # type: ignore[misc]
        except TimeoutError:
            raise AssertionError(f"{telegram.texts()} {log.read_text()}") from None
        finally:
            process.terminate()
            assert await process.wait() == 0
