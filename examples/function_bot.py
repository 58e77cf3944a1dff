"""A function on Telegram: the shortest agent.

tailrace run function_bot:answer --channel telegram
python function_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from tailrace import Gateway


async def answer(prompt):
    yield f"You wrote {len(prompt.text)} characters."


if __name__ == "__main__":
    asyncio.run(Gateway(answer, "telegram", allow=sys.argv[1:]).run())
