"""opencode as an agent: `OpencodeRuntime()`, over `opencode serve`, or `opencode run` where that is missing."""

from tailrace.runtimes.opencode.runtime import OpencodeRuntime

__all__ = ["OpencodeRuntime"]
