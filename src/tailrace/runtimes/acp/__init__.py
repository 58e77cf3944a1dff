"""Agents of the Agent Client Protocol, each a command of its own: `AcpRuntime(command)`."""

from tailrace.runtimes.acp.opening import AcpOptions
from tailrace.runtimes.acp.runtime import AcpRuntime
from tailrace.runtimes.acp.translator import AcpTranslator

__all__ = ["AcpOptions", "AcpRuntime", "AcpTranslator"]
