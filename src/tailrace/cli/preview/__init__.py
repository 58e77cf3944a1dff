"""`tailrace preview`: a recorded turn as each channel would show it, before anybody sees it.

The turn is read (`recording`) or built in (`sample`), rehearsed on each channel (`performing`), and drawn: in the
terminal (`terminal`), as lines of JSON, or on a page (`page`). Nothing is sent anywhere.
"""

from __future__ import annotations

from tailrace.cli.preview.command import preview

__all__ = ["preview"]
