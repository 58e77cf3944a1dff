"""`tailrace preview`: show how a recorded turn would look on each channel, without sending anything.

The turn comes from a recording (`recording`), or is the built-in one (`sample`). A dry run on each channel gives its
calls and messages (`channel_preview`). They are shown in the terminal (`terminal`), as JSON, or on a page (`page`).
"""

from __future__ import annotations

from tailrace.cli.preview.command import preview

__all__ = ["preview"]
