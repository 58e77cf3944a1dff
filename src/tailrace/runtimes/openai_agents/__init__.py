"""Agents of the OpenAI Agents SDK: `OpenAIAgentsRuntime(agent)`.

If an agent uses another agent as a tool, `show_subagent` shows the work of that other agent.
"""

from tailrace.runtimes.openai_agents.runtime import OpenAIAgentsRuntime, show_subagent
from tailrace.runtimes.openai_agents.translator import OpenAIAgentsTranslator

__all__ = ["OpenAIAgentsRuntime", "OpenAIAgentsTranslator", "show_subagent"]
