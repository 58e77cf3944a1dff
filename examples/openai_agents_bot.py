"""An agent of the OpenAI Agents SDK on Telegram. It needs OPENAI_API_KEY.

tailrace run openai_agents_bot:agent --channel telegram
python openai_agents_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from agents import Agent, function_tool
from tailrace import Gateway


@function_tool
def weather(city: str) -> str:
    """Say what the weather is."""
    return f"sunny in {city}"


agent = Agent(name="forecaster", instructions="Be brief.", tools=[weather])


if __name__ == "__main__":
    asyncio.run(Gateway(agent, "telegram", allow=sys.argv[1:]).run())
