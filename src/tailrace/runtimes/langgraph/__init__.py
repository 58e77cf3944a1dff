"""Graphs of LangGraph, and with it agents of LangChain: `LangGraphRuntime(graph)`."""

from tailrace.runtimes.langgraph.runtime import LangGraphRuntime
from tailrace.runtimes.langgraph.translator import LangGraphTranslator

__all__ = ["LangGraphRuntime", "LangGraphTranslator"]
