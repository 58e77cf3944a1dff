"""OpenAI's codex as an agent: `CodexRuntime()`.

It runs `codex app-server`, or `codex exec` if codex is too old to have that server.
"""

from tailrace.runtimes.codex.runtime import CodexRuntime

__all__ = ["CodexRuntime"]
