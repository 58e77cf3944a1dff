"""Graphs of LangGraph, and agents of LangChain, which are also graphs: `LangGraphRuntime(graph)`."""

from tailrace.runtimes.langgraph.runtime import LangGraphRuntime
from tailrace.runtimes.langgraph.translator import LangGraphTranslator

__all__ = ["LangGraphRuntime", "LangGraphTranslator"]
