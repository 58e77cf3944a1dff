#!/usr/bin/env python
"""Draws docs/conversation.png: an agent on the page of the simulator, photographed with Chromium.

.venv/bin/python docs/make_conversation_picture.py
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.events import ToolFinished, ToolStarted
from tailrace.testing.platforms.telegram import TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.events import Event
    from tailrace.ports import Prompt

PICTURE = Path(__file__).parent / "conversation.png"
TAILRACE = Path(sys.executable).with_name("tailrace")
SIZE = "860,620"
ANSWERS = {
    "Which service was slow last night?": """\
It was **checkout**. From 02:10 to 02:40 its slowest requests took *nine seconds*: the nightly report reads the same \
table. This index keeps them apart:

```sql
CREATE INDEX CONCURRENTLY orders_by_day
    ON orders (created_at)
    WHERE state = 'paid';
```
""",
    "And who has to look at it?": """\
The people on call for `checkout`:

1. **Ada** until Friday
2. **Ben** from Friday on; his [handbook](https://example.org/handbook) says how to pause the report
""",
}


async def answer(prompt: Prompt) -> AsyncIterator[Event | str]:
    """An agent that calls a tool, and then says its answer word by word."""
    yield ToolStarted(id="1", name="query_metrics", arguments={"query": "p99 by service"})
    await asyncio.sleep(0.5)
    yield ToolFinished(id="1", result="checkout 9.1 s")
    for word in ANSWERS[prompt.text].split(" "):
        yield f"{word} "
        await asyncio.sleep(0.05)


async def converse(telegram: TelegramSimulator, folder: str) -> None:
    """A person asks two questions; the second one waits behind the first."""
    options = ("--channel", "telegram", "--allow", "*", "--ledger", f"{folder}/ledger.db")
    environment = os.environ | telegram.environment
    agent = f"{Path(__file__).stem}:answer"
    bot = await asyncio.create_subprocess_exec(TAILRACE, "run", agent, *options, env=environment, cwd=PICTURE.parent)
    await telegram.act(WriteMessage(text=next(iter(ANSWERS))))
    await telegram.wait_until(lambda: bool(telegram.texts()))
    await telegram.act(WriteMessage(text=list(ANSWERS)[1]))
    await telegram.wait_until(lambda: any("pause the report" in text for text in telegram.texts()))
    bot.terminate()
    await bot.wait()


async def main() -> None:
    """Converse, and take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        async with TelegramSimulator() as telegram:
            await converse(telegram, folder)
            options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--timeout=3000", f"--window-size={SIZE}")
            command = ("chromium", *options, f"--screenshot={PICTURE}", telegram.url)
            await (await asyncio.create_subprocess_exec(*command)).wait()


if __name__ == "__main__":
    asyncio.run(main())
