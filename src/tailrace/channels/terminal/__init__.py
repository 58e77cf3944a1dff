"""The terminal as a channel: events of a turn, shown to the person at the keyboard or written to a pipe.

`channel` decides how each event looks, `lines` owns the cursor and the lines that can still be updated, `visible`
replaces control characters.
"""

from __future__ import annotations

from tailrace.channels.terminal.channel import TerminalChannel

__all__ = ["TerminalChannel"]
