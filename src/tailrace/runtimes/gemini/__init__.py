"""Google's gemini-cli as an agent: `GeminiRuntime()`."""

from tailrace.runtimes.gemini.runtime import GeminiRuntime

__all__ = ["GeminiRuntime"]
