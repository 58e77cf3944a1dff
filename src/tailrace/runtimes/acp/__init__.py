"""Agents whose command speaks the Agent Client Protocol (ACP): `AcpRuntime(command)`."""

from tailrace.runtimes.acp.opening import AcpOptions
from tailrace.runtimes.acp.runtime import AcpRuntime
from tailrace.runtimes.acp.translator import AcpTranslator

__all__ = ["AcpOptions", "AcpRuntime", "AcpTranslator"]
