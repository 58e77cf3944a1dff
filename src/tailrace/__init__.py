"""tailrace carries what an AI agent says to where people are: streamed live, whole, in order, exactly once."""

from __future__ import annotations

__version__ = "0.1.0"
