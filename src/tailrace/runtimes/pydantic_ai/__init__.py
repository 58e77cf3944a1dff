"""Agents of Pydantic AI: `PydanticAIRuntime(agent)`."""

from tailrace.runtimes.pydantic_ai.runtime import PydanticAIRuntime
from tailrace.runtimes.pydantic_ai.translator import PydanticAITranslator

__all__ = ["PydanticAIRuntime", "PydanticAITranslator"]
