"""Agents that speak AG-UI, over HTTP or in Python: `AguiRuntime(url)` or `AguiRuntime(function)`."""

from tailrace.runtimes.agui.runtime import AguiRuntime
from tailrace.runtimes.agui.translator import AguiTranslator

__all__ = ["AguiRuntime", "AguiTranslator"]
