"""Agents behind a chat route of the Vercel AI SDK, version 5 and later: `VercelRuntime(url)`."""

from tailrace.runtimes.vercel.runtime import VercelRuntime
from tailrace.runtimes.vercel.translator import VercelTranslator

__all__ = ["VercelRuntime", "VercelTranslator"]
