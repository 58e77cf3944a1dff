"""Agents of the OpenAI Agents SDK: `OpenAIAgentsRuntime(agent)`.

`show_subagent` shows the work of an agent that another agent uses as a tool.
"""

from tailrace.runtimes.openai_agents.runtime import OpenAIAgentsRuntime, show_subagent
from tailrace.runtimes.openai_agents.translator import OpenAIAgentsTranslator

__all__ = ["OpenAIAgentsRuntime", "OpenAIAgentsTranslator", "show_subagent"]
