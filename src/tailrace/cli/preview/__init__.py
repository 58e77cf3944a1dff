"""`tailrace preview`: a recorded turn as each channel would show it, without sending anything.

The turn is read from a recording (`recording`) or built in (`sample`). A dry run on each channel gives its calls and
messages (`channel_preview`), which are shown in the terminal (`terminal`), as lines of JSON, or on a page (`page`).
"""

from __future__ import annotations

from tailrace.cli.preview.command import preview

__all__ = ["preview"]
