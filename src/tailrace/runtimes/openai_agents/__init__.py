"""Agents of the OpenAI Agents SDK: `OpenAIAgentsRuntime(agent)`; `show_subagent` is for agents that are tools."""

from tailrace.runtimes.openai_agents.runtime import OpenAIAgentsRuntime, show_subagent
from tailrace.runtimes.openai_agents.translator import OpenAIAgentsTranslator

__all__ = ["OpenAIAgentsRuntime", "OpenAIAgentsTranslator", "show_subagent"]
