"""opencode as an agent: `OpencodeRuntime()`.

It runs `opencode serve`, or `opencode run` if opencode is too old to have that server.
"""

from tailrace.runtimes.opencode.runtime import OpencodeRuntime

__all__ = ["OpencodeRuntime"]
