"""A function that yields AG-UI events on Telegram.

tailrace run agui_bot:agent --channel telegram
python agui_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from tailrace import Gateway
from tailrace.runtimes.agui import AguiRuntime


async def run(question):
    thread, run = question["threadId"], question["runId"]
    text = question["messages"][-1]["content"]
    yield {"type": "RUN_STARTED", "threadId": thread, "runId": run}
    yield {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": f"You said: {text}"}
    yield {"type": "TEXT_MESSAGE_END", "messageId": "m"}
    yield {"type": "RUN_FINISHED", "threadId": thread, "runId": run}


agent = AguiRuntime(run)


if __name__ == "__main__":
    asyncio.run(Gateway(agent, "telegram", allow=sys.argv[1:]).run())
