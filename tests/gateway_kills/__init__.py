"""Kills a whole gateway again and again while many people write to it, and judges what they read."""
