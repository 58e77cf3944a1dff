"""Claude Code, by its command (`ClaudeRuntime`) and by its Python SDK (`ClaudeSdkRuntime`)."""

from tailrace.runtimes.claude.runtime import ClaudeRuntime
from tailrace.runtimes.claude.sdk_runtime import ClaudeSdkRuntime
from tailrace.runtimes.claude.translator import ClaudeTranslator

__all__ = ["ClaudeRuntime", "ClaudeSdkRuntime", "ClaudeTranslator"]
