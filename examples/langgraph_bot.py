"""A graph of LangGraph on Telegram. It needs OPENAI_API_KEY.

tailrace run langgraph_bot:agent --channel telegram
python langgraph_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from tailrace import Gateway


def weather(city: str) -> str:
    """Say what the weather is."""
    return f"sunny in {city}"


agent = create_agent(ChatOpenAI(model="gpt-5"), tools=[weather], checkpointer=InMemorySaver())


if __name__ == "__main__":
    asyncio.run(Gateway(agent, "telegram", allow=sys.argv[1:]).run())
