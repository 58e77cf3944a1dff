"""An agent of Pydantic AI on Telegram. It needs OPENAI_API_KEY.

tailrace run pydantic_ai_bot:agent --channel telegram
python pydantic_ai_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from tailrace import Gateway

agent = Agent(OpenAIChatModel("gpt-5"), instructions="Be brief.")


@agent.tool_plain
def weather(city: str) -> str:
    """Say what the weather is."""
    return f"sunny in {city}"


if __name__ == "__main__":
    asyncio.run(Gateway(agent, "telegram", allow=sys.argv[1:]).run())
