"""OpenAI's codex as an agent: `CodexRuntime()`, over `codex app-server`, or `codex exec` where that is missing."""

from tailrace.runtimes.codex.runtime import CodexRuntime

__all__ = ["CodexRuntime"]
