"""The terminal as a channel: what an agent says, shown to the person at the keyboard or written to a pipe.

`channel` decides what each event looks like, `lines` owns the cursor and the lines that may still change,
`visible` keeps foreign control characters from reaching either.
"""

from __future__ import annotations

from tailrace.channels.terminal.channel import TerminalChannel

__all__ = ["TerminalChannel"]
