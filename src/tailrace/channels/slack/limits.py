"""The limits of Slack that the channel itself checks, and the capabilities of its chats.

The limits of texts and the rates are in `tailrace.capabilities`.
"""

from __future__ import annotations

from msgspec.structs import replace

from tailrace.capabilities import SLACK

MAX_BUTTON_VALUE = 2_000
MAX_BUTTON_LABEL = 75
MAX_NOTIFICATION = 1_000  # the least of our own: chat.update takes 4,000 characters of text
MAX_TASK_FIELD = 256
PICTURES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The MIME types that are shown as a picture."""

IN_THREAD = SLACK
"""What Slack can do in a thread."""
OUTSIDE_THREAD = replace(SLACK, native=None, typing_s=None)
"""What Slack can do outside of threads: no streams, and no status."""
